//! The stores in use, one pipeline each.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use fleetdex_clusters::{MemberState, source::IndexedClusterUids};
use fleetdex_core::model::{ClusterName, StoreName};
use fleetdex_replicas::write_fence::WriteFence;
use fleetdex_sync::pipeline::{OpenStore, Pipeline, PipelineLimits};
use fleetdex_telemetry::metrics::Metrics;
use futures::future::join_all;
use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::plan::{Plan, StorePlan, StreamKey};

/// How long writing the remaining changes may take when the process stops.
pub const DRAIN: Duration = Duration::from_secs(20);

/// Makes the opener of a planned store.
pub type Opener = Arc<dyn Fn(&StorePlan) -> Arc<dyn OpenStore> + Send + Sync>;

pub(super) struct RunningStore {
    pub(super) pipeline: Pipeline,
    pub(super) plan: StorePlan,
    /// Increases with every new pipeline. Streams restart when the pipeline that they write to is
    /// replaced.
    pub(super) epoch: u64,
    /// Whether it replaced a store whose documents have another shape.
    pub(super) is_reshaped: bool,
    stop: CancellationToken,
    task: AbortOnDropHandle<()>,
}

struct ClosingStore {
    pipeline: Pipeline,
    task: AbortOnDropHandle<()>,
}

/// What every store is opened with.
pub(super) struct StoreContext {
    pub(super) opener: Opener,
    pub(super) limits: PipelineLimits,
    pub(super) fence: WriteFence,
    pub(super) metrics: Arc<Metrics>,
    pub(super) changed: Arc<Notify>,
}

pub(super) struct RunningStores {
    context: StoreContext,
    running: BTreeMap<StoreName, RunningStore>,
    /// Stores that the plan no longer has, while their last changes are written.
    closing: Vec<ClosingStore>,
    last_epoch: u64,
}

/// The stores of the next plan beside those that run.
pub(super) struct StoreChanges {
    running: BTreeMap<StoreName, u64>,
    /// Clusters whose index is gone; their streams start again with a list.
    lost: BTreeSet<(StoreName, ClusterName)>,
}

impl StoreChanges {
    /// Whether a running store stays open.
    pub(super) fn keep_open(&self, name: &StoreName) -> bool {
        self.running.contains_key(name)
    }

    /// Whether the store of a stream, and the documents in it, stay as they are.
    pub(super) fn keep(&self, stream: &StreamKey, epoch: u64) -> bool {
        self.running.get(&stream.store) == Some(&epoch)
            && !self
                .lost
                .contains(&(stream.store.clone(), stream.unit.cluster.clone()))
    }
}

/// Whether two plans of a store result in the same connection, indices and documents.
fn has_same_shape(left: &StorePlan, right: &StorePlan) -> bool {
    left.config == right.config
        && left.prefix == right.prefix
        && left.projection == right.projection
        && left.indexing == right.indexing
}

impl RunningStores {
    pub(super) fn new(context: StoreContext) -> Self {
        Self {
            context,
            running: BTreeMap::new(),
            closing: Vec::new(),
            last_epoch: 0,
        }
    }

    pub(super) fn get(&self, store: &StoreName) -> Option<&RunningStore> {
        self.running.get(store)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&StoreName, &RunningStore)> {
        self.running.iter()
    }

    pub(super) fn pipeline(&self, store: &StoreName) -> Option<&Pipeline> {
        self.running.get(store).map(|running| &running.pipeline)
    }

    /// Those of some stores that run.
    pub(super) fn pipelines<'n>(
        &self,
        names: impl IntoIterator<Item = &'n StoreName>,
    ) -> BTreeMap<StoreName, Pipeline> {
        names
            .into_iter()
            .filter_map(|name| Some((name.clone(), self.pipeline(name)?.clone())))
            .collect()
    }

    pub(super) fn have_lost_clusters(&self) -> bool {
        let mut stores = self.running.values();
        stores.any(|store| store.pipeline.revisions.have_lost_clusters())
    }

    /// Whether a store cannot be used now.
    pub(super) fn are_unavailable(&self) -> bool {
        let mut stores = self.running.values();
        stores.any(|store| matches!(store.pipeline.store.availability(), Some(Err(_))))
    }

    /// Compares the stores with those of the next plan. Takes the clusters whose index is gone.
    pub(super) fn take_changes(&self, desired: &BTreeMap<StoreName, StorePlan>) -> StoreChanges {
        let lost = |(name, store): (&StoreName, &RunningStore)| {
            let name = name.clone();
            store
                .pipeline
                .revisions
                .take_lost_clusters()
                .into_iter()
                .map(move |cluster| (name.clone(), cluster))
                .collect::<Vec<_>>()
        };
        let stay = |(name, running): &(&StoreName, &RunningStore)| {
            desired
                .get(*name)
                .is_some_and(|new| has_same_shape(new, &running.plan))
        };
        StoreChanges {
            running: self
                .running
                .iter()
                .filter(stay)
                .map(|(name, running)| (name.clone(), running.epoch))
                .collect(),
            lost: self.running.iter().flat_map(lost).collect(),
        }
    }

    /// Closes the stores that the plan no longer has or reshapes, and opens those that are missing.
    pub(super) fn replace(
        &mut self,
        desired: BTreeMap<StoreName, StorePlan>,
        changes: &StoreChanges,
    ) {
        let gone: Vec<StoreName> = self
            .running
            .keys()
            .filter(|name| !changes.keep_open(name))
            .cloned()
            .collect();
        for name in &gone {
            self.close(name, desired.contains_key(name));
        }
        self.closing.retain(|store| !store.task.is_finished());
        for (name, plan) in desired {
            match self.running.get_mut(&name) {
                Some(running) => {
                    running.pipeline.store.set_registries(&plan.registries);
                    running.plan = plan;
                }
                None => self.open(&name, plan, gone.contains(&name)),
            }
        }
    }

    fn close(&mut self, name: &StoreName, is_replaced: bool) {
        let Some(store) = self.running.remove(name) else {
            return;
        };
        tracing::info!(store = %name, "closing a store");
        if is_replaced {
            // The queued writes belong to the previous plan. An index that is created again
            // meanwhile would take them, with fields that must no longer be stored.
            store.pipeline.queue.discard();
        }
        store.stop.cancel();
        // Its last changes are written in the background. Documents carry versions, so their order
        // relative to the next pipeline's does not matter.
        self.closing.push(ClosingStore {
            pipeline: store.pipeline,
            task: store.task,
        });
    }

    fn open(&mut self, name: &StoreName, plan: StorePlan, is_reshaped: bool) {
        self.last_epoch += 1;
        let fence = if plan.is_embedded() {
            WriteFence::OPEN
        } else {
            self.context.fence.clone()
        };
        let pipeline = Pipeline::new(
            name.clone(),
            self.context.limits,
            fence,
            self.context.metrics.store(name),
            Arc::clone(&self.context.changed),
        );
        pipeline.store.set_registries(&plan.registries);
        let opener = (self.context.opener)(&plan);
        let stop = CancellationToken::new();
        let task = AbortOnDropHandle::new(tokio::spawn(pipeline.clone().run(
            opener,
            stop.clone(),
            DRAIN,
        )));
        tracing::info!(store = %name, "opening a store");
        let running = RunningStore {
            pipeline,
            plan,
            epoch: self.last_epoch,
            is_reshaped,
            stop,
            task,
        };
        self.running.insert(name.clone(), running);
    }

    /// Notes how many clusters of each store are planned, also those that other replicas read.
    pub(super) fn expect_clusters(&self, plan: &Plan) {
        let mut clusters: BTreeMap<&StoreName, BTreeSet<&ClusterName>> = BTreeMap::new();
        for stream in plan.streams.keys() {
            let of_store = clusters.entry(&stream.store).or_default();
            of_store.insert(&stream.unit.cluster);
        }
        for (name, store) in &self.running {
            let planned = clusters.get(name).map_or(0, BTreeSet::len);
            store.pipeline.store.expect_clusters(planned);
        }
    }

    /// Reads from the stores what they contain of clusters whose discovery is missing, as after a
    /// start while a member is down.
    pub(super) fn recall_undiscovered(
        &self,
        plan: &Plan,
        members: &BTreeMap<ClusterName, MemberState>,
    ) {
        let is_unknown = |cluster: &ClusterName| {
            members
                .get(cluster)
                .is_some_and(|member| member.discovery.is_none())
        };
        let mut unknown: BTreeMap<&StoreName, BTreeSet<ClusterName>> = BTreeMap::new();
        for (store, cluster) in plan
            .coverage
            .keys()
            .filter(|(_, cluster)| is_unknown(cluster))
        {
            unknown.entry(store).or_default().insert(cluster.clone());
        }
        for (store, clusters) in unknown {
            if let Some(pipeline) = self.pipeline(store) {
                pipeline.checkpoints.load(&clusters);
            }
        }
    }

    /// The UIDs of the clusters that the stores have documents of; `None` until every store is
    /// open.
    pub(super) fn identities(&self) -> Option<IndexedClusterUids> {
        let mut identities = IndexedClusterUids::default();
        for store in self.running.values() {
            store.pipeline.store.writer()?;
            for (cluster, identity) in store.pipeline.store.identities() {
                identities.entry(cluster).or_default().insert(identity);
            }
        }
        Some(identities)
    }

    /// Writes what is left. Nothing is in flight afterwards. Then the change logs end, so that the
    /// other replicas know that they have received every change.
    pub(super) async fn shut_down(&mut self) {
        let pipelines = self.all_pipelines();
        for store in self.running.values() {
            store.stop.cancel();
        }
        let running = std::mem::take(&mut self.running).into_iter();
        let running = running.map(|(name, store)| (name, store.task));
        let closing = std::mem::take(&mut self.closing).into_iter();
        let closing = closing.map(|store| (store.pipeline.store.name().clone(), store.task));
        for (name, task) in running.chain(closing) {
            if let Err(error) = task.await {
                tracing::error!(store = %name, %error, "the writer of a store ended unexpectedly");
            }
        }
        end_changes(&pipelines).await;
    }

    /// Ends the change logs although writes are in flight.
    pub(super) async fn end_changes(&self) {
        end_changes(&self.all_pipelines()).await;
    }

    /// Aborts every writer at once.
    pub(super) fn abort(&mut self) {
        self.running.clear();
        self.closing.clear();
    }

    fn all_pipelines(&self) -> Vec<Pipeline> {
        let running = self.running.values().map(|store| &store.pipeline);
        let closing = self.closing.iter().map(|store| &store.pipeline);
        running.chain(closing).cloned().collect()
    }
}

async fn end_changes(pipelines: &[Pipeline]) {
    join_all(
        pipelines
            .iter()
            .map(|pipeline| pipeline.store.end_changes()),
    )
    .await;
}

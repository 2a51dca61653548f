//! The stores in use, one pipeline each.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_clusters::{MemberState, source::IndexedClusterUids};
use fleetdex_core::model::{ClusterName, StoreName};
use fleetdex_replicas::write_fence::WriteFence;
use fleetdex_sync::pipeline::Pipeline;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{ClosingStore, DRAIN, RunningStore, StreamSupervisor};
use crate::plan::{Plan, StorePlan, StreamKey};

/// Whether two plans of a store result in the same connection, indices and documents.
fn has_same_shape(left: &StorePlan, right: &StorePlan) -> bool {
    left.config == right.config
        && left.prefix == right.prefix
        && left.projection == right.projection
        && left.indexing == right.indexing
}

impl StreamSupervisor {
    /// Takes the clusters whose index is gone; their streams start again with a list.
    pub(super) fn take_lost_clusters(&self) -> BTreeSet<(StoreName, ClusterName)> {
        let lost = |(name, store): (&StoreName, &RunningStore)| {
            let name = name.clone();
            store
                .pipeline
                .take_lost_clusters()
                .into_iter()
                .map(move |cluster| (name.clone(), cluster))
                .collect::<Vec<_>>()
        };
        self.stores.iter().flat_map(lost).collect()
    }

    /// Whether the store of a stream, and the documents in it, stay as they are.
    pub(super) fn is_store_unchanged(
        &self,
        stream: &StreamKey,
        epoch: u64,
        stores: &BTreeMap<StoreName, StorePlan>,
        lost: &BTreeSet<(StoreName, ClusterName)>,
    ) -> bool {
        let Some((new, old)) = stores
            .get(&stream.store)
            .zip(self.stores.get(&stream.store))
        else {
            return false;
        };
        let unchanged = has_same_shape(new, &old.plan) && old.epoch == epoch;
        unchanged && !lost.contains(&(stream.store.clone(), stream.unit.cluster.clone()))
    }

    /// Closes the stores that the plan no longer has or reshapes, and opens those that are missing.
    pub(super) fn replace_stores(&mut self, desired: BTreeMap<StoreName, StorePlan>) {
        let gone: Vec<StoreName> = self
            .stores
            .iter()
            .filter(|(name, running)| {
                !desired
                    .get(*name)
                    .is_some_and(|new| has_same_shape(new, &running.plan))
            })
            .map(|(name, _)| name.clone())
            .collect();
        for name in &gone {
            self.close_store(name, desired.contains_key(name));
        }
        self.closing.retain(|store| !store.task.is_finished());
        for (name, plan) in desired {
            match self.stores.get_mut(&name) {
                Some(running) => {
                    running.pipeline.set_registries(&plan.registries);
                    running.plan = plan;
                }
                None => self.open_store(&name, plan, gone.contains(&name)),
            }
        }
    }

    fn close_store(&mut self, name: &StoreName, is_replaced: bool) {
        self.gc_tasks
            .remove(name)
            .inspect(|task| task.stop.cancel());
        let Some(store) = self.stores.remove(name) else {
            return;
        };
        tracing::info!(store = %name, "closing a store");
        if is_replaced {
            // The queued writes belong to the previous plan. An index that is created again
            // meanwhile would take them, with fields that must no longer be stored.
            store.pipeline.discard();
        }
        store.stop.cancel();
        // Its last changes are written in the background. Documents carry versions, so their order
        // relative to the next pipeline's does not matter.
        self.closing.push(ClosingStore {
            pipeline: store.pipeline,
            task: store.task,
        });
    }

    fn open_store(&mut self, name: &StoreName, plan: StorePlan, is_reshaped: bool) {
        self.last_epoch += 1;
        let fence = if plan.is_embedded() {
            WriteFence::OPEN
        } else {
            self.fence.clone()
        };
        let pipeline = Pipeline::new(
            name.clone(),
            self.limits,
            fence,
            self.metrics.store(name),
            Arc::clone(&self.changed),
        );
        pipeline.set_registries(&plan.registries);
        let opener = (self.opener)(&plan);
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
        self.stores.insert(name.clone(), running);
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
            if let Some(pipeline) = self
                .pipeline(store)
                .filter(|pipeline| pipeline.store().is_some())
            {
                pipeline.load_checkpoints(&clusters);
            }
        }
    }

    /// Of how many clusters the stores have been read in this way.
    pub fn recalled_clusters(&self) -> usize {
        self.stores
            .values()
            .map(|store| store.pipeline.loaded_cluster_count())
            .sum()
    }

    /// The stores that are open and can be read.
    pub fn open_stores(&self) -> BTreeSet<StoreName> {
        let open = self
            .stores
            .iter()
            .filter(|(_, store)| store.pipeline.store().is_some());
        open.map(|(name, _)| name.clone()).collect()
    }

    /// The pipeline of a store.
    pub fn pipeline(&self, store: &StoreName) -> Option<&Pipeline> {
        self.stores.get(store).map(|running| &running.pipeline)
    }

    /// The UIDs of the clusters that the stores have documents of; `None` until every store of the
    /// plan is open.
    pub fn identities(&self) -> Option<IndexedClusterUids> {
        self.plan()?;
        let mut identities = IndexedClusterUids::default();
        for store in self.stores.values() {
            store.pipeline.store()?;
            for (cluster, identity) in store.pipeline.identities() {
                identities.entry(cluster).or_default().insert(identity);
            }
        }
        Some(identities)
    }
}

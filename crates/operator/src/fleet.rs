//! What runs: one pipeline per store, one task per unit. Applies a plan by starting and stopping exactly what differs.

mod former_places;
mod reporting;
mod stores;
mod streams;
mod sweep_task;
mod sweeping;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use fleetdex_clusters::MemberState;
use fleetdex_core::{
    model::{ClusterName, StoreName},
    planted::{Bug, planted},
    query::ResourceName,
};
use fleetdex_sync::{
    audit::{Audit, Permits},
    fence::Fence,
    pipeline::{Limits, OpenStore, Pipeline},
    progress::{Progress, UnitState},
};
use fleetdex_telemetry::metrics::Metrics;
use futures::future::join_all;
use sweep_task::Sweeping;
use tokio::{
    sync::{Notify, Semaphore},
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    MemberView, RegistryView,
    activation::Activations,
    arrivals::Arrivals,
    gaps::{Known, ShareGaps},
    places::Places,
    plan::{Plan, StorePlan, Stream, UnitPlan, plan},
};
use crate::replicas::{ReplicaName, Share};

/// How long unwritten changes may take when the process stops.
pub const DRAIN: Duration = Duration::from_secs(20);

/// How long the checkpoints of clusters that go to another replica may take to be written.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(2);

/// Makes what opens the store of a plan.
pub type Opener = Arc<dyn Fn(&StorePlan) -> Arc<dyn OpenStore> + Send + Sync>;

struct RunningStore {
    pipeline: Pipeline,
    plan: StorePlan,
    /// New whenever the pipeline is: units that write to it begin anew.
    epoch: u64,
    /// It has taken the place of one with documents of another shape.
    is_reshaped: bool,
    stop: CancellationToken,
    task: AbortOnDropHandle<()>,
}

struct ClosingStore {
    pipeline: Pipeline,
    task: AbortOnDropHandle<()>,
}

struct RunningUnit {
    plan: UnitPlan,
    connection: u64,
    /// The epoch of the store it writes to.
    epoch: u64,
    progress: Arc<Progress>,
    audit: Arc<Audit>,
    stop: CancellationToken,
    task: AbortOnDropHandle<()>,
}

/// A stream that lost its connection: its status goes on counting the documents.
struct ParkedUnit {
    plan: UnitPlan,
    epoch: u64,
    progress: Arc<Progress>,
}

/// Everything that runs for the registries. Dropping it ends everything at once, as a kill would.
pub struct Fleet {
    opener: Opener,
    limits: Limits,
    fence: Fence,
    metrics: Arc<Metrics>,
    changed: Arc<Notify>,
    stores: BTreeMap<StoreName, RunningStore>,
    /// Stores that are not wanted any more, while their last changes are written.
    closing: Vec<ClosingStore>,
    units: BTreeMap<Stream, RunningUnit>,
    sweeps: BTreeMap<StoreName, Sweeping>,
    activations: Activations,
    /// For each store, so that lists that wait for one do not keep those for another from beginning.
    lists: BTreeMap<(ClusterName, StoreName), Arc<Semaphore>>,
    audits: Permits,
    audit_interval: Option<Duration>,
    knows_all_members: bool,
    /// Streams that have ended, while writes of theirs are under way.
    settling: Vec<(StoreName, Arc<Progress>)>,
    /// Units of the plan whose member is not connected.
    parked: BTreeMap<Stream, ParkedUnit>,
    /// Streams of the plans before whose kind is now read in another version: their documents stay until those of that version are there.
    replaced: BTreeSet<Stream>,
    last_epoch: u64,
    /// Places that registries have named, as far as they are remembered from outside.
    remembered: Places,
    /// Stores of the plans before that no registry names any more.
    former: Places,
    /// Where queries are answered from by now of what is kept elsewhere than before.
    arrivals: Arrivals,
    /// How far each stream of the plan is, as was last heard of it, whoever reads it.
    known: Known,
    /// What the other replicas say of the streams that they read.
    others: Arc<BTreeMap<ReplicaName, ShareGaps>>,
    /// Clusters of which everything is in a new place but what their members refuse for good, and since when that is known.
    given_up: BTreeMap<(StoreName, ClusterName), Instant>,
    applied: Option<Applied>,
}

/// What was last applied.
#[derive(PartialEq)]
struct Applied {
    plan: Plan,
    leaving: BTreeMap<StoreName, StorePlan>,
    /// Places that no registry names any more, to be emptied once others answer in their stead.
    old: Places,
    connections: BTreeMap<ClusterName, Option<u64>>,
    share: Share,
    knows_all_members: bool,
}

impl Applied {
    /// Which clusters are read here for a store: what is held in this process's memory is of no use to the other replicas.
    fn share_of(&self, store: &StoreName) -> Share {
        let is_own = self.store_plan(store).is_some_and(StorePlan::is_embedded);
        if is_own {
            Share::Whole
        } else {
            self.share.clone()
        }
    }
}

impl Applied {
    fn store_plan(&self, store: &StoreName) -> Option<&StorePlan> {
        self.plan
            .stores
            .get(store)
            .or_else(|| self.leaving.get(store))
            .or_else(|| self.old.plan(store))
    }
}

impl Fleet {
    /// Nothing runs yet. `changed` is notified whenever the status of anything changes.
    pub fn new(opener: Opener, metrics: Arc<Metrics>, changed: Arc<Notify>) -> Self {
        Self {
            limits: Limits::default(),
            fence: Fence::OPEN,
            opener,
            metrics,
            activations: Activations::new(Arc::clone(&changed)),
            arrivals: Arrivals::new(Arc::clone(&changed)),
            remembered: Places::default(),
            former: Places::default(),
            changed,
            stores: BTreeMap::new(),
            closing: Vec::new(),
            units: BTreeMap::new(),
            sweeps: BTreeMap::new(),
            lists: BTreeMap::new(),
            audits: Permits::default(),
            audit_interval: None,
            knows_all_members: true,
            settling: Vec::new(),
            parked: BTreeMap::new(),
            replaced: BTreeSet::new(),
            last_epoch: 0,
            known: Known::new(),
            others: Arc::default(),
            given_up: BTreeMap::new(),
            applied: None,
        }
    }

    /// Other limits of what may wait and be under way, for each store.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Nothing is written while this is closed.
    #[must_use]
    pub fn behind(self, fence: Fence) -> Self {
        Self { fence, ..self }
    }

    /// Every unit compares what is stored with what its member has, once in such an interval on the average.
    #[must_use]
    pub fn audit_every(self, interval: Duration) -> Self {
        Self {
            audit_interval: Some(interval),
            ..self
        }
    }

    /// Says whether the members that are followed next are all that there are. Until then the documents of others stay.
    pub fn know_all_members(&mut self, all: bool) {
        self.knows_all_members = all;
    }

    /// Names every place that a registry may have written to. Those that no registry names any more are emptied.
    pub fn remember(&mut self, places: Places) {
        self.remembered = places;
    }

    /// Makes what runs follow the registries, the members, and which of these fall to this replica. The stores of `leaving`, which are being
    /// deleted, stay open until their documents are gone.
    pub async fn follow(
        &mut self,
        live: &[RegistryView],
        leaving: &[RegistryView],
        members: &BTreeMap<ClusterName, MemberState>,
        share: &Share,
    ) {
        let views: Vec<MemberView> = members.values().map(MemberView::from).collect();
        let connection =
            |member: &MemberState| member.connection.as_ref().map(|connection| connection.id);
        let (plan, leaving) = (plan(live, &views), plan(leaving, &[]).stores);
        let old = self.old_places(&plan, &leaving);
        let wanted = Applied {
            plan,
            leaving,
            old,
            connections: members
                .iter()
                .map(|(name, member)| (name.clone(), connection(member)))
                .collect(),
            share: share.clone(),
            knows_all_members: self.knows_all_members,
        };
        if self.applied.as_ref() != Some(&wanted) || self.has_lost() {
            self.apply(&wanted, members).await;
            self.applied = Some(wanted);
        }
        if let Some(applied) = &self.applied {
            self.read_unknown(&applied.plan, members);
        }
        self.look_after();
    }

    /// What was last applied.
    pub fn plan(&self) -> Option<&Plan> {
        self.applied.as_ref().map(|applied| &applied.plan)
    }

    /// Which clusters are read here for a store, as last applied.
    pub fn share_of(&self, store: &StoreName) -> Share {
        self.applied
            .as_ref()
            .map_or(Share::Whole, |applied| applied.share_of(store))
    }

    /// Lets queries be answered from the generations that have become complete. To be called now and then, too: what is not complete
    /// is waited for only so long.
    pub fn look_after(&mut self) {
        if let Some(applied) = self.applied.take() {
            self.activate(&applied.plan);
            self.note_gaps(&applied);
            if self.forget_replaced(&applied.plan) || !applied.old.is_empty() {
                self.sweep(&applied, &[]);
            }
            self.sweep_again();
            self.applied = Some(applied);
        }
    }

    async fn apply(&mut self, wanted: &Applied, members: &BTreeMap<ClusterName, MemberState>) {
        let Applied { plan, leaving, .. } = wanted;
        let lost = self.take_lost();
        if let Some(before) = &self.applied {
            self.replaced.extend(plan.replaced(&before.plan));
        }
        let mut wanted_stores = wanted.old.plans();
        wanted_stores.extend(leaving.clone());
        wanted_stores.extend(plan.stores.clone());
        // Units first: a unit must not write to a store that is being replaced.
        let stopped = self
            .stop_units(wanted, &wanted_stores, members, &lost)
            .await;
        self.replace_stores(wanted_stores);
        self.forget_replaced(plan);
        self.await_arrivals(wanted);
        // Before anything is listed that a sweep for the plan before would delete afterwards.
        self.sweep(wanted, &stopped);
        self.start_units(wanted, members);
    }

    /// Forgets the streams whose kind is stored in its new version by now, or is not wanted any more. Whether there were any.
    fn forget_replaced(&mut self, plan: &Plan) -> bool {
        let before = self.replaced.len();
        let mut replaced = std::mem::take(&mut self.replaced);
        replaced.retain(|stream| {
            let is_synced = |successor| {
                self.progress(successor)
                    .is_some_and(|progress| progress.state() == UnitState::Synced)
            };
            !plan.units.contains_key(stream)
                && plan
                    .successors(stream)
                    .any(|successor| !is_synced(successor))
        });
        self.replaced = replaced;
        self.replaced.len() < before
    }

    /// Whether something that should run cannot go on as it is, so that a plan has to be applied again.
    pub fn has_lost(&self) -> bool {
        let ended = |unit: &RunningUnit| unit.task.is_finished() || unit.progress.is_broken();
        self.stores.values().any(|store| store.pipeline.has_lost())
            || self.units.values().any(ended)
    }

    fn activate(&mut self, plan: &Plan) {
        let mut units: BTreeMap<(StoreName, ClusterName), Vec<Filling>> = BTreeMap::new();
        for stream in plan.units.keys() {
            let progress = self.units.get(stream).map(|running| &*running.progress);
            let resource = ResourceName::from(&stream.unit.resource);
            units
                .entry((stream.store.clone(), stream.unit.cluster.clone()))
                .or_default()
                .push((resource, progress));
        }
        for (name, store) in &self.stores {
            for generation in store.pipeline.generations() {
                let of_store = (name.clone(), generation.cluster.clone());
                let is_certain = plan
                    .scopes
                    .get(&of_store)
                    .is_some_and(|coverage| coverage.certain);
                let of_cluster = units.remove(&of_store).unwrap_or_default();
                self.activations.consider(
                    name,
                    &store.pipeline,
                    generation,
                    &of_cluster,
                    is_certain,
                );
            }
        }
    }

    /// Lets go of the clusters that another replica reads from now on: their last writes and checkpoints are stored, and nothing of them is
    /// remembered. Whether that is done.
    pub async fn let_go(&mut self) -> bool {
        let Some(applied) = &self.applied else {
            return false;
        };
        self.settling
            .retain(|(_, progress)| progress.outstanding() > 0);
        if self
            .settling
            .iter()
            .any(|(store, progress)| !applied.share_of(store).keeps(progress.cluster()))
        {
            return false;
        }
        for (name, store) in &self.stores {
            let share = applied.share_of(name);
            let others: Vec<ClusterName> = store
                .pipeline
                .open_clusters()
                .into_iter()
                .filter(|cluster| !share.keeps(cluster))
                .collect();
            if others.is_empty() {
                continue;
            }
            // Without them the next one only has more to replay.
            let saved =
                tokio::time::timeout(HANDOVER_TIMEOUT, store.pipeline.save_checkpoints()).await;
            if !matches!(saved, Ok(Ok(()))) {
                tracing::warn!(store = %name, "the last checkpoints before a handover were not written");
            }
            for cluster in &others {
                store.pipeline.hand_over(cluster);
            }
        }
        true
    }

    /// Whether a store is one that some registry names now.
    pub fn is_in_use(&self, store: &StoreName) -> bool {
        self.applied
            .as_ref()
            .is_some_and(|applied| applied.plan.stores.contains_key(store))
    }

    /// The members of which the plan that was applied last indexes anything, at whichever replica.
    pub fn planned_clusters(&self) -> BTreeSet<ClusterName> {
        let streams = self.plan().into_iter().flat_map(|plan| plan.units.keys());
        streams.map(|stream| stream.unit.cluster.clone()).collect()
    }

    /// Stops every stream, then writes what is left; nothing of this fleet is under way afterwards. Then the other replicas may know that this one
    /// has told them everything.
    pub async fn shut_down(&mut self) {
        let pipelines: Vec<Pipeline> = self
            .stores
            .values()
            .map(|store| &store.pipeline)
            .chain(self.closing.iter().map(|store| &store.pipeline))
            .cloned()
            .collect();
        if planted(Bug::LeaveWithWritesUnderWay) {
            join_all(pipelines.iter().map(Pipeline::end_changes)).await;
            return self.abandon();
        }
        for running in self.units.values() {
            running.stop.cancel();
        }
        for (stream, running) in std::mem::take(&mut self.units) {
            if let Err(error) = running.task.await {
                tracing::error!(unit = %stream.unit, %error, "a stream ended unexpectedly");
            }
        }
        for sweeping in self.sweeps.values_mut() {
            sweeping.end().await;
        }
        self.activations.stop().await;
        for store in self.stores.values() {
            store.stop.cancel();
        }
        for (name, store) in std::mem::take(&mut self.stores) {
            if let Err(error) = store.task.await {
                tracing::error!(store = %name, %error, "a store's writer ended unexpectedly");
            }
        }
        for store in std::mem::take(&mut self.closing) {
            if let Err(error) = store.task.await {
                tracing::error!(store = %store.pipeline.name(), %error, "a store's writer ended unexpectedly");
            }
        }
        join_all(pipelines.iter().map(Pipeline::end_changes)).await;
    }

    /// Ends everything where it stands.
    fn abandon(&mut self) {
        self.units.clear();
        self.sweeps.clear();
        self.stores.clear();
        self.closing.clear();
    }
}

/// A resource that fills a generation, and how far its stream is, if it runs.
type Filling<'a> = (ResourceName, Option<&'a Progress>);

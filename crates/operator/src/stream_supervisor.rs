//! Runs the plan: one pipeline for each store, one task for each stream. Applies a new plan by
//! starting and stopping only what differs.

mod former_locations;
mod gc_schedule;
mod gc_task;
mod handover;
mod identity;
mod reporting;
mod retention;
mod script_suspensions;
mod shutdown;
mod stores;
mod stream_completeness;
mod streams;
mod written_statuses;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use fleetdex_clusters::MemberState;
use fleetdex_core::{
    model::{ClusterName, StoreName},
    query::ResourceName,
};
use fleetdex_interpreter::rules::RuleSet;
use fleetdex_replicas::{Assignment, ReplicaName, write_fence::WriteFence};
use fleetdex_sync::{
    audit::{Audit, Permits},
    enrichment::WebhookAccess,
    pipeline::{OpenStore, Pipeline, PipelineLimits},
    progress::{Progress, UnitState},
};
use fleetdex_telemetry::{Traces, metrics::Metrics};
use gc_task::GcTask;
use script_suspensions::ScriptSuspensions;
use tokio::{
    sync::{Notify, Semaphore},
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use written_statuses::{WrittenStatuses, uid_of};

use super::{
    MemberView, RegistryView,
    activation::Activations,
    completeness::{CompletenessReport, StreamCompleteness},
    garbage_collection::Naming,
    live_clusters::LiveClusters,
    plan::{Plan, StorePlan, StreamKey, StreamPlan, plan},
    store_locations::StoreLocations,
};

/// How long writing the remaining changes may take when the process stops.
pub const DRAIN: Duration = Duration::from_secs(20);

/// Makes the opener of a planned store.
pub type Opener = Arc<dyn Fn(&StorePlan) -> Arc<dyn OpenStore> + Send + Sync>;

struct RunningStore {
    pipeline: Pipeline,
    plan: StorePlan,
    /// Increases with every new pipeline. Units restart when the pipeline that they write to is
    /// replaced.
    epoch: u64,
    /// Whether it replaced a store whose documents have another shape.
    is_reshaped: bool,
    stop: CancellationToken,
    task: AbortOnDropHandle<()>,
}

struct ClosingStore {
    pipeline: Pipeline,
    task: AbortOnDropHandle<()>,
}

struct RunningUnit {
    plan: StreamPlan,
    connection: u64,
    /// The epoch of the store that it writes to.
    epoch: u64,
    progress: Arc<Progress>,
    audit: Arc<Audit>,
    stop: CancellationToken,
    task: AbortOnDropHandle<()>,
}

/// A stream whose member is not connected. Its progress still counts in the status.
struct DisconnectedUnit {
    plan: StreamPlan,
    epoch: u64,
    progress: Arc<Progress>,
}

/// Everything that runs for the registries. Dropping it aborts everything at once, as a kill would.
pub struct StreamSupervisor {
    opener: Opener,
    limits: PipelineLimits,
    fence: WriteFence,
    metrics: Arc<Metrics>,
    changed: Arc<Notify>,
    stores: BTreeMap<StoreName, RunningStore>,
    /// Stores that the plan no longer has, while their last changes are written.
    closing: Vec<ClosingStore>,
    units: BTreeMap<StreamKey, RunningUnit>,
    gc_tasks: BTreeMap<StoreName, GcTask>,
    activations: Activations,
    /// One semaphore for each store, so that lists that wait for one store do not delay those for
    /// another.
    lists: BTreeMap<(ClusterName, StoreName), Arc<Semaphore>>,
    audits: Permits,
    audit_interval: Option<Duration>,
    traces: Traces,
    knows_all_members: bool,
    /// The interpretation rules of all kinds.
    rules: Arc<RuleSet>,
    suspensions: ScriptSuspensions,
    written_statuses: WrittenStatuses,
    /// Asks interpreter webhooks; `None`: none is asked.
    webhooks: Option<WebhookAccess>,
    /// How many streams have been started.
    streams_started: u64,
    /// Streams that have ended while some of their writes are unacknowledged.
    draining: Vec<(StoreName, Arc<Progress>)>,
    /// Streams of the plan whose member is not connected.
    disconnected: BTreeMap<StreamKey, DisconnectedUnit>,
    /// Streams of earlier plans whose kind is now read in another version. Their documents stay
    /// until those of the new version are stored.
    replaced: BTreeSet<StreamKey>,
    last_epoch: u64,
    /// Store locations that the statuses of registries record.
    recorded_locations: StoreLocations,
    /// Stores of earlier plans that no registry names any more.
    former_locations: StoreLocations,
    /// The clusters that the new and former locations of moved registries answer queries of.
    live_clusters: LiveClusters,
    /// Whether each stream of the plan is complete, as last reported by the replica that reads it.
    completeness: StreamCompleteness,
    /// The completeness reports of the other replicas.
    peer_completeness: Arc<BTreeMap<ReplicaName, CompletenessReport>>,
    /// Clusters of which a new location stores everything but the kinds that their members have
    /// refused for too long, and since when that is so.
    final_since: BTreeMap<(StoreName, ClusterName), Instant>,
    applied: Option<Applied>,
}

/// The plan that was applied last, with its inputs.
#[derive(PartialEq)]
struct Applied {
    plan: Plan,
    leaving: BTreeMap<StoreName, StorePlan>,
    /// Locations that no registry names any more. They are emptied once others answer in their
    /// stead.
    former_locations: StoreLocations,
    connections: BTreeMap<ClusterName, Option<u64>>,
    assignment: Assignment,
    knows_all_members: bool,
}

impl Applied {
    /// The clusters that this replica reads for a store. The embedded store of this process does
    /// not help the other replicas, so each reads every cluster for its own.
    fn assignment_for(&self, store: &StoreName) -> Assignment {
        let is_embedded = self.store_plan(store).is_some_and(StorePlan::is_embedded);
        if is_embedded {
            Assignment::SingleReplica
        } else {
            self.assignment.clone()
        }
    }

    /// The stores in use with the index prefix of one that no registry names any more: they may be
    /// the same OpenSearch under another address. A former location is not emptied before those
    /// that are being deleted are.
    fn stores_of_prefix(&self, store: &StorePlan, naming: Naming) -> BTreeSet<StoreName> {
        let may_be_same = |other: &StorePlan| {
            !other.is_embedded() && !store.is_embedded() && other.prefix == store.prefix
        };
        let leaving = self.leaving.iter().filter(|_| naming == Naming::Former);
        let in_use = self.plan.stores.iter().chain(leaving);
        in_use
            .filter(|(_, other)| may_be_same(other))
            .map(|(name, _)| name.clone())
            .collect()
    }

    fn store_plan(&self, store: &StoreName) -> Option<&StorePlan> {
        self.plan
            .stores
            .get(store)
            .or_else(|| self.leaving.get(store))
            .or_else(|| self.former_locations.plan(store))
    }
}

impl StreamSupervisor {
    /// Starts nothing yet. `changed` is notified whenever a status may have changed.
    pub fn new(opener: Opener, metrics: Arc<Metrics>, changed: Arc<Notify>) -> Self {
        Self {
            limits: PipelineLimits::default(),
            fence: WriteFence::OPEN,
            opener,
            metrics,
            activations: Activations::new(Arc::clone(&changed)),
            live_clusters: LiveClusters::new(Arc::clone(&changed)),
            recorded_locations: StoreLocations::default(),
            former_locations: StoreLocations::default(),
            changed,
            stores: BTreeMap::new(),
            closing: Vec::new(),
            units: BTreeMap::new(),
            gc_tasks: BTreeMap::new(),
            lists: BTreeMap::new(),
            audits: Permits::default(),
            audit_interval: None,
            traces: Traces::default(),
            knows_all_members: true,
            rules: Arc::default(),
            suspensions: ScriptSuspensions::default(),
            written_statuses: WrittenStatuses::default(),
            webhooks: None,
            streams_started: 0,
            draining: Vec::new(),
            disconnected: BTreeMap::new(),
            replaced: BTreeSet::new(),
            last_epoch: 0,
            completeness: StreamCompleteness::new(),
            peer_completeness: Arc::default(),
            final_since: BTreeMap::new(),
            applied: None,
        }
    }

    /// Limits of what may wait and be in flight, for each store.
    #[must_use]
    pub fn with_limits(self, limits: PipelineLimits) -> Self {
        Self { limits, ..self }
    }

    /// Nothing is written while the fence is closed.
    #[must_use]
    pub fn with_fence(self, fence: WriteFence) -> Self {
        Self { fence, ..self }
    }

    /// Traces of changes begin by these.
    #[must_use]
    pub fn with_traces(self, traces: Traces) -> Self {
        Self { traces, ..self }
    }

    /// Every unit is audited about once in this interval.
    #[must_use]
    pub fn with_audit_interval(self, interval: Duration) -> Self {
        Self {
            audit_interval: Some(interval),
            ..self
        }
    }

    /// States whether the members of the next call of [`Self::reconcile`] are all that exist. Until
    /// then the documents of unknown clusters stay.
    pub fn set_knows_all_members(&mut self, all: bool) {
        self.knows_all_members = all;
    }

    /// The same, asking interpreter webhooks. The caller runs the queue.
    #[must_use]
    pub fn asking(self, webhooks: WebhookAccess) -> Self {
        Self {
            webhooks: Some(webhooks),
            ..self
        }
    }

    /// Sets the rules that say what objects mean. The next call of [`Self::reconcile`] interprets the
    /// kinds whose rules have changed again.
    pub fn set_rules(&mut self, rules: Arc<RuleSet>) {
        self.rules = rules;
    }

    /// Sets every location that a registry may have written to. Those that no registry names any
    /// more are emptied.
    pub fn record_locations(&mut self, locations: StoreLocations) {
        self.recorded_locations = locations;
    }

    /// Makes what runs match the registries, the members, and the clusters that are assigned to
    /// this replica. `leaving` are registries that are being deleted: their stores stay open until
    /// their documents are deleted.
    pub async fn reconcile(
        &mut self,
        live: &[RegistryView],
        leaving: &[RegistryView],
        members: &BTreeMap<ClusterName, MemberState>,
        assignment: &Assignment,
    ) {
        let views: Vec<MemberView> = members.values().map(MemberView::from).collect();
        let connection =
            |member: &MemberState| member.connection.as_ref().map(|connection| connection.id);
        let leaving = plan(leaving, &[], &self.rules).stores;
        let mut plan = plan(live, &views, &self.rules);
        self.change_rules(&mut plan, members);
        let former_locations = self.update_former_locations(&plan, &leaving);
        let desired = Applied {
            plan,
            leaving,
            former_locations,
            connections: members
                .iter()
                .map(|(name, member)| (name.clone(), connection(member)))
                .collect(),
            assignment: assignment.clone(),
            knows_all_members: self.knows_all_members,
        };
        if self.applied.as_ref() != Some(&desired) || self.needs_reapply() {
            self.apply(&desired, members).await;
            self.applied = Some(desired);
        }
        if let Some(applied) = &self.applied {
            self.recall_undiscovered(&applied.plan, members);
        }
        self.maintain();
    }

    /// Changes the rules of a plan by what its streams have seen: a status of a kind, and scripts of
    /// which too many runs reach a limit.
    fn change_rules(&mut self, plan: &mut Plan, members: &BTreeMap<ClusterName, MemberState>) {
        let now = Instant::now();
        for (stream, running) in &self.units {
            if let Some(rules) = &running.plan.rules {
                self.suspensions.suspend(stream, rules, &self.metrics, now);
                let uid = uid_of(members, &stream.unit.cluster);
                self.written_statuses.note(stream, rules, uid);
            }
        }
        self.suspensions.apply(plan, now);
        self.written_statuses
            .apply(plan, |cluster| uid_of(members, cluster));
    }

    /// The plan that was applied last.
    pub fn plan(&self) -> Option<&Plan> {
        self.applied.as_ref().map(|applied| &applied.plan)
    }

    /// The clusters that this replica reads for a store, as last applied.
    pub fn assignment_for(&self, store: &StoreName) -> Assignment {
        self.applied
            .as_ref()
            .map_or(Assignment::SingleReplica, |applied| {
                applied.assignment_for(store)
            })
    }

    /// Activates the index revisions that have become complete, updates the completeness of
    /// streams, and repeats garbage collection when it is due. To be called every few seconds:
    /// waiting for an incomplete revision ends with time.
    pub fn maintain(&mut self) {
        if let Some(applied) = self.applied.take() {
            self.activate(&applied.plan);
            self.update_completeness(&applied);
            if self.forget_replaced(&applied.plan) || !applied.former_locations.is_empty() {
                self.collect_garbage(&applied, &[]);
            }
            self.repeat_gc();
            self.applied = Some(applied);
        }
    }

    async fn apply(&mut self, desired: &Applied, members: &BTreeMap<ClusterName, MemberState>) {
        let Applied { plan, leaving, .. } = desired;
        let lost = self.take_lost_clusters();
        if let Some(before) = &self.applied {
            self.replaced.extend(plan.replaced(&before.plan));
        }
        let mut stores = desired.former_locations.plans();
        stores.extend(leaving.clone());
        stores.extend(plan.stores.clone());
        // Streams stop first: they must not write to a store that is being replaced.
        let stopped = self.stop_units(desired, &stores, members, &lost).await;
        self.replace_stores(stores);
        self.expect_clusters(plan);
        self.forget_replaced(plan);
        self.watch_live_clusters(desired);
        // Garbage collection starts before any list, whose objects the collection for the previous
        // plan could delete.
        self.collect_garbage(desired, &stopped);
        self.start_units(desired, members);
    }

    /// The clusters of each store, also those that other replicas read.
    fn expect_clusters(&self, plan: &Plan) {
        let mut clusters: BTreeMap<&StoreName, BTreeSet<&ClusterName>> = BTreeMap::new();
        for stream in plan.streams.keys() {
            let of_store = clusters.entry(&stream.store).or_default();
            of_store.insert(&stream.unit.cluster);
        }
        for (name, store) in &self.stores {
            let planned = clusters.get(name).map_or(0, BTreeSet::len);
            store.pipeline.expect_clusters(planned);
        }
    }

    /// Forgets the replaced streams whose kind is stored in its new version by now, or is no longer
    /// selected. Returns whether there were any.
    fn forget_replaced(&mut self, plan: &Plan) -> bool {
        let before = self.replaced.len();
        let mut replaced = std::mem::take(&mut self.replaced);
        replaced.retain(|stream| {
            let is_synced = |successor| {
                self.progress(successor)
                    .is_some_and(|progress| progress.state() == UnitState::Synced)
            };
            !plan.streams.contains_key(stream)
                && plan
                    .successors(stream)
                    .any(|successor| !is_synced(successor))
        });
        self.replaced = replaced;
        self.replaced.len() < before
    }

    /// Whether a stream or a store cannot continue, or a script is to be run again, so that the plan has to be applied again.
    pub fn needs_reapply(&self) -> bool {
        let ended = |unit: &RunningUnit| unit.task.is_finished() || unit.progress.is_broken();
        self.stores
            .values()
            .any(|store| store.pipeline.has_lost_clusters())
            || self.units.values().any(ended)
            || self
                .plan()
                .is_some_and(|plan| self.suspensions.has_ended(plan, Instant::now()))
    }

    fn activate(&mut self, plan: &Plan) {
        let mut units: BTreeMap<(StoreName, ClusterName), Vec<UnitProgress>> = BTreeMap::new();
        for stream in plan.streams.keys() {
            let progress = self.units.get(stream).map(|running| &*running.progress);
            let resource = ResourceName::from(&stream.unit.resource);
            units
                .entry((stream.store.clone(), stream.unit.cluster.clone()))
                .or_default()
                .push((resource, progress));
        }
        for (name, store) in &self.stores {
            let mut synced = BTreeSet::new();
            for revision in store.pipeline.revisions() {
                let of_store = (name.clone(), revision.cluster.clone());
                let is_certain = plan
                    .coverage
                    .get(&of_store)
                    .is_some_and(|coverage| coverage.certain);
                let of_cluster = units.remove(&of_store).unwrap_or_default();
                if of_cluster.iter().all(is_synced) {
                    synced.insert(revision.cluster.clone());
                }
                self.activations
                    .update(name, &store.pipeline, revision, &of_cluster, is_certain);
            }
            store.pipeline.set_synced(synced);
        }
    }

    /// Whether some registry names this store now.
    pub fn is_in_use(&self, store: &StoreName) -> bool {
        self.applied
            .as_ref()
            .is_some_and(|applied| applied.plan.stores.contains_key(store))
    }

    /// The members whose objects the applied plan indexes, at whichever replica.
    pub fn planned_clusters(&self) -> BTreeSet<ClusterName> {
        let streams = self.plan().into_iter().flat_map(|plan| plan.streams.keys());
        streams.map(|stream| stream.unit.cluster.clone()).collect()
    }
}

/// A resource that is written to an index revision, and the progress of its stream if it runs.
type UnitProgress<'a> = (ResourceName, Option<&'a Progress>);

fn is_synced((_, progress): &UnitProgress<'_>) -> bool {
    progress.is_some_and(|progress| progress.state() == UnitState::Synced)
}

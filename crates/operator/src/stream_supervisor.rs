//! Runs the plan: one pipeline for each store, one task for each stream. Applies a new plan by
//! starting and stopping only what differs.

mod applied;
mod desired;
mod draining_writers;
mod former_locations;
mod gc_schedule;
mod gc_task;
mod handover;
mod identity;
mod location_states;
mod observed;
mod replaced_streams;
mod retention;
mod revisions;
mod rule_changes;
mod script_suspensions;
mod stores;
mod stream_completeness;
mod stream_starter;
mod streams;
#[cfg(test)]
mod tests;
mod written_statuses;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use applied::AppliedPlan;
use draining_writers::DrainingWriters;
use fleetdex_clusters::{MemberState, source::IndexedClusterUids};
use fleetdex_core::{
    model::{ClusterName, StoreName},
    planted::{Bug, planted},
};
use fleetdex_replicas::{Assignment, write_fence::WriteFence};
use fleetdex_store::IndexReader;
use fleetdex_sync::{
    audit::Audit,
    enrichment::WebhookAccess,
    pipeline::{Availability, Pipeline, PipelineLimits},
    progress::{Progress, UnitState},
};
use fleetdex_telemetry::{Traces, metrics::Metrics};
use former_locations::FormerLocations;
use gc_schedule::GcSchedule;
use replaced_streams::ReplacedStreams;
use retention::retention;
use revisions::WrittenRevisions;
use rule_changes::RuleChanges;
use stores::{RunningStores, StoreContext};
use stream_completeness::CompletenessTracker;
use stream_starter::StreamContext;
use streams::RunningStreams;
use tokio::sync::Notify;

pub use self::{
    desired::{Desired, PeerCompleteness},
    location_states::LocationStates,
    observed::ObservedStreams,
    stores::{DRAIN, Opener},
};
use super::{
    MemberView,
    activation::Activations,
    completeness::{CompletenessReport, IncompleteReason},
    plan::{Plan, StreamKey, plan},
};

/// How stores are written to and streams are read.
#[derive(Default)]
pub struct SupervisorOptions {
    /// Limits of what may wait and be in flight, for each store.
    pub limits: PipelineLimits,
    /// Nothing is written while the fence is closed.
    pub fence: WriteFence,
    /// Traces of changes begin by these.
    pub traces: Traces,
    /// Every unit is audited about once in this interval; `None`: never.
    pub audit_interval: Option<Duration>,
    /// Asks interpreter webhooks; `None`: none is asked. The caller runs the queue.
    pub webhooks: Option<WebhookAccess>,
}

/// Everything that runs for the registries. Dropping it aborts everything at once, as a kill would.
pub struct StreamSupervisor {
    metrics: Arc<Metrics>,
    stores: RunningStores,
    streams: RunningStreams,
    draining: DrainingWriters,
    replaced: ReplacedStreams,
    rule_changes: RuleChanges,
    activations: Activations,
    gc: GcSchedule,
    former_locations: FormerLocations,
    completeness: CompletenessTracker,
    applied: Option<AppliedPlan>,
}

impl StreamSupervisor {
    /// Starts nothing yet. `changed` is notified whenever a status may have changed.
    pub fn new(
        opener: Opener,
        metrics: Arc<Metrics>,
        changed: Arc<Notify>,
        options: SupervisorOptions,
    ) -> Self {
        let stores = StoreContext {
            opener,
            limits: options.limits,
            fence: options.fence,
            metrics: Arc::clone(&metrics),
            changed: Arc::clone(&changed),
        };
        let streams = StreamContext {
            metrics: Arc::clone(&metrics),
            changed: Arc::clone(&changed),
            traces: options.traces,
            webhooks: options.webhooks,
            audit_interval: options.audit_interval,
        };
        Self {
            metrics,
            stores: RunningStores::new(stores),
            streams: RunningStreams::new(streams),
            draining: DrainingWriters::default(),
            replaced: ReplacedStreams::default(),
            rule_changes: RuleChanges::default(),
            activations: Activations::new(Arc::clone(&changed)),
            gc: GcSchedule::new(options.audit_interval, Arc::clone(&changed)),
            former_locations: FormerLocations::new(changed),
            completeness: CompletenessTracker::default(),
            applied: None,
        }
    }

    /// Makes what runs match what is desired.
    pub async fn reconcile(&mut self, desired: Desired<'_>) {
        let (members, peers) = (desired.members, Arc::clone(&desired.peer_completeness));
        let next = self.next_plan(desired);
        if self.applied.as_ref() != Some(&next) || self.needs_reapply() {
            self.apply(&next, members).await;
            self.applied = Some(next);
        }
        if let Some(applied) = &self.applied {
            self.stores.recall_undiscovered(&applied.plan, members);
        }
        self.maintain(&peers);
    }

    fn next_plan(&mut self, desired: Desired<'_>) -> AppliedPlan {
        let Desired { members, rules, .. } = desired;
        let views: Vec<MemberView> = members.values().map(MemberView::from).collect();
        let connection =
            |member: &MemberState| member.connection.as_ref().map(|connection| connection.id);
        let leaving = plan(desired.leaving, &[], &rules).stores;
        let mut next = plan(desired.registries, &views, &rules);
        self.rule_changes
            .apply(&mut next, &self.streams, members, &self.metrics);
        let is_used =
            |name: &StoreName| next.stores.contains_key(name) || leaving.contains_key(name);
        let former_locations = self.former_locations.update(
            self.applied.as_ref().map(|applied| &applied.plan),
            is_used,
            desired.recorded_locations,
            |name| self.gc.is_emptied(name),
        );
        AppliedPlan {
            plan: next,
            leaving,
            former_locations,
            connections: members
                .iter()
                .map(|(name, member)| (name.clone(), connection(member)))
                .collect(),
            assignment: desired.assignment,
            knows_all_members: desired.knows_all_members,
        }
    }

    async fn apply(&mut self, next: &AppliedPlan, members: &BTreeMap<ClusterName, MemberState>) {
        let stores = next.stores();
        let changes = self.stores.take_changes(&stores);
        if let Some(before) = &self.applied {
            self.replaced.add(&before.plan, &next.plan);
        }
        // Streams stop first: they must not write to a store that is being replaced.
        let stopped = self
            .streams
            .stop_changed(next, &changes, members, &mut self.draining)
            .await;
        self.gc.abort_closed(&changes);
        self.stores.replace(stores, &changes);
        self.stores.expect_clusters(&next.plan);
        self.forget_replaced(&next.plan);
        self.former_locations
            .watch_live_clusters(next, &self.stores);
        // Garbage collection starts before any list, whose objects the collection for the previous
        // plan could delete.
        self.collect_garbage(next, &stopped);
        self.streams
            .start(next, &self.stores, members, &mut self.draining);
    }

    /// Activates the index revisions that have become complete, updates the completeness of
    /// streams, and repeats garbage collection when it is due. To be called every few seconds:
    /// waiting for an incomplete revision ends with time. `peers` is what the other replicas have
    /// reported last.
    pub fn maintain(&mut self, peers: &PeerCompleteness) {
        let Some(applied) = self.applied.take() else {
            return;
        };
        let revisions = WrittenRevisions {
            stores: &self.stores,
            streams: &self.streams,
        };
        revisions.activate(&applied.plan, &mut self.activations);
        self.completeness.update(&applied, revisions, peers);
        self.former_locations
            .note_final(&applied, self.completeness.is_final_by_cluster());
        if self.forget_replaced(&applied.plan) || !applied.former_locations.is_empty() {
            self.collect_garbage(&applied, &[]);
        }
        self.gc.repeat(&self.stores);
        self.applied = Some(applied);
    }

    fn collect_garbage(&mut self, applied: &AppliedPlan, stopped: &[Arc<Progress>]) {
        for (name, _) in self.stores.iter() {
            let retained = match applied.former_locations.plan(name) {
                Some(former) => self.former_locations.retention(applied, name, former),
                None => retention(applied, name, self.replaced.keys()),
            };
            let scope = (retained, applied.assignment_for(name));
            self.gc
                .collect(name, &self.stores, scope, stopped, &mut self.draining);
        }
    }

    fn forget_replaced(&mut self, plan: &Plan) -> bool {
        let is_synced = |stream: &StreamKey| {
            let progress = self.streams.progress(stream);
            progress.is_some_and(|progress| progress.state() == UnitState::Synced)
        };
        self.replaced.forget_stored(plan, is_synced)
    }

    /// Hands over the clusters that another replica reads from now on: waits until their last
    /// writes are acknowledged, saves their checkpoints and closes them. Returns whether that is
    /// done.
    pub async fn hand_over(&mut self) -> bool {
        let Some(applied) = &self.applied else {
            return false;
        };
        self.draining.forget_acknowledged();
        if self.draining.hold_clusters_of_others(applied) {
            return false;
        }
        handover::hand_over(&self.stores, applied).await;
        true
    }

    /// Stops every stream, then writes what is left. Nothing is in flight afterwards. Then the
    /// change logs end, so that the other replicas know that they have received every change.
    pub async fn shut_down(&mut self) {
        if planted(Bug::LeaveWithWritesUnderWay) {
            self.stores.end_changes().await;
            self.streams.abort();
            self.gc.abort();
            self.stores.abort();
            return;
        }
        self.streams.shut_down().await;
        self.gc.shut_down().await;
        self.activations.stop().await;
        self.stores.shut_down().await;
    }
}

/// What the supervisor reports of what runs.
impl StreamSupervisor {
    /// The plan that was applied last.
    pub fn plan(&self) -> Option<&Plan> {
        self.applied.as_ref().map(|applied| &applied.plan)
    }

    /// Whether a stream or a store cannot continue, or a script is to be run again, so that the
    /// plan has to be applied again.
    pub fn needs_reapply(&self) -> bool {
        self.stores.have_lost_clusters()
            || self.streams.have_ended()
            || self
                .plan()
                .is_some_and(|plan| self.rule_changes.has_ended_suspension(plan))
    }

    /// What has been seen of the running stores and streams.
    pub fn observed(&self) -> ObservedStreams {
        ObservedStreams::new(self.revisions(), &self.former_locations)
    }

    /// The UIDs of the clusters that the stores have documents of; `None` until every store of the
    /// plan is open.
    pub fn identities(&self) -> Option<IndexedClusterUids> {
        self.plan()?;
        self.stores.identities()
    }

    /// The members whose objects the applied plan indexes, at whichever replica.
    pub fn planned_clusters(&self) -> BTreeSet<ClusterName> {
        let streams = self.plan().into_iter().flat_map(|plan| plan.streams.keys());
        streams.map(|stream| stream.unit.cluster.clone()).collect()
    }

    /// The clusters that this replica reads for a store, as last applied.
    pub fn assignment_for(&self, store: &StoreName) -> Assignment {
        let applied = self.applied.as_ref();
        let assignment = applied.map(|applied| applied.assignment_for(store));
        assignment.unwrap_or_default()
    }

    /// The pipeline of a store.
    pub fn pipeline(&self, store: &StoreName) -> Option<&Pipeline> {
        self.stores.pipeline(store)
    }

    /// An open store, for queries.
    pub fn reader(&self, store: &StoreName) -> Option<Arc<dyn IndexReader>> {
        self.pipeline(store)?.store.reader()
    }

    /// Whether a store can be used; `None` while that is unknown.
    pub fn availability(&self, store: &StoreName) -> Availability {
        self.pipeline(store)?.store.availability()
    }

    /// Whether queries of a cluster are answered from the revision that its streams write to, as
    /// far as these are in sync.
    pub fn is_live(&self, store: &StoreName, cluster: &ClusterName) -> bool {
        self.revisions().is_live(store, cluster)
    }

    /// Every running stream.
    pub fn streams(&self) -> impl Iterator<Item = (&StreamKey, &Progress)> {
        self.streams.iter()
    }

    /// The progress of a stream that runs, or that ran until its member was disconnected.
    pub fn progress(&self, stream: &StreamKey) -> Option<&Progress> {
        self.streams.progress(stream)
    }

    /// The audit of a running stream.
    pub fn audit(&self, stream: &StreamKey) -> Option<&Arc<Audit>> {
        self.streams.audit(stream)
    }

    /// What this replica reports to the others about the streams that it reads.
    pub fn completeness_report(&self) -> CompletenessReport {
        let applied = self.applied.as_ref();
        let report = applied.map(|applied| self.completeness.report(applied));
        report.unwrap_or_default()
    }

    /// The streams of the plan whose objects are not all stored yet, or cannot be read now, and
    /// why. Clusters that this replica is not connected to are left out where only that is the
    /// reason: query results already say so for the whole cluster.
    pub fn incomplete_streams(&self) -> BTreeMap<StreamKey, IncompleteReason> {
        let applied = self.applied.as_ref();
        let incomplete = applied.map(|applied| self.completeness.incomplete(applied));
        incomplete.unwrap_or_default()
    }

    /// Whether changes wait for a store, or will if there are any, so that completeness has to be
    /// updated often.
    pub fn has_delays(&self) -> bool {
        self.stores.are_unavailable() || self.completeness.has_delays()
    }

    /// What the stores of the plan and former locations contain.
    pub fn locations(&self) -> LocationStates<'_> {
        LocationStates {
            applied: self.applied.as_ref(),
            former: &self.former_locations,
            gc: &self.gc,
            revisions: self.revisions(),
        }
    }

    fn revisions(&self) -> WrittenRevisions<'_> {
        WrittenRevisions {
            stores: &self.stores,
            streams: &self.streams,
        }
    }
}

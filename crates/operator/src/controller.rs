//! Reconciles registries, `ClusterCache`s and interpreter configurations: maintains the finalizer,
//! applies the plan of all of them, writes the statuses.
//!
//! One reconcile runs at a time, so each status has one writer and needs no lock.

mod cluster_cache_status_writer;
mod cluster_caches;
mod former_locations;
mod interpreter_configurations;
mod observed_registry;
mod publish;
mod reconciler;
mod registry_watch;
mod repeated_failures;
mod status_writer;
mod unopened_locations;

use std::{sync::Arc, time::Duration};

use fleetdex_core::model::causes;
use fleetdex_crds::registry::{FINALIZER, ResourceRegistry};
use fleetdex_replicas::Assignment;
use futures::StreamExt;
pub use interpreter_configurations::ConfigMapName;
use kube::{
    Api, ResourceExt,
    runtime::{
        Controller,
        controller::{self, Action, Config},
        reflector::Store,
        watcher,
    },
};
use publish::exchange_reports;
use reconciler::{
    COMPLETENESS_INTERVAL, ControllerState, PlanInputs, Reconciler, RegistryVersion, registry_view,
};
pub use reconciler::{ControllerContext, Publish, ReconcileError};
use tokio::{sync::watch, task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;
use unopened_locations::unopened_locations;

use super::{RegistryView, karmada, members::MemberStates, store_locations::StoreLocations};
use crate::replica_report::ReplicaReports;

/// Changes within this time are handled by one reconcile.
const DEBOUNCE: Duration = Duration::from_millis(50);
/// How long nothing is updated after an update, as a multiple of the time that it took: with
/// hundreds of thousands of streams an update takes hundreds of milliseconds, and in such a fleet
/// something changes all the time.
const PAUSE_RATIO: u32 = 4;
/// How often the streams are maintained when nothing changes.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(5);
/// The same while clusters are handed over to another replica, which waits until their writes are
/// acknowledged.
const HANDOVER_INTERVAL: Duration = Duration::from_millis(200);
/// The delay after a failed reconcile of a registry.
const RECONCILE_RETRY: Duration = Duration::from_secs(5);
/// The readiness check of the custom resources.
const CHECK: &str = "custom resources";

/// Runs until cancelled, then stops every stream and writes what is left.
pub async fn run(context: ControllerContext, owner: String, cancel: CancellationToken) {
    context
        .readiness
        .not_ready(CHECK, "ResourceRegistry objects have not been read yet");
    let controller = Controller::new(
        Api::<ResourceRegistry>::all(context.control_plane.clone()),
        watcher::Config::default(),
    );
    let mut tasks = JoinSet::new();
    let reconciler = Arc::new(Reconciler::new(
        context,
        owner,
        controller.store(),
        &mut tasks,
    ));
    let (updated, triggers_from) = watch::channel(());
    start_tasks(&reconciler, updated, &mut tasks);
    let reconciles =
        controller
            .with_config(Config::default().concurrency(1).debounce(DEBOUNCE))
            .reconcile_all_on(triggers(triggers_from))
            .run(
                |registry, reconciler: Arc<Reconciler>| async move {
                    reconciler.reconcile(&registry).await
                },
                |_, error, reconciler| {
                    let error = causes(error);
                    if reconciler.failures.is_due(&error) {
                        tracing::warn!(%error, "cannot reconcile a registry; it is retried");
                    }
                    Action::requeue(RECONCILE_RETRY)
                },
                Arc::clone(&reconciler),
            )
            .for_each(|reconciled| {
                if let Err(controller::Error::QueueError(error)) = &reconciled {
                    reconciler.registries_unreadable(error);
                }
                std::future::ready(())
            });
    let all_read = async {
        wait_until_read(&reconciler.registries).await;
        reconciler.context.readiness.ready(CHECK);
    };
    // Not the controller's graceful shutdown, which waits for the control plane: a control plane
    // that does not respond must not keep the process from ending.
    cancel
        .run_until_cancelled(async { tokio::join!(reconciles, all_read) })
        .await;
    tasks.shutdown().await;
    // A reconcile that was running is a task of the controller, which ends some time after it was
    // aborted and may still hold the lock. It gets no further while the lock is held here.
    reconciler.state.lock().await.supervisor.shut_down().await;
}

/// Starts what runs beside the reconciles.
fn start_tasks(reconciler: &Arc<Reconciler>, updated: watch::Sender<()>, tasks: &mut JoinSet<()>) {
    let context = &reconciler.context;
    context.sources.start(tasks);
    let webhooks = context.webhooks.queue.clone();
    // Aborted with the other tasks.
    tasks.spawn(async move { webhooks.run(CancellationToken::new()).await });
    tasks.spawn(karmada::watch_search(
        context.control_plane.clone(),
        context.readiness.clone(),
        Arc::clone(&reconciler.recorder),
    ));
    if let Some(reports) = ReplicaReports::of(&context.replicas) {
        tasks.spawn(exchange_reports(Arc::clone(reconciler), reports));
    }
    tasks.spawn(update_on_changes(Arc::clone(reconciler), updated));
    tasks.spawn(Arc::clone(reconciler).write_cache_statuses());
}

/// Waits until a reflector has completed its first list.
///
/// Polls repeatedly: of several tasks that wait for one store of kube 5.0, only the one that polled
/// last is woken.
async fn wait_until_read<K>(store: &Store<K>)
where
    K: kube::runtime::reflector::Lookup + Clone + 'static,
    K::DynamicType: std::hash::Hash + Eq + Clone + Default,
{
    while tokio::time::timeout(DEBOUNCE, store.wait_until_ready())
        .await
        .is_err()
    {}
}

/// Updates the streams after every change of a member or of what runs, and notifies `updated` each
/// time.
///
/// This is a task of its own: the controller does not poll its triggers while a reconcile runs, and
/// both need the state.
async fn update_on_changes(reconciler: Arc<Reconciler>, updated: watch::Sender<()>) {
    let mut members = reconciler.context.clusters.changed();
    let mut interval = HANDOVER_INTERVAL;
    loop {
        tokio::select! {
            biased;
            result = members.changed() => if result.is_err() { return },
            () = reconciler.context.changed.notified() => {}
            // Some things change with time alone, such as a revision that has waited long enough.
            () = tokio::time::sleep(interval) => {}
        }
        // Members often change together, as when many connect at the start.
        tokio::time::sleep(pause_after(reconciler.spent.take())).await;
        let mut state = reconciler.state.lock().await;
        let started = Instant::now();
        reconciler.update_streams(&mut state).await;
        interval = match (
            reconciler.hand_over(&mut state).await,
            state.publication_is_due || state.supervisor.has_delays(),
        ) {
            (false, _) => HANDOVER_INTERVAL,
            (true, true) => COMPLETENESS_INTERVAL,
            (true, false) => MAINTENANCE_INTERVAL,
        };
        reconciler.spent.add(started.elapsed());
        drop(state);
        updated.send_replace(());
    }
}

/// How long to wait for further changes after updates that took this long together.
fn pause_after(spent: Duration) -> Duration {
    (spent * PAUSE_RATIO).clamp(DEBOUNCE, MAINTENANCE_INTERVAL)
}

/// One item for every change that the statuses of the registries may show.
fn triggers(updated: watch::Receiver<()>) -> impl futures::Stream<Item = ()> + Send + 'static {
    futures::stream::unfold(updated, |mut updated| async move {
        updated.changed().await.ok()?;
        Some(((), updated))
    })
}

impl Reconciler {
    /// Makes what runs match the registries, the clusters and what these serve.
    async fn update_streams(&self, state: &mut ControllerState) -> MemberStates {
        // Planning needs complete inputs: what is not planned is deleted. A source of clusters that
        // cannot be read differs from one without clusters.
        self.context.sources.wait_for_initial_sync().await;
        wait_until_read(&self.registries).await;
        self.interpreter_configurations.wait_until_read().await;
        let is_leader = self.context.replicas.assignment().is_leader();
        // A registry that arrives from here on is planned by the next update, which records its
        // location first.
        let registries = self.registries.state();
        self.update_locations(state, &registries, is_leader);
        // Documents go to a new location only after the status records it; otherwise a restart
        // would forget it.
        if is_leader {
            match self.record_locations(state, &registries).await {
                Ok(true) => {}
                // The newer version of a registry is about to arrive here.
                Ok(false) => return state.members.clone(),
                Err(error) => {
                    let error = causes(&error);
                    if self.failures.is_due(&error) {
                        tracing::warn!(%error, "cannot record the store locations of registries; changes of the registries take effect once that succeeds");
                    }
                    return state.members.clone();
                }
            }
        }
        // A store opens after the streams of the registries that were deleted before it opened are
        // stopped.
        let unopened = unopened_locations(state, &registries);
        self.opening_gate.close(&unopened);
        let members = self
            .update_planned_streams(state, &registries, is_leader)
            .await;
        self.opening_gate.open_others(&unopened);
        members
    }

    /// Makes what runs match the registries, whose store locations are recorded.
    async fn update_planned_streams(
        &self,
        state: &mut ControllerState,
        registries: &[Arc<ResourceRegistry>],
        is_leader: bool,
    ) -> MemberStates {
        state
            .supervisor
            .set_peer_completeness(Arc::clone(&self.peer_completeness.lock()));
        let plan_inputs = self.plan_inputs(state, registries);
        self.context
            .metrics
            .set_replicas(plan_inputs.assignment.alive_count());
        if state.inputs.as_ref() == Some(&plan_inputs) && !state.supervisor.needs_reapply() {
            state.supervisor.maintain();
            self.publish_completeness(state);
            self.count_units(state);
            return state.members.clone();
        }
        let indexed = state.supervisor.identities();
        let planned = state.supervisor.planned_clusters();
        let members = state
            .member_reconciler
            .update(
                plan_inputs.assignment.is_leader(),
                indexed.as_ref(),
                &planned,
            )
            .await;
        self.apply(
            state,
            registries,
            &members,
            &plan_inputs.assignment,
            is_leader,
        )
        .await;
        state.inputs = Some(plan_inputs);
        state.members.clone_from(&members);
        self.count_units(state);
        members
    }

    fn plan_inputs(
        &self,
        state: &ControllerState,
        registries: &[Arc<ResourceRegistry>],
    ) -> PlanInputs {
        let registry = |registry: &Arc<ResourceRegistry>| {
            (
                registry.name_any(),
                RegistryVersion {
                    generation: registry.metadata.generation,
                    is_leaving: registry.metadata.deletion_timestamp.is_some(),
                    is_recorded: registry.status.is_some(),
                },
            )
        };
        PlanInputs {
            members: *self.context.clusters.changed().borrow(),
            sources: self.context.sources.version(),
            compared: state.member_reconciler.duplicates.version(),
            registries: registries.iter().map(registry).collect(),
            caches: self.caches.generations(),
            rules: self.interpreter_configurations.version(),
            open_stores: state.supervisor.open_stores(),
            rebuilding: state.supervisor.rebuilding(),
            streams_missing_fields: state.supervisor.streams_missing_fields(),
            locations: state.locations.clone(),
            live_clusters: state.supervisor.live_clusters(),
            recalled_clusters: state.supervisor.recalled_clusters(),
            assignment: self.context.replicas.assignment(),
        }
    }

    async fn reconcile(&self, registry: &ResourceRegistry) -> Result<Action, ReconcileError> {
        let mut state = self.state.lock().await;
        let started = Instant::now();
        let reconciled = self.reconcile_with(&mut state, registry).await;
        self.spent.add(started.elapsed());
        reconciled
    }

    async fn reconcile_with(
        &self,
        state: &mut ControllerState,
        registry: &ResourceRegistry,
    ) -> Result<Action, ReconcileError> {
        let members = self.update_streams(state).await;
        if !state
            .inputs
            .as_ref()
            .is_some_and(|inputs| inputs.assignment.is_leader())
        {
            return Ok(Action::await_change());
        }
        let name = registry.name_any();
        let deleting = registry.metadata.deletion_timestamp.is_some();
        let has_finalizer = registry
            .finalizers()
            .iter()
            .any(|finalizer| finalizer == FINALIZER);
        match (deleting, has_finalizer) {
            (true, true) => {
                if self.may_remove_finalizer(state, registry) {
                    self.set_finalizer(registry, false).await?;
                    state.written.remove(&name);
                    return Ok(Action::await_change());
                }
            }
            (true, false) => return Ok(Action::await_change()),
            (false, false) => self.set_finalizer(registry, true).await?,
            (false, true) => {}
        }
        self.write_status(state, registry, &members).await
    }

    async fn apply(
        &self,
        state: &mut ControllerState,
        registries: &[Arc<ResourceRegistry>],
        members: &MemberStates,
        assignment: &Assignment,
        is_leader: bool,
    ) {
        let (leaving, live): (Vec<_>, Vec<_>) = registries
            .iter()
            .partition(|registry| registry.metadata.deletion_timestamp.is_some());
        let view = |registries: Vec<&Arc<ResourceRegistry>>| -> Vec<RegistryView> {
            registries
                .iter()
                .map(|registry| registry_view(registry))
                .collect()
        };
        // The leader records the location of a new registry; before that no replica may write to it.
        let recorded = live
            .into_iter()
            .filter(|registry| is_leader || registry.status.is_some())
            .collect();
        let live: Vec<RegistryView> = view(recorded)
            .into_iter()
            .chain(self.caches.views())
            .collect();
        let mut locations = StoreLocations::default();
        for registry in registries {
            for location in state
                .locations
                .get(&registry.uid().unwrap_or_default())
                .into_iter()
                .flatten()
            {
                locations.add_recorded(location, &registry.name_any());
            }
        }
        state.supervisor.record_locations(locations);
        state
            .supervisor
            .set_knows_all_members(members.unread_sources.is_empty());
        state
            .supervisor
            .set_rules(self.interpreter_configurations.rules());
        state
            .supervisor
            .reconcile(&live, &view(leaving), &members.states, assignment)
            .await;
        self.publish(state, &members.states);
    }

    /// Hands over the clusters that are assigned to other replicas now, and announces to them when
    /// nothing of these clusters is in flight any more. Returns whether that is done.
    async fn hand_over(&self, state: &mut ControllerState) -> bool {
        if let Some(PlanInputs {
            assignment: Assignment::SingleReplica,
            ..
        }) = &state.inputs
        {
            return true;
        }
        let is_done = state.supervisor.hand_over().await;
        if let Some(plan_inputs) = state.inputs.as_ref().filter(|_| is_done) {
            self.context
                .replicas
                .announce_released(&plan_inputs.assignment);
        }
        is_done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_updates_are_followed_by_long_pauses() {
        assert_eq!(pause_after(Duration::ZERO), DEBOUNCE);
        assert_eq!(
            pause_after(Duration::from_millis(300)),
            Duration::from_millis(1_200)
        );
        assert_eq!(pause_after(Duration::from_mins(1)), MAINTENANCE_INTERVAL);
    }
}

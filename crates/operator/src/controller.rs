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
mod stream_updates;
mod unopened_locations;

use std::{sync::Arc, time::Duration};

use fleetdex_core::model::causes;
use fleetdex_crds::registry::{FINALIZER, ResourceRegistry};
use futures::StreamExt;
pub use interpreter_configurations::ConfigMapName;
use kube::{
    Api, ResourceExt,
    runtime::{
        Controller,
        controller::{self, Action, Config},
        watcher,
    },
};
use publish::exchange_reports;
use reconciler::{COMPLETENESS_INTERVAL, ControllerState, Reconciler};
pub use reconciler::{ControllerContext, Publish, ReconcileError};
use tokio::{sync::watch, task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;

use super::karmada;
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
        reconciler.registries_read().await;
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
        let spent = std::mem::take(&mut *reconciler.spent.lock());
        tokio::time::sleep(pause_after(spent)).await;
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
        *reconciler.spent.lock() += started.elapsed();
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
    async fn reconcile(&self, registry: &ResourceRegistry) -> Result<Action, ReconcileError> {
        let mut state = self.state.lock().await;
        let started = Instant::now();
        let reconciled = self.reconcile_with(&mut state, registry).await;
        *self.spent.lock() += started.elapsed();
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

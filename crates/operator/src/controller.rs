//! Reconciles registries (and caches): keeps the finalizer, applies the plan of all of them, writes the status.
//!
//! One reconcile at a time, so that there is one writer of each status and nothing to lock.

mod cache_status;
mod caches;
mod left_places;
mod publish;
mod reconciler;
mod status;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use caches::Caches;
use fleetdex_api::registry::{FINALIZER, ResourceRegistry};
use fleetdex_clusters::source::Twins;
use fleetdex_core::model::causes;
use futures::StreamExt;
use kube::{
    Api, ResourceExt,
    runtime::{
        Controller,
        controller::{Action, Config},
        events::{Recorder, Reporter},
        reflector::Store,
        watcher,
    },
};
use parking_lot::Mutex as StdMutex;
use publish::exchange_reports;
pub use reconciler::{Context, Publish, ReconcileError};
use reconciler::{GAPS_INTERVAL, Reconciler, Seen, State, registry_view};
use tokio::{
    sync::{Mutex, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::{
    FIELD_MANAGER, RegistryView,
    fleet::Fleet,
    karmada,
    members::{Members, Roster},
    places::Places,
    stores,
};
use crate::replicas::{Share, report::Reports};

/// Changes that come within this time are answered by one reconcile.
const DEBOUNCE: Duration = Duration::from_millis(50);
/// How often what runs is looked after when nothing changes.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// The same while the writes of a share that goes to another replica are still under way: that one waits for it.
const HANDOVER_LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// After a failed write of a registry.
const RETRY: Duration = Duration::from_secs(5);
/// Readiness check for the custom resources.
const CHECK: &str = "custom resources";

/// Runs until cancelled, then stops every stream and writes what is left.
pub async fn run(context: Context, owner: String, cancel: CancellationToken) {
    let hub = context.hub.clone();
    context
        .readiness
        .not_ready(CHECK, "ResourceRegistry objects have not been read yet");
    let mut tasks = JoinSet::new();
    context.sources.start(&mut tasks);
    let controller = Controller::new(
        Api::<ResourceRegistry>::all(hub.clone()),
        watcher::Config::default(),
    );
    let (hosts, contexts) = (context.secret_hosts.clone(), context.list_contexts);
    let opener = stores::opener(
        Some(hub.clone()),
        hosts,
        owner,
        context.memory.clone(),
        contexts,
    );
    let mut fleet = Fleet::new(
        opener,
        Arc::clone(&context.metrics),
        Arc::clone(&context.changed),
    );
    fleet = fleet.behind(context.replicas.fence());
    if let Some(interval) = context.audit_interval {
        fleet = fleet.audit_every(interval);
    }
    let recorder = Arc::new(Recorder::new(
        hub.clone(),
        Reporter {
            controller: FIELD_MANAGER.to_owned(),
            instance: None,
        },
    ));
    tasks.spawn(karmada::watch_search(
        hub,
        context.readiness.clone(),
        Arc::clone(&recorder),
    ));
    let reconciler = Arc::new(Reconciler {
        registries: controller.store(),
        caches: Caches::watch(&context.hub, &context.changed, &mut tasks),
        recorder,
        state: Mutex::new(State {
            fleet,
            roster: roster(&context),
            members: Members::default(),
            inputs: None,
            written: BTreeMap::new(),
            places: BTreeMap::new(),
            recorded: BTreeMap::new(),
            led: false,
            published: None,
            gaps_are_due: false,
        }),
        reports: StdMutex::default(),
        gaps: StdMutex::default(),
        context,
    });
    if let Some(reports) = Reports::of(&reconciler.context.replicas) {
        tasks.spawn(exchange_reports(Arc::clone(&reconciler), reports));
    }
    let all_read = async {
        until_read(&reconciler.registries).await;
        reconciler.context.readiness.ready(CHECK);
    };
    let (followed, triggers_from) = watch::channel(());
    tasks.spawn(follow_changes(Arc::clone(&reconciler), followed));
    tasks.spawn(Arc::clone(&reconciler).write_cache_statuses());
    let reconciles =
        controller
            .with_config(Config::default().concurrency(1).debounce(DEBOUNCE))
            .reconcile_all_on(triggers(triggers_from))
            .run(
                |registry, reconciler: Arc<Reconciler>| async move {
                    reconciler.reconcile(&registry).await
                },
                |_, error, _| {
                    tracing::warn!(error = %causes(error), "a reconcile failed");
                    Action::requeue(RETRY)
                },
                Arc::clone(&reconciler),
            )
            .for_each(|_| std::future::ready(()));
    // Not the controller's graceful shutdown, which waits for the control plane: one that does not answer must not keep the
    // process from ending.
    cancel
        .run_until_cancelled(async { tokio::join!(reconciles, all_read) })
        .await;
    tasks.shutdown().await;
    // A reconcile that was under way is a task of the controller's, which ends some time after it has been aborted: it may still hold the state. It
    // gets no further, as long as the lock is held here.
    reconciler.state.lock().await.fleet.shut_down().await;
}

/// Waits until a reflector has read everything once.
///
/// Asks again and again: of several tasks that wait for one store of kube 5.0, only the one that asked last is woken.
async fn until_read<K>(store: &Store<K>)
where
    K: kube::runtime::reflector::Lookup + Clone + 'static,
    K::DynamicType: std::hash::Hash + Eq + Clone + Default,
{
    while tokio::time::timeout(DEBOUNCE, store.wait_until_ready())
        .await
        .is_err()
    {}
}

/// Lets the fleet follow every change of a member or of what runs, and tells `followed` each time.
///
/// A task of its own: the controller does not poll its triggers while a reconcile runs, and both need the state.
async fn follow_changes(reconciler: Arc<Reconciler>, followed: watch::Sender<()>) {
    let mut members = reconciler.context.clusters.changed();
    let mut look_interval = HANDOVER_LOOK_INTERVAL;
    loop {
        tokio::select! {
            biased;
            result = members.changed() => if result.is_err() { return },
            () = reconciler.context.changed.notified() => {}
            // Some things change by nothing happening, such as a generation that has waited long enough.
            () = tokio::time::sleep(look_interval) => {}
        }
        // Members often change together, as when many connect at the start.
        tokio::time::sleep(DEBOUNCE).await;
        let mut state = reconciler.state.lock().await;
        reconciler.follow(&mut state).await;
        look_interval = match (reconciler.let_go(&mut state).await, state.gaps_are_due) {
            (false, _) => HANDOVER_LOOK_INTERVAL,
            (true, true) => GAPS_INTERVAL,
            (true, false) => LOOK_INTERVAL,
        };
        drop(state);
        followed.send_replace(());
    }
}

/// One item for every change that the registries' status should answer.
fn triggers(followed: watch::Receiver<()>) -> impl futures::Stream<Item = ()> + Send + 'static {
    futures::stream::unfold(followed, |mut followed| async move {
        followed.changed().await.ok()?;
        Some(((), followed))
    })
}

impl Reconciler {
    /// Makes what runs follow the registries, the clusters and what these serve.
    async fn follow(&self, state: &mut State) -> Members {
        // Nothing may be planned from half of the truth: what is not planned is removed. A source of clusters that cannot be read is told
        // from one that has none.
        self.context.sources.settled().await;
        until_read(&self.registries).await;
        let leads = self.context.replicas.share().leads();
        self.note_places(state, leads);
        // Nothing is written to a place that would be forgotten if this process ended.
        if leads && let Err(error) = self.record_places(state).await {
            tracing::warn!(error = %causes(&error), "where documents go could not be recorded; what the registries say is put into effect once it is");
            return state.members.clone();
        }
        state.fleet.hear(Arc::clone(&self.gaps.lock()));
        let seen = self.seen(state);
        self.context.metrics.set_replicas(seen.share.alive());
        if state.inputs.as_ref() == Some(&seen) && !state.fleet.has_lost() {
            state.fleet.look_after();
            self.publish_gaps(state);
            self.count_units(state);
            return state.members.clone();
        }
        let established = state.fleet.identities();
        let planned = state.fleet.planned_clusters();
        let members = state
            .roster
            .update(seen.share.leads(), established.as_ref(), &planned)
            .await;
        self.apply(state, &members, &seen.share).await;
        state.inputs = Some(seen);
        state.members.clone_from(&members);
        self.count_units(state);
        members
    }

    fn seen(&self, state: &State) -> Seen {
        let registries = self.registries.state();
        let registry = |registry: &Arc<ResourceRegistry>| {
            (
                registry.name_any(),
                (
                    registry.metadata.generation,
                    registry.metadata.deletion_timestamp.is_some(),
                ),
            )
        };
        Seen {
            members: *self.context.clusters.changed().borrow(),
            sources: self.context.sources.version(),
            compared: state.roster.twins.version(),
            registries: registries.iter().map(registry).collect(),
            caches: self.caches.generations(),
            open_stores: state.fleet.open_stores(),
            rebuilding: state.fleet.rebuilding(),
            unfilled: state.fleet.unfilled(),
            places: state.places.clone(),
            arrived: state.fleet.arrived(),
            remembered: state.fleet.remembered(),
            share: self.context.replicas.share(),
        }
    }

    async fn reconcile(&self, registry: &ResourceRegistry) -> Result<Action, ReconcileError> {
        let mut state = self.state.lock().await;
        let members = self.follow(&mut state).await;
        if !state.inputs.as_ref().is_some_and(|seen| seen.share.leads()) {
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
                if self.may_go(&state, registry) {
                    self.set_finalizer(registry, false).await?;
                    state.written.remove(&name);
                    return Ok(Action::await_change());
                }
            }
            (true, false) => return Ok(Action::await_change()),
            (false, false) => self.set_finalizer(registry, true).await?,
            (false, true) => {}
        }
        self.write_status(&mut state, registry, &members).await
    }

    async fn apply(&self, state: &mut State, members: &Members, share: &Share) {
        let (leaving, live): (Vec<_>, Vec<_>) = self
            .registries
            .state()
            .into_iter()
            .partition(|registry| registry.metadata.deletion_timestamp.is_some());
        let view = |registries: Vec<Arc<ResourceRegistry>>| -> Vec<RegistryView> {
            registries
                .iter()
                .map(|registry| registry_view(registry))
                .collect()
        };
        let live: Vec<RegistryView> = view(live).into_iter().chain(self.caches.views()).collect();
        let mut places = Places::default();
        for registry in self.registries.state() {
            for place in state
                .places
                .get(&registry.uid().unwrap_or_default())
                .into_iter()
                .flatten()
            {
                places.remember(place, &registry.name_any());
            }
        }
        state.fleet.remember(places);
        state.fleet.know_all_members(members.unread.is_empty());
        state
            .fleet
            .follow(&live, &view(leaving), &members.states, share)
            .await;
        self.publish(state, &members.states);
    }

    /// Tells the other replicas when nothing is under way any more of what goes to them. Whether that is so.
    async fn let_go(&self, state: &mut State) -> bool {
        if let Some(Seen {
            share: Share::Whole,
            ..
        }) = &state.inputs
        {
            return true;
        }
        let is_done = state.fleet.let_go().await;
        if let Some(seen) = state.inputs.as_ref().filter(|_| is_done) {
            self.context.replicas.has_let_go(&seen.share);
        }
        is_done
    }
}

fn roster(context: &Context) -> Roster {
    Roster {
        hub: context.hub.clone(),
        clusters: Arc::clone(&context.clusters),
        sources: Arc::clone(&context.sources),
        metrics: Arc::clone(&context.metrics),
        writes_cluster_status: context.writes_cluster_status,
        twins: Twins::new(Arc::clone(&context.changed)),
        known: BTreeSet::new(),
    }
}

//! Reconciles registries (and caches): keeps the finalizer, applies the plan of all of them, writes the status.
//!
//! One reconcile at a time, so that there is one writer of each status and nothing to lock.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::StreamExt;
use k8s_openapi::{api::core::v1::ObjectReference, jiff::Timestamp};
use kube::{
    Api, Client, Resource as _, ResourceExt,
    api::{Patch, PatchParams},
    runtime::{
        Controller,
        controller::{Action, Config},
        events::{Event, EventType, Recorder, Reporter},
        reflector::Store,
        watcher,
    },
};
use serde_json::json;
use tokio::{
    sync::{Mutex, Notify, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::{
    RegistryView,
    fleet::Fleet,
    gaps::{Gap, ShareGaps},
    karmada,
    members::{Members, Roster},
    places::Places,
    plan::{Plan, RegistryPlan, Stream, place, plan},
    status::{Access, Inputs, MemberHealth, OldPlace, is_news, status},
    stores,
};
use crate::{
    api::registry::{
        FINALIZER, ORPHAN_ANNOTATION, OpenSearch, ResourceRegistry, ResourceRegistryStatus,
        StoreStatus,
    },
    cluster::{
        Clusters, MemberState, Phase,
        source::{Sources, Twins},
    },
    model::{ClusterName, IndexPrefix, StoreName, Unit, causes},
    pipeline::Pipeline,
    replicas::{
        ReplicaName, Replicas, Report, Share,
        report::{Heard, Reports, cluster_key, stream_key, unit_views},
    },
    secret_hosts::SecretHosts,
    store::memory::Memory,
    sync::progress::{Progress, UnitState},
    telemetry::{
        Readiness,
        metrics::{Metrics, UnitPhase},
    },
};

mod caches;

use caches::{CacheName, Caches};

/// Names the fields of objects that Fleetdex writes.
const FIELD_MANAGER: &str = "fleetdex";
/// Changes that come within this time are answered by one reconcile.
const DEBOUNCE: Duration = Duration::from_millis(50);
/// The status counts objects; while they change it is written this often.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);
/// How often what answers lack is made known while it changes: with 100,000 streams that takes some hundred milliseconds.
const GAPS_INTERVAL: Duration = Duration::from_secs(1);
/// How often what runs is looked after when nothing changes.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// The same while the writes of a share that goes to another replica are still under way: that one waits for it.
const HANDOVER_LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// How often a replica makes known how far its share is, if that has changed.
const REPORT_INTERVAL: Duration = Duration::from_secs(2);
/// After a failed write of a registry.
const RETRY: Duration = Duration::from_secs(5);
/// Readiness check for the custom resources.
const CHECK: &str = "custom resources";

/// What the outside may see of the plan that runs.
pub trait Publish: Send + Sync {
    /// A plan has been applied, or the state of a member has changed.
    fn publish(&self, plan: &Plan, fleet: &Fleet, members: &BTreeMap<ClusterName, MemberState>);
}

/// What the controller needs.
pub struct Context {
    /// The control plane.
    pub hub: Client,
    /// The members.
    pub clusters: Arc<Clusters>,
    /// Where the Secrets of stores may be sent.
    pub secret_hosts: SecretHosts,
    /// The embedded store.
    pub memory: Memory,
    /// Contexts of points in time that users may hold together of each OpenSearch.
    pub list_contexts: u64,
    /// Where they come from.
    pub sources: Arc<Sources>,
    /// Where what runs is made known to the query server.
    pub publish: Arc<dyn Publish>,
    /// Counts.
    pub metrics: Arc<Metrics>,
    /// Whether the operator can work.
    pub readiness: Readiness,
    /// Whether the status of `Cluster` objects is ours to write, because no Karmada does.
    pub writes_cluster_status: bool,
    /// Notified by everything that changes a status.
    pub changed: Arc<Notify>,
    /// How often every kind of every member is audited; absent: never.
    pub audit_interval: Option<Duration>,
    /// Those that share the members.
    pub replicas: Replicas,
}

/// A reconcile failed and is repeated.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// The registry could not be changed.
    #[error("cannot write ResourceRegistry {name}")]
    Write {
        /// The registry.
        name: String,
        /// What the control plane said.
        source: Box<kube::Error>,
    },
}

struct Reconciler {
    context: Context,
    registries: Store<ResourceRegistry>,
    caches: Caches,
    recorder: Arc<Recorder>,
    state: Mutex<State>,
    /// What the other replicas know of their shares; read by the leader alone.
    reports: StdMutex<Arc<BTreeMap<ReplicaName, Report>>>,
    /// What the other replicas say that answers lack.
    gaps: StdMutex<Arc<BTreeMap<ReplicaName, ShareGaps>>>,
}

struct State {
    fleet: Fleet,
    roster: Roster,
    members: Members,
    inputs: Option<Seen>,
    /// What was last written, and when, for each registry.
    written: BTreeMap<String, (ResourceRegistryStatus, std::time::Instant)>,
    /// Where documents of each registry may be, by its UID.
    places: BTreeMap<String, Vec<StoreStatus>>,
    /// Those that have been written into the status of the registry.
    recorded: BTreeMap<String, Vec<StoreStatus>>,
    /// Whether this replica led when `places` was last brought up to date, so that nobody else has written them since.
    led: bool,
    /// What answers lack as it was last made known, and when.
    published: Option<(BTreeMap<Stream, Gap>, std::time::Instant)>,
    /// Whether that has changed since.
    gaps_are_due: bool,
}

/// What a plan is made from, by version: while it is the same, there is nothing to plan.
#[derive(PartialEq)]
struct Seen {
    members: u64,
    sources: u64,
    /// How often it turned out whether two members are one cluster.
    compared: u64,
    registries: BTreeMap<String, (Option<i64>, bool)>,
    caches: BTreeMap<CacheName, Option<i64>>,
    open_stores: BTreeSet<StoreName>,
    rebuilding: BTreeSet<(StoreName, ClusterName)>,
    unfilled: BTreeSet<Stream>,
    /// Where documents of each registry may be.
    places: BTreeMap<String, Vec<StoreStatus>>,
    arrived: Option<BTreeSet<(StoreName, ClusterName)>>,
    remembered: usize,
    share: Share,
}

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

/// The stores of which some first list is under way.
fn first_lists(gaps: &BTreeMap<Stream, Gap>) -> BTreeSet<&StoreName> {
    gaps.iter()
        .filter(|(_, gap)| **gap == Gap::FirstList)
        .map(|(stream, _)| &stream.store)
        .collect()
}

/// Makes what this replica knows of its share known to the others: to the leader what the status needs, to all of them what answers lack.
async fn exchange_reports(reconciler: Arc<Reconciler>, mut reports: Reports) {
    loop {
        let (report, gaps) = {
            let state = reconciler.state.lock().await;
            (reconciler.report(&state), state.fleet.share_gaps())
        };
        if let Err(error) = reports.write(report, gaps).await {
            tracing::debug!(error = %causes(&error), "the report of this replica was not written; the next attempt follows");
        }
        let read = if reconciler.context.replicas.share().leads() {
            reports.read().await.map(|Heard { reports, gaps }| {
                reconciler.take(&reconciler.reports, reports);
                gaps
            })
        } else {
            reports.read_gaps().await
        };
        match read {
            Ok(gaps) => reconciler.take(&reconciler.gaps, gaps),
            Err(error) => {
                tracing::debug!(error = %causes(&error), "the reports of the other replicas were not read")
            }
        }
        tokio::time::sleep(REPORT_INTERVAL).await;
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
        state.fleet.hear(Arc::clone(&lock(&self.gaps)));
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

    /// Brings up to date where documents of each registry may be: where it says now, and where it said before until nothing is left there.
    fn note_places(&self, state: &mut State, leads: bool) {
        let mut places = BTreeMap::new();
        for registry in self.registries.state() {
            let uid = registry.uid().unwrap_or_default();
            let known = state
                .places
                .get(&uid)
                .filter(|_| leads && state.led)
                .cloned();
            let recorded = || {
                registry
                    .status
                    .as_ref()
                    .map(|status| status.stores.clone())
                    .unwrap_or_default()
            };
            let mut known = known.unwrap_or_else(recorded);
            let current = place(&registry.spec);
            let is_current =
                |name: &str| current.as_ref().is_some_and(|current| current.name == name);
            known.retain(|place| {
                !is_current(&place.name) && !self.is_done_with(state, &registry, place)
            });
            known.extend(current.clone());
            known.sort_by(|left, right| left.name.cmp(&right.name));
            places.insert(uid, known);
        }
        state.recorded.retain(|uid, _| places.contains_key(uid));
        state.places = places;
        state.led = leads;
    }

    /// Whether a place that a registry names no more holds nothing of it, for all replicas, or is given up because it cannot be reached.
    fn is_done_with(
        &self,
        state: &State,
        registry: &ResourceRegistry,
        place: &StoreStatus,
    ) -> bool {
        let Ok(name) = place.name.parse::<StoreName>() else {
            return true;
        };
        let is_unreachable = || {
            matches!(
                state.fleet.pipeline(&name).and_then(Pipeline::availability),
                Some(Err(_))
            )
        };
        if is_given_up(registry) && is_unreachable() {
            tracing::warn!(registry = %registry.name_any(), store = %name, "documents that cannot be deleted are given up");
            return true;
        }
        if !state.fleet.has_left(&registry.name_any(), &name) {
            return false;
        }
        state.fleet.is_in_use(&name) || self.have_others_swept(state, place.name.as_str())
    }

    /// Whether all other replicas have reported that something is swept.
    fn have_others_swept(&self, state: &State, what: &str) -> bool {
        let Some(group) = state
            .inputs
            .as_ref()
            .and_then(|seen| seen.share.settled_group())
        else {
            return false;
        };
        let reports = lock(&self.reports);
        let is_swept_by = |name: &ReplicaName| {
            reports
                .get(name)
                .is_some_and(|report| report.group == group && report.swept.contains(what))
        };
        self.context.replicas.others().iter().all(is_swept_by)
    }

    /// Writes into the status of each registry where its documents may be, unless it is there.
    async fn record_places(&self, state: &mut State) -> Result<(), ReconcileError> {
        for registry in self
            .registries
            .state()
            .iter()
            .filter(|registry| registry.metadata.deletion_timestamp.is_none())
        {
            let uid = registry.uid().unwrap_or_default();
            let Some(places) = state.places.get(&uid) else {
                continue;
            };
            let before = registry.status.clone().unwrap_or_default();
            let is_new = |place: &StoreStatus| !before.stores.contains(place);
            let is_recorded = || {
                state
                    .recorded
                    .get(&uid)
                    .is_some_and(|recorded| places.iter().all(|place| recorded.contains(place)))
            };
            if !places.iter().any(is_new) || is_recorded() {
                continue;
            }
            let places = places.clone();
            self.patch_status(
                registry,
                &ResourceRegistryStatus {
                    stores: places.clone(),
                    ..before
                },
            )
            .await?;
            state.recorded.insert(uid, places);
        }
        Ok(())
    }

    fn count_units(&self, State { fleet, members, .. }: &State) {
        // Also of clusters that have no stream here any more.
        let none = members
            .states
            .keys()
            .flat_map(|cluster| UnitPhase::ALL.map(|phase| ((cluster, phase), 0)));
        let mut counts: BTreeMap<(&ClusterName, UnitPhase), usize> = none.collect();
        for (Stream { unit, .. }, progress) in fleet.streams() {
            let phase = match progress.state() {
                UnitState::Starting | UnitState::Listing => UnitPhase::Listing,
                UnitState::Synced => UnitPhase::Watching,
                UnitState::Failing { reason, .. }
                    if matches!(&*reason, "Forbidden" | "NotServed" | "NotListable") =>
                {
                    UnitPhase::Failed
                }
                UnitState::Failing { .. } => UnitPhase::Waiting,
            };
            for known in UnitPhase::ALL {
                *counts.entry((&unit.cluster, known)).or_default() += usize::from(known == phase);
            }
        }
        for ((cluster, phase), count) in counts {
            self.context.metrics.set_units(cluster, phase, count);
        }
        let rejected = fleet.streams().map(|(stream, progress)| {
            let unit = &stream.unit;
            (&unit.cluster, &unit.resource.gvk, progress.rejected())
        });
        self.context.metrics.set_rejected(rejected);
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

    fn publish(&self, state: &mut State, members: &BTreeMap<ClusterName, MemberState>) {
        if let Some(plan) = state.fleet.plan() {
            self.context.publish.publish(plan, &state.fleet, members);
            state.published = Some((state.fleet.gaps(), std::time::Instant::now()));
            state.gaps_are_due = false;
        }
    }

    /// Makes known what answers lack if that has changed: at once when the first lists of a store are over, so that a registry that is ready has
    /// no more warnings, and otherwise not for each kind of a first sync by itself.
    fn publish_gaps(&self, state: &mut State) {
        let gaps = state.fleet.gaps();
        let Some((published, at)) = &state.published else {
            return;
        };
        let is_over = || {
            first_lists(published)
                .difference(&first_lists(&gaps))
                .next()
                .is_some()
        };
        state.gaps_are_due = *published != gaps;
        if state.gaps_are_due && (at.elapsed() >= GAPS_INTERVAL || is_over()) {
            let members = state.members.states.clone();
            self.publish(state, &members);
        }
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

    /// What this replica knows of its share.
    fn report(&self, state: &State) -> Report {
        let Some(share) = state.inputs.as_ref().map(|seen| &seen.share) else {
            return Report::default();
        };
        let fleet = &state.fleet;
        let units = unit_views(
            fleet
                .streams()
                .map(|(stream, progress)| (stream, progress.view())),
        );
        let members = &state.members;
        let own = || members.states.keys().filter(|name| share.keeps(name));
        let stores = || fleet.plan().into_iter().flat_map(|plan| plan.stores.keys());
        let live = own().flat_map(|name| stores().map(move |store| (store, name)));
        let registries = self.registries.state();
        let leaving = registries
            .iter()
            .filter(|registry| registry.metadata.deletion_timestamp.is_some());
        Report {
            units,
            live: live
                .filter(|(store, name)| fleet.is_live(store, name))
                .map(|(store, name)| cluster_key(store, name))
                .collect(),
            health: own()
                .filter_map(|name| Some((name.to_string(), member_health(members, name)?)))
                .collect(),
            group: share.settled_group().unwrap_or_default(),
            swept: leaving
                .filter(|registry| is_swept(state, registry))
                .filter_map(|registry| registry.uid())
                .chain(fleet.swept_places().map(ToString::to_string))
                .collect(),
        }
    }

    /// Keeps what has been read of the other replicas in place of what was read before.
    fn take<T: PartialEq>(&self, kept: &StdMutex<Arc<T>>, read: T) {
        let mut kept = lock(kept);
        if **kept != read {
            *kept = Arc::new(read);
            drop(kept);
            self.context.changed.notify_one();
        }
    }

    /// Whether a registry that is being deleted has nothing left to clean up, here and in the shares of the others.
    fn may_go(&self, state: &State, registry: &ResourceRegistry) -> bool {
        let uid = registry.uid().unwrap_or_default();
        is_given_up(registry) || is_swept(state, registry) && self.have_others_swept(state, &uid)
    }

    async fn set_finalizer(
        &self,
        registry: &ResourceRegistry,
        present: bool,
    ) -> Result<(), ReconcileError> {
        let name = registry.name_any();
        let others = registry
            .finalizers()
            .iter()
            .filter(|finalizer| *finalizer != FINALIZER)
            .cloned();
        let finalizers: Vec<String> = others
            .chain(present.then(|| FINALIZER.to_owned()))
            .collect();
        // The resource version keeps a finalizer that somebody else adds meanwhile.
        let patch = json!({ "metadata": { "finalizers": finalizers, "resourceVersion": registry.resource_version() } });
        let api = Api::<ResourceRegistry>::all(self.context.hub.clone());
        match api
            .patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
        {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            // A newer version of it is on its way here.
            Err(kube::Error::Api(status)) if status.is_conflict() => Ok(()),
            Err(source) => Err(ReconcileError::Write {
                name,
                source: Box::new(source),
            }),
        }
    }

    async fn write_status(
        &self,
        state: &mut State,
        registry: &ResourceRegistry,
        members: &Members,
    ) -> Result<Action, ReconcileError> {
        let name = registry.name_any();
        let Some(applied) = state.fleet.plan() else {
            return Ok(Action::await_change());
        };
        let alone;
        let registry_plan = match applied.registries.get(&name) {
            Some(plan) => plan,
            None => {
                alone = plan(&[registry_view(registry)], &[]);
                match alone.registries.get(&name) {
                    Some(plan) => plan,
                    None => return Ok(Action::await_change()),
                }
            }
        };
        let before = registry.status.clone().unwrap_or_default();
        let fleet = &state.fleet;
        let store = registry_plan
            .store
            .as_ref()
            .and_then(|store| fleet.pipeline(store))
            .and_then(Pipeline::availability);
        let store_plan = registry_plan
            .store
            .as_ref()
            .and_then(|store| applied.stores.get(store));
        let access = store_plan
            .and_then(|plan| plan.config.as_ref())
            .map_or(Access::Embedded, access);
        let now = Timestamp::now();
        let share = registry_plan
            .store
            .as_ref()
            .map_or(Share::Whole, |store| fleet.share_of(store));
        let reports = Arc::clone(&lock(&self.reports));
        let of_other =
            |cluster: &ClusterName| share.other_reader(cluster).map(|name| reports.get(name));
        let health = |cluster: &ClusterName| match of_other(cluster) {
            Some(report) => report.and_then(|report| report.health.get(cluster.as_str()).cloned()),
            None => member_health(members, cluster),
        };
        let live = |cluster: &ClusterName| {
            registry_plan
                .store
                .as_ref()
                .is_some_and(|store| match of_other(cluster) {
                    Some(report) => report
                        .is_some_and(|report| report.live.contains(&cluster_key(store, cluster))),
                    None => fleet.is_live(store, cluster),
                })
        };
        let progress = |unit: &Unit| {
            let stream = Stream {
                unit: unit.clone(),
                store: registry_plan.store.clone()?,
            };
            match of_other(&unit.cluster) {
                Some(report) => report?.units.get(&stream_key(&stream)).cloned(),
                None => fleet.progress(&stream).map(Progress::view),
            }
        };
        let sought = |unit: &Unit| {
            let store = registry_plan.store.clone()?;
            Some(
                applied
                    .units
                    .get(&Stream {
                        unit: unit.clone(),
                        store,
                    })?
                    .sought_by(&name, &unit.resource.gvk),
            )
        };
        let places = state
            .places
            .get(&registry.uid().unwrap_or_default())
            .cloned()
            .unwrap_or_default();
        let old = places
            .iter()
            .filter_map(|place| old_place(fleet, registry_plan, &name, place))
            .collect();
        let new = status(&Inputs {
            stores: places.clone(),
            old,
            plan: registry_plan,
            store,
            access,
            health: &health,
            unread: unread(members, registry, registry_plan),
            live: &live,
            progress: &progress,
            sought: &|unit| sought(unit).unwrap_or_default(),
            generation: registry.metadata.generation,
            before: &before.conditions,
            now,
        });
        if !is_news(&new, &before) {
            state.written.remove(&name);
            return Ok(Action::await_change());
        }
        let only_counts = new.conditions == before.conditions && phases(&new) == phases(&before);
        if let Some((_, written_at)) = state.written.get(&name)
            && only_counts
            && written_at.elapsed() < STATUS_INTERVAL
        {
            return Ok(Action::requeue(STATUS_INTERVAL));
        }
        self.patch_status(registry, &new).await?;
        self.announce(registry, &before, &new).await;
        state.written.insert(name, (new, std::time::Instant::now()));
        Ok(Action::await_change())
    }

    async fn patch_status(
        &self,
        registry: &ResourceRegistry,
        status: &ResourceRegistryStatus,
    ) -> Result<(), ReconcileError> {
        let name = registry.name_any();
        let patch = json!({
            "apiVersion": ResourceRegistry::api_version(&()),
            "kind": ResourceRegistry::kind(&()),
            "metadata": { "name": name },
            "status": status,
        });
        let api = Api::<ResourceRegistry>::all(self.context.hub.clone());
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        match api
            .patch_status(&name, &parameters, &Patch::Apply(&patch))
            .await
        {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(answer)) if answer.is_not_found() => Ok(()),
            Err(source) => Err(ReconcileError::Write {
                name,
                source: Box::new(source),
            }),
        }
    }

    /// An event when a registry becomes ready or ceases to be.
    async fn announce(
        &self,
        registry: &ResourceRegistry,
        before: &ResourceRegistryStatus,
        after: &ResourceRegistryStatus,
    ) {
        use crate::api::condition::find;
        let Some(ready) = find(&after.conditions, "Ready") else {
            return;
        };
        let unchanged = find(&before.conditions, "Ready")
            .is_some_and(|old| old.status == ready.status && old.reason == ready.reason);
        if unchanged || ready.reason == "Syncing" || ready.reason == "Connecting" {
            return;
        }
        let event = Event {
            type_: if ready.status == "True" {
                EventType::Normal
            } else {
                EventType::Warning
            },
            reason: ready.reason.clone(),
            note: Some(ready.message.chars().take(1_000).collect()),
            action: "Reconcile".to_owned(),
            secondary: None,
        };
        let reference: ObjectReference = registry.object_ref(&());
        if let Err(error) = self.recorder.publish(&event, &reference).await {
            tracing::debug!(error = %causes(&error), "cannot write an Event");
        }
    }
}

/// Whether the store of a registry that is being deleted holds nothing of this replica's share that nobody wants.
fn is_swept(state: &State, registry: &ResourceRegistry) -> bool {
    let alone = plan(&[registry_view(registry)], &[]);
    let places = state
        .places
        .get(&registry.uid().unwrap_or_default())
        .into_iter()
        .flatten();
    let earlier: Vec<StoreName> = places
        .filter_map(|place| place.name.parse().ok())
        .filter(|name| !alone.stores.contains_key(name))
        .collect();
    alone.stores.keys().all(|store| state.fleet.is_swept(store))
        && earlier.iter().all(|place| state.fleet.is_left(place))
}

/// Whether documents that cannot be deleted are to be left where they are.
fn is_given_up(registry: &ResourceRegistry) -> bool {
    registry
        .annotations()
        .get(ORPHAN_ANNOTATION)
        .is_some_and(|value| value == "true")
}

/// A place that a registry has named before, and why it is not empty yet; nothing if it is the one that it names.
fn old_place(
    fleet: &Fleet,
    plan: &RegistryPlan,
    registry: &str,
    place: &StoreStatus,
) -> Option<OldPlace> {
    let name: StoreName = place
        .name
        .parse()
        .ok()
        .filter(|name| plan.store.as_ref() != Some(name))?;
    let prefix: IndexPrefix = place.index_prefix.parse().ok()?;
    let problem = match fleet.pipeline(&name).and_then(Pipeline::availability) {
        Some(Err(unavailable)) => Some(unavailable.message),
        Some(Ok(())) | None => None,
    };
    Some(OldPlace {
        indices: plan
            .clusters
            .keys()
            .map(|cluster| prefix.generations(cluster).to_string())
            .collect(),
        waits_for: fleet
            .waits_for(&name, registry)
            .into_iter()
            .map(String::from)
            .collect(),
        name: place.name.clone(),
        problem,
    })
}

fn lock<T>(mutex: &StdMutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn phases(status: &ResourceRegistryStatus) -> BTreeSet<(&str, crate::api::registry::Phase, &str)> {
    status
        .clusters
        .iter()
        .map(|cluster| {
            (
                cluster.name.as_str(),
                cluster.phase,
                cluster.message.as_str(),
            )
        })
        .collect()
}

fn access(config: &OpenSearch) -> Access {
    let named = |reference: &Option<crate::api::registry::SecretReference>| {
        reference
            .as_ref()
            .is_some_and(|reference| !reference.name.is_empty() || !reference.namespace.is_empty())
    };
    let is_anonymous = !named(&config.secret_ref) && !named(&config.client_cert_secret_ref);
    if is_anonymous {
        Access::Anonymous
    } else {
        Access::Authenticated
    }
}

fn registry_view(registry: &ResourceRegistry) -> RegistryView {
    RegistryView {
        name: registry.name_any(),
        uid: registry.uid().unwrap_or_default(),
        created: registry
            .metadata
            .creation_timestamp
            .as_ref()
            .map(|time| time.0),
        spec: registry.spec.clone(),
    }
}

fn member_health(members: &Members, cluster: &ClusterName) -> Option<MemberHealth> {
    let state = members.states.get(cluster)?;
    let ready =
        state.connection.is_some() && matches!(state.phase, Phase::Ready | Phase::Unhealthy);
    let note = members.notes.get(cluster).cloned();
    Some(MemberHealth {
        ready,
        reason: Cow::Borrowed(state.reason),
        message: state.message.clone(),
        note,
    })
}

/// The sources that a registry may find more clusters in: none if it names its clusters and all of them have been found.
fn unread<'m>(
    members: &'m Members,
    registry: &ResourceRegistry,
    plan: &RegistryPlan,
) -> &'m [String] {
    let all_found =
        !registry.spec.target_cluster.cluster_names.is_empty() && plan.not_found.is_empty();
    if all_found { &[] } else { &members.unread }
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

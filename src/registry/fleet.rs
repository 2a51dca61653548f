//! What runs: one pipeline per store, one task per unit. Applies a plan by starting and stopping exactly what differs.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock, PoisonError},
    time::Duration,
};

use futures::future::{OptionFuture, join_all};
use sha2::{Digest, Sha256};
use tokio::{
    sync::{Notify, Semaphore},
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    MemberView, RegistryView,
    activation::{Activations, is_hopeless},
    arrivals::{Arrivals, LINGER},
    filter::other_paths,
    gaps::{Gap, Known, ShareGaps},
    places::Places,
    plan::{Coverage, Extent as Namespaces, Plan, StorePlan, Stream, UnitPlan, plan},
    sweep::{Deletes, Kept, Sweep, Wanted},
};
use crate::{
    cluster::{Connection, MemberState, source::Established},
    model::{ClusterName, Projector, StoreName, Unit, hex},
    pipeline::{Limits, OpenStore, Pipeline},
    planted::{Bug, planted},
    query::ResourceName,
    replicas::{Fence, ReplicaName, Share},
    store::{Generation, KindExtent},
    sync::{
        audit::{Audit, Permits},
        checkpoints::UnitKey,
        outlet::{Filters, Outlet},
        progress::{Progress, UnitState},
        unit::{LISTS_PER_CLUSTER, UnitTask, kind_extent},
    },
    telemetry::metrics::Metrics,
    watch::{Collection, Source},
};

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

/// What is being removed from a store, and what has been.
#[derive(Default)]
struct Sweeping {
    wanted: Wanted,
    share: Share,
    /// Streams that have ended, but whose writes may still be under way.
    after: Vec<Arc<Progress>>,
    stop: CancellationToken,
    task: Option<AbortOnDropHandle<()>>,
    done: Arc<OnceLock<Instant>>,
    deletes: Deletes,
}

impl Sweeping {
    fn start(
        pipeline: &Pipeline,
        wanted: Wanted,
        neighbours: Vec<Pipeline>,
        share: Share,
        after: Vec<Arc<Progress>>,
        changed: &Arc<Notify>,
    ) -> Self {
        let (stop, done, deletes) = (
            CancellationToken::new(),
            Arc::new(OnceLock::new()),
            Deletes::default(),
        );
        let sweep = Sweep {
            pipeline: pipeline.clone(),
            wanted: wanted.clone(),
            neighbours,
            share: share.clone(),
            after: after.clone(),
            changed: Arc::clone(changed),
            done: Arc::clone(&done),
            deletes: Arc::clone(&deletes),
        };
        let task = Some(AbortOnDropHandle::new(tokio::spawn(
            sweep.run(stop.clone()),
        )));
        Self {
            wanted,
            share,
            after,
            stop,
            task,
            done,
            deletes,
        }
    }

    fn done_at(&self) -> Option<Instant> {
        self.done.get().copied()
    }

    /// Stops, and waits for the end.
    async fn end(&mut self) {
        self.stop.cancel();
        if let Some(Err(error)) = OptionFuture::from(self.task.take()).await {
            tracing::error!(%error, "a sweep ended unexpectedly");
        }
    }
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

    /// The places that no registry names any more.
    fn old_places(&mut self, plan: &Plan, leaving: &BTreeMap<StoreName, StorePlan>) -> Places {
        if let Some(before) = self.applied.as_ref().map(|applied| &applied.plan) {
            for (name, store) in &before.stores {
                self.former.add(
                    name.clone(),
                    store.clone(),
                    store.registries.iter().cloned(),
                );
            }
        }
        let is_used =
            |name: &StoreName| plan.stores.contains_key(name) || leaving.contains_key(name);
        let swept: Vec<StoreName> = self
            .former
            .names()
            .filter(|name| is_used(name) || self.is_swept_place(name))
            .cloned()
            .collect();
        for name in swept {
            self.former.remove(&name);
        }
        // What this process has known is reached, and shaped, as it was.
        let mut old = self.former.clone();
        old.extend(self.remembered.clone());
        let used: Vec<StoreName> = old.names().filter(|name| is_used(name)).cloned().collect();
        for name in used {
            old.remove(&name);
        }
        if planted(Bug::ForgetOldPlace) {
            Places::default()
        } else {
            old
        }
    }

    /// What is kept in a place that no registry names any more although it is not in use, because nothing else answers in its stead yet: the clusters of
    /// registries that have named it.
    fn held(&self, plan: &Plan, place: &StoreName, old: &Places) -> BTreeSet<ClusterName> {
        let mut held = BTreeSet::new();
        for registry in old
            .registries(place)
            .filter_map(|name| plan.registries.get(name))
        {
            let Some(store) = &registry.store else {
                continue;
            };
            let clusters = registry
                .clusters
                .iter()
                .filter(|(_, cluster)| !cluster.units.is_empty() || !cluster.discovered);
            held.extend(
                clusters
                    .map(|(name, _)| name)
                    .filter(|name| !self.has_lasted(store, name))
                    .cloned(),
            );
        }
        held
    }

    /// Whether queries of a cluster have been answered from a store for a while, as far as they ever will.
    fn has_lasted(&self, store: &StoreName, cluster: &ClusterName) -> bool {
        let given_up = self.given_up.get(&(store.clone(), cluster.clone()));
        self.arrivals.have_lasted(store, cluster)
            || given_up.is_some_and(|since| since.elapsed() >= LINGER)
    }

    /// The clusters that a place which no registry names any more still holds for one: nothing else answers in its stead yet.
    pub fn waits_for(&self, place: &StoreName, registry: &str) -> BTreeSet<ClusterName> {
        let Some(Applied { plan, old, .. }) = &self.applied else {
            return BTreeSet::new();
        };
        if old.registries(place).any(|name| name == registry) {
            self.held(plan, place, old)
        } else {
            BTreeSet::new()
        }
    }

    /// The place that answers for a cluster of a registry until the one that the registry names by now is complete.
    pub fn stand_in(&self, registry: &str, cluster: &ClusterName) -> Option<&StoreName> {
        let Applied { plan, old, .. } = self.applied.as_ref()?;
        let store = plan.registries.get(registry)?.store.as_ref()?;
        if self.arrivals.have(store, cluster)
            || self
                .given_up
                .contains_key(&(store.clone(), cluster.clone()))
        {
            return None;
        }
        let answers = |name: &&StoreName| {
            let is_open = self
                .pipeline(name)
                .is_some_and(|pipeline| matches!(pipeline.availability(), Some(Ok(()))));
            let may_hold = || {
                self.arrivals.have(name, cluster)
                    || self.is_live(name, cluster)
                    || self.arrivals.all().is_none()
            };
            is_open && may_hold()
        };
        old.of_registry(registry).find(answers)
    }

    /// What queries can be answered from in the new and the old places of registries that have moved; nothing until that has been looked at. Changes with
    /// what [`Fleet::stand_in`] says.
    pub fn arrived(&self) -> Option<BTreeSet<(StoreName, ClusterName)>> {
        let mut arrived = self.arrivals.all()?;
        arrived.extend(self.given_up.keys().cloned());
        Some(arrived)
    }

    /// The places that are open although no registry names them any more.
    pub fn old_stores(&self) -> impl Iterator<Item = &StoreName> {
        self.applied.iter().flat_map(|applied| applied.old.names())
    }

    /// Looks in the stores of registries that were elsewhere before whether queries are answered from there.
    fn await_arrivals(&mut self, applied: &Applied) {
        let registries = applied
            .old
            .names()
            .flat_map(|place| applied.old.registries(place));
        let new = registries.filter_map(|name| applied.plan.registries.get(name)?.store.as_ref());
        let stores: BTreeSet<&StoreName> = new.chain(applied.old.names()).collect();
        let pipelines = stores
            .into_iter()
            .filter_map(|name| Some((name.clone(), self.stores.get(name)?.pipeline.clone())));
        self.arrivals.watch(pipelines.collect());
    }

    /// Reads what the stores hold of clusters of which nothing else is known, as after a start while a member is down.
    fn read_unknown(&self, plan: &Plan, members: &BTreeMap<ClusterName, MemberState>) {
        let is_unknown = |cluster: &ClusterName| {
            members
                .get(cluster)
                .is_some_and(|member| member.discovery.is_none())
        };
        let mut unknown: BTreeMap<&StoreName, BTreeSet<ClusterName>> = BTreeMap::new();
        for (store, cluster) in plan
            .scopes
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
                pipeline.remember(&clusters);
            }
        }
    }

    /// How many clusters the stores have been asked about of which nothing else was known.
    pub fn remembered(&self) -> usize {
        self.stores
            .values()
            .map(|store| store.pipeline.remembered_count())
            .sum()
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

    /// Clusters whose index is gone; their units start from a list again.
    fn take_lost(&self) -> BTreeSet<(StoreName, ClusterName)> {
        let lost = |(name, store): (&StoreName, &RunningStore)| {
            let name = name.clone();
            store
                .pipeline
                .take_lost()
                .into_iter()
                .map(move |cluster| (name.clone(), cluster))
                .collect::<Vec<_>>()
        };
        self.stores.iter().flat_map(lost).collect()
    }

    async fn stop_units(
        &mut self,
        wanted: &Applied,
        stores: &BTreeMap<StoreName, StorePlan>,
        members: &BTreeMap<ClusterName, MemberState>,
        lost: &BTreeSet<(StoreName, ClusterName)>,
    ) -> Vec<Arc<Progress>> {
        let plan = &wanted.plan;
        self.unpark(wanted, stores, lost);
        let mut ending = Vec::new();
        for (stream, running) in &self.units {
            let same_plan = plan.units.get(stream) == Some(&running.plan);
            let goes_on = !running.task.is_finished() && !running.progress.is_broken();
            let connection = members
                .get(&stream.unit.cluster)
                .and_then(|member| member.connection.as_ref());
            let same_connection =
                connection.is_some_and(|connection| connection.id == running.connection);
            let same_store = self.keeps_store(stream, running.epoch, stores, lost);
            let same_reader = wanted.share_of(&stream.store).keeps(&stream.unit.cluster);
            if !(same_plan && same_connection && same_store && same_reader && goes_on) {
                ending.push((stream.clone(), same_plan && same_store && same_reader));
            }
        }
        let mut progresses = Vec::new();
        for (stream, stays) in ending {
            let Some(running) = self.units.remove(&stream) else {
                continue;
            };
            tracing::info!(unit = %stream.unit, store = %stream.store, "stopping a stream");
            running.stop.cancel();
            let RunningUnit {
                plan,
                epoch,
                progress,
                task,
                ..
            } = running;
            if let Err(error) = task.await {
                tracing::error!(unit = %stream.unit, %error, "a stream ended unexpectedly; it starts again");
            }
            progresses.push(Arc::clone(&progress));
            self.settling
                .push((stream.store.clone(), Arc::clone(&progress)));
            if stays {
                self.parked.insert(
                    stream,
                    ParkedUnit {
                        plan,
                        epoch,
                        progress,
                    },
                );
            }
        }
        progresses
    }

    /// Forgets streams that are no longer wanted like that.
    fn unpark(
        &mut self,
        wanted: &Applied,
        stores: &BTreeMap<StoreName, StorePlan>,
        lost: &BTreeSet<(StoreName, ClusterName)>,
    ) {
        let mut parked = std::mem::take(&mut self.parked);
        parked.retain(|stream, parked| {
            wanted.plan.units.get(stream) == Some(&parked.plan)
                && wanted.share_of(&stream.store).keeps(&stream.unit.cluster)
                && self.keeps_store(stream, parked.epoch, stores, lost)
        });
        self.parked = parked;
    }

    /// Whether the documents of a unit stay where they are.
    fn keeps_store(
        &self,
        stream: &Stream,
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
        let unchanged = shapes_like(new, &old.plan) && old.epoch == epoch;
        unchanged && !lost.contains(&(stream.store.clone(), stream.unit.cluster.clone()))
    }

    fn replace_stores(&mut self, wanted: BTreeMap<StoreName, StorePlan>) {
        let gone: Vec<StoreName> = self
            .stores
            .iter()
            .filter(|(name, running)| {
                !wanted
                    .get(*name)
                    .is_some_and(|new| shapes_like(new, &running.plan))
            })
            .map(|(name, _)| name.clone())
            .collect();
        for name in &gone {
            let name = name.clone();
            self.sweeps
                .remove(&name)
                .inspect(|sweep| sweep.stop.cancel());
            if let Some(store) = self.stores.remove(&name) {
                tracing::info!(store = %name, "closing a store");
                if wanted.contains_key(&name) {
                    // What waits is of an earlier plan. An index that is made again meanwhile would take it, with what is no longer to be stored.
                    store.pipeline.discard();
                }
                store.stop.cancel();
                // Its last changes are written in the background: what comes next carries versions, so the order does not matter.
                self.closing.push(ClosingStore {
                    pipeline: store.pipeline,
                    task: store.task,
                });
            }
        }
        self.closing.retain(|store| !store.task.is_finished());
        for (name, plan) in wanted {
            if let Some(running) = self.stores.get_mut(&name) {
                running.plan = plan;
                continue;
            }
            self.last_epoch += 1;
            let fence = if plan.is_embedded() {
                Fence::OPEN
            } else {
                self.fence.clone()
            };
            let pipeline = Pipeline::new(
                name.clone(),
                self.limits,
                fence,
                self.metrics.store(&name),
                Arc::clone(&self.changed),
            );
            let opener = (self.opener)(&plan);
            let stop = CancellationToken::new();
            let task = AbortOnDropHandle::new(tokio::spawn(pipeline.clone().run(
                opener,
                stop.clone(),
                DRAIN,
            )));
            tracing::info!(store = %name, "opening a store");
            let is_reshaped = gone.contains(&name);
            self.stores.insert(
                name,
                RunningStore {
                    pipeline,
                    plan,
                    epoch: self.last_epoch,
                    is_reshaped,
                    stop,
                    task,
                },
            );
        }
    }

    fn start_units(&mut self, wanted: &Applied, members: &BTreeMap<ClusterName, MemberState>) {
        self.settling
            .retain(|(_, progress)| progress.outstanding() > 0);
        for (stream, unit_plan) in &wanted.plan.units {
            if self.units.contains_key(stream)
                || !wanted
                    .share_of(&stream.store)
                    .may_begin(&stream.unit.cluster)
            {
                continue;
            }
            let Some(connection) = members
                .get(&stream.unit.cluster)
                .and_then(|member| member.connection.as_ref())
            else {
                continue;
            };
            self.start_unit(stream, unit_plan, connection);
        }
    }

    /// Streams of the same cluster and store that have ended. Their scopes may have been others, with the same documents in them.
    fn predecessors(&self, stream: &Stream) -> Vec<Arc<Progress>> {
        let of_same = |(store, progress): &&(StoreName, Arc<Progress>)| {
            *store == stream.store && *progress.cluster() == stream.unit.cluster
        };
        self.settling
            .iter()
            .filter(of_same)
            .map(|(_, progress)| Arc::clone(progress))
            .collect()
    }

    fn start_unit(&mut self, stream: &Stream, plan: &UnitPlan, connection: &Connection) {
        let Stream { unit, store } = stream;
        let Some(running) = self.stores.get(store) else {
            return;
        };
        let epoch = running.epoch;
        let parked = self
            .parked
            .remove(stream)
            .filter(|parked| parked.plan == *plan && parked.epoch == epoch);
        let progress = match parked {
            Some(parked) => parked.progress,
            None => Progress::new(unit.cluster.clone(), Arc::clone(&self.changed)),
        };
        let outlet = outlet(unit, plan, running, &progress);
        let collection = Collection {
            resource: unit.resource.clone(),
            scope: unit.scope.clone(),
            label_selector: plan.label_selector.clone(),
            field_selector: plan.field_selector.clone(),
        };
        let predecessors = self.predecessors(stream);
        let lists = self.lists.entry((unit.cluster.clone(), store.clone()));
        let lists = lists.or_insert_with(|| Arc::new(Semaphore::new(LISTS_PER_CLUSTER)));
        let stop = CancellationToken::new();
        let audit = Arc::new(Audit {
            unit: unit.clone(),
            source: Source::new(connection.client.clone(), collection),
            outlet: Arc::new(outlet),
            progress: Arc::clone(&progress),
            metrics: self.metrics.unit(&unit.cluster, &unit.resource.gvk),
            permits: self.audits.for_unit(&unit.cluster),
            stop: stop.clone(),
        });
        let task = UnitTask {
            unit: unit.clone(),
            uid: connection.uid.clone(),
            predecessors,
            plan: plan_hash(unit, plan),
            writes_again: !plan.fields.is_empty(),
            is_selective: plan.label_selector.is_some() || plan.field_selector.is_some(),
            source: audit.source.clone(),
            outlet: Arc::clone(&audit.outlet),
            progress: Arc::clone(&progress),
            lists: Arc::clone(lists),
            metrics: audit.metrics.clone(),
            audit: Arc::clone(&audit),
            audit_interval: self.audit_interval,
        };
        tracing::debug!(%unit, %store, "starting a stream");
        let task = AbortOnDropHandle::new(tokio::spawn(task.run(stop.clone())));
        let running = RunningUnit {
            plan: plan.clone(),
            connection: connection.id,
            epoch,
            progress,
            audit,
            stop,
            task,
        };
        self.units.insert(stream.clone(), running);
    }

    /// Sweeps again now and then: a write that was long under way may bring back what a sweep has deleted, and audits only look at what
    /// is wanted.
    fn sweep_again(&mut self) {
        let Some(interval) = self.audit_interval else {
            return;
        };
        for (name, sweeping) in &mut self.sweeps {
            let is_due = sweeping
                .done_at()
                .is_some_and(|done| done.elapsed() >= interval);
            if let Some(store) = self.stores.get(name).filter(|_| is_due) {
                let (wanted, share) = (sweeping.wanted.clone(), sweeping.share.clone());
                let neighbours = pipelines(&self.stores, wanted.neighbours.as_ref());
                *sweeping = Sweeping::start(
                    &store.pipeline,
                    wanted,
                    neighbours,
                    share,
                    Vec::new(),
                    &self.changed,
                );
            }
        }
    }

    /// Removes what no registry wants any more. `stopped` are streams whose last writes have to be in the store before.
    fn sweep(&mut self, applied: &Applied, stopped: &[Arc<Progress>]) {
        for (name, store) in &self.stores {
            let share = applied.share_of(name);
            let wanted = match applied.old.plan(name) {
                Some(old) => self.wanted_of_old(applied, name, old),
                None => wanted(&applied.plan, name, &self.replaced, self.knows_all_members),
            };
            for (cluster, kept) in &wanted.clusters {
                if let Some(kept) = kept {
                    store.pipeline.checkpoints().retain(cluster, &kept.units);
                }
            }
            let sweeping = self.sweeps.entry(name.clone()).or_default();
            let is_same = sweeping.wanted == wanted && sweeping.share == share;
            if sweeping.task.is_some() && is_same && stopped.is_empty() {
                continue;
            }
            sweeping.stop.cancel();
            let deletes = std::mem::take(
                &mut *sweeping
                    .deletes
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner),
            );
            self.settling
                .extend(deletes.into_iter().map(|progress| (name.clone(), progress)));
            // A sweep that is given up here has perhaps not waited for all of its streams.
            let unsettled = sweeping
                .after
                .iter()
                .filter(|progress| progress.outstanding() > 0);
            let after: Vec<Arc<Progress>> = unsettled.chain(stopped).cloned().collect();
            let neighbours = pipelines(&self.stores, wanted.neighbours.as_ref());
            *sweeping = Sweeping::start(
                &store.pipeline,
                wanted,
                neighbours,
                share,
                after,
                &self.changed,
            );
        }
    }

    /// What may stay in a place that no registry names any more.
    fn wanted_of_old(&self, applied: &Applied, name: &StoreName, old: &StorePlan) -> Wanted {
        let held = self.held(&applied.plan, name, &applied.old);
        let stays = applied
            .old
            .registries(name)
            .any(|registry| applied.plan.registries.contains_key(registry));
        let may_be_same = |(_, store): &(&StoreName, &StorePlan)| {
            !store.is_embedded() && !old.is_embedded() && store.prefix == old.prefix
        };
        let in_use = applied
            .plan
            .stores
            .iter()
            .chain(&applied.leaving)
            .filter(may_be_same);
        Wanted {
            clusters: held.into_iter().map(|cluster| (cluster, None)).collect(),
            others_stay: stays && !self.knows_all_members,
            neighbours: Some(in_use.map(|(name, _)| name.clone()).collect()),
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

    /// Whether a store holds nothing but what the applied plan wants of it.
    pub fn is_swept(&self, store: &StoreName) -> bool {
        self.sweeps.get(store).is_some_and(|sweep| {
            let is_waiting = sweep.wanted.neighbours.is_some() && sweep.wanted.is_waiting();
            sweep.done_at().is_some() && !is_waiting
        })
    }

    /// The places that no registry names any more, and in which nothing of this replica's share is left.
    pub fn swept_places(&self) -> impl Iterator<Item = &StoreName> {
        self.old_stores().filter(|name| self.is_swept_place(name))
    }

    /// Whether a store is one that some registry names now.
    pub fn is_in_use(&self, store: &StoreName) -> bool {
        self.applied
            .as_ref()
            .is_some_and(|applied| applied.plan.stores.contains_key(store))
    }

    /// Whether nothing of this replica's share is left of a registry in a place that it names no more, according to the plan that was applied last.
    pub fn has_left(&self, registry: &str, place: &StoreName) -> bool {
        let Some(plan) = self.plan() else {
            return false;
        };
        let names_another = plan
            .registries
            .get(registry)
            .is_some_and(|plan| plan.store.as_ref() != Some(place));
        names_another && self.is_left(place)
    }

    /// Whether a place holds nothing of this replica's share but what registries want that name it.
    pub fn is_left(&self, place: &StoreName) -> bool {
        if self.is_in_use(place) {
            self.is_swept(place)
        } else {
            self.is_swept_place(place)
        }
    }

    /// Whether a place that no registry names any more has nothing left.
    fn is_swept_place(&self, name: &StoreName) -> bool {
        let is_old = self
            .sweeps
            .get(name)
            .is_some_and(|sweep| sweep.wanted.neighbours.is_some());
        is_old && self.is_swept(name)
    }

    /// The clusters whose queries are answered from documents of another shape than the plan's, until the next generation is complete.
    pub fn rebuilding(&self) -> BTreeSet<(StoreName, ClusterName)> {
        let pairs = self
            .units
            .keys()
            .map(|stream| (&stream.store, &stream.unit.cluster))
            .collect::<BTreeSet<_>>();
        let rebuilding = pairs
            .into_iter()
            .filter(|(store, cluster)| self.is_rebuilding(store, cluster));
        rebuilding
            .map(|(store, cluster)| (store.clone(), cluster.clone()))
            .collect()
    }

    fn is_rebuilding(&self, store: &StoreName, cluster: &ClusterName) -> bool {
        let Some(running) = self.stores.get(store) else {
            return false;
        };
        match running.pipeline.open_generation_of(cluster) {
            Some(generation) => generation.replaces.is_some() && !generation.live,
            // It is about to be opened.
            None => running.is_reshaped,
        }
    }

    /// Whether queries of a cluster are answered from the generation that its streams write to, as far as these are in sync.
    pub fn is_live(&self, store: &StoreName, cluster: &ClusterName) -> bool {
        let generation = self
            .stores
            .get(store)
            .and_then(|running| running.pipeline.open_generation_of(cluster));
        let Some(generation) = generation.filter(Generation::is_read) else {
            return false;
        };
        let of_cluster = |(stream, _): &(&Stream, &RunningUnit)| {
            stream.store == *store && stream.unit.cluster == *cluster
        };
        let is_seen = |(stream, unit): (&Stream, &RunningUnit)| {
            unit.progress.state() != UnitState::Synced
                || generation.shows(&ResourceName::from(&stream.unit.resource))
        };
        generation.live || self.units.iter().filter(of_cluster).all(is_seen)
    }

    /// Takes note of what the other replicas say of the streams that they read.
    pub fn hear(&mut self, others: Arc<BTreeMap<ReplicaName, ShareGaps>>) {
        self.others = others;
    }

    /// What this replica has to say to the others of the streams that it reads.
    pub fn share_gaps(&self) -> ShareGaps {
        let Some(applied) = &self.applied else {
            return ShareGaps::default();
        };
        let is_own = |stream: &Stream| {
            let is_shared = applied
                .plan
                .stores
                .get(&stream.store)
                .is_some_and(|store| !store.is_embedded());
            is_shared && applied.share.keeps(&stream.unit.cluster)
        };
        ShareGaps::of(self.known.iter().filter(|(stream, _)| is_own(stream)))
    }

    /// What answers lack: streams of the plan whose objects are not all stored yet, or cannot be read now, and why. Of clusters that this replica is
    /// not connected to everything is old, which is not said again for each stream.
    pub fn gaps(&self) -> BTreeMap<Stream, Gap> {
        let is_connected = |cluster: &ClusterName| {
            self.applied.as_ref().is_some_and(|applied| {
                applied
                    .connections
                    .get(cluster)
                    .is_some_and(Option::is_some)
            })
        };
        let lacking = |(stream, gap): (&Stream, &Option<Gap>)| Some((stream.clone(), gap.clone()?));
        let said = |(stream, gap): &(Stream, Gap)| {
            *gap != Gap::Disconnected || is_connected(&stream.unit.cluster)
        };
        self.known.iter().filter_map(lacking).filter(said).collect()
    }

    /// Brings up to date how far each stream is. What is known of a stream stays known until the replica that reads it says otherwise.
    fn note_gaps(&mut self, applied: &Applied) {
        let mut generations: BTreeMap<(&StoreName, ClusterName), Generation> = BTreeMap::new();
        for (name, store) in &self.stores {
            let of_store = store.pipeline.generations().into_iter();
            generations.extend(
                of_store.map(|generation| ((name, generation.cluster.clone()), generation)),
            );
        }
        let mut readers: BTreeMap<&ClusterName, Option<&ReplicaName>> = BTreeMap::new();
        let mut before = std::mem::take(&mut self.known);
        for stream in applied.plan.units.keys() {
            let cluster = &stream.unit.cluster;
            let is_shared = applied
                .plan
                .stores
                .get(&stream.store)
                .is_some_and(|store| !store.is_embedded());
            let reader = readers
                .entry(cluster)
                .or_insert_with(|| applied.share.other_reader(cluster))
                .filter(|_| is_shared);
            let last = before.remove(stream);
            let now = match (reader, self.units.get(stream)) {
                (Some(reader), _) => self
                    .others
                    .get(reader)
                    .and_then(|said| said.get(stream))
                    .cloned()
                    .or(last),
                (None, Some(unit)) => Some(gap(
                    stream,
                    &unit.progress,
                    generations.get(&(&stream.store, cluster.clone())),
                )),
                (None, None) if applied.connections.get(cluster).is_none_or(Option::is_none) => {
                    Some(Some(Gap::Disconnected))
                }
                (None, None) => last,
            };
            let unknown =
                || Some(reader.map_or(Gap::FirstList, |reader| Gap::Unknown(reader.clone())));
            self.known
                .insert(stream.clone(), now.unwrap_or_else(unknown));
        }
        self.note_given_up(applied);
    }

    /// Looks, while something is kept in a former place, of which clusters nothing more will come to the new one.
    fn note_given_up(&mut self, applied: &Applied) {
        if applied.old.is_empty() {
            self.given_up.clear();
            return;
        }
        self.given_up
            .retain(|of_store, _| applied.plan.scopes.contains_key(of_store));
        let mut settled: BTreeMap<(&StoreName, &ClusterName), bool> = BTreeMap::new();
        for (stream, gap) in &self.known {
            let is_settled = matches!(
                gap,
                None | Some(Gap::Failing {
                    is_given_up: true,
                    ..
                })
            );
            *settled
                .entry((&stream.store, &stream.unit.cluster))
                .or_insert(true) &= is_settled;
        }
        for ((store, cluster), _) in settled.into_iter().filter(|(_, is_settled)| *is_settled) {
            let of_store = (store.clone(), cluster.clone());
            if applied
                .plan
                .scopes
                .get(&of_store)
                .is_some_and(|coverage| coverage.certain)
            {
                self.given_up.entry(of_store).or_insert_with(Instant::now);
            }
        }
    }

    /// The progress of a stream that runs, or ran until its member was lost.
    pub fn progress(&self, stream: &Stream) -> Option<&Progress> {
        let running = self.units.get(stream).map(|running| &*running.progress);
        running.or_else(|| self.parked.get(stream).map(|parked| &*parked.progress))
    }

    /// The streams whose objects have not all been written yet with the fields of their definitions: those fields are nothing to ask for.
    pub fn unfilled(&self) -> BTreeSet<Stream> {
        let running = self
            .units
            .iter()
            .map(|(stream, unit)| (stream, &unit.plan, &unit.progress));
        let parked = self
            .parked
            .iter()
            .map(|(stream, unit)| (stream, &unit.plan, &unit.progress));
        let unfilled = running
            .chain(parked)
            .filter(|(_, plan, progress)| !plan.fields.is_empty() && !progress.has_been_synced());
        unfilled.map(|(stream, ..)| stream.clone()).collect()
    }

    /// What compares the documents of a running stream with its objects.
    pub fn audit(&self, stream: &Stream) -> Option<&Arc<Audit>> {
        self.units.get(stream).map(|running| &running.audit)
    }

    /// The stores that have been opened and can be read.
    pub fn open_stores(&self) -> BTreeSet<StoreName> {
        let open = self
            .stores
            .iter()
            .filter(|(_, store)| store.pipeline.store().is_some());
        open.map(|(name, _)| name.clone()).collect()
    }

    /// Which clusters the stores hold documents of, by the UIDs of the clusters; nothing before every store of the plan has been opened.
    pub fn identities(&self) -> Option<Established> {
        self.plan()?;
        let mut identities = Established::default();
        for store in self.stores.values() {
            store.pipeline.store()?;
            for (cluster, identity) in store.pipeline.identities() {
                identities.entry(cluster).or_default().insert(identity);
            }
        }
        Some(identities)
    }

    /// The members of which the plan that was applied last indexes anything, at whichever replica.
    pub fn planned_clusters(&self) -> BTreeSet<ClusterName> {
        let streams = self.plan().into_iter().flat_map(|plan| plan.units.keys());
        streams.map(|stream| stream.unit.cluster.clone()).collect()
    }

    /// Every running stream.
    pub fn streams(&self) -> impl Iterator<Item = (&Stream, &Progress)> {
        self.units
            .iter()
            .map(|(stream, running)| (stream, &*running.progress))
    }

    /// The pipeline of a store.
    pub fn pipeline(&self, store: &StoreName) -> Option<&Pipeline> {
        self.stores.get(store).map(|running| &running.pipeline)
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

fn pipelines(
    stores: &BTreeMap<StoreName, RunningStore>,
    names: Option<&BTreeSet<StoreName>>,
) -> Vec<Pipeline> {
    let running = names
        .into_iter()
        .flatten()
        .filter_map(|name| stores.get(name));
    running.map(|store| store.pipeline.clone()).collect()
}

/// A resource that fills a generation, and how far its stream is, if it runs.
type Filling<'a> = (ResourceName, Option<&'a Progress>);

/// What answers lack of a stream that runs.
fn gap(stream: &Stream, progress: &Progress, generation: Option<&Generation>) -> Option<Gap> {
    let resource = ResourceName::from(&stream.unit.resource);
    let is_seen = generation.is_some_and(|generation| generation.answers(&resource));
    match progress.state() {
        UnitState::Failing { reason, .. } => {
            let is_given_up =
                generation.is_some_and(|generation| is_hopeless(progress, generation));
            Some(Gap::Failing {
                reason,
                is_shown: is_seen,
                is_given_up,
            })
        }
        _ if !is_seen || !progress.has_been_synced() => Some(Gap::FirstList),
        _ => None,
    }
}

/// Where the objects of a unit go, however many registries of the store route them.
fn outlet(unit: &Unit, plan: &UnitPlan, store: &RunningStore, progress: &Progress) -> Outlet {
    let fields = plan.selectable_fields(&unit.resource.gvk);
    let filters = plan
        .routes
        .iter()
        .map(|route| route.filter.clone())
        .collect();
    Outlet {
        pipeline: store.pipeline.clone(),
        projector: Projector::new(
            &unit.cluster,
            &unit.resource,
            &store.plan.projection,
            &fields,
        ),
        filters: Filters::new(&unit.cluster, &unit.resource, filters, &fields, progress),
    }
}

/// Whether two plans of a store give the same connection, indices and documents.
fn shapes_like(left: &StorePlan, right: &StorePlan) -> bool {
    left.config == right.config
        && left.prefix == right.prefix
        && left.projection == right.projection
        && left.indexing == right.indexing
}

fn wanted(
    plan: &Plan,
    store: &StoreName,
    replaced: &BTreeSet<Stream>,
    knows_all_members: bool,
) -> Wanted {
    let mut units: BTreeMap<&ClusterName, BTreeSet<UnitKey>> = BTreeMap::new();
    for stream in plan.units.keys().filter(|stream| stream.store == *store) {
        units
            .entry(&stream.unit.cluster)
            .or_default()
            .insert(UnitKey::from(&stream.unit));
    }
    let mut leaving: BTreeMap<&ClusterName, Vec<KindExtent>> = BTreeMap::new();
    for Stream { unit, .. } in replaced.iter().filter(|stream| stream.store == *store) {
        leaving
            .entry(&unit.cluster)
            .or_default()
            .push(kind_extent(unit));
    }
    let of_store = plan.scopes.iter().filter(|((name, _), _)| name == store);
    let kept = of_store.map(|((_, cluster), coverage)| {
        let units = units.remove(cluster).unwrap_or_default();
        let kinds = extents(coverage)
            .into_iter()
            .chain(leaving.remove(cluster).unwrap_or_default())
            .collect();
        (
            cluster.clone(),
            coverage.certain.then_some(Kept { kinds, units }),
        )
    });
    // A store that no registry names any more is emptied whoever the members are.
    let others_stay = !knows_all_members && plan.stores.contains_key(store);
    Wanted {
        clusters: kept.collect(),
        others_stay,
        neighbours: None,
    }
}

/// Changes with the objects that a stream stores, whoever asked for them, and with what they are found by.
fn plan_hash(unit: &Unit, plan: &UnitPlan) -> String {
    let filters: BTreeSet<String> = plan
        .routes
        .iter()
        .map(|route| format!("{:?}", route.filter))
        .collect();
    // Nothing where there are none, as in the checkpoints of before.
    let fields = if plan.fields.is_empty() {
        String::new()
    } else {
        format!(" {:?}", plan.fields)
    };
    // Releases before these paths were read stored other objects by the same filters.
    let fields_of_kind = plan.selectable_fields(&unit.resource.gvk);
    let reads_paths = !other_paths(
        plan.routes.iter().map(|route| &route.filter),
        &fields_of_kind,
    )
    .is_empty();
    let paths = if reads_paths { " every path" } else { "" };
    let text = format!(
        "{:?} {:?} {filters:?}{fields}{paths}",
        plan.label_selector, plan.field_selector
    );
    hex(&Sha256::digest(text.as_bytes())[..8])
}

fn extents(coverage: &Coverage) -> Vec<KindExtent> {
    let mut extents = Vec::new();
    for (gvk, namespaces) in &coverage.kinds {
        let extent = |namespace| KindExtent {
            api_version: gvk.api_version(),
            kind: gvk.kind.to_string(),
            namespace,
        };
        match namespaces {
            Namespaces::All => extents.push(extent(None)),
            Namespaces::Namespaces(names) => {
                extents.extend(names.iter().cloned().map(Some).map(extent))
            }
        }
    }
    extents
}

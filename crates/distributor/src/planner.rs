//! Plans again whenever something changes, writes the bindings, and publishes the plan.
//!
//! A binding is written before the first object of it is written to a cluster: after a restart the
//! bindings say where copies may be.

mod changed_templates;
mod known_bindings;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use fleetdex_clusters::{
    Clusters,
    source::{MemberSnapshot, Sources},
};
use fleetdex_core::planted::{Bug, planted};
use fleetdex_crds::distribution::DistributionOverride;
use fleetdex_distribution::{
    binding::ALLOW_DELETION,
    brake::DeletionBrake,
    cluster::TargetCluster,
    overrides::ObjectOverrides,
    placing::PreviousPlacement,
    plan::{self, DistributionPlan, Leftovers, PlannedBinding},
    sets::{ObjectSet, SetName},
    template_name::{KindName, TemplateName},
};
use fleetdex_interpreter::{rules::RuleSet, value::text};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep, sleep_until},
};

use self::known_bindings::KnownBindings;
use crate::{
    bindings::{BindingWriter, WrittenBindings},
    blocking::run_blocking,
    control_plane::{ControlPlane, kind_name, kinds},
    inputs::{self, ParsedInputs, ReadInputs},
    interpreting::{Interpreting, PlanMemory, PlanOperations},
    published::PublishedPlan,
    rebalancers::RebalancerWriter,
    reservations::Reservations,
    room::RoomReader,
    sets::DistributionSets,
    status_board::StatusBoard,
    wall_clock::WallClock,
};

/// Changes that come together are planned together.
const DEBOUNCE: Duration = Duration::from_millis(20);
/// The same for templates of which only the contents have changed.
const DEBOUNCE_CONTENTS: Duration = Duration::from_millis(5);
/// The longest pause after a plan that took long.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// How often is planned although nothing has changed: room, graces and discovery change without
/// notice.
const REPEAT: Duration = Duration::from_secs(10);
/// The pause while something is not known yet.
const NOT_KNOWN_YET: Duration = Duration::from_secs(1);
/// The pause while templates are rolled out in waves.
const NEXT_WAVE: Duration = Duration::from_secs(1);
/// The pause before a plan that is known to be needed.
const SOON: Duration = Duration::from_millis(200);
/// After so many bindings a plan is published as far as it is written.
const BINDINGS_AT_ONCE: usize = 256;
/// A plan asks webhooks one step after the other; more steps than these mean that answers change.
const MOST_ROUNDS: usize = 12;

/// Plans again whenever something changes.
pub struct DistributionPlanner {
    /// The control plane.
    pub control_plane: ControlPlane,
    /// The member clusters.
    pub clusters: Arc<Clusters>,
    /// Where they are registered.
    pub sources: Arc<Sources>,
    /// Rules and webhooks.
    pub interpreting: Interpreting,
    /// Writes bindings.
    pub bindings: BindingWriter,
    /// Reports on rebalancers.
    pub rebalancers: RebalancerWriter,
    /// The room in clusters.
    pub room: RoomReader,
    /// Sets of objects.
    pub sets: DistributionSets,
    /// What is reported of clusters.
    pub board: Arc<StatusBoard>,
    /// Where plans are published.
    pub published: watch::Sender<Arc<PublishedPlan>>,
    /// Something has changed.
    pub changed: Arc<Notify>,
    /// What holds deletions.
    pub brake: DeletionBrake,
    /// The time of day.
    pub clock: WallClock,
    /// What is kept from plan to plan.
    pub state: PlannerState,
}

/// What is kept from plan to plan.
#[derive(Default)]
pub struct PlannerState {
    memory: PlanMemory,
    made_by: PlanBasis,
    reservations: Reservations,
    parsed: ParsedInputs,
    /// What the plan that is published was made from.
    in_force: Option<ReadInputs>,
    known_bindings: KnownBindings,
}

/// What everything that is made of templates depends on.
#[derive(Default)]
struct PlanBasis {
    rules: Arc<RuleSet>,
    overrides: Vec<ObjectOverrides>,
    of_sets: BTreeMap<Arc<SetName>, Vec<DistributionOverride>>,
    /// With what overrides look at, and nothing else.
    clusters: Vec<TargetCluster>,
}

impl DistributionPlanner {
    /// Plans until aborted.
    pub async fn run(mut self) {
        let mut members = self.clusters.changed();
        let mut served = self.control_plane.served();
        let changed = Arc::clone(&self.changed);
        let objects = Arc::clone(self.control_plane.changed_objects());
        loop {
            let begun = Instant::now();
            let repeat = self.plan_once().await;
            let ended = Instant::now();
            // Plans take half of a processor at most, however much changes.
            let earliest = ended + (ended - begun).min(LONGEST_PAUSE);
            loop {
                tokio::select! {
                    biased;
                    () = changed.notified() => break,
                    _ = members.changed() => break,
                    _ = served.changed() => break,
                    () = objects.changed() => {
                        sleep(DEBOUNCE_CONTENTS).await;
                        if !self.plan_changed().await {
                            break;
                        }
                    }
                    () = sleep_until(ended + repeat) => break,
                }
            }
            sleep_until(earliest.max(Instant::now() + DEBOUNCE)).await;
        }
    }

    fn wanted_kinds(&self) -> BTreeSet<KindName> {
        let objects = self.control_plane.objects();
        let fixed = kinds::REQUIRED.into_iter().chain(kinds::OPTIONAL);
        let mut wanted: BTreeSet<KindName> = fixed.map(kind_name).collect();
        wanted.append(&mut inputs::selected_kinds(objects));
        wanted.append(&mut inputs::bound_kinds(objects));
        wanted.append(&mut self.state.memory.required_kinds());
        wanted
    }

    /// Makes a plan, and publishes it. Returns after which time it is made again although nothing
    /// changes.
    async fn plan_once(&mut self) -> Duration {
        self.state.in_force = None;
        self.control_plane.changed_objects().take();
        let wanted = self.wanted_kinds();
        self.control_plane.follow(&wanted);
        let unserved = self.unserved(&wanted);
        self.control_plane.look_for_kinds(!unserved.is_empty());
        let mut faults = self.faults(&unserved);
        let objects = self.control_plane.objects().clone();
        let is_known = kinds::REQUIRED.iter().all(|kind| objects.knows(*kind));
        let knows_members = self.knows_members(&mut faults);
        self.board.set_faults(faults);
        if !is_known || !knows_members || objects.awaits_any() {
            self.bar_deletions();
            return NOT_KNOWN_YET;
        }
        // Read before the objects: what is complete now stays so, or a change notifies.
        let is_complete = self.is_complete(&unserved);
        let mut read = inputs::read(&objects, &self.clusters.states(), &mut self.state.parsed);
        self.board.set_problems(std::mem::take(&mut read.problems));
        if !self.room.add_to(&mut read.plan, &self.clusters) {
            self.bar_deletions();
            return SOON;
        }
        self.state.known_bindings.complete(&mut read);
        let served = self.control_plane.served();
        self.sets
            .add_to(&mut read.plan, &objects, &self.clusters, &served);
        let published = Arc::clone(&self.published.borrow());
        self.sets
            .roll_out(&mut read.plan, &self.board, &published, (self.clock)())
            .await;
        read.add_health((self.clock)(), |name, needs_status| {
            self.board.health_of(name, needs_status)
        });
        read.add_wave_health(|name| {
            let counts = self.board.count(std::slice::from_ref(name), &published);
            let counts = counts.into_iter();
            counts
                .map(|(cluster, count)| (cluster, count.health()))
                .collect()
        });
        self.state.reservations.reserve(&mut read.plan.room);
        self.forget_what_has_changed(&read);
        let Some((read, plan)) = self.planned(read).await else {
            self.bar_deletions();
            return SOON;
        };
        let required = self.state.memory.required_kinds();
        let has_other_kinds = !required.is_subset(&wanted);
        let is_rolling_out = plan.bindings.iter().any(PlannedBinding::is_rolling_out);
        self.apply(plan, read, is_complete && !has_other_kinds)
            .await;
        match (has_other_kinds, is_rolling_out) {
            (true, _) => SOON,
            (false, true) => NEXT_WAVE,
            (false, false) => REPEAT,
        }
    }

    /// Writes bindings, and publishes.
    async fn apply(&mut self, plan: DistributionPlan, read: ReadInputs, is_complete: bool) {
        let leftovers = Arc::new(Leftovers::of(&plan, &read.plan));
        self.state.reservations.placed(&plan, &read.plan.previous);
        let mut tasks = self
            .bindings
            .tasks(&plan, &read, &self.board, &leftovers, is_complete);
        let mut written = WrittenBindings::default();
        // Members get the first objects while the bindings of others are written.
        while tasks.len() > BINDINGS_AT_ONCE {
            let others = tasks.split_off(BINDINGS_AT_ONCE);
            self.bindings.write(tasks, &mut written).await;
            let open = others.iter().map(|(name, _)| name);
            let known = written.unwritten.iter().chain(&written.let_go);
            let unwritten = known.chain(open).cloned().collect();
            self.publish(&plan, &read, Arc::clone(&leftovers), false, unwritten);
            tasks = others;
        }
        self.bindings.write(tasks, &mut written).await;
        self.state
            .known_bindings
            .written(&plan, &read, &leftovers, &written);
        // They are made again, and until then nothing says where their objects are.
        written.unwritten.append(&mut written.let_go);
        let objects = self.control_plane.objects();
        self.rebalancers.write(objects, &read).await;
        self.sets.planned(&plan, &read).await;
        self.publish(&plan, &read, leftovers, is_complete, written.unwritten);
        self.state.in_force = Some(read);
    }

    /// What is not known of the control plane.
    fn faults(&self, unserved: &BTreeSet<KindName>) -> Vec<String> {
        let mut faults = self.control_plane.objects().faults();
        for (api_version, kind) in unserved {
            faults.push(format!(
                "the control plane does not serve {kind} of {api_version}"
            ));
        }
        faults
    }

    fn unserved(&self, wanted: &BTreeSet<KindName>) -> BTreeSet<KindName> {
        let optional: BTreeSet<KindName> = kinds::OPTIONAL.into_iter().map(kind_name).collect();
        let followed = self.control_plane.objects().followed();
        let missing = wanted.difference(&followed).cloned();
        missing.filter(|kind| !optional.contains(kind)).collect()
    }

    /// Whether everything is known that a copy in a cluster depends on. Where a kind of copies is
    /// not served any more, its templates are not gone: they are not known.
    fn is_complete(&self, unserved: &BTreeSet<KindName>) -> bool {
        if planted(Bug::DistributionDeletesOnIncompleteView) {
            return true;
        }
        let objects = self.control_plane.objects();
        let is_served = || unserved.is_disjoint(&inputs::bound_kinds(objects));
        objects.is_complete() && (unserved.is_empty() || is_served())
    }

    /// Whether all members are known. Rules of interpreters are read before the members are set.
    fn knows_members(&self, faults: &mut Vec<String>) -> bool {
        let MemberSnapshot {
            members,
            unread_sources,
            ..
        } = self.sources.snapshot();
        let known = self.clusters.names();
        let cluster = kind_name(kinds::CLUSTER);
        let objects = self.control_plane.objects();
        let knows_taints =
            self.control_plane.resource(&cluster).is_none() || objects.knows(kinds::CLUSTER);
        let unread = unread_sources.iter();
        faults.extend(unread.map(|source| format!("clusters are not known yet: {source}")));
        unread_sources.is_empty()
            && knows_taints
            && members.iter().all(|member| known.contains(&member.name))
    }

    fn forget_what_has_changed(&mut self, read: &ReadInputs) {
        let rules = self.interpreting.rules();
        let PlannerState {
            memory, made_by, ..
        } = &mut self.state;
        if !Arc::ptr_eq(&rules, &made_by.rules) {
            memory.forget_made();
            memory.forget_answers();
            made_by.rules = rules;
        }
        let clusters = read.plan.clusters.iter().map(|cluster| TargetCluster {
            taints: Vec::new(),
            served: None,
            is_terminating: false,
            ..cluster.clone()
        });
        let clusters: Vec<TargetCluster> = clusters.collect();
        let of_sets = read.plan.sets.iter();
        let of_sets = of_sets.map(|set| (Arc::clone(&set.name), set.overrides.clone()));
        let of_sets: BTreeMap<_, _> = of_sets.collect();
        let are_same = made_by.overrides == read.plan.overrides && made_by.of_sets == of_sets;
        if !are_same || made_by.clusters != clusters {
            memory.forget_made();
            made_by.overrides.clone_from(&read.plan.overrides);
            made_by.of_sets = of_sets;
            made_by.clusters = clusters;
        }
    }

    /// Plans, and asks webhooks until the plan is whole. Where a webhook takes long, the plan
    /// leaves its objects as they are until the answer is there.
    async fn planned(&mut self, read: ReadInputs) -> Option<(ReadInputs, DistributionPlan)> {
        let mut read = read;
        for _ in 0..MOST_ROUNDS {
            let memory = std::mem::take(&mut self.state.memory);
            let rules = Arc::clone(&self.state.made_by.rules);
            let run = run_blocking(move || {
                let operations = PlanOperations {
                    rules,
                    memory: &memory,
                };
                let of_sets = read.plan.sets.iter().flat_map(ObjectSet::all_objects);
                operations.begin(read.plan.templates.iter().chain(of_sets));
                let plan = plan::plan(&read.plan, &operations);
                (memory, read, plan)
            });
            let (memory, used, plan) = match run.await {
                Ok(done) => done,
                Err(error) => {
                    tracing::error!(%error, "a plan of the distribution was aborted");
                    return None;
                }
            };
            self.state.memory = memory;
            read = used;
            let memory = &mut self.state.memory;
            if !memory.ask(&self.interpreting, &self.changed).await {
                memory.forget_unused();
                return Some((read, plan));
            }
        }
        tracing::warn!("webhooks do not come to an end with a plan; it is made again");
        None
    }

    /// Nothing is deleted until the next plan.
    fn bar_deletions(&self) {
        self.published.send_if_modified(|plan| {
            let was_complete = plan.is_complete;
            if was_complete {
                Arc::make_mut(plan).is_complete = false;
            }
            was_complete
        });
    }

    fn publish(
        &self,
        plan: &DistributionPlan,
        read: &ReadInputs,
        leftovers: Arc<Leftovers>,
        is_complete: bool,
        unwritten: BTreeSet<TemplateName>,
    ) {
        let bound: Vec<(KindName, &Arc<PreviousPlacement>)> = read
            .plan
            .previous
            .iter()
            .map(|(name, previous)| (name.kind_name(), previous))
            .collect();
        let mut copies: BTreeMap<&str, BTreeSet<&KindName>> = BTreeMap::new();
        for (kind, previous) in &bound {
            for cluster in previous.clusters_with_copies() {
                copies.entry(cluster).or_default().insert(kind);
            }
        }
        let before = Arc::clone(&self.published.borrow());
        let mut clusters = PublishedPlan::of(plan, copies, &before);
        if !unwritten.is_empty() {
            before.keep_unwritten(&mut clusters, &unwritten);
        }
        let released = read.bindings.iter().filter(|(_, binding)| {
            let path = ["metadata", "annotations", ALLOW_DELETION];
            text(&*binding.object, &path) == "true" && !planted(Bug::DistributionIgnoresRelease)
        });
        let released = released.map(|(name, _)| name);
        // What a policy drives out of a cluster, because that fails, is no mistake of a moment.
        let evicted = plan
            .bindings
            .iter()
            .filter(|binding| binding.has_ended_evictions());
        let of_sets = read.plan.previous.iter().filter(|(_, previous)| {
            let mut letting = read.plan.sets.iter().filter(|set| set.allows_deletion);
            letting.any(|set| previous.set.as_ref() == Some(&set.name))
        });
        let released = released
            .chain(evicted.map(|binding| &binding.resource))
            .chain(of_sets.map(|(name, _)| name));
        self.board.set_plan(plan, read, (self.clock)());
        self.published.send_replace(Arc::new(PublishedPlan {
            clusters,
            leftovers,
            is_complete,
            unwritten: Arc::new(unwritten),
            released: Arc::new(released.cloned().collect()),
            brake: self.brake,
        }));
    }
}

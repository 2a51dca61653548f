//! Judges every write of the operators at the time when it is done.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use fakes::apiserver::{ClientWrite, Server};
use fleetdex_core::model::ClusterName;
use fleetdex_distribution::{
    binding::KnownBinding,
    plan::LeftoverFate,
    template_name::{NameParts, TemplateName},
};
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::time::Instant;

use super::{
    differences::difference,
    eviction_timeline::GuardedEvictions,
    expected::Expected,
    guarded_sets::GuardedSets,
    servers::{BINDINGS, CLUSTER_BINDINGS, DEPLOYMENTS, DISTRIBUTED, MEMBERS, origin},
    timeline::{Place, Timeline},
};

/// Between a look at an object and the write that follows from it.
const RACE: Duration = Duration::from_millis(500);
/// How long a write may take until its server has it.
pub(super) const IN_FLIGHT: Duration = Duration::from_secs(1);
/// The former leader cannot be the leader again so soon: Leases are renewed every two seconds, and
/// a new leader waits.
const HANDOVER: Duration = Duration::from_secs(3);

/// An object of a member that is not Fleetdex's.
#[derive(Clone, Copy, Debug)]
struct Foreign {
    since: Instant,
    /// Whether the same object was Fleetdex's before.
    was_copy: bool,
}

/// What is known of the members, and what was wrong.
pub(super) struct GuardState {
    control_plane: String,
    /// How old what an operator knows may be.
    pub(super) stale: Duration,
    pub(super) started: Instant,
    /// When it was said last what the plan is.
    evaluated: Instant,
    deleted: Timeline,
    released: Timeline,
    overwritable: Timeline,
    bound: Timeline,
    /// The clusters that have a taint that drives objects out, and what they are evicted from.
    pub(super) evictions: GuardedEvictions,
    /// Sets, their rollouts, and what members have of them.
    pub(super) sets: GuardedSets,
    foreign: BTreeMap<Place, Foreign>,
    /// When the copies that there are were made.
    pub(super) made: BTreeMap<Place, Instant>,
    /// When copies were deleted by hand.
    pub(super) lost: BTreeMap<Place, Instant>,
    /// The most replicas that a plan has given.
    pub(super) allowance: BTreeMap<Place, i64>,
    /// When an autoscaler has set the replicas of a copy.
    pub(super) scaled: BTreeMap<Place, Instant>,
    /// When these replicas were overwritten, as an operator may do that does not know it yet.
    pub(super) unscaled: BTreeMap<Place, Instant>,
    writes: u64,
    last_write: String,
    /// Who writes, since when, and who did before.
    leader: Option<(String, Instant, Option<String>)>,
    /// Why nothing may be deleted.
    keeps_all: Option<&'static str>,
    violations: Vec<String>,
}

/// Judges every write of the operators. Clones share their state.
#[derive(Clone)]
pub struct Guard(Arc<Mutex<GuardState>>);

impl Guard {
    /// Observes the servers. `stale`: how old what an operator knows may be.
    pub fn new(
        control_plane: &Server,
        members: &BTreeMap<ClusterName, Server>,
        stale: Duration,
    ) -> Self {
        let guard = Self(Arc::new(Mutex::new(GuardState {
            control_plane: control_plane.identity(),
            stale,
            started: Instant::now(),
            evaluated: Instant::now(),
            deleted: Timeline::default(),
            released: Timeline::default(),
            overwritable: Timeline::default(),
            bound: Timeline::default(),
            evictions: GuardedEvictions::default(),
            sets: GuardedSets::default(),
            foreign: BTreeMap::new(),
            made: BTreeMap::new(),
            lost: BTreeMap::new(),
            allowance: BTreeMap::new(),
            scaled: BTreeMap::new(),
            unscaled: BTreeMap::new(),
            writes: 0,
            last_write: String::new(),
            leader: None,
            keeps_all: None,
            violations: Vec::new(),
        })));
        let observer = guard.clone();
        control_plane.observe(move |write| observer.lock().control_plane_write(write));
        for (name, server) in members {
            let (observer, name) = (guard.clone(), name.to_string());
            server.observe(move |write| observer.lock().member_write(&name, write));
        }
        guard
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, GuardState> {
        self.0.lock()
    }

    /// What the plan says of the control plane from now on.
    pub fn set_expected(&self, expected: &Expected) {
        let now = Instant::now();
        let mut state = self.lock();
        state.evaluated = now;
        state.judge_moves(expected);
        let (mut deleted, mut released) = (BTreeSet::new(), BTreeSet::new());
        let known: BTreeSet<&TemplateName> = state.made.keys().map(|(_, name)| name).collect();
        for name in expected.names.iter().chain(known) {
            for member in MEMBERS {
                let place = (member.to_owned(), name.clone());
                match expected.fate(member, name) {
                    LeftoverFate::Deleted => deleted.insert(place),
                    LeftoverFate::Released => released.insert(place),
                    LeftoverFate::Stays => false,
                };
            }
        }
        let overwritable = expected.plan.objects.iter().filter(|one| one.overwrites);
        let overwritable = overwritable.map(|one| (one.cluster.clone(), one.resource.clone()));
        let overwritable: BTreeSet<Place> = overwritable.collect();
        for (place, replicas) in &expected.most_replicas {
            let most = state.allowance.entry(place.clone()).or_default();
            *most = (*most).max(*replicas);
        }
        state.deleted.set(deleted, now);
        state.released.set(released, now);
        state.overwritable.set(overwritable, now);
    }

    /// An operator has ended: it does not write any more, and others may.
    pub fn operator_ended(&self, agent: &str) {
        let mut state = self.lock();
        state.leader = match state.leader.take() {
            Some((leader, _, _)) if leader == agent => None,
            Some((leader, since, _)) => Some((leader, since, None)),
            None => None,
        };
    }

    /// The members have what the plan says: no other replicas are expected any more.
    pub fn forget_allowances(&self) {
        self.lock().allowance.clear();
    }

    /// A member has an object that is not Fleetdex's. `was_copy`: the same object was before.
    pub fn add_foreign(&self, member: &str, name: &TemplateName, was_copy: bool) {
        let since = Instant::now();
        let place = (member.to_owned(), name.clone());
        let mut state = self.lock();
        state.lose(&place);
        state.foreign.insert(place, Foreign { since, was_copy });
    }

    /// A user has deleted an object of a member.
    pub fn deleted_by_hand(&self, member: &str, name: &TemplateName) {
        let place = (member.to_owned(), name.clone());
        let mut state = self.lock();
        state.lose(&place);
        state.foreign.remove(&place);
        state.scaled.remove(&place);
    }

    /// An autoscaler has set the replicas of a copy.
    pub fn scaled(&self, member: &str, name: &TemplateName) {
        let place = (member.to_owned(), name.clone());
        self.lock().scaled.insert(place, Instant::now());
    }

    /// Nothing may be deleted in members from now on, or everything may be again.
    pub fn keep_all(&self, why: Option<&'static str>) {
        self.lock().keeps_all = why;
    }

    /// How many writes there were, but for Leases and Events, and the last one.
    pub fn writes(&self) -> (u64, String) {
        let state = self.lock();
        (state.writes, state.last_write.clone())
    }

    /// Fails if a write was wrong.
    pub fn check(&self) -> anyhow::Result<()> {
        match self.lock().violations.first() {
            None => Ok(()),
            Some(violation) => anyhow::bail!("{violation}"),
        }
    }
}

impl GuardState {
    pub(super) fn violated(&mut self, what: &str, server: &str, write: &ClientWrite) {
        let after = self.started.elapsed().as_secs_f64();
        let violation = format!(
            "{what}: {after:.3} s after the start, {} of {} {} {}/{}{} in {server}",
            write.method,
            write.agent,
            write.resource,
            write.namespace,
            write.name,
            if write.subresource.is_empty() {
                ""
            } else {
                " (status)"
            },
        );
        tracing::info!(before = ?write.before, now = ?write.after, "{violation}");
        self.violations.push(violation);
    }

    fn count(&mut self, server: &str, write: &ClientWrite) {
        self.writes += 1;
        self.last_write = format!(
            "{} {} {}/{} {} in {server} by {}: {}",
            write.method,
            write.resource,
            write.namespace,
            write.name,
            write.subresource,
            write.agent,
            difference(write),
        );
        tracing::debug!("{}", self.last_write);
        self.judge_leader(server, write);
    }

    /// Only one operator writes. The one that has handed over does not write any more.
    fn judge_leader(&mut self, server: &str, write: &ClientWrite) {
        let now = Instant::now();
        match &self.leader {
            Some((leader, _, _)) if *leader == write.agent => {}
            Some((_, since, Some(former)))
                if *former == write.agent && since.elapsed() < HANDOVER =>
            {
                self.violated("an operator writes that has handed over", server, write);
            }
            leader => {
                let former = leader.as_ref().map(|(leader, _, _)| leader.clone());
                self.leader = Some((write.agent.clone(), now, former));
            }
        }
    }

    fn control_plane_write(&mut self, write: &ClientWrite) {
        let resource = write.resource.as_str();
        if resource.starts_with("leases") || resource.starts_with("events") {
            return;
        }
        self.count("the control plane", write);
        let is_binding = matches!(resource, BINDINGS | CLUSTER_BINDINGS);
        if is_binding {
            self.set_bound(write);
            self.set_evicted(write);
        } else if !self.judge_set_object(write) && write.subresource != "status" {
            self.violated(
                "an operator writes an object of users",
                "the control plane",
                write,
            );
        }
    }

    /// Keeps where bindings say that copies are.
    fn set_bound(&mut self, write: &ClientWrite) {
        let places = |object: &Option<Value>| -> BTreeSet<Place> {
            let known = object
                .as_ref()
                .and_then(|object| KnownBinding::read(object).ok());
            let places = known.map(|known| {
                let clusters = known.previous.clusters.keys().cloned();
                let evictions = known.previous.evictions.iter();
                let evictions = evictions.map(|task| task.from_cluster.clone());
                let clusters = clusters.chain(evictions);
                let places = clusters.map(|cluster| (cluster, known.name.clone()));
                places.collect()
            });
            places.unwrap_or_default()
        };
        let (former, bound) = (places(&write.before), places(&write.after));
        self.bound.replace(&former, bound, Instant::now());
    }

    fn member_write(&mut self, member: &str, write: &ClientWrite) {
        self.count(member, write);
        let kind = DISTRIBUTED.iter().find(|kind| kind.0 == write.resource);
        let Some((_, api_version, kind)) = kind else {
            self.violated("nothing of this kind is distributed", member, write);
            return;
        };
        let name = TemplateName::from(NameParts {
            api_version: (*api_version).to_owned(),
            kind: (*kind).to_owned(),
            namespace: write.namespace.clone(),
            name: write.name.clone(),
        });
        let place = (member.to_owned(), name);
        let origin = origin(&self.control_plane, member);
        let is_copy = |object: &Option<Value>| {
            let object = object.as_ref();
            object.is_some_and(|object| origin.has_written(object))
        };
        let (was_copy, is_copy) = (is_copy(&write.before), is_copy(&write.after));
        match (&write.before, &write.after) {
            (Some(_), None) if !was_copy => {
                self.violated("an object that is not Fleetdex's is deleted", member, write);
            }
            (Some(_), None) => self.judge_deletion(&place, write),
            (Some(before), Some(after)) if !was_copy && before != after => {
                self.judge_takeover(&place, write);
            }
            (Some(before), Some(after)) if was_copy && before != after => {
                if !is_copy {
                    self.judge_release(&place, write);
                }
                self.judge_scaled(&place, write);
            }
            (None, Some(_)) => self.judge_creation(&place, write),
            _ => {}
        }
        self.note_set_copy(&place, write, is_copy);
        let is_of_set = self.sets.health.mark(&place).is_some();
        if write.resource == DEPLOYMENTS && write.before != write.after && !is_of_set {
            self.judge_replicas(&place, write);
        }
    }

    /// A copy is gone, and operators do not know it yet.
    fn lose(&mut self, place: &Place) {
        self.sets.lost(place);
        if self.made.remove(place).is_some() {
            self.lost.insert(place.clone(), Instant::now());
        }
    }

    fn judge_deletion(&mut self, place: &Place, write: &ClientWrite) {
        let made = self.made.remove(place).unwrap_or(self.started);
        let since = made.checked_sub(self.stale).unwrap_or(self.started);
        if let Some(why) = self.keeps_all {
            self.violated(why, &place.0, write);
        }
        let leaves_set = self.leaves_set(place, false);
        if leaves_set == Some(true) || self.deleted.held_since(place, since) {
            return;
        }
        if made >= self.evaluated {
            // Its template may have been gone before the operator has seen it.
            self.evictions.awaited.push((place.clone(), write.clone()));
            return;
        }
        self.judge_eviction(place, write);
    }

    fn judge_release(&mut self, place: &Place, write: &ClientWrite) {
        let made = self.made.remove(place).unwrap_or(self.started);
        let since = made.checked_sub(self.stale).unwrap_or(self.started);
        let leaves_set = self.leaves_set(place, true);
        if leaves_set != Some(true) && !self.released.held_since(place, since) {
            let what = "a copy is released that no template has left to its cluster";
            self.violated(what, &place.0, write);
        }
        let foreign = Foreign {
            since: Instant::now(),
            was_copy: true,
        };
        self.foreign.insert(place.clone(), foreign);
    }

    fn judge_takeover(&mut self, place: &Place, write: &ClientWrite) {
        let now = Instant::now();
        let foreign = self.foreign.get(place).copied();
        let (since, was_copy) = foreign.map_or((self.started, false), |foreign| {
            (foreign.since, foreign.was_copy)
        });
        let known_for = if was_copy { self.stale } else { RACE };
        let since_stale = since.checked_sub(self.stale).unwrap_or(self.started);
        let is_race = now.duration_since(since) < known_for;
        if !is_race && !self.overwritable.held_since(place, since_stale) {
            let what = "an object that is not Fleetdex's is changed";
            self.violated(what, &place.0, write);
        }
        self.foreign.remove(place);
        self.made.insert(place.clone(), now);
    }

    fn judge_creation(&mut self, place: &Place, write: &ClientWrite) {
        let now = Instant::now();
        self.made.insert(place.clone(), now);
        self.foreign.remove(place);
        let since = now.checked_sub(IN_FLIGHT).unwrap_or(self.started);
        if place.1.kind != "Namespace" && !self.bound.held_since(place, since) {
            let what = "an object is written before its binding says where it goes";
            self.violated(what, &place.0, write);
        }
    }
}

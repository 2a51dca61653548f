//! Judges which objects operators evict from clusters, and when these lose their copies.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use fakes::apiserver::ClientWrite;
use fleetdex_distribution::{binding::KnownBinding, failover::PRODUCER, plan::LeftoverFate};
use serde_json::Value;
use tokio::time::Instant;

use super::{
    expected::Expected,
    guard::{Guard, GuardState, IN_FLIGHT},
    timeline::Place,
};

/// After how long a graceful eviction ends in any case, less the second that times of tasks are
/// rounded to.
const GRACE: Duration = Duration::from_secs(599);

const UNDESERVED: &str = "a copy is deleted that belonged there as long as it was there";

impl Guard {
    /// Whether a cluster has a taint that drives objects out.
    pub fn is_tainted(&self, member: &str) -> bool {
        self.lock().evictions.tainted.get(member) == Some(&None)
    }

    /// A cluster has that taint from now on, or does not.
    pub fn set_tainted(&self, member: &str, is_tainted: bool) {
        let mut state = self.lock();
        let tainted = &mut state.evictions.tainted;
        if is_tainted {
            tainted.insert(member.to_owned(), None);
        } else if let Some(until) = tainted.get_mut(member) {
            until.get_or_insert_with(Instant::now);
        }
    }
}

impl GuardState {
    /// Keeps what a binding says of evictions. Only policies with a failover begin some, and only
    /// from clusters with a taint.
    pub(super) fn set_evicted(&mut self, write: &ClientWrite) {
        let (before, after) = (
            evictions(write.before.as_ref()),
            evictions(write.after.as_ref()),
        );
        let has_failover = write
            .after
            .as_ref()
            .is_some_and(|binding| !binding["spec"]["failover"].is_null());
        let begun = after.keys().filter(|place| !before.contains_key(*place));
        for place in begun {
            let is_tainted = match self.evictions.tainted.get(&place.0) {
                Some(None) => true,
                Some(Some(until)) => until.elapsed() < self.stale,
                None => false,
            };
            if !is_tainted || !has_failover {
                let what = "an object is evicted, and nothing asks for that";
                self.violated(what, &place.0, write);
            }
        }
        let now = Instant::now();
        for place in before.keys().filter(|place| !after.contains_key(*place)) {
            self.evictions.begun.remove(place);
        }
        for place in after.keys() {
            self.evictions.begun.entry(place.clone()).or_insert(now);
        }
        let graceful = after
            .iter()
            .filter(|(_, mode)| **mode == Evicted::Gracefully);
        let graceful = graceful.map(|(place, _)| place.clone()).collect();
        self.evictions
            .graceful
            .replace(before.keys(), graceful, now);
        let (former, moved) = (moves(write.before.as_ref()), moves(write.after.as_ref()));
        self.evictions.moved.replace(&former, moved, now);
        let evicted = after.into_keys().collect();
        self.evictions.evicted.replace(before.keys(), evicted, now);
    }

    /// Judges a deletion that is right only if the object is evicted.
    pub(super) fn judge_eviction(&mut self, place: &Place, write: &ClientWrite) {
        let now = Instant::now();
        let since = now.checked_sub(IN_FLIGHT).unwrap_or(self.started);
        let evictions = &self.evictions;
        let is_early = evictions.graceful.held_since(place, since)
            && !self.is_elsewhere(place)
            && !self.is_grace_over(place);
        if is_early {
            let what = "a copy is evicted before its object is elsewhere";
            self.violated(what, &place.0, write);
            return;
        }
        if evictions.moved.held_since(place, since) {
            self.evictions.awaited.push((place.clone(), write.clone()));
        } else if !evictions.evicted.held_since(place, since) {
            self.violated(UNDESERVED, &place.0, write);
        }
    }

    /// Judges the deletions because of moves by the plan of now.
    pub(super) fn judge_moves(&mut self, expected: &Expected) {
        for (place, write) in std::mem::take(&mut self.evictions.awaited) {
            if expected.fate(&place.0, &place.1) != LeftoverFate::Deleted {
                self.violated(UNDESERVED, &place.0, &write);
            }
        }
    }

    fn is_grace_over(&self, place: &Place) -> bool {
        let begun = self.evictions.begun.get(place);
        begun.is_some_and(|begun| begun.elapsed() >= GRACE)
    }

    /// Whether another member has a copy, or had one as far as an operator may know.
    fn is_elsewhere(&self, place: &Place) -> bool {
        let is_other = |other: &Place| other.1 == place.1 && other.0 != place.0;
        let mut lost = self.lost.iter();
        self.made.keys().any(is_other)
            || lost.any(|(other, when)| is_other(other) && when.elapsed() < self.stale)
    }
}

/// The clusters that a binding says its object moves away from.
fn moves(binding: Option<&Value>) -> BTreeSet<Place> {
    let known = binding.map(KnownBinding::read);
    let Some(Ok(KnownBinding { name, previous, .. })) = known else {
        return BTreeSet::new();
    };
    let leaving = previous.leaving.iter();
    leaving
        .map(|cluster| (cluster.clone(), name.clone()))
        .collect()
}

/// How long a copy stays in the cluster that it is evicted from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Evicted {
    Directly,
    Gracefully,
}

/// What a binding says of evictions by Fleetdex, moves aside.
fn evictions(binding: Option<&Value>) -> BTreeMap<Place, Evicted> {
    let known = binding.map(KnownBinding::read);
    let Some(Ok(KnownBinding { name, previous, .. })) = known else {
        return BTreeMap::new();
    };
    let tasks = previous.evictions.iter();
    let of_ours = tasks.filter(|task| task.producer == PRODUCER);
    of_ours
        .map(|task| {
            let mode = match task.purge_mode.as_deref() {
                Some("Directly") => Evicted::Directly,
                _ => Evicted::Gracefully,
            };
            ((task.from_cluster.clone(), name.clone()), mode)
        })
        .collect()
}

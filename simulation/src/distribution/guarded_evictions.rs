//! Judges which objects operators evict from clusters, and when these lose their copies.

use std::collections::BTreeMap;

use fakes::apiserver::ClientWrite;
use fleetdex_distribution::{binding::KnownBinding, failover::PRODUCER};
use serde_json::Value;
use tokio::time::Instant;

use super::{
    guard::{Guard, GuardState, IN_FLIGHT},
    timeline::{Place, Timeline},
};

/// Which clusters drive objects out, and what bindings say of evictions.
#[derive(Default)]
pub(super) struct GuardedEvictions {
    /// The clusters that have the taint; `None`: they have it now.
    tainted: BTreeMap<String, Option<Instant>>,
    evicted: Timeline,
    /// Those of the evicted that stay until the object is elsewhere.
    graceful: Timeline,
}

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
        let (before, after) = (evictions(&write.before), evictions(&write.after));
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
        let graceful = after
            .iter()
            .filter(|(_, mode)| **mode == Evicted::Gracefully);
        let graceful = graceful.map(|(place, _)| place.clone()).collect();
        self.evictions
            .graceful
            .replace(before.keys(), graceful, now);
        let evicted = after.into_keys().collect();
        self.evictions.evicted.replace(before.keys(), evicted, now);
    }

    /// Judges a deletion that is right only if the object is evicted.
    pub(super) fn judge_eviction(&mut self, place: &Place, write: &ClientWrite) {
        let now = Instant::now();
        let since = now.checked_sub(IN_FLIGHT).unwrap_or(self.started);
        if !self.evictions.evicted.held_since(place, since) {
            let what = "a copy is deleted that belonged there as long as it was there";
            self.violated(what, &place.0, write);
        } else if self.evictions.graceful.held_since(place, since) && !self.is_elsewhere(place) {
            let what = "a copy is evicted before its object is elsewhere";
            self.violated(what, &place.0, write);
        }
    }

    /// Whether another member has a copy, or had one as far as an operator may know.
    fn is_elsewhere(&self, place: &Place) -> bool {
        let is_other = |other: &Place| other.1 == place.1 && other.0 != place.0;
        let mut lost = self.lost.iter();
        self.made.keys().any(is_other)
            || lost.any(|(other, when)| is_other(other) && when.elapsed() < self.stale)
    }
}

/// How long a copy stays in the cluster that it is evicted from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Evicted {
    Directly,
    Gracefully,
}

/// What a binding says of evictions by Fleetdex, moves aside.
fn evictions(binding: &Option<Value>) -> BTreeMap<Place, Evicted> {
    let known = binding.as_ref().map(KnownBinding::read);
    let Some(Ok(KnownBinding { name, previous, .. })) = known else {
        return BTreeMap::new();
    };
    let tasks = previous.evictions.into_iter();
    let of_ours = tasks.filter(|task| task.producer == PRODUCER);
    of_ours
        .map(|task| {
            let mode = match task.purge_mode.as_deref() {
                Some("Directly") => Evicted::Directly,
                _ => Evicted::Gracefully,
            };
            ((task.from_cluster, name.clone()), mode)
        })
        .collect()
}

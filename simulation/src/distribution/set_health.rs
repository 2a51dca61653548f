//! What members had of sets, and how it was there.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use super::timeline::Place;

/// An object of a member as it was after a change.
type Marked = (Place, String);

/// What members have and had of sets.
#[derive(Default)]
pub struct MemberHealth {
    /// The marks of copies.
    marks: BTreeMap<Place, String>,
    /// When copies had other marks, or were there, for the last time.
    had: BTreeMap<Marked, Instant>,
    /// When workloads were healthy for the last time.
    healthy: BTreeMap<Marked, Instant>,
    /// Since when workloads are ill.
    ill: BTreeMap<Place, Instant>,
}

impl MemberHealth {
    /// The mark of a copy.
    pub fn mark(&self, place: &Place) -> Option<&String> {
        self.marks.get(place)
    }

    /// A copy has this mark from now on; `None`: it is gone.
    pub fn set_mark(&mut self, place: &Place, mark: Option<&str>) {
        if self.marks.get(place).map(String::as_str) == mark {
            return;
        }
        let now = Instant::now();
        if let Some(before) = self.marks.remove(place) {
            let marked = (place.clone(), before);
            if !self.ill.contains_key(place)
                && let Some(healthy) = self.healthy.get_mut(&marked)
            {
                *healthy = now;
            }
            self.had.insert(marked, now);
        }
        match mark {
            Some(mark) => {
                self.marks.insert(place.clone(), mark.to_owned());
                // It has to be observed first.
                self.ill.entry(place.clone()).or_insert(now);
            }
            None => {
                self.ill.remove(place);
            }
        }
    }

    /// How a workload is from now on.
    pub fn set_health(&mut self, place: &Place, is_healthy: bool) {
        let now = Instant::now();
        let Some(mark) = self.marks.get(place) else {
            return;
        };
        let marked = (place.clone(), mark.clone());
        if is_healthy {
            self.ill.remove(place);
            self.healthy.insert(marked, now);
        } else if !self.ill.contains_key(place) {
            if let Some(healthy) = self.healthy.get_mut(&marked) {
                *healthy = now;
            }
            self.ill.insert(place.clone(), now);
        }
    }

    /// Why an operator cannot have seen since then that an object was in order, or must know that
    /// it is not; `None`: it may have seen that. `stale`: how old what it knows may be.
    pub fn problem(
        &self,
        place: &Place,
        mark: &str,
        since: Instant,
        stale: Duration,
    ) -> Option<&'static str> {
        let marked = (place.clone(), mark.to_owned());
        let is_now = self.marks.get(place).is_some_and(|now| now == mark);
        if !is_now && self.had.get(&marked).is_none_or(|last| *last < since) {
            return Some("was not written");
        }
        if place.1.kind != "Deployment" {
            return None;
        }
        let is_ill = self.ill.get(place);
        let is_healthy = is_now && is_ill.is_none() && self.healthy.contains_key(&marked);
        if !is_healthy && self.healthy.get(&marked).is_none_or(|last| *last < since) {
            return Some("was not healthy");
        }
        is_ill
            .is_some_and(|since| since.elapsed() > stale)
            .then_some("has been ill for long")
    }
}

//! What is known of sets.

use std::collections::{BTreeMap, BTreeSet};

use super::{set_health::MemberHealth, set_history::SetHistory, timeline::Place};

/// What is known of sets.
#[derive(Default)]
pub struct GuardedSets {
    /// By the UID of the `Distribution`.
    pub sets: BTreeMap<String, SetHistory>,
    /// The set of each mark.
    pub owners: BTreeMap<String, String>,
    /// What members have and had.
    pub health: MemberHealth,
    /// What was changed while the account of its set had no rights.
    pub unlawful: BTreeSet<String>,
}

impl GuardedSets {
    /// A copy is gone, or is not Fleetdex's any more.
    pub fn lost(&mut self, place: &Place) {
        self.health.set_mark(place, None);
    }

    /// The set of a mark.
    pub fn owner(&self, mark: &str) -> Option<&SetHistory> {
        self.sets.get(self.owners.get(mark)?)
    }
}

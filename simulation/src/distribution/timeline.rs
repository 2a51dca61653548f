//! When something held for objects of members.

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_distribution::template_name::TemplateName;
use tokio::time::Instant;

/// An object of a member.
pub type Place = (String, TemplateName);

/// Places for which something holds, and until when it did for others.
#[derive(Default)]
pub struct Timeline {
    /// Where it holds.
    pub now: BTreeSet<Place>,
    last: BTreeMap<Place, Instant>,
}

impl Timeline {
    /// It holds for these places from now on, and for no others.
    pub fn set(&mut self, places: BTreeSet<Place>, at: Instant) {
        for place in self.now.iter().chain(&places) {
            self.last.insert(place.clone(), at);
        }
        self.now = places;
    }

    /// It holds for `places`, and no longer for those of `former` that are not among them.
    pub fn replace<'p>(
        &mut self,
        former: impl IntoIterator<Item = &'p Place>,
        places: BTreeSet<Place>,
        at: Instant,
    ) {
        let mut now = self.now.clone();
        for place in former {
            now.remove(place);
        }
        now.extend(places);
        self.set(now, at);
    }

    /// Whether it holds, or did at some time since then.
    pub fn held_since(&self, place: &Place, since: Instant) -> bool {
        self.now.contains(place) || self.last.get(place).is_some_and(|last| *last >= since)
    }
}

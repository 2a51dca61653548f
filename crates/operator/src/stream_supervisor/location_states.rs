//! What stores contain that registries name, or have named before.

use std::collections::BTreeSet;

use fleetdex_core::model::{ClusterName, StoreName};

use super::{
    applied::AppliedPlan, former_locations::FormerLocations, gc_schedule::GcSchedule,
    revisions::WrittenRevisions,
};

/// The state of each store of the plan and of each former location, as far as the clusters of this
/// replica are concerned.
#[derive(Clone, Copy)]
pub struct LocationStates<'a> {
    pub(super) applied: Option<&'a AppliedPlan>,
    pub(super) former: &'a FormerLocations,
    pub(super) gc: &'a GcSchedule,
    pub(super) revisions: WrittenRevisions<'a>,
}

impl<'a> LocationStates<'a> {
    /// The stores that are open although no registry names them any more.
    pub fn former(self) -> impl Iterator<Item = &'a StoreName> {
        let applied = self.applied.into_iter();
        applied.flat_map(|applied| applied.former_locations.names())
    }

    /// The former locations that store nothing any more.
    pub fn emptied(self) -> impl Iterator<Item = &'a StoreName> {
        self.former().filter(move |name| self.gc.is_emptied(name))
    }

    /// The clusters that a former location still keeps for a registry, because nothing else answers
    /// for them yet.
    pub fn awaited_clusters(self, location: &StoreName, registry: &str) -> BTreeSet<ClusterName> {
        self.applied.map_or_else(BTreeSet::new, |applied| {
            self.former.awaited_clusters(applied, location, registry)
        })
    }

    /// The former location that answers queries of a cluster of a registry, until the location that
    /// the registry names now is complete.
    pub fn serving(self, registry: &'a str, cluster: &ClusterName) -> Option<&'a StoreName> {
        self.former
            .serving(self.applied?, registry, cluster, self.revisions)
    }

    /// Whether some registry names this store now.
    pub fn is_in_use(self, store: &StoreName) -> bool {
        self.applied
            .is_some_and(|applied| applied.plan.stores.contains_key(store))
    }

    /// Whether a store contains only what the applied plan retains.
    pub fn is_gc_done(self, store: &StoreName) -> bool {
        self.gc.is_done(store)
    }

    /// Whether a location that a registry does not name any more stores none of its documents.
    pub fn hold_nothing_of(self, registry: &str, location: &StoreName) -> bool {
        let plan = self
            .applied
            .and_then(|applied| applied.plan.registries.get(registry));
        plan.is_some_and(|plan| plan.store.as_ref() != Some(location))
            && self.hold_nothing_unselected(location)
    }

    /// Whether a location stores only documents that registries select which name it.
    pub fn hold_nothing_unselected(self, location: &StoreName) -> bool {
        if self.is_in_use(location) {
            self.gc.is_done(location)
        } else {
            self.gc.is_emptied(location)
        }
    }
}

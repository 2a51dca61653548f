//! Former store locations, which registries named before: what they still store, and which of them
//! answer queries until the new location is complete.

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_core::{
    model::{ClusterName, StoreName},
    planted::{Bug, planted},
};

use super::{Applied, StreamSupervisor};
use crate::{
    garbage_collection::{Naming, Retention},
    live_clusters::LINGER,
    plan::{Plan, StorePlan},
    store_locations::StoreLocations,
};

impl StreamSupervisor {
    /// Determines the locations that no registry names any more.
    pub(super) fn update_former_locations(
        &mut self,
        plan: &Plan,
        leaving: &BTreeMap<StoreName, StorePlan>,
    ) -> StoreLocations {
        if let Some(before) = self.applied.as_ref().map(|applied| &applied.plan) {
            for (name, store) in &before.stores {
                self.former_locations.add(
                    name.clone(),
                    store.clone(),
                    store.registries.iter().cloned(),
                );
            }
        }
        let is_used =
            |name: &StoreName| plan.stores.contains_key(name) || leaving.contains_key(name);
        let forgotten: Vec<StoreName> = self
            .former_locations
            .names()
            .filter(|name| is_used(name) || self.is_emptied(name))
            .cloned()
            .collect();
        for name in forgotten {
            self.former_locations.remove(&name);
        }
        // A location that this process has opened stays connected and shaped as it was.
        let mut former = self.former_locations.clone();
        former.extend(self.recorded_locations.clone());
        let used: Vec<StoreName> = former
            .names()
            .filter(|name| is_used(name))
            .cloned()
            .collect();
        for name in used {
            former.remove(&name);
        }
        if planted(Bug::ForgetOldPlace) {
            StoreLocations::default()
        } else {
            former
        }
    }

    /// The clusters whose documents a former location has to keep, because nothing else answers for
    /// them yet: those of the registries that have named it.
    pub(super) fn awaited_clusters_of(
        &self,
        plan: &Plan,
        location: &StoreName,
        former_locations: &StoreLocations,
    ) -> BTreeSet<ClusterName> {
        let mut awaited = BTreeSet::new();
        for registry in former_locations
            .registries(location)
            .filter_map(|name| plan.registries.get(name))
        {
            let Some(store) = &registry.store else {
                continue;
            };
            let clusters = registry
                .clusters
                .iter()
                .filter(|(_, cluster)| !cluster.units.is_empty() || !cluster.discovered);
            awaited.extend(
                clusters
                    .map(|(name, _)| name)
                    .filter(|name| !self.is_served_stably(store, name))
                    .cloned(),
            );
        }
        awaited
    }

    /// Whether the store has answered queries of a cluster for [`LINGER`], as completely as it ever
    /// will.
    pub(super) fn is_served_stably(&self, store: &StoreName, cluster: &ClusterName) -> bool {
        let without_refused = self.final_since.get(&(store.clone(), cluster.clone()));
        self.live_clusters.contains_stably(store, cluster)
            || without_refused.is_some_and(|since| since.elapsed() >= LINGER)
    }

    /// The clusters that a former location still keeps for a registry, because nothing else answers
    /// for them yet.
    pub fn awaited_clusters(&self, location: &StoreName, registry: &str) -> BTreeSet<ClusterName> {
        let Some(Applied {
            plan,
            former_locations,
            ..
        }) = &self.applied
        else {
            return BTreeSet::new();
        };
        if former_locations
            .registries(location)
            .any(|name| name == registry)
        {
            self.awaited_clusters_of(plan, location, former_locations)
        } else {
            BTreeSet::new()
        }
    }

    /// The former location that answers queries of a cluster of a registry, until the location that
    /// the registry names now is complete.
    pub fn serving_former_location(
        &self,
        registry: &str,
        cluster: &ClusterName,
    ) -> Option<&StoreName> {
        let Applied {
            plan,
            former_locations,
            ..
        } = self.applied.as_ref()?;
        let store = plan.registries.get(registry)?.store.as_ref()?;
        if self.live_clusters.contains(store, cluster)
            || self
                .final_since
                .contains_key(&(store.clone(), cluster.clone()))
        {
            return None;
        }
        let answers = |name: &&StoreName| {
            let is_open = self
                .pipeline(name)
                .is_some_and(|pipeline| matches!(pipeline.availability(), Some(Ok(()))));
            let may_hold = || {
                self.live_clusters.contains(name, cluster)
                    || self.is_live(name, cluster)
                    || self.live_clusters.all().is_none()
            };
            is_open && may_hold()
        };
        former_locations.of_registry(registry).find(answers)
    }

    /// The clusters that the new and former locations of moved registries answer queries of; `None`
    /// until every location has been read. Changes together with the result of
    /// [`Self::serving_former_location`].
    pub fn live_clusters(&self) -> Option<BTreeSet<(StoreName, ClusterName)>> {
        let mut live_clusters = self.live_clusters.all()?;
        live_clusters.extend(self.final_since.keys().cloned());
        Some(live_clusters)
    }

    /// The stores that are open although no registry names them any more.
    pub fn former_stores(&self) -> impl Iterator<Item = &StoreName> {
        self.applied
            .iter()
            .flat_map(|applied| applied.former_locations.names())
    }

    /// Watches which clusters are live in the new and former locations of moved registries.
    pub(super) fn watch_live_clusters(&mut self, applied: &Applied) {
        let registries = applied
            .former_locations
            .names()
            .flat_map(|location| applied.former_locations.registries(location));
        let new = registries.filter_map(|name| applied.plan.registries.get(name)?.store.as_ref());
        let stores: BTreeSet<&StoreName> = new.chain(applied.former_locations.names()).collect();
        let pipelines = stores
            .into_iter()
            .filter_map(|name| Some((name.clone(), self.stores.get(name)?.pipeline.clone())));
        self.live_clusters.watch(pipelines.collect());
    }

    /// What may stay in a former location.
    pub(super) fn former_retention(
        &self,
        applied: &Applied,
        name: &StoreName,
        former: &StorePlan,
    ) -> Retention {
        let awaited = self.awaited_clusters_of(&applied.plan, name, &applied.former_locations);
        let stays = applied
            .former_locations
            .registries(name)
            .any(|registry| applied.plan.registries.contains_key(registry));
        Retention {
            clusters: awaited.into_iter().map(|cluster| (cluster, None)).collect(),
            retains_other_clusters: stays && !self.knows_all_members,
            naming: Naming::Former,
            same_prefix_stores: applied.stores_of_prefix(former, Naming::Former),
        }
    }

    /// The former locations that store nothing any more of the clusters that are assigned to this
    /// replica.
    pub fn emptied_locations(&self) -> impl Iterator<Item = &StoreName> {
        self.former_stores().filter(|name| self.is_emptied(name))
    }

    /// Whether a location that a registry does not name any more stores none of its documents, as
    /// far as the clusters of this replica are concerned.
    pub fn holds_nothing_of(&self, registry: &str, location: &StoreName) -> bool {
        let Some(plan) = self.plan() else {
            return false;
        };
        let names_another = plan
            .registries
            .get(registry)
            .is_some_and(|plan| plan.store.as_ref() != Some(location));
        names_another && self.holds_nothing_unselected(location)
    }

    /// Whether a location stores only documents that registries select which name it, as far as the
    /// clusters of this replica are concerned.
    pub fn holds_nothing_unselected(&self, location: &StoreName) -> bool {
        if self.is_in_use(location) {
            self.is_gc_done(location)
        } else {
            self.is_emptied(location)
        }
    }

    /// Whether garbage collection has emptied a former location.
    pub(super) fn is_emptied(&self, name: &StoreName) -> bool {
        let is_former = self
            .gc_tasks
            .get(name)
            .is_some_and(|task| task.retention.naming == Naming::Former);
        is_former && self.is_gc_done(name)
    }
}

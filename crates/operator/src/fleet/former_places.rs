//! Places that registries have left: what they still hold, and from where queries are answered until the new places are complete.

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_core::{
    model::{ClusterName, StoreName},
    planted::{Bug, planted},
};

use super::{Applied, Fleet};
use crate::{
    arrivals::LINGER,
    places::Places,
    plan::{Plan, StorePlan},
    sweep::Wanted,
};

impl Fleet {
    /// The places that no registry names any more.
    pub(super) fn old_places(
        &mut self,
        plan: &Plan,
        leaving: &BTreeMap<StoreName, StorePlan>,
    ) -> Places {
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
    pub(super) fn held(
        &self,
        plan: &Plan,
        place: &StoreName,
        old: &Places,
    ) -> BTreeSet<ClusterName> {
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
    pub(super) fn has_lasted(&self, store: &StoreName, cluster: &ClusterName) -> bool {
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
    pub(super) fn await_arrivals(&mut self, applied: &Applied) {
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

    /// What may stay in a place that no registry names any more.
    pub(super) fn wanted_of_old(
        &self,
        applied: &Applied,
        name: &StoreName,
        old: &StorePlan,
    ) -> Wanted {
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

    /// The places that no registry names any more, and in which nothing of this replica's share is left.
    pub fn swept_places(&self) -> impl Iterator<Item = &StoreName> {
        self.old_stores().filter(|name| self.is_swept_place(name))
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
    pub(super) fn is_swept_place(&self, name: &StoreName) -> bool {
        let is_old = self
            .sweeps
            .get(name)
            .is_some_and(|sweep| sweep.wanted.neighbours.is_some());
        is_old && self.is_swept(name)
    }
}

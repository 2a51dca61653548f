//! Former store locations, which registries named before: what they still store, and which of them
//! answer queries until the new location is complete.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_core::{
    model::{ClusterName, StoreName},
    planted::{Bug, planted},
};
use tokio::{sync::Notify, time::Instant};

use super::{applied::AppliedPlan, revisions::WrittenRevisions, stores::RunningStores};
use crate::{
    garbage_collection::{Naming, Retention},
    live_clusters::{LINGER, LiveClusters},
    plan::{Plan, StorePlan},
    store_locations::StoreLocations,
};

pub(super) struct FormerLocations {
    /// Stores of earlier plans that no registry names any more.
    known: StoreLocations,
    /// The clusters that the new and former locations of moved registries answer queries of.
    live_clusters: LiveClusters,
    /// Clusters of which a new location stores everything but the kinds that their members have
    /// refused for too long, and since when that is so.
    final_since: BTreeMap<(StoreName, ClusterName), Instant>,
}

impl FormerLocations {
    pub(super) fn new(changed: Arc<Notify>) -> Self {
        Self {
            known: StoreLocations::default(),
            live_clusters: LiveClusters::new(changed),
            final_since: BTreeMap::new(),
        }
    }

    /// Determines the locations that no registry names any more: those of the plan before, and
    /// those that statuses record.
    pub(super) fn update(
        &mut self,
        before: Option<&Plan>,
        is_used: impl Fn(&StoreName) -> bool,
        recorded: StoreLocations,
        is_emptied: impl Fn(&StoreName) -> bool,
    ) -> StoreLocations {
        for (name, store) in before.iter().flat_map(|plan| &plan.stores) {
            self.known.add(
                name.clone(),
                store.clone(),
                store.registries.iter().cloned(),
            );
        }
        self.known
            .retain(|name| !is_used(name) && !is_emptied(name));
        // A location that this process has opened stays connected and shaped as it was.
        let mut former = self.known.clone();
        former.extend(recorded);
        former.retain(|name| !is_used(name));
        if planted(Bug::ForgetOldPlace) {
            StoreLocations::default()
        } else {
            former
        }
    }

    /// Watches which clusters are live in the new and former locations of moved registries.
    pub(super) fn watch_live_clusters(&mut self, applied: &AppliedPlan, stores: &RunningStores) {
        let registries = applied
            .former_locations
            .names()
            .flat_map(|location| applied.former_locations.registries(location));
        let new = registries.filter_map(|name| applied.plan.registries.get(name)?.store.as_ref());
        let watched: BTreeSet<&StoreName> = new.chain(applied.former_locations.names()).collect();
        self.live_clusters.watch(stores.pipelines(watched));
    }

    /// While a former location keeps documents, notes the clusters of which nothing more will come
    /// to the new location. `is_final` states that of each cluster that a store has streams of.
    pub(super) fn note_final(
        &mut self,
        applied: &AppliedPlan,
        is_final: BTreeMap<(&StoreName, &ClusterName), bool>,
    ) {
        if applied.former_locations.is_empty() {
            self.final_since.clear();
            return;
        }
        let coverage = &applied.plan.coverage;
        self.final_since
            .retain(|of_store, _| coverage.contains_key(of_store));
        for ((store, cluster), is_final) in is_final {
            let of_store = (store.clone(), cluster.clone());
            let is_certain = coverage
                .get(&of_store)
                .is_some_and(|coverage| coverage.certain);
            if is_final && is_certain {
                self.final_since
                    .entry(of_store)
                    .or_insert_with(Instant::now);
            }
        }
    }

    /// The clusters that a former location still keeps for a registry, because nothing else answers
    /// for them yet.
    pub(super) fn awaited_clusters(
        &self,
        applied: &AppliedPlan,
        location: &StoreName,
        registry: &str,
    ) -> BTreeSet<ClusterName> {
        let mut registries = applied.former_locations.registries(location);
        if registries.any(|name| name == registry) {
            self.awaited_clusters_of_all(applied, location)
        } else {
            BTreeSet::new()
        }
    }

    /// The same for all registries that have named the location.
    fn awaited_clusters_of_all(
        &self,
        applied: &AppliedPlan,
        location: &StoreName,
    ) -> BTreeSet<ClusterName> {
        let mut awaited = BTreeSet::new();
        for registry in applied
            .former_locations
            .registries(location)
            .filter_map(|name| applied.plan.registries.get(name))
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
    fn is_served_stably(&self, store: &StoreName, cluster: &ClusterName) -> bool {
        let without_refused = self.final_since.get(&(store.clone(), cluster.clone()));
        self.live_clusters.contains_stably(store, cluster)
            || without_refused.is_some_and(|since| since.elapsed() >= LINGER)
    }

    /// The former location that answers queries of a cluster of a registry, until the location that
    /// the registry names now is complete.
    pub(super) fn serving<'a>(
        &self,
        applied: &'a AppliedPlan,
        registry: &'a str,
        cluster: &ClusterName,
        revisions: WrittenRevisions<'_>,
    ) -> Option<&'a StoreName> {
        let store = applied.plan.registries.get(registry)?.store.as_ref()?;
        if self.live_clusters.contains(store, cluster)
            || self
                .final_since
                .contains_key(&(store.clone(), cluster.clone()))
        {
            return None;
        }
        let answers = |name: &&StoreName| {
            let is_open = revisions
                .stores
                .pipeline(name)
                .is_some_and(|pipeline| matches!(pipeline.store.availability(), Some(Ok(()))));
            let may_hold = || {
                self.live_clusters.contains(name, cluster)
                    || revisions.is_live(name, cluster)
                    || self.live_clusters.all().is_none()
            };
            is_open && may_hold()
        };
        applied.former_locations.of_registry(registry).find(answers)
    }

    /// The clusters that the new and former locations of moved registries answer queries of; `None`
    /// until every location has been read. Changes together with the result of [`Self::serving`].
    pub(super) fn live_clusters(&self) -> Option<BTreeSet<(StoreName, ClusterName)>> {
        let mut live_clusters = self.live_clusters.all()?;
        live_clusters.extend(self.final_since.keys().cloned());
        Some(live_clusters)
    }

    /// What may stay in a former location.
    pub(super) fn retention(
        &self,
        applied: &AppliedPlan,
        name: &StoreName,
        former: &StorePlan,
    ) -> Retention {
        let awaited = self.awaited_clusters_of_all(applied, name);
        let stays = applied
            .former_locations
            .registries(name)
            .any(|registry| applied.plan.registries.contains_key(registry));
        Retention {
            clusters: awaited.into_iter().map(|cluster| (cluster, None)).collect(),
            retains_other_clusters: stays && !applied.knows_all_members,
            naming: Naming::Former,
            same_prefix_stores: applied.stores_of_prefix(former, Naming::Former),
        }
    }
}

#[cfg(test)]
mod tests {
    use fleetdex_crds::registry::OpenSearch;

    use super::*;
    use crate::plan::{ClusterPlan, Coverage, RegistryPlan};

    fn name(name: &str) -> StoreName {
        name.parse().unwrap()
    }

    fn opensearch(registry: &str) -> StorePlan {
        StorePlan {
            config: Some(OpenSearch::default()),
            registries: vec![registry.to_owned()],
            ..StorePlan::default()
        }
    }

    fn plan(store: &str) -> Plan {
        Plan {
            stores: [(name(store), opensearch("demo"))].into(),
            ..Plan::default()
        }
    }

    #[test]
    fn a_location_is_former_from_when_no_registry_names_it_until_it_is_emptied() {
        let mut locations = FormerLocations::new(Arc::default());
        let (before, after) = (plan("old"), plan("new"));
        let mut recorded = StoreLocations::default();
        recorded.add(name("recorded"), opensearch("demo"), ["demo".to_owned()]);
        recorded.add(name("new"), opensearch("demo"), ["demo".to_owned()]);
        for (before, recorded, emptied, expected) in [
            (None, StoreLocations::default(), None, &[][..]),
            (Some(&before), recorded, None, &["old", "recorded"]),
            (Some(&after), StoreLocations::default(), None, &["old"]),
            (Some(&after), StoreLocations::default(), Some("old"), &[]),
        ] {
            let former = locations.update(
                before,
                |location| after.stores.contains_key(location),
                recorded,
                |location| emptied == Some(location.as_str()),
            );
            let found: Vec<&str> = former.names().map(StoreName::as_str).collect();
            assert_eq!(found, expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_former_location_keeps_a_cluster_until_the_new_one_has_been_final_for_a_while() {
        let cluster: ClusterName = "member1".parse().unwrap();
        let mut locations = FormerLocations::new(Arc::default());
        let registry = RegistryPlan {
            store: Some(name("new")),
            clusters: [(cluster.clone(), ClusterPlan::default())].into(),
            ..RegistryPlan::default()
        };
        let coverage = Coverage {
            certain: true,
            ..Coverage::default()
        };
        let mut applied = AppliedPlan {
            plan: Plan {
                registries: [("demo".to_owned(), registry)].into(),
                coverage: [((name("new"), cluster.clone()), coverage)].into(),
                ..plan("new")
            },
            ..AppliedPlan::default()
        };
        let former = opensearch("demo");
        let registries = ["demo".to_owned()];
        applied
            .former_locations
            .add(name("old"), former.clone(), registries);
        let new = name("new");
        for (is_final, seconds, expected) in [
            (false, 0, 1),
            (true, 0, 1),
            (true, LINGER.as_secs() - 1, 1),
            (true, 1, 0),
        ] {
            tokio::time::advance(std::time::Duration::from_secs(seconds)).await;
            locations.note_final(&applied, [((&new, &cluster), is_final)].into());
            let awaited = locations.awaited_clusters(&applied, &name("old"), "demo");
            assert_eq!(awaited.len(), expected, "{is_final} {seconds}");
            let retention = locations.retention(&applied, &name("old"), &former);
            assert_eq!(retention.clusters.len(), expected);
            let of_other = locations.awaited_clusters(&applied, &name("old"), "other");
            assert!(of_other.is_empty());
        }
    }
}

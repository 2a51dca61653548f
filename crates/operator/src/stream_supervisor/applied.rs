//! The plan that was applied last, with its inputs.

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_core::model::{ClusterName, StoreName};
use fleetdex_replicas::Assignment;

use crate::{
    garbage_collection::Naming,
    plan::{Plan, StorePlan},
    store_locations::StoreLocations,
};

/// A plan, with its inputs.
#[derive(Default, PartialEq)]
pub(super) struct AppliedPlan {
    pub(super) plan: Plan,
    /// The stores that only registries name that are being deleted.
    pub(super) leaving: BTreeMap<StoreName, StorePlan>,
    /// Locations that no registry names any more. They are emptied once others answer in their
    /// stead.
    pub(super) former_locations: StoreLocations,
    pub(super) connections: BTreeMap<ClusterName, Option<u64>>,
    pub(super) assignment: Assignment,
    pub(super) knows_all_members: bool,
}

impl AppliedPlan {
    /// The clusters that this replica reads for a store. The embedded store of this process does
    /// not help the other replicas, so each reads every cluster for its own.
    pub(super) fn assignment_for(&self, store: &StoreName) -> Assignment {
        let is_embedded = self.store_plan(store).is_some_and(StorePlan::is_embedded);
        if is_embedded {
            Assignment::SingleReplica
        } else {
            self.assignment.clone()
        }
    }

    /// Whether all replicas use a store that registries name now.
    pub(super) fn is_shared(&self, store: &StoreName) -> bool {
        let plan = self.plan.stores.get(store);
        plan.is_some_and(|plan| !plan.is_embedded())
    }

    /// Whether this replica is connected to a cluster.
    pub(super) fn is_connected(&self, cluster: &ClusterName) -> bool {
        self.connections.get(cluster).is_some_and(Option::is_some)
    }

    /// The stores that are to be open.
    pub(super) fn stores(&self) -> BTreeMap<StoreName, StorePlan> {
        let mut stores = self.former_locations.plans();
        stores.extend(self.leaving.clone());
        stores.extend(self.plan.stores.clone());
        stores
    }

    /// The stores in use with the index prefix of one that no registry names any more: they may be
    /// the same OpenSearch under another address. A former location is not emptied before those
    /// that are being deleted are.
    pub(super) fn stores_of_prefix(
        &self,
        store: &StorePlan,
        naming: Naming,
    ) -> BTreeSet<StoreName> {
        let may_be_same = |other: &StorePlan| {
            !other.is_embedded() && !store.is_embedded() && other.prefix == store.prefix
        };
        let leaving = self.leaving.iter().filter(|_| naming == Naming::Former);
        let in_use = self.plan.stores.iter().chain(leaving);
        in_use
            .filter(|(_, other)| may_be_same(other))
            .map(|(name, _)| name.clone())
            .collect()
    }

    fn store_plan(&self, store: &StoreName) -> Option<&StorePlan> {
        self.plan
            .stores
            .get(store)
            .or_else(|| self.leaving.get(store))
            .or_else(|| self.former_locations.plan(store))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fleetdex_crds::registry::OpenSearch;
    use fleetdex_replicas::{ReplicaName, assignment::Membership};

    use super::*;

    fn name(name: &str) -> StoreName {
        name.parse().unwrap()
    }

    fn opensearch(prefix: &str) -> StorePlan {
        StorePlan {
            config: Some(OpenSearch::default()),
            prefix: prefix.parse().unwrap(),
            ..StorePlan::default()
        }
    }

    #[test]
    fn a_former_location_waits_for_all_stores_of_its_prefix_and_a_leaving_one_for_those_in_use() {
        let applied = AppliedPlan {
            plan: Plan {
                stores: [
                    (name("used"), opensearch("a")),
                    (name("other"), opensearch("b")),
                    (StoreName::embedded(), StorePlan::default()),
                ]
                .into(),
                ..Plan::default()
            },
            leaving: [(name("leaving"), opensearch("a"))].into(),
            ..AppliedPlan::default()
        };
        for (naming, expected) in [
            (Naming::Former, &["leaving", "used"][..]),
            (Naming::Leaving, &["used"]),
        ] {
            let found = applied.stores_of_prefix(&opensearch("a"), naming);
            let found: Vec<&str> = found.iter().map(StoreName::as_str).collect();
            assert_eq!(found, expected, "{naming:?}");
        }
        let embedded = applied.stores_of_prefix(&StorePlan::default(), Naming::Former);
        assert!(embedded.is_empty());
    }

    #[test]
    fn every_replica_reads_all_clusters_for_its_embedded_store() {
        let mut former_locations = StoreLocations::default();
        former_locations.add(name("former"), opensearch("a"), ["demo".to_owned()]);
        let replica: ReplicaName = "a".parse().unwrap();
        let assignment = Assignment::Replicated(Arc::new(Membership {
            local: replica.clone(),
            alive: [replica.clone()].into(),
            announced: [replica].into(),
            peers: BTreeMap::new(),
        }));
        let applied = AppliedPlan {
            plan: Plan {
                stores: [(StoreName::embedded(), StorePlan::default())].into(),
                ..Plan::default()
            },
            former_locations,
            assignment: assignment.clone(),
            ..AppliedPlan::default()
        };
        assert_eq!(
            applied.assignment_for(&StoreName::embedded()),
            Assignment::SingleReplica
        );
        assert_eq!(applied.assignment_for(&name("former")), assignment);
        assert!(!applied.is_shared(&StoreName::embedded()));
    }
}

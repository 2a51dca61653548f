//! Owners, the objects whose dependants a query selects.

use std::collections::{BTreeMap, BTreeSet};

use super::{permitted::Permitted, requester::Requester, resource_name::ResourceName};
use crate::model::{ClusterName, Namespace};

/// Owners of one query at most: OpenSearch takes 65,536 values, and all of them are in memory here.
pub const MAX_OWNERS: usize = 10_000;

/// Objects by their UIDs, in one cluster or, if the cluster is unknown, in any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners {
    uids: BTreeMap<Option<ClusterName>, BTreeSet<String>>,
}

impl Owners {
    /// Adds an object.
    pub fn insert(&mut self, cluster: Option<ClusterName>, uid: &str) {
        self.uids.entry(cluster).or_default().insert(uid.to_owned());
    }

    /// Adds other owners.
    pub fn extend(&mut self, others: Self) {
        for (cluster, uids) in others.uids {
            self.uids.entry(cluster).or_default().extend(uids);
        }
    }

    /// The UIDs, by cluster.
    pub fn by_cluster(&self) -> impl Iterator<Item = (Option<&ClusterName>, &BTreeSet<String>)> {
        self.uids
            .iter()
            .map(|(cluster, uids)| (cluster.as_ref(), uids))
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.uids.values().map(BTreeSet::len).sum()
    }

    /// Whether there is no owner, so that no object has one of them.
    pub fn is_empty(&self) -> bool {
        self.uids.is_empty()
    }

    /// The UIDs of owners that may be in a cluster.
    pub fn of_cluster(&self, cluster: &ClusterName) -> BTreeSet<String> {
        let may_be = |of: &Option<ClusterName>| of.as_ref().is_none_or(|of| of == cluster);
        self.uids
            .iter()
            .filter(|(of, _)| may_be(of))
            .flat_map(|(_, uids)| uids.iter().cloned())
            .collect()
    }

    /// Whether one of the owner references of an object of a cluster refers to one of these owners.
    pub fn matches<U: AsRef<str>>(
        &self,
        cluster: &str,
        references: impl IntoIterator<Item = U>,
    ) -> bool {
        references.into_iter().any(|uid| {
            self.uids.iter().any(|(of, uids)| {
                of.as_ref().is_none_or(|of| of.as_str() == cluster) && uids.contains(uid.as_ref())
            })
        })
    }
}

impl FromIterator<Relative> for Owners {
    fn from_iter<I: IntoIterator<Item = Relative>>(relatives: I) -> Self {
        let mut owners = Self::default();
        for relative in relatives {
            owners.insert(Some(relative.cluster), &relative.uid);
        }
        owners
    }
}

/// An object that a search for owners or dependants has found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Relative {
    /// The member that holds it.
    pub cluster: ClusterName,
    /// Its namespace; empty where there is none.
    pub namespace: String,
    /// Its group and plural.
    pub resource: ResourceName,
    /// Its UID.
    pub uid: String,
}

/// A search for objects of any kind that are owners, or are between owners and dependants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelativesQuery {
    /// Only in these clusters; empty: all.
    pub clusters: Vec<ClusterName>,
    /// Only in these namespaces, or cluster-scoped; empty: everywhere.
    pub namespaces: Vec<Namespace>,
    /// The objects that the caller may see.
    pub permitted: Permitted,
    /// The requester whose share of the store the search uses.
    pub requester: Requester,
    /// Which objects to find.
    pub relation: Relation,
}

/// Which objects a search finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Relation {
    /// Objects with these names, of one resource or of any.
    Named {
        /// The resource; absent: any.
        resource: Option<ResourceName>,
        /// The names.
        names: Vec<String>,
    },
    /// Objects with one of these owners.
    OwnedBy(Owners),
    /// Objects that refer to one of these objects, each `apiVersion/kind/namespace/name`.
    DependsOn(BTreeSet<String>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_matches_only_in_its_own_cluster() {
        let mut owners = Owners::default();
        owners.insert(Some("a".parse().unwrap()), "u1");
        owners.insert(None, "u2");
        assert!(owners.matches("a", ["u0", "u1"]) && !owners.matches("b", ["u1"]));
        assert!(owners.matches("b", ["u2"]) && !owners.matches("a", [""; 0]));
        assert_eq!((owners.len(), owners.is_empty()), (2, false));
    }
}

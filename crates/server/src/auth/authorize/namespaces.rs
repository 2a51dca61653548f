//! The namespaces that a request without named namespaces is reviewed for.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use fleetdex_core::model::{ClusterName, Namespace};

use crate::api_error::ApiError;

/// Namespaces that are reviewed for one request, over all clusters. At some milliseconds each, 16
/// at a time, this is half a second.
pub const MAX_NAMESPACES: usize = 1_000;

/// Lists the namespaces that hold objects, by cluster; called only when the decision depends on
/// them.
#[async_trait]
pub trait NamespaceLister: Sync {
    /// Every namespace of the request's clusters that holds objects of the resource, at most
    /// [`MAX_NAMESPACES`] and one more.
    async fn namespaces(&self) -> Result<BTreeMap<ClusterName, Vec<Namespace>>, ApiError>;
}

/// The namespaces to review, because clusters hold objects there.
pub(super) struct CandidateNamespaces {
    pub(super) namespaces: Vec<Namespace>,
    /// Clusters that would add too many namespaces.
    pub(super) omitted_clusters: BTreeSet<ClusterName>,
}

impl CandidateNamespaces {
    /// These namespaces, with no cluster omitted.
    pub(super) fn named(namespaces: &[Namespace]) -> Self {
        Self {
            namespaces: namespaces.to_vec(),
            omitted_clusters: BTreeSet::new(),
        }
    }

    /// The union of all clusters' namespaces. Where that is too large, the clusters with the most
    /// namespaces are omitted, so that no cluster breaks a list for users with rights in others. A
    /// single cluster keeps all of its namespaces, and the request is refused.
    pub(super) fn of_clusters(held: BTreeMap<ClusterName, Vec<Namespace>>) -> Self {
        let mut clusters: Vec<(ClusterName, Vec<Namespace>)> = held.into_iter().collect();
        clusters.sort_by_key(|(_, namespaces)| namespaces.len());
        let mut union: BTreeSet<Namespace> = BTreeSet::new();
        let mut omitted_clusters = BTreeSet::new();
        for (name, namespaces) in clusters {
            let new = namespaces
                .iter()
                .filter(|name| !union.contains(*name))
                .count();
            if union.is_empty() || union.len() + new <= MAX_NAMESPACES {
                union.extend(namespaces);
            } else {
                omitted_clusters.insert(name);
            }
        }
        Self {
            namespaces: union.into_iter().collect(),
            omitted_clusters,
        }
    }
}

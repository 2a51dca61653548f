//! The index revisions of a cluster's documents.

use std::{collections::BTreeSet, sync::Arc};

#[cfg(any(test, feature = "testing"))]
use fleetdex_core::model::IndexPrefix;
use fleetdex_core::{
    model::{ClusterName, IndexName},
    query::ResourceName,
};

/// An index of one cluster's documents. Another cluster under the same name, a history that went
/// back, or a change of what is stored creates a new revision, which replaces the old one when it
/// is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexRevision {
    /// The cluster.
    pub cluster: ClusterName,
    /// Grows with each revision of the cluster.
    pub number: u64,
    /// The store's own id of the index: one that is created again under the same name has another.
    pub id: Arc<str>,
    /// The index, for reading.
    pub index: IndexName,
    /// The alias that documents are written to.
    pub target: IndexName,
    /// Whether it answers queries.
    pub live: bool,
    /// The complete resources whose queries a first revision answers before it is live.
    pub shown: BTreeSet<ResourceName>,
    /// The older revision that answers queries until this one is live.
    pub replaces: Option<Box<IndexRevision>>,
}

impl IndexRevision {
    /// Whether it answers queries about a resource.
    pub fn shows(&self, resource: &ResourceName) -> bool {
        self.live || self.shown.contains(resource)
    }

    /// Whether queries about a resource are answered, by it or by the revision that it replaces.
    pub fn answers(&self, resource: &ResourceName) -> bool {
        self.shows(resource)
            || self
                .replaces
                .as_ref()
                .is_some_and(|older| older.shows(resource))
    }

    /// Whether it answers any query.
    pub fn is_read(&self) -> bool {
        self.live || !self.shown.is_empty()
    }

    /// The first revision of a cluster, right after its creation.
    #[cfg(any(test, feature = "testing"))]
    pub fn first(prefix: &IndexPrefix, cluster: &ClusterName) -> Self {
        let (index, target) = (prefix.revision(cluster, 1), prefix.write_alias(cluster, 1));
        let (cluster, shown) = (cluster.clone(), BTreeSet::new());
        Self {
            cluster,
            number: 1,
            id: "first".into(),
            index,
            target,
            live: false,
            shown,
            replaces: None,
        }
    }
}

//! The generations of a cluster's documents, and the checkpoints that say how far each follows its member.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

#[cfg(any(test, feature = "testing"))]
use fleetdex_core::model::IndexPrefix;
use fleetdex_core::{
    model::{ClusterName, IndexName, Version},
    query::ResourceName,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What the documents of one cluster are kept in. Another cluster under the same name, a history that went back, or a change of what
/// is stored makes a new one, which takes the place of the old one when it is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generation {
    /// The cluster.
    pub cluster: ClusterName,
    /// Grows with each generation of the cluster.
    pub number: u64,
    /// The store's own id of the index: one that is made anew under the same name has another.
    pub id: Arc<str>,
    /// The index itself, for reading.
    pub index: IndexName,
    /// The alias that documents are written to.
    pub target: IndexName,
    /// Whether queries are answered from it.
    pub live: bool,
    /// The resources of which queries are answered from it although it is not live, because these are complete. Only of a first generation.
    pub shown: BTreeSet<ResourceName>,
    /// The older one that queries are answered from as long as it is not.
    pub replaces: Option<Box<Generation>>,
}

impl Generation {
    /// Whether queries about a resource are answered from it.
    pub fn shows(&self, resource: &ResourceName) -> bool {
        self.live || self.shown.contains(resource)
    }

    /// Whether queries about a resource are answered, from it or from the one that it replaces.
    pub fn answers(&self, resource: &ResourceName) -> bool {
        self.shows(resource)
            || self
                .replaces
                .as_ref()
                .is_some_and(|older| older.shows(resource))
    }

    /// Whether any query is answered from it.
    pub fn is_read(&self) -> bool {
        self.live || !self.shown.is_empty()
    }

    /// The first generation of a cluster, as it is right after it was made.
    #[cfg(any(test, feature = "testing"))]
    pub fn first(prefix: &IndexPrefix, cluster: &ClusterName) -> Self {
        let (index, target) = (
            prefix.generation(cluster, 1),
            prefix.write_alias(cluster, 1),
        );
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

/// How far one unit's documents follow their member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// What of the unit is stored: hash of its selectors.
    pub plan: String,
    /// Every change up to it is stored.
    pub version: Version,
    /// How many objects there were then.
    pub objects: u64,
    /// What kind of objects; absent in those of former versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<KindOfUnit>,
}

/// What is known of a unit's kind without asking its member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindOfUnit {
    /// Kind of its objects.
    pub kind: Arc<str>,
    /// Whether they live in namespaces.
    pub namespaced: bool,
}

/// The checkpoints of one cluster. They hold for the generation that they name and no other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoints {
    /// The cluster.
    pub cluster: ClusterName,
    /// [`Generation::number`]
    pub generation: u64,
    /// [`Generation::id`]
    pub index: Arc<str>,
    /// By unit.
    pub units: BTreeMap<String, Checkpoint>,
    /// When they were written, as the store tells; written by the store itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

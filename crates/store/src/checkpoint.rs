//! Checkpoints: how far the documents of each unit follow its member.

use std::{collections::BTreeMap, sync::Arc};

use fleetdex_core::model::{ClusterName, Version};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// How far one unit's documents follow their member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Hash of the unit's selectors.
    pub plan: String,
    /// Every change up to this version is stored.
    pub version: Version,
    /// How many objects there were at that version.
    pub objects: u64,
    /// How many of them each selection had, by its id, if registries select different ones.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub selected: Arc<BTreeMap<Arc<str>, u64>>,
    /// The kind of the objects; absent in checkpoints of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<KindOfUnit>,
}

/// What is known of a unit's kind without asking its member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindOfUnit {
    /// Kind of its objects.
    pub kind: Arc<str>,
    /// Whether they are namespaced.
    pub namespaced: bool,
}

/// The checkpoints of one cluster, valid only for the index revision that they name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoints {
    /// The cluster.
    pub cluster: ClusterName,
    /// [`IndexRevision::number`](crate::IndexRevision::number)
    #[serde(rename = "generation")]
    pub revision: u64,
    /// [`IndexRevision::id`](crate::IndexRevision::id)
    pub index: Arc<str>,
    /// By unit.
    pub units: BTreeMap<String, Checkpoint>,
    /// When they were written; set by the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

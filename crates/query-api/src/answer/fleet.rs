//! How the clusters are read, and the statuses of the registries.

use std::collections::BTreeSet;

use fleetdex_core::model::ClusterName;
use fleetdex_crds::registry::ResourceRegistryStatus;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::ListMetadata;
use crate::group::API_VERSION;

/// How the fleet is read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FleetReport {
    /// `FleetReport`
    pub kind: String,
    /// Our API group and version.
    pub api_version: String,
    /// Empty: the report has no version and no pages.
    pub metadata: ListMetadata,
    /// The clusters that the caller may see.
    pub clusters: Vec<ClusterReport>,
    /// The registries, if the caller may list them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registries: Option<Vec<RegistryReport>>,
}

/// How a cluster is read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterReport {
    /// Its name.
    pub name: ClusterName,
    /// Whether its objects are as they are there.
    pub state: ClusterState,
    /// Why it is not current.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The time of what is shown, if the cluster is not read at present.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// How long the oldest received change that is not stored yet has waited, if this replica reads
    /// the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag_seconds: Option<f64>,
    /// The replica that reads it, if that is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica: Option<String>,
    /// How many of its kinds are registered.
    pub kinds: usize,
    /// What is missing of it, in whole sentences.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub gaps: BTreeSet<String>,
}

/// Whether the objects of a cluster are as they are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClusterState {
    /// Its changes arrive.
    Current,
    /// It is disconnected, or its changes wait for the store; its objects are as they were.
    Stale,
    /// It has not been read since the start.
    Unread,
    /// A state that another version of Fleetdex knows.
    #[serde(other)]
    Unknown,
}

/// A registry and its status.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RegistryReport {
    /// Its name.
    pub name: String,
    /// Its status.
    pub status: ResourceRegistryStatus,
}

impl ClusterState {
    /// The word in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Current => "Current",
            Self::Stale => "Stale",
            Self::Unread => "Unread",
            Self::Unknown => "Unknown",
        }
    }
}

impl FleetReport {
    /// The report of these clusters.
    pub fn new(clusters: Vec<ClusterReport>, registries: Option<Vec<RegistryReport>>) -> Self {
        Self {
            kind: "FleetReport".to_owned(),
            api_version: API_VERSION.to_owned(),
            metadata: ListMetadata::default(),
            clusters,
            registries,
        }
    }
}

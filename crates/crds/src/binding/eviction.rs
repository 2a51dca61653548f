//! How an object leaves a cluster.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::requires;

/// A cluster that the object leaves once it is healthy elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = requires(&["fromCluster", "reason", "producer"]))]
pub struct GracefulEvictionTask {
    /// The cluster.
    #[serde(default)]
    pub from_cluster: String,
    /// When the old object is deleted: `Directly`, `Gracefully` or `Never`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Directly", "Gracefully", "Never"]))]
    pub purge_mode: Option<String>,
    /// How many replicas leave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Why, as one word for programs.
    #[serde(default)]
    #[schemars(length(min = 1, max = 32), extend("pattern" = "^([A-Za-z]|[A-Za-z][A-Za-z0-9_,:]*[A-Za-z0-9_])$"))]
    pub reason: String,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub message: String,
    /// The controller that decided it.
    #[serde(default)]
    pub producer: String,
    /// Seconds after which the old object is deleted in any case. Not beside `suppressDeletion`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i32>,
    /// Whether the old object stays until a user decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suppress_deletion: Option<bool>,
    /// Labels that the new object has: parts of the status of the old one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub preserved_label_state: BTreeMap<String, String>,
    /// When it was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Time>,
    /// The clusters that were chosen before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters_before_failover: Vec<String>,
}

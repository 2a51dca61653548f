//! What has become of a `Distribution`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::hooks::HookStatus;

/// What was rendered, and where it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DistributionStatus {
    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Rendered`: whether the objects are those of the source as it is; `Ready`: whether all
    /// clusters have them, and they are healthy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The digest of everything that the objects were rendered from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// The version of a chart or a folder that was fetched; of a digest the digest.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// The versions of Kubernetes that a chart is rendered for, the newest one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kubernetes_versions: Vec<String>,
    /// How many renderings there are: a chart is rendered once for each version of Kubernetes and
    /// API versions of its clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renderings: Option<i64>,
    /// How many objects the set has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<i64>,
    /// How many of its clusters have all objects, and healthy ones, such as `2/3`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ready_clusters: String,
    /// Its clusters: those that are not ready first, and at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<DistributionClusterStatus>,
    /// The notes of the chart, cut at 4,096 bytes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub notes: String,
    /// What the renderer warned of: at most 16 lines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Which clusters have which revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutStatus>,
    /// How far the hooks of a chart are; absent: it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hooks: Option<HookStatus>,
}

/// Which clusters have which revision. A revision is what was rendered from one digest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStatus {
    /// `Progressing`, `Paused`, `Failed`, `Complete`, or `Undone`.
    #[serde(default)]
    pub phase: String,
    /// The revision that is rolled out, or was: the digest of what it was rendered from.
    #[serde(default)]
    pub revision: String,
    /// The last revision that was healthy in all clusters. Clusters that are not reached have it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stable: String,
    /// The stable revision before that.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub previous: String,
    /// How many waves have begun.
    #[serde(default)]
    pub wave: i64,
    /// How many waves there are.
    #[serde(default)]
    pub waves: i64,
    /// Both, such as `1/3`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub progress: String,
    /// The clusters that shall have `revision`; empty when all shall.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reached: Vec<String>,
    /// When the last wave began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wave_began_at: Option<Time>,
    /// Since when all clusters that are reached are healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy_since: Option<Time>,
    /// What the rollout waits for, and why it has failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The revisions that are kept in Secrets, the newest one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub revisions: Vec<KeptRevision>,
}

/// A revision that is kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeptRevision {
    /// The revision.
    #[serde(default)]
    pub revision: String,
    /// The version of the chart or the folder.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// How many objects it has.
    #[serde(default)]
    pub objects: i64,
    /// When its rollout began for the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_at: Option<Time>,
}

/// What one cluster has of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DistributionClusterStatus {
    /// The cluster.
    #[serde(default)]
    pub name: String,
    /// How many objects it shall have.
    #[serde(default)]
    pub objects: i64,
    /// How many of these it has as they shall be.
    #[serde(default)]
    pub applied: i64,
    /// How many of these are healthy; objects of which nothing says it count as such.
    #[serde(default)]
    pub healthy: i64,
    /// Why an object is missing: the first one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

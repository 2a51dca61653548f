//! How far the hooks of a `Distribution` are.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How far the hooks of a chart are in its clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HookStatus {
    /// The revision that clusters shall have, and whose hooks run.
    #[serde(default)]
    pub revision: String,
    /// Whether clusters go back to it, because a user has undone another one.
    #[serde(default)]
    pub rollback: bool,
    /// The kinds of its hooks, at most 50.
    #[serde(default)]
    pub kinds: Vec<HookKind>,
    /// The clusters that have the set, in whatever revision.
    #[serde(default)]
    pub installed: Vec<String>,
    /// Those of them that have another revision, because the hooks before it have not succeeded.
    #[serde(default)]
    pub unprepared: Vec<String>,
    /// The clusters in which hooks run when all objects are written.
    #[serde(default)]
    pub unfinished: Vec<UnfinishedHooks>,
    /// The clusters in which a hook runs, or has failed; at most 200: others wait.
    #[serde(default)]
    pub clusters: Vec<ClusterHookStatus>,
    /// The value of the annotation that has asked last for another run of what has failed.
    #[serde(default)]
    pub retried: String,
    /// How far the deletion is: `PreDelete`, `Deleting`, `PostDelete`, `Ended`; empty: it has not
    /// begun.
    #[serde(default)]
    pub deletion: String,
    /// The clusters in which that is over.
    #[serde(default)]
    pub ended: Vec<String>,
}

/// A kind of hooks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HookKind {
    /// Group and version.
    #[serde(default)]
    pub api_version: String,
    /// Kind.
    #[serde(default)]
    pub kind: String,
}

/// Clusters in which hooks run later.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnfinishedHooks {
    /// The step, such as `post-install`.
    #[serde(default)]
    pub step: String,
    /// The clusters.
    #[serde(default)]
    pub clusters: Vec<String>,
}

/// The hook of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterHookStatus {
    /// The cluster.
    #[serde(default)]
    pub name: String,
    /// The step, such as `pre-upgrade`.
    #[serde(default)]
    pub step: String,
    /// Which of the hooks of the step, from 1 on.
    #[serde(default)]
    pub number: i64,
    /// Its object, such as `Job shop/migrate`.
    #[serde(default)]
    pub hook: String,
    /// `Running`, `CleaningUp`, `CleaningFailed`, or `Failed`.
    #[serde(default)]
    pub phase: String,
    /// What it waits for, or why it has failed.
    #[serde(default)]
    pub message: String,
    /// When the step began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_at: Option<Time>,
    /// When the phase began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}

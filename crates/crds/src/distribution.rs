//! `Distribution` of `distribute.fleetdex.io/v1alpha1`: a set of objects from a chart, a folder or
//! manifests, which goes to clusters in waves.

mod hooks;
mod rollout;
mod source;
mod status;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{CustomResource, CustomResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::rollout::DURATION;
pub use self::{
    hooks::{ClusterHookStatus, HookKind, HookStatus, UnfinishedHooks},
    rollout::{Rollout, RolloutWave},
    source::{
        ChartSource, ConfigMapKey, DistributionSource, FolderImage, FolderPatch, FolderSource,
        ManifestSource, NamedSecret, PatchTarget, ValuesReference,
    },
    status::{DistributionClusterStatus, DistributionStatus, KeptRevision, RolloutStatus},
};
use crate::{
    affinity::ClusterAffinity,
    policy::{ClusterPlacement, Overriders, TemplateSelector},
    schema::{requires, without_null},
};

/// Most rules for clusters: a fleet of 1,000 clusters may have one for each.
const OVERRIDES: usize = 1_000;
/// Most selectors of one rule: the rules of labels count for each of them.
const OVERRIDE_SELECTORS: usize = 4;

/// What is distributed, and where to.
#[expect(clippy::duplicated_attributes, reason = "columns have types in common")]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "distribute.fleetdex.io",
    version = "v1alpha1",
    kind = "Distribution",
    plural = "distributions",
    shortname = "dist",
    category = "fleetdex",
    namespaced,
    status = "DistributionStatus",
    derive = "PartialEq",
    doc = "Distribution is a set of objects from a chart, a folder or manifests, which goes to clusters in waves.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].reason"
    ),
    printcolumn(name = "Objects", type_ = "integer", json_path = ".status.objects"),
    printcolumn(
        name = "Clusters",
        type_ = "string",
        json_path = ".status.readyClusters"
    ),
    printcolumn(
        name = "Wave",
        type_ = "string",
        json_path = ".status.rollout.progress"
    ),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.rollout.phase"),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.version"),
    printcolumn(
        name = "Suspended",
        type_ = "boolean",
        json_path = ".spec.suspend",
        priority = 1
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].message",
        priority = 1
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = requires(&["source"]))]
pub struct DistributionSpec {
    /// Where the objects come from.
    #[serde(default)]
    pub source: DistributionSource,
    /// The clusters, and how replicas are divided over them; absent: all clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<ClusterPlacement>,
    /// How the objects differ in some clusters, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = OVERRIDES))]
    pub overrides: Vec<DistributionOverride>,
    /// A `ServiceAccount` of the control plane, in the namespace of this object. Its rights bound
    /// what is read and created. Default: `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub service_account_name: Option<String>,
    /// Which clusters get changes first; absent: all at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,
    /// Whether objects that left the set are deleted. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = true))]
    pub prune: Option<bool>,
    /// Whether nothing is fetched and written for the time being.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,
    /// How often the source is fetched, such as `10m`; absent: when this object changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), extend("pattern" = DURATION))]
    pub interval: Option<String>,
}

/// What is changed of some objects in some clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = requires(&["overriders"]))]
pub struct DistributionOverride {
    /// The objects; empty: all of the set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = OVERRIDE_SELECTORS))]
    pub resource_selectors: Vec<TemplateSelector>,
    /// The clusters; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_cluster: Option<ClusterAffinity>,
    /// The changes.
    #[serde(default)]
    pub overriders: Overriders,
}

/// The CRD.
pub fn crd() -> CustomResourceDefinition {
    without_null(Distribution::crd())
}

#[cfg(test)]
mod tests;

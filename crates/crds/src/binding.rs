//! `ResourceBinding` and `ClusterResourceBinding` of `work.karmada.io/v1alpha2`: where one object
//! of the control plane is placed, and what has become of it there.
//!
//! Fields and names are those of Karmada's
//! [types](https://github.com/karmada-io/karmada/tree/master/pkg/apis/work/v1alpha2). Controllers
//! write these objects, so that lists have no bounds and no rules but those of a policy's parts.

use k8s_openapi::{
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{
    CustomResource, CustomResourceExt,
    core::{ApiResource, Object},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    policy::{ClusterPlacement, DispatchingClusters, Failover},
    schema::{ClusterScoped, any_object, cluster_scoped, requires, without_null},
};

mod eviction;
mod status;

pub use eviction::GracefulEvictionTask;
pub use status::{BindingStatus, ClusterStatusItem};

/// A `ResourceBinding` or a `ClusterResourceBinding`.
pub type BindingObject = Object<BindingSpec, BindingStatus>;

const CLUSTER_BINDING: ClusterScoped = ClusterScoped {
    kind: "ClusterResourceBinding",
    plural: "clusterresourcebindings",
    short_name: "crb",
    description: "ClusterResourceBinding says in which clusters one object without a namespace is placed, and what has become of it there.",
};

/// Where one object is placed, and how.
#[expect(clippy::duplicated_attributes, reason = "columns have types in common")]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "work.karmada.io",
    version = "v1alpha2",
    kind = "ResourceBinding",
    plural = "resourcebindings",
    shortname = "rb",
    category = "karmada-io",
    namespaced,
    status = "BindingStatus",
    derive = "PartialEq",
    doc = "ResourceBinding says in which clusters one object of its namespace is placed, and what has become of it there.",
    printcolumn(
        name = "Scheduled",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Scheduled")].status"#
    ),
    printcolumn(
        name = "FullyApplied",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="FullyApplied")].status"#
    ),
    printcolumn(
        name = "Replicas",
        type_ = "integer",
        json_path = ".spec.replicas"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    // As JSON: of a path with `[*]` the API server shows the first value only.
    printcolumn(
        name = "Clusters",
        type_ = "string",
        json_path = ".spec.clusters",
        priority = 1
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Scheduled")].reason"#,
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = requires(&["resource"]))]
pub struct BindingSpec {
    /// The object of the control plane.
    #[serde(default)]
    pub resource: BoundResource,
    /// Whether what the object needs goes with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub propagate_deps: bool,
    /// What each replica requires: `nodeClaim`, `resourceRequest`, `namespace` and
    /// `priorityClassName`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub replica_requirements: Option<Value>,
    /// The replicas of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The pod templates of an object that has several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<BoundComponent>,
    /// The clusters that are chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<BoundCluster>,
    /// What the policy says about clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<ClusterPlacement>,
    /// Clusters that the object leaves once it is healthy elsewhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub graceful_eviction_tasks: Vec<GracefulEvictionTask>,
    /// Bindings of objects that need this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_by: Vec<BindingReference>,
    /// The scheduler that places the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler_name: Option<String>,
    /// When the object leaves a cluster that fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failover: Option<Failover>,
    /// What happens where a cluster has the object already: `Abort` (the default) or `Overwrite`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Abort", "Overwrite"], "default" = "Abort"))]
    pub conflict_resolution: Option<String>,
    /// If this is later than `status.lastScheduledTime`, the object is placed as if it were new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reschedule_triggered_at: Option<Time>,
    /// What is not done for the time being.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspension: Option<BindingSuspension>,
    /// Whether the clusters keep the object when that of the control plane is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preserve_resources_on_deletion: Option<bool>,
    /// Whether the object is placed before others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_priority: Option<BindingPriority>,
    /// Objects that run in the same clusters, or in others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload_affinity_groups: Option<AffinityGroups>,
}

/// The object of the control plane that is placed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = requires(&["apiVersion", "kind", "name"]))]
pub struct BoundResource {
    /// Group and version, such as `apps/v1`.
    #[serde(default)]
    pub api_version: String,
    /// Kind, such as `Deployment`.
    #[serde(default)]
    pub kind: String,
    /// Its namespace, if it has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Its UID.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The resource version that was last seen.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
}

/// One of several pod templates of an object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = requires(&["name", "replicas"]))]
pub struct BoundComponent {
    /// Its name within the object.
    #[serde(default)]
    #[schemars(length(max = 32))]
    pub name: String,
    /// Its replicas.
    #[serde(default)]
    pub replicas: i32,
    /// What each replica requires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub replica_requirements: Option<Value>,
}

/// A cluster that is chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = requires(&["name"]))]
pub struct BoundCluster {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// How many replicas it has; 0 of an object without replicas.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub replicas: i32,
    /// How many of each pod template it has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<PlacedComponent>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(replicas: &i32) -> bool {
    *replicas == 0
}

/// The replicas of one pod template in a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = requires(&["name"]))]
pub struct PlacedComponent {
    /// Its name within the object.
    #[serde(default)]
    pub name: String,
    /// Its replicas.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub replicas: i32,
}

/// The binding of an object that needs this one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = requires(&["name"]))]
pub struct BindingReference {
    /// Its namespace; empty: it is a `ClusterResourceBinding`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// The clusters that are chosen for that object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<BoundCluster>,
}

/// What is not done for the time being.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BindingSuspension {
    /// Nothing is written to any cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatching: Option<bool>,
    /// Nothing is written to these clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatching_on_clusters: Option<DispatchingClusters>,
    /// No clusters are chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<bool>,
}

/// Whether an object is placed before others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BindingPriority {
    /// Greater is earlier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
}

/// Objects that run in the same clusters, or in others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AffinityGroups {
    /// Objects with this value run in the same clusters.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub affinity_group: String,
    /// Objects with this value run in different clusters.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub anti_affinity_group: String,
}

/// The kind `ResourceBinding`.
pub fn resource_bindings() -> ApiResource {
    ResourceBinding::api_resource()
}

/// The kind `ClusterResourceBinding`.
pub fn cluster_resource_bindings() -> ApiResource {
    CLUSTER_BINDING.api_resource(resource_bindings())
}

/// The CRDs of both kinds.
pub fn crds() -> [CustomResourceDefinition; 2] {
    let crd = without_null(ResourceBinding::crd());
    [cluster_scoped(crd.clone(), &CLUSTER_BINDING), crd]
}

#[cfg(test)]
mod tests;

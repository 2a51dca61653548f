//! The spec of `PropagationPolicy` and `ClusterPropagationPolicy`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    ClusterPlacement,
    propagation_schema::{
        APPLICATION_RULES, PROPAGATION_RULES, SCHEDULER_RULES, SELECTORS, STATE_RULES,
        SUSPENSION_RULES,
    },
    state_path::STATE_PATH,
};
use crate::schema::{self, requires, rules};

/// What is propagated, and where to.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "policy.karmada.io",
    version = "v1alpha1",
    kind = "PropagationPolicy",
    plural = "propagationpolicies",
    shortname = "pp",
    category = "karmada-io",
    namespaced,
    derive = "PartialEq",
    doc = "PropagationPolicy says which objects of its namespace go to which clusters.",
    printcolumn(
        name = "Conflict-Resolution",
        type_ = "string",
        json_path = ".spec.conflictResolution"
    ),
    printcolumn(name = "Priority", type_ = "integer", json_path = ".spec.priority"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(
    transform = requires(&["resourceSelectors"]),
    extend("x-kubernetes-validations" = rules(PROPAGATION_RULES))
)]
pub struct PropagationSpec {
    /// The objects; one selector that selects an object is enough.
    #[serde(default)]
    #[schemars(extend("minItems" = 1, "maxItems" = SELECTORS))]
    pub resource_selectors: Vec<TemplateSelector>,
    /// Without effect; Karmada has deprecated it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub association: Option<bool>,
    /// Whether what an object needs, such as its `ConfigMap`s, goes with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub propagate_deps: bool,
    /// The clusters.
    #[serde(default)]
    pub placement: ClusterPlacement,
    /// Of several policies that select an object, the one with the greatest priority claims it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 0))]
    pub priority: Option<i32>,
    /// `Always`: takes objects from policies of lower priority. Default: `Never`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Always", "Never"], "default" = "Never"))]
    pub preemption: Option<String>,
    /// Names of override policies without which nothing is propagated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000), inner(length(max = 253)))]
    pub dependent_overrides: Vec<String>,
    /// The scheduler that places the objects. Default: `default-scheduler`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 253),
        extend("default" = "default-scheduler", "x-kubernetes-validations" = rules(SCHEDULER_RULES))
    )]
    pub scheduler_name: Option<String>,
    /// When objects leave a cluster that fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failover: Option<Failover>,
    /// What happens where a cluster has the object already: `Abort` (the default) or `Overwrite`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Abort", "Overwrite"], "default" = "Abort"))]
    pub conflict_resolution: Option<String>,
    /// `Lazy`: a change of the policy has an effect when the object changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Lazy"]))]
    pub activation_preference: Option<String>,
    /// Where nothing is written for the time being.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspension: Option<Suspension>,
    /// Whether the clusters keep their objects when the object of the control plane is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preserve_resources_on_deletion: Option<bool>,
    /// Which objects are placed first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_priority: Option<SchedulePriority>,
}

/// Objects of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = requires(&["apiVersion", "kind"]))]
pub struct TemplateSelector {
    /// Group and version, such as `apps/v1`.
    #[serde(default)]
    #[schemars(length(min = 1, max = 317))]
    pub api_version: String,
    /// Kind, such as `Deployment`.
    #[serde(default)]
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
    /// Namespace; empty: that of the policy, or every one for a cluster-scoped policy.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    // A rule of the schema cannot read the namespace of the policy. That this one is the same is
    // checked when the policy is read: `validation::invalid_propagation`.
    #[schemars(length(max = 63))]
    pub namespace: String,
    /// Name; empty: all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub name: String,
    /// Labels of the objects; ignored beside a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub label_selector: Option<LabelSelector>,
}

/// Where nothing is written for the time being.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(SUSPENSION_RULES)))]
pub struct Suspension {
    /// In all clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatching: Option<bool>,
    /// In these clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatching_on_clusters: Option<DispatchingClusters>,
}

/// Clusters by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DispatchingClusters {
    /// Their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::cluster_names")]
    pub cluster_names: Vec<String>,
}

/// Which objects are placed first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = requires(&["priorityClassSource", "priorityClassName"]))]
pub struct SchedulePriority {
    /// `KubePriorityClass`.
    #[serde(default)]
    #[schemars(extend("enum" = ["KubePriorityClass"]))]
    pub priority_class_source: String,
    /// Name of the `PriorityClass`.
    #[serde(default)]
    #[schemars(length(max = 253))]
    pub priority_class_name: String,
}

/// When objects leave a cluster that fails.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Failover {
    /// An object that is not healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<ApplicationFailover>,
    /// A cluster whose taints the objects do not tolerate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterFailover>,
}

/// When an object that is not healthy leaves its cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(
    transform = requires(&["decisionConditions"]),
    extend("x-kubernetes-validations" = rules(APPLICATION_RULES))
)]
pub struct ApplicationFailover {
    /// How long it has to be unhealthy.
    #[serde(default)]
    pub decision_conditions: DecisionConditions,
    /// When the old object is deleted: `Directly`, `Gracefully` (the default) or `Never`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Directly", "Gracefully", "Never"], "default" = "Gracefully"))]
    pub purge_mode: Option<String>,
    /// Seconds after which a graceful eviction ends in any case. Default: 600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub grace_period_seconds: Option<i32>,
    /// What the new object is given of the status of the old one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_preservation: Option<StatePreservation>,
}

/// How long an object has to be unhealthy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionConditions {
    /// Seconds. Default: 300.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 300))]
    pub toleration_seconds: Option<i32>,
}

/// How objects leave a cluster whose taints they do not tolerate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterFailover {
    /// When the old object is deleted: `Directly` or `Gracefully` (the default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Directly", "Gracefully"], "default" = "Gracefully"))]
    pub purge_mode: Option<String>,
    /// What the new object is given of the status of the old one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_preservation: Option<StatePreservation>,
}

/// What the new object is given of the status of the old one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = requires(&["rules"]))]
pub struct StatePreservation {
    /// A label for each of these.
    #[serde(default)]
    #[schemars(extend("maxItems" = STATE_RULES))]
    pub rules: Vec<StatePreservationRule>,
}

/// One value of the status as a label.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = requires(&["aliasLabelName", "jsonPath"]))]
pub struct StatePreservationRule {
    /// The key of the label.
    #[serde(default)]
    #[schemars(length(max = 317))]
    pub alias_label_name: String,
    /// A `JSONPath` within the status, of members and items of lists: `{.jobStatus.points[0].id}`.
    #[serde(default)]
    #[schemars(length(max = 1024), extend("pattern" = STATE_PATH))]
    pub json_path: String,
}

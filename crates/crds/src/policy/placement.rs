//! The clusters of a policy, and how replicas are divided over them.

use k8s_openapi::api::core::v1::Toleration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::placement_schema::{
    AFFINITIES, AFFINITIES_RULES, CONSTRAINT_RULES, CONSTRAINTS, CONSTRAINTS_RULES, OVERFLOWS,
    OVERFLOWS_RULES, PLACEMENT_RULES, TERM_RULES, WEIGHTS, tolerations,
};
use crate::{
    affinity::ClusterAffinity,
    schema::{requires, rules},
};

/// Which clusters are chosen, and how replicas are divided over them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(PLACEMENT_RULES)))]
pub struct ClusterPlacement {
    /// The clusters; absent: all. Not beside `clusterAffinities`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_affinity: Option<ClusterAffinity>,
    /// Groups of clusters, of which the first one that fits is used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = AFFINITIES, "x-kubernetes-validations" = rules(AFFINITIES_RULES)))]
    pub cluster_affinities: Vec<AffinityTerm>,
    /// Taints of clusters that do not keep objects away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "tolerations")]
    pub cluster_tolerations: Vec<Toleration>,
    /// How many groups of clusters are chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = CONSTRAINTS, "x-kubernetes-validations" = rules(CONSTRAINTS_RULES)))]
    pub spread_constraints: Vec<SpreadConstraint>,
    /// How replicas are divided; absent: every cluster has all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_scheduling: Option<ReplicaScheduling>,
    /// Which workloads run in the same clusters, or in others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload_affinity: Option<WorkloadAffinity>,
}

/// One group of clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = requires(&["affinityName"]), extend("x-kubernetes-validations" = rules(TERM_RULES)))]
pub struct AffinityTerm {
    /// Its name.
    #[serde(default)]
    #[schemars(length(min = 1, max = 32))]
    pub affinity_name: String,
    /// Its clusters.
    #[serde(flatten)]
    pub affinity: ClusterAffinity,
    /// Clusters for the replicas for which there is no room, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = OVERFLOWS, "x-kubernetes-validations" = rules(OVERFLOWS_RULES)))]
    pub overflow_affinities: Vec<OverflowAffinity>,
}

/// Clusters for the replicas for which there is no room in those before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = requires(&["affinityName"]))]
pub struct OverflowAffinity {
    /// Its name.
    #[serde(default)]
    #[schemars(length(min = 1, max = 32))]
    pub affinity_name: String,
    /// Its clusters.
    #[serde(default)]
    pub affinity: ClusterAffinity,
}

/// How many groups of clusters are chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(CONSTRAINT_RULES)))]
pub struct SpreadConstraint {
    /// `cluster`, `region`, `zone` or `provider`. Not beside `spreadByLabel`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["cluster", "region", "zone", "provider"]))]
    pub spread_by_field: Option<String>,
    /// A label of the clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 317))]
    pub spread_by_label: Option<String>,
    /// The most groups; absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_groups: Option<i64>,
    /// The least groups. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub min_groups: Option<i64>,
}

/// How replicas are divided.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaScheduling {
    /// `Duplicated` or `Divided` (the default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Duplicated", "Divided"], "default" = "Divided"))]
    pub replica_scheduling_type: Option<String>,
    /// `Aggregated` or `Weighted` (the default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Aggregated", "Weighted"]))]
    pub replica_division_preference: Option<String>,
    /// The weights; absent: all clusters have the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_preference: Option<WeightPreference>,
}

/// The weights of clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WeightPreference {
    /// Fixed weights; a cluster has the greatest one that is for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = WEIGHTS))]
    pub static_weight_list: Vec<StaticWeight>,
    /// `AvailableReplicas`: weights are how many replicas there is room for. The fixed weights are
    /// ignored then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["AvailableReplicas"]))]
    pub dynamic_weight: Option<String>,
}

/// The weight of some clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = requires(&["targetCluster", "weight"]))]
pub struct StaticWeight {
    /// The clusters.
    #[serde(default)]
    pub target_cluster: ClusterAffinity,
    /// Their weight, at least 1.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub weight: i64,
}

/// Which workloads run in the same clusters, or in others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadAffinity {
    /// Those with the same value of a label run in the same clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<GroupedBy>,
    /// Those with the same value of a label run in different clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anti_affinity: Option<GroupedBy>,
}

/// Workloads with the same value of a label.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = requires(&["groupByLabelKey"]))]
pub struct GroupedBy {
    /// The label.
    #[serde(default)]
    #[schemars(length(min = 1, max = 317))]
    pub group_by_label_key: String,
}

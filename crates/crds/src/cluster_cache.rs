//! `ClusterCache`: which kinds of which member clusters the embedded store holds.
//!
//! The type of Karmada's [original proposal](https://github.com/karmada-io/karmada/pull/1361), in
//! two groups: its text names `cluster.karmada.io`, its example `clustercaches.karmada.io`. Every
//! field of it is here, so that its manifests apply unchanged.

use std::time::Duration;

use k8s_openapi::{
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::{LabelSelector, Time},
};
use kube::{
    CustomResource, CustomResourceExt,
    core::{ApiResource, Object},
};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use super::{
    affinity::{ClusterAffinity, ClusterFieldSelector, requirements},
    schema::{self, rules},
};

/// The groups that have the kind.
pub const GROUPS: [&str; 2] = ["cluster.karmada.io", "clustercaches.karmada.io"];
/// The default period of writes of the status.
const DEFAULT_PERIOD_SECONDS: u32 = 10;

/// A `ClusterCache` of either group.
pub type Cache = Object<ClusterCacheSpec, ClusterCacheStatus>;

/// What to cache: which resources of which member clusters.
#[expect(clippy::duplicated_attributes, reason = "columns have types in common")]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.karmada.io",
    version = "v1alpha1",
    kind = "ClusterCache",
    plural = "clustercaches",
    shortname = "cc",
    status = "ClusterCacheStatus",
    derive = "PartialEq",
    doc = "ClusterCache says which resources of which member clusters the embedded store keeps.",
    printcolumn(
        name = "Running",
        type_ = "integer",
        json_path = ".status.summary.running"
    ),
    printcolumn(
        name = "Failed",
        type_ = "integer",
        json_path = ".status.summary.failed"
    ),
    printcolumn(
        name = "Unknown",
        type_ = "integer",
        json_path = ".status.summary.unknown"
    ),
    printcolumn(
        name = "Objects",
        type_ = "integer",
        json_path = ".status.summary.totalNum"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCacheSpec {
    /// The member clusters that any of these selects.
    #[schemars(schema_with = "cluster_selectors")]
    pub cluster_selectors: Vec<ClusterSelector>,
    /// Which resources.
    #[schemars(schema_with = "resource_selectors")]
    pub resource_selectors: Vec<CachedResource>,
    /// The status is written at most once in so many seconds; 0 and absent: 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "period")]
    pub status_update_period_seconds: Option<u32>,
}

impl ClusterCacheSpec {
    /// The minimum time between two writes of the status.
    pub fn period(&self) -> Duration {
        let seconds = self
            .status_update_period_seconds
            .filter(|seconds| *seconds > 0);
        Duration::from_secs(seconds.unwrap_or(DEFAULT_PERIOD_SECONDS).into())
    }
}

/// Some member clusters. All parts must hold; without any part, all clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSelector {
    /// Clusters whose labels match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub label_selector: Option<LabelSelector>,
    /// Clusters whose provider, region or zone match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "field_selector")]
    pub field_selector: Option<ClusterFieldSelector>,
    /// Clusters by name; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::cluster_names")]
    pub cluster_names: Vec<String>,
    /// Clusters that this entry leaves out. Another entry may select them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::cluster_names")]
    pub exclude: Vec<String>,
}

impl ClusterSelector {
    /// The same selector in the form of a registry.
    pub fn affinity(&self) -> ClusterAffinity {
        ClusterAffinity {
            label_selector: self.label_selector.clone(),
            field_selector: self.field_selector.clone(),
            cluster_names: self.cluster_names.clone(),
            exclude: self.exclude.clone(),
        }
    }
}

/// A kind, in one namespace or in all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CachedResource {
    /// Group and version, such as `v1` or `apps/v1`. When it is absent each member resolves the
    /// kind, built-in groups first. A version that a member does not serve becomes the group's
    /// preferred version there.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 317), extend("x-kubernetes-validations" = rules(API_VERSION_RULES)))]
    pub api_version: String,
    /// Kind, such as `Deployment`.
    #[schemars(length(max = 63), extend("x-kubernetes-validations" = rules(KIND_RULES)))]
    pub kind: String,
    /// One namespace; empty: all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(schema_with = "schema::namespace")]
    pub namespace: String,
}

/// What is cached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCacheStatus {
    /// When the operator first processed the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// One row per cluster and kind. If these are too many for one object (over 4,000 rows), only
    /// rows that are not Running.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    // With a merge key, the managed fields would repeat every row.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub resources: Vec<ResourceRow>,
    /// One row per kind, where `resources` has not every row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub totals: Vec<KindTotal>,
    /// Counts over all rows, also those that are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<CacheCounts>,
    /// How many rows that are not Running did not fit into `resources`.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(with = "i64")]
    pub omitted: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// One kind of one cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceRow {
    /// The member.
    pub cluster: String,
    /// Group and version, where they are known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The namespace, where only one is cached.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The state.
    pub state: CacheState,
    /// How many objects are cached.
    pub total_num: i32,
    /// When state or number last changed.
    pub update_time: Time,
}

/// The state of one kind of one cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CacheState {
    /// `Running`, `Failed` or `Unknown`.
    #[schemars(with = "String")]
    pub phase: CachePhase,
    /// Why it is not Running.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// The state of one kind of one cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum CachePhase {
    /// It is complete, and follows changes.
    Running,
    /// It cannot be cached.
    Failed,
    /// Its state was never reported, or not for three periods.
    #[serde(other)]
    Unknown,
}

/// One kind of all clusters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KindTotal {
    /// Group and version, where they are known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The namespace, where only one is cached.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The counts.
    #[serde(flatten)]
    pub counts: CacheCounts,
}

/// Rows by phase, and the objects of all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CacheCounts {
    /// Rows that are Running.
    #[schemars(with = "i64")]
    pub running: u64,
    /// Rows that are Failed.
    #[schemars(with = "i64")]
    pub failed: u64,
    /// Rows that are Unknown.
    #[schemars(with = "i64")]
    pub unknown: u64,
    /// Objects.
    #[schemars(with = "i64")]
    pub total_num: u64,
}

/// The kind in one of its [`GROUPS`].
pub fn api_resource(group: &str) -> ApiResource {
    let own = ClusterCache::api_resource();
    let api_version = format!("{group}/{}", own.version);
    ApiResource {
        group: group.to_owned(),
        api_version,
        ..own
    }
}

/// Its CRD in one of its [`GROUPS`].
pub fn crd(group: &str) -> CustomResourceDefinition {
    let mut crd = ClusterCache::crd();
    crd.metadata.name = Some(format!("{}.{group}", crd.spec.names.plural));
    group.clone_into(&mut crd.spec.group);
    crd
}

const API_VERSION_RULES: &[(&str, &str)] = &[(
    "self == '' || self.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
    "apiVersion is <version> for the core group or <group>/<version>, such as v1 or apps/v1",
)];
const KIND_RULES: &[(&str, &str)] = &[(
    "self.matches('^[A-Za-z][A-Za-z0-9-]*$')",
    "kind is one kind such as Deployment; a ResourceRegistry takes \"*\"",
)];
/// Gt and Lt compare with one number.
const BOUND_NEEDED: &str = "!(self.operator in ['Gt', 'Lt']) || (has(self.values) && size(self.values) == 1 && self.values[0].matches('^-?[0-9]{1,18}$'))";

/// Most entries of either list of selectors: bounds the cost of the rules.
const SELECTORS: usize = 64;

fn cluster_selectors(generator: &mut SchemaGenerator) -> Schema {
    let empty = "name at least one selection of clusters, such as {clusterNames: [member1]}; {} selects all";
    schema::some_of::<ClusterSelector>(generator, SELECTORS, empty)
}

fn resource_selectors(generator: &mut SchemaGenerator) -> Schema {
    schema::some_of::<CachedResource>(generator, SELECTORS, schema::RESOURCES_NEEDED)
}

fn field_selector(generator: &mut SchemaGenerator) -> Schema {
    let known = "self.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist', 'Gt', 'Lt']";
    let requirement = requirements(
        generator,
        &[
            (
                "self.key in ['provider', 'region', 'zone']",
                "key must be provider, region or zone",
            ),
            (
                known,
                "operator must be In, NotIn, Exists, DoesNotExist, Gt or Lt",
            ),
            (
                schema::VALUES_NEEDED,
                "In and NotIn need at least one value",
            ),
            (
                schema::VALUES_REFUSED,
                "Exists and DoesNotExist take no values",
            ),
            (
                BOUND_NEEDED,
                "Gt and Lt need exactly one value, a whole number",
            ),
        ],
    );
    schemars::json_schema!({
        "type": "object",
        "description": "Requirements on provider, region and zone of a cluster, which must all hold.",
        "properties": {"matchExpressions": requirement},
    })
}

fn period(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({"type": "integer", "format": "int64", "minimum": 0, "maximum": 86_400})
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_period_is_ten_seconds_by_default() {
        for (said, seconds) in [
            (json!({}), 10),
            (json!({"statusUpdatePeriodSeconds": 0}), 10),
            (json!({"statusUpdatePeriodSeconds": 3}), 3),
        ] {
            let mut spec = json!({"clusterSelectors": [], "resourceSelectors": []});
            spec.as_object_mut()
                .unwrap()
                .extend(said.as_object().unwrap().clone());
            let spec: ClusterCacheSpec = serde_json::from_value(spec).unwrap();
            assert_eq!(spec.period(), Duration::from_secs(seconds));
        }
    }

    #[test]
    fn both_groups_have_the_same_type() {
        let [own, other] = GROUPS.map(crd);
        assert_eq!(
            own.metadata.name.as_deref(),
            Some("clustercaches.cluster.karmada.io")
        );
        assert_eq!(
            other.metadata.name.as_deref(),
            Some("clustercaches.clustercaches.karmada.io")
        );
        assert_eq!(own.spec.versions, other.spec.versions);
        assert_eq!(
            api_resource(GROUPS[1]).api_version,
            "clustercaches.karmada.io/v1alpha1"
        );
    }
}

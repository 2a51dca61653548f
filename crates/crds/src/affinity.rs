//! `ClusterAffinity`: which member clusters an object is about.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use super::schema::{self, VALIDATIONS, rules};

mod matching;

pub use matching::ClusterProperties;

/// The keys of a requirement on clusters.
pub(super) const CLUSTER_KEYS: &str = "key must be provider, region or zone";
/// The operators of a requirement on clusters.
pub(super) const CLUSTER_OPERATORS: &str = "operator must be In or NotIn";

/// Which member clusters. All parts must hold; without any part, all clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAffinity {
    /// Clusters whose labels match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub label_selector: Option<LabelSelector>,
    /// Clusters whose provider, region or zone match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_selector: Option<ClusterFieldSelector>,
    /// Clusters by name; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::cluster_names")]
    pub cluster_names: Vec<String>,
    /// Clusters to leave out, even if another part selects them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::cluster_names")]
    pub exclude: Vec<String>,
}

/// Requirements on `provider`, `region` and `zone` of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterFieldSelector {
    /// Requirements that must all hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "cluster_requirements")]
    pub match_expressions: Vec<FieldSelectorRequirement>,
}

/// One requirement on a field.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldSelectorRequirement {
    /// The field.
    #[schemars(length(max = 256))]
    pub key: String,
    /// How it compares with the values.
    #[schemars(length(max = 16))]
    pub operator: String,
    /// The values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 1024)))]
    pub values: Vec<String>,
}

fn cluster_requirements(generator: &mut SchemaGenerator) -> Schema {
    requirements(
        generator,
        &[
            ("self.key in ['provider', 'region', 'zone']", CLUSTER_KEYS),
            ("self.operator in ['In', 'NotIn']", CLUSTER_OPERATORS),
            (schema::VALUES_NEEDED, schema::VALUES_NEEDED_HELP),
        ],
    )
}

/// A bounded list of [`FieldSelectorRequirement`]s, each of which keeps the rules.
pub(super) fn requirements(generator: &mut SchemaGenerator, item_rules: &[(&str, &str)]) -> Schema {
    let mut item = FieldSelectorRequirement::json_schema(generator);
    item.insert(VALIDATIONS.to_owned(), rules(item_rules));
    schemars::json_schema!({"type": "array", "maxItems": 32, "items": item})
}

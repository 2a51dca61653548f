//! `ResourceExploringWebhookConfiguration`: webhooks that interpret objects, as Karmada's proposal
//! has them.

use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::{
    rules::{self, RULES, WebhookClientConfig},
    status::InterpreterStatus,
};
use crate::schema;

/// The operations that a rule may name, beside `*`.
pub const OPERATIONS: [&str; 8] = [
    "ExploreReplica",
    "ExploreStatus",
    "ExplorePacking",
    "ExploreReplicaRevising",
    "ExploreRetaining",
    "ExploreStatusAggregating",
    "ExploreHealthy",
    "ExploreDependencies",
];

/// The webhooks of a configuration. The kind has no `spec`; its members are beside `metadata`.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "config.karmada.io",
    version = "v1alpha1",
    kind = "ResourceExploringWebhookConfiguration",
    plural = "resourceexploringwebhookconfigurations",
    no_spec,
    status = "InterpreterStatus",
    category = "karmada-io",
    doc = "ResourceExploringWebhookConfiguration says which webhooks interpret which objects, in the terms of Karmada's proposal: operations are Explore…, and messages ExploreReview.",
    printcolumn(
        name = "Accepted",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Accepted")].status"#
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
pub struct ExploringWebhooks {
    /// The webhooks. If several match an operation on an object, the one is called whose
    /// `<configuration>/<name>` is first in byte order.
    #[schemars(schema_with = "rules::webhooks::<ExploringWebhook>")]
    pub webhooks: Vec<ExploringWebhook>,
}

/// A webhook and what it interprets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExploringWebhook {
    /// Its name, a domain name such as `foo.example.com`.
    #[schemars(schema_with = "rules::name")]
    pub name: String,
    /// How it is reached.
    pub client_config: WebhookClientConfig,
    /// What it interprets; it is called if any of these matches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "exploring_rules")]
    pub rules: Vec<ExploringRule>,
    /// What a failed call means. `Fail`: the object's interpretation is unknown, and tried again.
    /// `Ignore`: the built-in rules answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "failure_policy")]
    pub failure_policy: Option<String>,
    /// How long a call may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "timeout")]
    pub timeout_seconds: Option<i32>,
    /// The versions of `ExploreReview` that it accepts; the only one is `v1alpha1`.
    #[schemars(schema_with = "rules::versions")]
    pub explore_review_versions: Vec<String>,
}

/// Operations on resources, in the terms of admission webhooks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExploringRule {
    /// Operations; `*` alone: all.
    #[schemars(schema_with = "operations")]
    pub operations: Vec<String>,
    /// API groups; `*` alone: all; the empty text: the core group.
    #[schemars(schema_with = "rules::groups")]
    pub api_groups: Vec<String>,
    /// API versions; `*` alone: all.
    #[schemars(schema_with = "rules::names")]
    pub api_versions: Vec<String>,
    /// Plural names such as `foos`; `*` alone: all. Entries for subresources such as `foos/status`
    /// have no effect.
    #[schemars(schema_with = "rules::names")]
    pub resources: Vec<String>,
    /// `Cluster`, `Namespaced`, or `*` for both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "scope")]
    pub scope: Option<String>,
}

fn exploring_rules(generator: &mut SchemaGenerator) -> Schema {
    schema::list_of::<ExploringRule>(generator, RULES)
}

fn operations(_: &mut SchemaGenerator) -> Schema {
    rules::operations(&OPERATIONS)
}

fn failure_policy(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ["Fail", "Ignore"], "default": "Fail"})
}

fn timeout(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "format": "int32", "minimum": 1, "maximum": 30, "default": 10})
}

fn scope(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ["*", "Cluster", "Namespaced"], "default": "*"})
}

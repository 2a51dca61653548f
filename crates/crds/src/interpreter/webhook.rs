//! `ResourceInterpreterWebhookConfiguration`: webhooks that interpret objects, as Karmada has them
//! since v0.10.

use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use super::{
    rules::{self, RULES},
    status::InterpreterStatus,
};
use crate::schema;
pub use rules::{WebhookClientConfig, WebhookService};

/// The operations that a rule may name, beside `*`.
pub const OPERATIONS: [&str; 8] = [
    "InterpretReplica",
    "InterpretComponent",
    "ReviseReplica",
    "Retain",
    "AggregateStatus",
    "InterpretStatus",
    "InterpretHealth",
    "InterpretDependency",
];

/// The webhooks of a configuration. The kind has no `spec`; its members are beside `metadata`.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "config.karmada.io",
    version = "v1alpha1",
    kind = "ResourceInterpreterWebhookConfiguration",
    plural = "resourceinterpreterwebhookconfigurations",
    no_spec,
    status = "InterpreterStatus",
    category = "karmada-io",
    doc = "ResourceInterpreterWebhookConfiguration says which webhooks interpret which objects: their replicas, health, status and dependencies.",
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
pub struct InterpreterWebhooks {
    /// The webhooks. If several match an operation on an object, the one is called whose
    /// `<configuration>/<name>` is first in byte order.
    #[schemars(schema_with = "rules::webhooks::<InterpreterWebhook>")]
    pub webhooks: Vec<InterpreterWebhook>,
}

/// A webhook and what it interprets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InterpreterWebhook {
    /// Its name, a domain name such as `workloads.example.com`.
    #[schemars(schema_with = "rules::name")]
    pub name: String,
    /// How it is reached.
    pub client_config: WebhookClientConfig,
    /// What it interprets; it is called if any of these matches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "interpreter_rules")]
    pub rules: Vec<InterpreterRule>,
    /// How long a call may take; 10 seconds by default. When it fails the object's interpretation
    /// is unknown, and tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 30))]
    pub timeout_seconds: Option<i32>,
    /// The versions of `ResourceInterpreterContext` that it accepts; the only one is `v1alpha1`.
    #[schemars(schema_with = "rules::versions")]
    pub interpreter_context_versions: Vec<String>,
}

/// Operations on kinds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InterpreterRule {
    /// Operations; `*` alone: all.
    #[schemars(schema_with = "operations")]
    pub operations: Vec<String>,
    /// API groups; `*` alone: all; the empty text: the core group.
    #[schemars(schema_with = "rules::groups")]
    pub api_groups: Vec<String>,
    /// API versions; `*` alone: all.
    #[schemars(schema_with = "rules::names")]
    pub api_versions: Vec<String>,
    /// Kinds; `*` alone: all.
    #[schemars(schema_with = "rules::names")]
    pub kinds: Vec<String>,
}

fn interpreter_rules(generator: &mut SchemaGenerator) -> Schema {
    schema::list_of::<InterpreterRule>(generator, RULES)
}

fn operations(_: &mut SchemaGenerator) -> Schema {
    rules::operations(&OPERATIONS)
}

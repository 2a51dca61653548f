//! `ResourceInterpreterCustomization`: Lua scripts that interpret the objects of one kind.

use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::status::InterpreterStatus;
use crate::schema::{VALIDATIONS, rules};

/// The scripts for one kind.
#[expect(clippy::duplicated_attributes, reason = "columns have types in common")]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "config.karmada.io",
    version = "v1alpha1",
    kind = "ResourceInterpreterCustomization",
    plural = "resourceinterpretercustomizations",
    shortname = "ric",
    status = "InterpreterStatus",
    category = "karmada-io",
    derive = "PartialEq",
    doc = "ResourceInterpreterCustomization has Lua scripts that interpret the objects of one kind. They come before webhooks and built-in rules.",
    printcolumn(
        name = "Target-API-Version",
        type_ = "string",
        json_path = ".spec.target.apiVersion"
    ),
    printcolumn(
        name = "Target-Kind",
        type_ = "string",
        json_path = ".spec.target.kind"
    ),
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
pub struct ResourceInterpreterCustomizationSpec {
    /// The kind that the scripts are for.
    pub target: CustomizationTarget,
    /// The scripts.
    pub customizations: CustomizationRules,
}

/// One kind, exactly.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustomizationTarget {
    /// Group and version, such as `v1` or `apps/v1`.
    #[schemars(length(max = 317), extend("x-kubernetes-validations" = rules(API_VERSION_RULES)))]
    pub api_version: String,
    /// Kind, such as `Deployment`.
    #[schemars(length(max = 63), extend("x-kubernetes-validations" = rules(KIND_RULES)))]
    pub kind: String,
}

/// A script for each operation. Where there is none the next level answers: a webhook, or else the
/// built-in rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustomizationRules {
    /// `Retain(desiredObj, observedObj)` returns the desired object with the values that its member
    /// owns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<ScriptRule>,
    /// `GetReplicas(desiredObj)` returns the number of replicas, and what each of them requires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_resource: Option<ScriptRule>,
    /// `GetComponents(desiredObj)` returns a list of pod templates with their replicas and
    /// requirements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component_resource: Option<ScriptRule>,
    /// `ReviseReplica(desiredObj, desiredReplica)` returns the object with another number of
    /// replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_revision: Option<ScriptRule>,
    /// `ReflectStatus(observedObj)` returns the part of the status that is reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_reflection: Option<ScriptRule>,
    /// `AggregateStatus(desiredObj, statusItems)` returns the object with the status of all members
    /// in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_aggregation: Option<ScriptRule>,
    /// `InterpretHealth(observedObj)` returns whether the object is healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_interpretation: Option<ScriptRule>,
    /// `GetDependencies(desiredObj)` returns a list of the objects that the object needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependency_interpretation: Option<ScriptRule>,
}

/// The script of one operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScriptRule {
    /// A Lua script that defines the operation's function.
    #[schemars(schema_with = "script")]
    pub lua_script: String,
}

const API_VERSION_RULES: &[(&str, &str)] = &[(
    "self.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
    "apiVersion is <version> for the core group or <group>/<version>, such as v1 or apps/v1; wildcards are not supported",
)];
const KIND_RULES: &[(&str, &str)] = &[(
    "self.matches('^[A-Za-z][A-Za-z0-9-]*$')",
    "kind is one kind such as Deployment; wildcards are not supported",
)];

fn script(_: &mut SchemaGenerator) -> Schema {
    let help =
        "luaScript holds no script: remove the rule to leave the operation to the next level";
    json_schema!({
        "type": "string",
        "maxLength": 262_144,
        VALIDATIONS: rules(&[("size(self) > 0", help)]),
    })
}

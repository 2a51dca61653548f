//! The spec of `OverridePolicy` and `ClusterOverridePolicy`.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    TemplateSelector,
    override_schema::{
        FIELD_RULES, IMAGE_RULES, OPERATIONS, OVERRIDE_RULES, OVERRIDERS, POINTER, RULES, labels,
    },
    propagation_schema::SELECTORS,
};
use crate::{
    affinity::ClusterAffinity,
    schema::{any_value, requires, rules},
};

/// How objects differ in some clusters.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "policy.karmada.io",
    version = "v1alpha1",
    kind = "OverridePolicy",
    plural = "overridepolicies",
    shortname = "op",
    category = "karmada-io",
    namespaced,
    derive = "PartialEq",
    doc = "OverridePolicy says how objects of its namespace differ in some clusters."
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(OVERRIDE_RULES)))]
pub struct OverrideSpec {
    /// The objects; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = SELECTORS))]
    pub resource_selectors: Vec<TemplateSelector>,
    /// What is changed, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = RULES))]
    pub override_rules: Vec<OverrideRule>,
    /// Superseded by `overrideRules`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_cluster: Option<ClusterAffinity>,
    /// Superseded by `overrideRules`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overriders: Option<Overriders>,
}

/// What is changed in some clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = requires(&["overriders"]))]
pub struct OverrideRule {
    /// The clusters; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_cluster: Option<ClusterAffinity>,
    /// The changes.
    #[serde(default)]
    pub overriders: Overriders,
}

/// Changes of an object. They are made in this order: images, commands, arguments, labels,
/// annotations, texts within fields, any field.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Overriders {
    /// Any field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = OVERRIDERS))]
    pub plaintext: Vec<PlaintextOverrider>,
    /// Parts of images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = OVERRIDERS))]
    pub image_overrider: Vec<ImageOverrider>,
    /// Commands of containers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = OVERRIDERS))]
    pub command_overrider: Vec<ContainerListOverrider>,
    /// Arguments of containers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = OVERRIDERS))]
    pub args_overrider: Vec<ContainerListOverrider>,
    /// Labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = OVERRIDERS))]
    pub labels_overrider: Vec<MetadataOverrider>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = OVERRIDERS))]
    pub annotations_overrider: Vec<MetadataOverrider>,
    /// JSON or YAML within a text, such as a file in a `ConfigMap`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = OVERRIDERS))]
    pub field_overrider: Vec<FieldOverrider>,
}

/// One operation of RFC 6902.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = requires(&["path", "operator"]))]
pub struct PlaintextOverrider {
    /// A JSON pointer.
    #[serde(default)]
    #[schemars(length(max = 1024), extend("pattern" = POINTER))]
    pub path: String,
    /// `add`, `replace` or `remove`.
    #[serde(default)]
    #[schemars(extend("enum" = ["add", "replace", "remove"]))]
    pub operator: String,
    /// The value; none with `remove`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_value")]
    pub value: Option<Value>,
}

/// A change of a part of images.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = requires(&["component", "operator"]), extend("x-kubernetes-validations" = rules(IMAGE_RULES)))]
pub struct ImageOverrider {
    /// Where the image is; absent: in the containers of Pods and built-in workloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicate: Option<ImagePredicate>,
    /// `Registry`, `Repository` or `Tag`.
    #[serde(default)]
    #[schemars(extend("enum" = ["Registry", "Repository", "Tag"]))]
    pub component: String,
    /// `add` (appends), `replace` or `remove`.
    #[serde(default)]
    #[schemars(extend("enum" = ["add", "replace", "remove"]))]
    pub operator: String,
    /// The value; none with `remove`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub value: String,
}

/// Where an image is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = requires(&["path"]))]
pub struct ImagePredicate {
    /// A JSON pointer.
    #[serde(default)]
    #[schemars(length(max = 1024), extend("pattern" = POINTER))]
    pub path: String,
}

/// A change of the command or the arguments of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = requires(&["containerName", "operator"]))]
pub struct ContainerListOverrider {
    /// The container.
    #[serde(default)]
    #[schemars(length(max = 63))]
    pub container_name: String,
    /// `add` (appends) or `remove`.
    #[serde(default)]
    #[schemars(extend("enum" = ["add", "remove"]))]
    pub operator: String,
    /// The items.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub value: Vec<String>,
}

/// A change of labels or annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = requires(&["operator", "value"]))]
pub struct MetadataOverrider {
    /// `add`, or, for keys that are there, `replace` or `remove`.
    #[serde(default)]
    #[schemars(extend("enum" = ["add", "replace", "remove"]))]
    pub operator: String,
    /// The values by their keys.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "labels")]
    pub value: BTreeMap<String, String>,
}

/// A change within a text that is itself JSON or YAML.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = requires(&["fieldPath"]), extend("x-kubernetes-validations" = rules(FIELD_RULES)))]
pub struct FieldOverrider {
    /// A JSON pointer to the text.
    #[serde(default)]
    #[schemars(length(max = 1024), extend("pattern" = POINTER))]
    pub field_path: String,
    /// Changes of JSON.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = OPERATIONS))]
    pub json: Vec<JsonPatchOverride>,
    /// Changes of YAML.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = OPERATIONS))]
    pub yaml: Vec<JsonPatchOverride>,
}

/// One operation of RFC 6902 within a text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = requires(&["subPath", "operator"]))]
pub struct JsonPatchOverride {
    /// A JSON pointer.
    #[serde(default)]
    #[schemars(length(max = 1024), extend("pattern" = POINTER))]
    pub sub_path: String,
    /// `add`, `replace` or `remove`.
    #[serde(default)]
    #[schemars(extend("enum" = ["add", "replace", "remove"]))]
    pub operator: String,
    /// The value; none with `remove`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_value")]
    pub value: Option<Value>,
}

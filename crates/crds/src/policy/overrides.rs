//! The spec of `OverridePolicy` and `ClusterOverridePolicy`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::TemplateSelector;
use crate::affinity::ClusterAffinity;

/// How objects differ in some clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OverrideSpec {
    /// The objects; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_selectors: Vec<TemplateSelector>,
    /// What is changed, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub override_rules: Vec<OverrideRule>,
    /// Superseded by `overrideRules`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_cluster: Option<ClusterAffinity>,
    /// Superseded by `overrideRules`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overriders: Option<Overriders>,
}

/// What is changed in some clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Overriders {
    /// Any field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plaintext: Vec<PlaintextOverrider>,
    /// Parts of images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_overrider: Vec<ImageOverrider>,
    /// Commands of containers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command_overrider: Vec<ContainerListOverrider>,
    /// Arguments of containers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args_overrider: Vec<ContainerListOverrider>,
    /// Labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels_overrider: Vec<MetadataOverrider>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub annotations_overrider: Vec<MetadataOverrider>,
    /// JSON or YAML within a text, such as a file in a `ConfigMap`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub field_overrider: Vec<FieldOverrider>,
}

/// One operation of RFC 6902.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlaintextOverrider {
    /// A JSON pointer.
    #[serde(default)]
    pub path: String,
    /// `add`, `replace` or `remove`.
    #[serde(default)]
    pub operator: String,
    /// The value; none with `remove`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

/// A change of a part of images.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageOverrider {
    /// Where the image is; absent: in the containers of Pods and built-in workloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicate: Option<ImagePredicate>,
    /// `Registry`, `Repository` or `Tag`.
    #[serde(default)]
    pub component: String,
    /// `add` (appends), `replace` or `remove`.
    #[serde(default)]
    pub operator: String,
    /// The value; none with `remove`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
}

/// Where an image is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImagePredicate {
    /// A JSON pointer.
    #[serde(default)]
    pub path: String,
}

/// A change of the command or the arguments of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerListOverrider {
    /// The container.
    #[serde(default)]
    pub container_name: String,
    /// `add` (appends) or `remove`.
    #[serde(default)]
    pub operator: String,
    /// The items.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub value: Vec<String>,
}

/// A change of labels or annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MetadataOverrider {
    /// `add`, or, for keys that are there, `replace` or `remove`.
    #[serde(default)]
    pub operator: String,
    /// The values by their keys.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub value: BTreeMap<String, String>,
}

/// A change within a text that is itself JSON or YAML.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldOverrider {
    /// A JSON pointer to the text.
    #[serde(default)]
    pub field_path: String,
    /// Changes of JSON.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub json: Vec<JsonPatchOverride>,
    /// Changes of YAML.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub yaml: Vec<JsonPatchOverride>,
}

/// One operation of RFC 6902 within a text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JsonPatchOverride {
    /// A JSON pointer.
    #[serde(default)]
    pub sub_path: String,
    /// `add`, `replace` or `remove`.
    #[serde(default)]
    pub operator: String,
    /// The value; none with `remove`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

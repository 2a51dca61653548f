//! Objects of several kinds: what they are, and how they are.

use serde::{Deserialize, Serialize};

use super::AnswerList;

/// A `PartialObjectMetadataList` of objects of several kinds.
pub type FoundObjects = AnswerList<FoundObject>;

/// The `PartialObjectMetadata` of an object. In a list it has its own `apiVersion` and `kind`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FoundObject {
    /// The API group and version.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The metadata, as much as identifies it.
    pub metadata: FoundMetadata,
}

/// What identifies an object, and how it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FoundMetadata {
    /// Its name.
    pub name: String,
    /// Its UID; empty for an object that does not exist.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Where and how it is.
    pub annotations: FoundAnnotations,
    /// Its namespace; empty for a cluster-scoped object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// When it was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<String>,
    /// The version from which a watch continues; empty in lists.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
}

/// Where an object is and how it is, as annotations. Absent ones are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FoundAnnotations {
    /// The member that holds it.
    #[serde(
        rename = "resource.karmada.io/cached-from-cluster",
        skip_serializing_if = "String::is_empty"
    )]
    pub cluster: String,
    /// Its path at its API server, which `apiVersion` and `kind` do not tell.
    #[serde(
        rename = "fleetdex.io/native-path",
        skip_serializing_if = "String::is_empty"
    )]
    pub native_path: String,
    /// Its health.
    #[serde(
        rename = "fleetdex.io/health",
        skip_serializing_if = "String::is_empty"
    )]
    pub health: String,
    /// A word for the cause.
    #[serde(
        rename = "fleetdex.io/health-reason",
        skip_serializing_if = "String::is_empty"
    )]
    pub health_reason: String,
    /// What the object says about the cause.
    #[serde(
        rename = "fleetdex.io/health-message",
        skip_serializing_if = "String::is_empty"
    )]
    pub health_message: String,
}

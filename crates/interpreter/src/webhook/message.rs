//! Requests and answers as they are on the wire.
//!
//! A null member is as good as an absent one. Members that are not listed here are ignored.

use std::{borrow::Cow, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::Value;

use crate::request::{AggregatedStatusItem, Component, DependentObject, ReplicaRequirements};

/// The only type of patch.
pub(super) const JSON_PATCH: &str = "JSONPatch";

/// A request with its envelope.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RequestMessage<'a> {
    pub api_version: &'static str,
    pub kind: &'static str,
    pub request: RequestMembers<'a>,
}

/// The members of a request.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RequestMembers<'a> {
    pub uid: &'a str,
    pub kind: ObjectKind<'a>,
    pub name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub namespace: &'a str,
    pub operation: &'static str,
    pub object: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_object: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    #[serde(skip_serializing_if = "<[AggregatedStatusItem]>::is_empty")]
    pub aggregated_status: Cow<'a, [AggregatedStatusItem]>,
}

/// `metav1.GroupVersionKind`.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ObjectKind<'a> {
    pub group: Cow<'a, str>,
    pub version: Cow<'a, str>,
    pub kind: Cow<'a, str>,
}

/// A received request with its envelope.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReceivedMessage {
    #[serde(default, deserialize_with = "null_is_default")]
    pub api_version: String,
    #[serde(default, deserialize_with = "null_is_default")]
    pub kind: String,
    pub request: Option<JsonObject<ReceivedMembers>>,
}

/// The members of a received request.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReceivedMembers {
    #[serde(default, deserialize_with = "null_is_default")]
    pub uid: String,
    #[serde(default, deserialize_with = "null_is_default")]
    pub kind: ObjectKind<'static>,
    #[serde(default, deserialize_with = "null_is_default")]
    pub name: String,
    #[serde(default, deserialize_with = "null_is_default")]
    pub namespace: String,
    #[serde(default, deserialize_with = "null_is_default")]
    pub operation: String,
    #[serde(default)]
    pub object: Value,
    pub observed_object: Option<Value>,
    pub replicas: Option<i32>,
    #[serde(default, deserialize_with = "null_is_default")]
    pub aggregated_status: Vec<AggregatedStatusItem>,
}

/// An answer with its envelope.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct AnswerMessage {
    #[serde(
        skip_serializing_if = "String::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub api_version: String,
    #[serde(
        skip_serializing_if = "String::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub kind: String,
    pub response: Option<JsonObject<AnswerMembers>>,
}

/// The members of an answer, of both dialects.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct AnswerMembers {
    #[serde(deserialize_with = "null_is_default")]
    pub uid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub successful: Option<bool>,
    /// Released: an [`AnswerStatus`]. Proposal: the raw status of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica_requirements: Option<JsonObject<ReplicaRequirements>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub components: Option<Vec<JsonObject<ComponentMembers>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dependencies: Option<Vec<JsonObject<DependencyMembers>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_status: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub healthy: Option<bool>,
}

/// Whether a request succeeded, and why not.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct AnswerStatus {
    #[serde(
        skip_serializing_if = "String::is_empty",
        deserialize_with = "null_is_default"
    )]
    pub message: String,
    #[serde(deserialize_with = "null_is_default")]
    pub code: i64,
}

/// A [`Component`] whose members may be absent, so that the error names the one that is.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ComponentMembers {
    #[serde(deserialize_with = "null_is_default")]
    name: String,
    #[serde(deserialize_with = "null_is_default")]
    replicas: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    replica_requirements: Option<JsonObject<ReplicaRequirements>>,
}

/// A [`DependentObject`] whose members may be absent, so that the error names the one that is.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct DependencyMembers {
    #[serde(deserialize_with = "null_is_default")]
    api_version: String,
    #[serde(deserialize_with = "null_is_default")]
    kind: String,
    #[serde(
        skip_serializing_if = "String::is_empty",
        deserialize_with = "null_is_default"
    )]
    namespace: String,
    #[serde(
        skip_serializing_if = "String::is_empty",
        deserialize_with = "null_is_default"
    )]
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    label_selector: Option<Value>,
}

/// A value that is an object as JSON. Serde alone reads a list as well, as the members in their
/// order.
#[derive(Serialize)]
#[serde(transparent)]
pub(super) struct JsonObject<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for JsonObject<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
            type Value = T;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(members))
            }
        }

        deserializer
            .deserialize_map(ObjectVisitor(PhantomData))
            .map(Self)
    }
}

impl From<JsonObject<ComponentMembers>> for Component {
    fn from(JsonObject(members): JsonObject<ComponentMembers>) -> Self {
        Self {
            name: members.name,
            replicas: members.replicas,
            replica_requirements: members.replica_requirements.map(|object| object.0),
        }
    }
}

impl From<&Component> for JsonObject<ComponentMembers> {
    fn from(component: &Component) -> Self {
        Self(ComponentMembers {
            name: component.name.clone(),
            replicas: component.replicas,
            replica_requirements: component.replica_requirements.clone().map(JsonObject),
        })
    }
}

impl From<JsonObject<DependencyMembers>> for DependentObject {
    fn from(JsonObject(members): JsonObject<DependencyMembers>) -> Self {
        Self {
            api_version: members.api_version,
            kind: members.kind,
            namespace: members.namespace,
            name: members.name,
            label_selector: members.label_selector,
        }
    }
}

impl From<&DependentObject> for JsonObject<DependencyMembers> {
    fn from(dependency: &DependentObject) -> Self {
        Self(DependencyMembers {
            api_version: dependency.api_version.clone(),
            kind: dependency.kind.clone(),
            namespace: dependency.namespace.clone(),
            name: dependency.name.clone(),
            label_selector: dependency.label_selector.clone(),
        })
    }
}

fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

//! Requests and answers as they are on the wire.
//!
//! A null member is as good as an absent one. Members that are not listed here are ignored.

use std::{borrow::Cow, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::Value;

use crate::request::{
    AggregatedStatusItem, Component, DependentObject, ReplicaRequirements, null_is_default,
};

/// The only type of patch.
pub(super) const JSON_PATCH: &str = "JSONPatch";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RequestMessage<'a> {
    pub api_version: &'static str,
    pub kind: &'static str,
    pub request: RequestMembers<'a>,
}

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
pub(super) struct AnswerMessage<M> {
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
    pub response: Option<JsonObject<M>>,
}

/// The members of an answer that is sent.
pub(super) type SentMembers = AnswerMembers<Component, DependentObject>;
/// The members of an answer that is received.
pub(super) type ReadMembers =
    AnswerMembers<JsonObject<ComponentMembers>, JsonObject<DependencyMembers>>;

/// The members of an answer, of both dialects.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct AnswerMembers<C, D> {
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
    pub components: Option<Vec<C>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dependencies: Option<Vec<D>>,
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
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ComponentMembers {
    #[serde(deserialize_with = "null_is_default")]
    name: String,
    #[serde(deserialize_with = "null_is_default")]
    replicas: i64,
    replica_requirements: Option<JsonObject<ReplicaRequirements>>,
}

/// A [`DependentObject`] whose members may be absent, so that the error names the one that is.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct DependencyMembers {
    #[serde(deserialize_with = "null_is_default")]
    api_version: String,
    #[serde(deserialize_with = "null_is_default")]
    kind: String,
    #[serde(deserialize_with = "null_is_default")]
    namespace: String,
    #[serde(deserialize_with = "null_is_default")]
    name: String,
    label_selector: Option<Value>,
}

/// A value that is an object as JSON. Serde alone reads a list as well, as the members in their
/// order.
#[derive(Default, Serialize)]
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

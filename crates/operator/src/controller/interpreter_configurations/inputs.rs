//! The objects that rules are read from, as last seen.

use std::{collections::BTreeMap, sync::Arc};

use fleetdex_crds::interpreter::status::InterpreterStatus;
use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::Condition};
use kube::core::{ApiResource, DynamicObject};
use serde_json::{Map, Value, json};

use super::source::RuleSource;

/// The source and the name of an object.
pub(super) type RuleObjectKey = (RuleSource, String);

/// One object that has rules.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RuleObject {
    /// Everything that rules depend on: no status, and of the metadata only the name.
    pub(super) content: Arc<Value>,
    pub(super) generation: Option<i64>,
    pub(super) conditions: Vec<Condition>,
    pub(super) reference: ObjectReference,
}

impl RuleObject {
    /// An object of a kind. Conditions of an odd type count as none.
    pub(super) fn new(object: DynamicObject, resource: &ApiResource) -> Self {
        let metadata = object.metadata;
        let mut members = match object.data {
            Value::Object(members) => members,
            _ => Map::new(),
        };
        let status = members.remove("status").unwrap_or_default();
        let status: InterpreterStatus = serde_json::from_value(status).unwrap_or_default();
        members.insert("apiVersion".to_owned(), json!(resource.api_version));
        members.insert("kind".to_owned(), json!(resource.kind));
        members.insert("metadata".to_owned(), json!({ "name": metadata.name }));
        Self {
            content: Arc::new(Value::Object(members)),
            generation: metadata.generation,
            conditions: status.conditions,
            reference: ObjectReference {
                api_version: Some(resource.api_version.clone()),
                kind: Some(resource.kind.clone()),
                name: metadata.name,
                namespace: metadata.namespace,
                resource_version: metadata.resource_version,
                uid: metadata.uid,
                field_path: None,
            },
        }
    }

    pub(super) fn name(&self) -> &str {
        self.reference.name.as_deref().unwrap_or_default()
    }
}

/// The objects of one source.
#[derive(Clone, Debug, Default)]
pub(super) struct SourceContents {
    /// By name; `None` until the source has been listed. A kind that is not served has none.
    pub(super) objects: Option<BTreeMap<String, RuleObject>>,
    /// Why the source cannot be read now. Its last objects stay in use.
    pub(super) error: Option<String>,
}

/// The objects of all sources.
#[derive(Clone, Debug, Default)]
pub(super) struct RuleInputs(pub(super) BTreeMap<RuleSource, SourceContents>);

impl RuleInputs {
    /// Inputs of which nothing has been read.
    pub(super) fn unread(sources: impl IntoIterator<Item = RuleSource>) -> Self {
        let unread = |source| (source, SourceContents::default());
        Self(sources.into_iter().map(unread).collect())
    }

    /// Whether every source has been listed.
    pub(super) fn are_complete(&self) -> bool {
        self.0.values().all(|contents| contents.objects.is_some())
    }

    pub(super) fn objects(&self) -> impl Iterator<Item = (RuleSource, &RuleObject)> {
        self.0.iter().flat_map(|(source, contents)| {
            let objects = contents.objects.iter().flat_map(BTreeMap::values);
            objects.map(|object| (*source, object))
        })
    }

    /// What the rules depend on.
    pub(super) fn contents(&self) -> BTreeMap<RuleObjectKey, Arc<Value>> {
        let content = |(source, object): (RuleSource, &RuleObject)| {
            let key = (source, object.name().to_owned());
            (key, Arc::clone(&object.content))
        };
        self.objects().map(content).collect()
    }
}

//! Cluster, namespace, kind and name of an object of the fleet.

use std::{collections::BTreeMap, fmt};

use fleetdex_core::model::{CLUSTER_ANNOTATION, qualified, split_api_version};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::error::OutputError;

/// Cluster, namespace, kind and name of an object of the fleet; each is empty if the object has
/// none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "PartialObject")]
pub(crate) struct ObjectName {
    /// The member cluster, from the annotation of the query API.
    pub(crate) cluster: String,
    /// `metadata.namespace`
    pub(crate) namespace: String,
    /// `pod`, `deployment.apps`.
    kind: String,
    /// `metadata.name`
    pub(crate) name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct PartialObject {
    api_version: String,
    kind: String,
    metadata: PartialMetadata,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PartialMetadata {
    namespace: String,
    name: String,
    annotations: Option<BTreeMap<String, String>>,
}

impl ObjectName {
    /// Reads it from an object of a response.
    pub(crate) fn of(object: &RawValue) -> Result<Self, OutputError> {
        serde_json::from_str(object.get()).map_err(OutputError::NoObject)
    }
}

impl From<PartialObject> for ObjectName {
    fn from(object: PartialObject) -> Self {
        let (group, _) = split_api_version(&object.api_version);
        let kind = qualified(&object.kind.to_ascii_lowercase(), group);
        let metadata = object.metadata;
        let mut annotations = metadata.annotations.unwrap_or_default();
        Self {
            cluster: annotations.remove(CLUSTER_ANNOTATION).unwrap_or_default(),
            namespace: metadata.namespace,
            kind,
            name: metadata.name,
        }
    }
}

/// `<cluster>/<kind>/<name>`
impl fmt::Display for ObjectName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}/{}", self.cluster, self.kind, self.name)
    }
}

//! Objects of several kinds in one result: what they are, and how they are.

use fleetdex_core::{
    model::{ClusterName, Gvk, Interpretation, qualified, split_api_version},
    query::{Hit, ResourceName},
};
use fleetdex_query_api::answer::{FoundAnnotations, FoundMetadata, FoundObject, TableRow};
use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use serde::Deserialize;
use serde_json::Value;

use super::across_kinds::FromHit;
use crate::render::{representation::MetaVersion, table::human_duration};

/// What stays as it is in a segment of a URL.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// One object of any kind.
#[derive(Clone, Debug)]
pub struct ObjectSummary {
    /// The member that holds it.
    pub cluster: ClusterName,
    /// Its kind.
    pub kind: Gvk,
    /// The plural of its resource; empty if no registry selects it any more.
    pub plural: String,
    /// Its metadata, as much as identifies it.
    pub metadata: ObjectIdentity,
    /// What it means, without its images and dependencies: results do not show these, and there may
    /// be a thousand.
    pub interpretation: Interpretation,
}

/// What identifies an object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectIdentity {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Its namespace; empty for a cluster-scoped object.
    #[serde(default)]
    pub namespace: String,
    /// Its UID.
    #[serde(default)]
    pub uid: String,
    /// When it was created.
    #[serde(default)]
    pub creation_timestamp: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct IdentifiedObject {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    metadata: ObjectIdentity,
}

impl FromHit for ObjectSummary {
    /// Its version is that of the object, which its cluster may serve in another one.
    fn of(resource: &ResourceName, kind: &Gvk, hit: &Hit) -> Self {
        let head: Option<IdentifiedObject> = serde_json::from_str(hit.object.get()).ok();
        let version = head
            .as_ref()
            .map(|head| split_api_version(&head.api_version));
        let kind = match version {
            Some((group, version)) if *group == *kind.group && !version.is_empty() => {
                Gvk::new(group, version, &kind.kind)
            }
            _ => kind.clone(),
        };
        Self {
            cluster: hit.cluster.clone(),
            kind,
            plural: resource.plural.to_string(),
            metadata: head.map(|head| head.metadata).unwrap_or_default(),
            interpretation: hit.interpretation.as_deref().map(shown).unwrap_or_default(),
        }
    }
}

impl ObjectSummary {
    /// The kind as Tables show it: `Pod`, `Deployment.apps`.
    pub fn qualified_kind(&self) -> String {
        qualified(&self.kind.kind, &self.kind.group)
    }

    /// The order of results: cluster, kind, namespace and name.
    pub fn order(&self) -> (&ClusterName, &str, &str, &str, &str) {
        let found = &self.metadata;
        let (namespace, name, uid) = (&found.namespace, &found.name, &found.uid);
        (&self.cluster, &self.kind.kind, namespace, name, uid)
    }

    /// Its path at its API server; empty if the resource is not known.
    fn native_path(&self) -> String {
        if self.plural.is_empty() {
            return String::new();
        }
        let Gvk { group, version, .. } = &self.kind;
        let ObjectIdentity {
            name, namespace, ..
        } = &self.metadata;
        let mut path = if group.is_empty() {
            format!("/api/{version}")
        } else {
            format!("/apis/{group}/{version}")
        };
        if !namespace.is_empty() {
            path = format!("{path}/namespaces/{}", encoded(namespace));
        }
        format!("{path}/{}/{}", self.plural, encoded(name))
    }

    /// Its `PartialObjectMetadata`, with its own `apiVersion` and `kind`, and annotations of its
    /// cluster, path and health.
    pub fn partial_metadata(&self) -> FoundObject {
        FoundObject {
            api_version: self.kind.api_version(),
            kind: self.kind.kind.to_string(),
            metadata: self.found_metadata(),
        }
    }

    /// What identifies it, and annotations of its cluster, path and health.
    pub fn found_metadata(&self) -> FoundMetadata {
        let found = &self.interpretation;
        let identity = self.metadata.clone();
        FoundMetadata {
            name: identity.name,
            uid: identity.uid,
            annotations: FoundAnnotations {
                cluster: self.cluster.to_string(),
                native_path: self.native_path(),
                health: found.health.to_owned(),
                health_reason: found.health_reason.clone(),
                health_message: found.health_message.clone(),
            },
            namespace: identity.namespace,
            creation_timestamp: identity.creation_timestamp,
            resource_version: String::new(),
        }
    }

    /// Its age as kubectl shows it.
    pub fn age(&self, now: Timestamp) -> String {
        let created = self.metadata.creation_timestamp.as_deref();
        let created = created.and_then(|text| text.parse::<Timestamp>().ok());
        created.map_or_else(
            || "<unknown>".to_owned(),
            |created| human_duration(now.duration_since(created).as_secs()),
        )
    }

    /// A row of a Table, with these cells.
    pub fn row(&self, cells: Vec<Value>, version: MetaVersion) -> TableRow<FoundObject> {
        row(cells, self.found_metadata(), version)
    }
}

/// A row of a Table, with these cells, about the object of this metadata.
pub fn row(
    cells: Vec<Value>,
    metadata: FoundMetadata,
    version: MetaVersion,
) -> TableRow<FoundObject> {
    TableRow {
        cells,
        object: Some(FoundObject {
            api_version: version.api_version().to_owned(),
            kind: "PartialObjectMetadata".to_owned(),
            metadata,
        }),
    }
}

/// What results show of an interpretation.
fn shown(found: &Interpretation) -> Interpretation {
    Interpretation {
        health: found.health,
        health_reason: found.health_reason.clone(),
        health_message: found.health_message.clone(),
        desired_replicas: found.desired_replicas,
        ready_replicas: found.ready_replicas,
        ..Interpretation::default()
    }
}

/// A name as a segment of a URL.
fn encoded(name: &str) -> PercentEncode<'_> {
    utf8_percent_encode(name, SEGMENT)
}

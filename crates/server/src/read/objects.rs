//! Objects of every kind, by their labels, their health and whatever else all kinds have.

use jiff::Timestamp;
use serde_json::{Value, json, value::RawValue};

use super::{
    across_kinds::AcrossKinds,
    aggregate::raw,
    object_summary::{ObjectSummary, table},
};
use crate::{
    render::representation::{MetaVersion, OutputKind},
    request::{api_error::ApiError, api_request::ObjectsRequest},
};

/// The columns of a Table.
const COLUMNS: [(&str, &str, u8); 8] = [
    ("Cluster", "The member that holds the object.", 0),
    ("Namespace", "The namespace of the object.", 0),
    ("Kind", "The kind of the object, with its API group.", 0),
    ("Name", "The name of the object.", 0),
    (
        "Health",
        "Healthy, Progressing, Degraded, Suspended, Missing or Unknown.",
        0,
    ),
    ("Reason", "A word for the cause.", 0),
    ("Age", "How long ago the object was created.", 0),
    ("Message", "What the object says about the cause.", 1),
];

/// The objects that a request selects, and warnings about what is missing.
pub async fn search(
    kinds: &AcrossKinds<'_>,
    request: &ObjectsRequest,
) -> Result<(Vec<ObjectSummary>, Vec<String>), ApiError> {
    let found = kinds.first_objects::<ObjectSummary>(&request.kinds, &request.list, request.limit);
    let found = found.await?;
    let mut objects = found.objects;
    let mut warnings: Vec<String> = Vec::new();
    if found.has_more {
        warnings.push(format!(
            "more than {} objects match; narrow the search with kinds, selectors, clusters or namespaces",
            objects.len()
        ));
    }
    warnings.extend(found.warnings);
    objects.sort_by(|left, right| left.order().cmp(&right.order()));
    Ok((objects, warnings))
}

/// The result as JSON: a `PartialObjectMetadataList`, or a Table.
pub fn document(objects: &[ObjectSummary], output: OutputKind) -> Result<Box<RawValue>, ApiError> {
    let now = Timestamp::now();
    if let OutputKind::Table(version, _) = output {
        let rows = objects
            .iter()
            .map(|object| object.row(&cells(object, now), version));
        return raw(&table(&COLUMNS, &rows.collect::<Vec<Value>>(), version));
    }
    let version = match output {
        OutputKind::PartialMetadata(version) => version,
        OutputKind::Object | OutputKind::Table(..) => MetaVersion::V1,
    };
    raw(&json!({
        "kind": "PartialObjectMetadataList",
        "apiVersion": version.api_version(),
        "metadata": {},
        "items": objects.iter().map(ObjectSummary::partial_metadata).collect::<Vec<Value>>(),
    }))
}

fn cells(object: &ObjectSummary, now: Timestamp) -> Value {
    let found = &object.interpretation;
    json!([
        object.cluster.as_str(),
        object.metadata.namespace,
        object.qualified_kind(),
        object.metadata.name,
        found.health,
        found.health_reason,
        object.age(now),
        found.health_message,
    ])
}

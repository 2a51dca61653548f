//! Objects of every kind, by their labels, their health and whatever else all kinds have.

use fleetdex_core::{
    model::Gvk,
    query::{Hit, ResourceName},
};
use fleetdex_query_api::question::ObjectsRequest;
use jiff::Timestamp;
use serde_json::{Map, Value, json, value::RawValue};

use super::{
    across_kinds::{AcrossKinds, FoundObject as _},
    aggregate::raw,
    object_summary::{ObjectSummary, ResultExtent, table},
};
use crate::{
    api_error::ApiError,
    render::representation::{MetaVersion, OutputKind},
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

/// Objects of several kinds.
pub struct FoundSummaries {
    pub(super) objects: Vec<ObjectSummary>,
    pub(super) extent: ResultExtent,
    /// What the metadata of the list has besides its extent.
    pub(super) details: Map<String, Value>,
}

impl FoundSummaries {
    fn metadata(&self) -> Value {
        let mut metadata = self.extent.metadata();
        metadata.extend(self.details.clone());
        metadata.into()
    }
}

/// The objects that a request selects, and warnings about what is missing.
pub async fn search(
    kinds: &AcrossKinds<'_>,
    request: &ObjectsRequest,
) -> Result<(FoundSummaries, Vec<String>), ApiError> {
    let found = kinds.first_objects::<ObjectSummary>(&request.kinds, &request.list, request.limit);
    let found = found.await?;
    let mut objects = found.objects;
    let mut warnings: Vec<String> = Vec::new();
    let mut extent = ResultExtent::cut(found.has_more);
    if found.has_more {
        extent.remaining = remaining(kinds, request, objects.len()).await;
        warnings.push(cut_warning(objects.len(), extent.remaining));
    }
    warnings.extend(found.warnings);
    objects.sort_by(|left, right| left.order().cmp(&right.order()));
    let details = Map::new();
    Ok((
        FoundSummaries {
            objects,
            extent,
            details,
        },
        warnings,
    ))
}

/// How many more objects a request selects than a result shows. `None` if they have become fewer since, or cannot be counted: the result is valid
/// without the number.
async fn remaining(kinds: &AcrossKinds<'_>, request: &ObjectsRequest, shown: usize) -> Option<u64> {
    let counted = kinds.count_objects(&request.kinds, &request.list).await;
    let all = counted
        .inspect_err(|error| {
            tracing::debug!(%error, shown, "cannot count the objects that a search across kinds selects; its result has no remainingItemCount");
        })
        .ok()?;
    all.checked_sub(shown as u64)
        .filter(|remaining| *remaining > 0)
}

fn cut_warning(shown: usize, remaining: Option<u64>) -> String {
    let more = match remaining {
        Some(remaining) => format!("{remaining} more than these {shown} objects match"),
        None => format!("more than {shown} objects match"),
    };
    format!("{more}; narrow the search with kinds, selectors, clusters or namespaces")
}

/// The result as JSON: a `PartialObjectMetadataList`, or a Table.
pub fn document(found: &FoundSummaries, output: OutputKind) -> Result<Box<RawValue>, ApiError> {
    let now = Timestamp::now();
    if let OutputKind::Table(version, _) = output {
        let rows = found
            .objects
            .iter()
            .map(|object| object.row(&cells(object, now), version));
        let rows: Vec<Value> = rows.collect();
        return raw(&table(&COLUMNS, &rows, &found.metadata(), version));
    }
    let version = match output {
        OutputKind::PartialMetadata(version) => version,
        OutputKind::Object | OutputKind::Table(..) => MetaVersion::V1,
    };
    raw(&json!({
        "kind": "PartialObjectMetadataList",
        "apiVersion": version.api_version(),
        "metadata": found.metadata(),
        "items": found.objects.iter().map(ObjectSummary::partial_metadata).collect::<Vec<Value>>(),
    }))
}

/// How the events of a watch show objects.
#[derive(Clone, Copy, Debug)]
pub struct EventFormat {
    /// As what.
    pub output: OutputKind,
    /// The time for ages.
    pub now: Timestamp,
    /// Whether a Table has its columns; only the first event of a watch has.
    pub with_columns: bool,
}

/// The object of an event: an item of the list, or a Table with one row. `kind` is that of the
/// resource, in its best version; a watch can continue from `version`.
pub fn event_object(
    resource: &ResourceName,
    kind: &Gvk,
    hit: &Hit,
    version: &str,
    format: EventFormat,
) -> Value {
    let object = ObjectSummary::of(resource, kind, hit);
    let OutputKind::Table(table_version, _) = format.output else {
        let mut item = object.partial_metadata();
        item["metadata"]["resourceVersion"] = version.into();
        return item;
    };
    let metadata = json!({ "resourceVersion": version });
    let row = object.row(&cells(&object, format.now), table_version);
    let columns: &[_] = if format.with_columns { &COLUMNS } else { &[] };
    let mut table = table(columns, &[row], &metadata, table_version);
    if !format.with_columns {
        table["columnDefinitions"] = Value::Null;
    }
    table
}

/// The object of a bookmark.
pub fn bookmark_object(metadata: &Value, output: OutputKind) -> Value {
    match output {
        OutputKind::Table(version, _) => json!({
            "kind": "Table",
            "apiVersion": version.api_version(),
            "metadata": metadata,
            "columnDefinitions": null,
            "rows": [],
        }),
        OutputKind::Object => bookmark_metadata(metadata, MetaVersion::V1),
        OutputKind::PartialMetadata(version) => bookmark_metadata(metadata, version),
    }
}

fn bookmark_metadata(metadata: &Value, version: MetaVersion) -> Value {
    json!({ "kind": "PartialObjectMetadata", "apiVersion": version.api_version(), "metadata": metadata })
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

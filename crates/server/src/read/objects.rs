//! Objects of every kind, by their labels, their health and whatever else all kinds have.

use fleetdex_core::{
    model::Gvk,
    query::{Hit, ResourceName},
};
use fleetdex_query_api::{
    answer::{Answer, FoundObjects, ListMetadata, Table},
    question::ObjectsRequest,
};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    across_kinds::{AcrossKinds, FromHit as _},
    object_summary::ObjectSummary,
};
use crate::{
    api_error::ApiError,
    render::representation::{MetaVersion, OutputKind},
};

/// The columns of a Table.
const COLUMNS: [(&str, &str, i32); 8] = [
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
    pub(super) metadata: ListMetadata,
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
    let mut metadata = ListMetadata {
        incomplete: found.has_more,
        ..ListMetadata::default()
    };
    if found.has_more {
        metadata.remaining_item_count = remaining(kinds, request, objects.len()).await;
        warnings.push(cut_warning(objects.len(), metadata.remaining_item_count));
    }
    warnings.extend(found.warnings);
    objects.sort_by(|left, right| left.order().cmp(&right.order()));
    Ok((FoundSummaries { objects, metadata }, warnings))
}

/// How many more objects a request selects than a result shows. `None` if they have become fewer
/// since, or cannot be counted: the result is valid without the number.
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

/// The answer: a `PartialObjectMetadataList`, or a Table.
pub fn answer(found: FoundSummaries, output: OutputKind) -> Answer {
    let FoundSummaries { objects, metadata } = found;
    let now = Timestamp::now();
    if let OutputKind::Table(version, _) = output {
        let rows = objects
            .iter()
            .map(|object| object.row(cells(object, now), version));
        let rows = rows.collect();
        return Answer::Table(Table::new(version.api_version(), metadata, &COLUMNS, rows));
    }
    let version = match output {
        OutputKind::PartialMetadata(version) => version,
        OutputKind::Object | OutputKind::Table(..) => MetaVersion::V1,
    };
    Answer::Objects(FoundObjects {
        kind: "PartialObjectMetadataList".to_owned(),
        api_version: version.api_version().to_owned(),
        metadata,
        items: objects
            .iter()
            .map(ObjectSummary::partial_metadata)
            .collect(),
    })
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
) -> Result<Vec<u8>, ApiError> {
    let object = ObjectSummary::of(resource, kind, hit);
    let OutputKind::Table(table_version, _) = format.output else {
        let mut item = object.partial_metadata();
        version.clone_into(&mut item.metadata.resource_version);
        return bytes(&item);
    };
    let metadata = ListMetadata {
        resource_version: version.to_owned(),
        ..ListMetadata::default()
    };
    let row = object.row(cells(&object, format.now), table_version);
    let mut table = Table::new(table_version.api_version(), metadata, &COLUMNS, vec![row]);
    if !format.with_columns {
        table.column_definitions = None;
    }
    bytes(&table)
}

fn bytes(shown: &impl Serialize) -> Result<Vec<u8>, ApiError> {
    serde_json::to_vec(shown).map_err(|error| ApiError::Internal(error.to_string()))
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

fn cells(object: &ObjectSummary, now: Timestamp) -> Vec<Value> {
    let found = &object.interpretation;
    vec![
        object.cluster.as_str().into(),
        object.metadata.namespace.as_str().into(),
        object.qualified_kind().into(),
        object.metadata.name.as_str().into(),
        found.health.into(),
        found.health_reason.as_str().into(),
        object.age(now).into(),
        found.health_message.as_str().into(),
    ]
}

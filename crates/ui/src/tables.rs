//! Tables of the query API.

use fleetdex_core::model::ClusterName;
use fleetdex_query_api::answer::{FoundMetadata, FoundObject, Table, TableRow};
use serde_json::Value;

use crate::address::{NativePath, ObjectAddress};

/// A Table of objects.
pub(crate) type ShownTable = Table<FoundObject>;
/// A row of it.
pub(crate) type ShownRow = TableRow<FoundObject>;

/// The metadata of a row's object, if it has one.
pub(crate) fn metadata(row: &ShownRow) -> Option<&FoundMetadata> {
    row.object.as_ref().map(|object| &object.metadata)
}

/// The member that holds an object.
pub(crate) fn cluster(metadata: &FoundMetadata) -> Option<ClusterName> {
    metadata.annotations.cluster.parse().ok()
}

/// Where an object of a result of several kinds is.
pub(crate) fn address(metadata: &FoundMetadata) -> Option<ObjectAddress> {
    Some(ObjectAddress {
        cluster: cluster(metadata)?,
        path: NativePath::decode(&metadata.annotations.native_path)?,
    })
}

/// The cell of a row in the column with this name; empty without one.
pub(crate) fn cell(table: &ShownTable, row: &ShownRow, column: &str) -> String {
    let mut columns = table.columns().iter();
    let position = columns.position(|definition| definition.name == column);
    let cell = position.and_then(|position| row.cells.get(position));
    cell.map(text).unwrap_or_default()
}

/// A cell as text.
pub(crate) fn text(cell: &Value) -> String {
    match cell {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

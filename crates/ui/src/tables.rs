//! Tables of the query API.

use fleetdex_core::model::{CLUSTER_ANNOTATION, ClusterName};
use serde::Deserialize;
use serde_json::Value;

use crate::address::{NativePath, ObjectAddress};

/// The annotation of an object's native path in results of several kinds.
const PATH_ANNOTATION: &str = "fleetdex.io/native-path";

/// A `Table`, as far as views show it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ShownTable {
    pub(crate) metadata: ShownMetadata,
    pub(crate) column_definitions: Vec<ShownColumn>,
    pub(crate) rows: Vec<ShownRow>,
}

/// The metadata of a list.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ShownMetadata {
    #[serde(rename = "continue")]
    pub(crate) next: String,
    pub(crate) remaining_item_count: Option<u64>,
    pub(crate) facets: Vec<ShownFacet>,
}

/// Counts of found objects by one property.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ShownFacet {
    pub(crate) name: String,
    pub(crate) values: Vec<ShownCount>,
    /// Objects with other values.
    pub(crate) others: u64,
}

/// How many found objects have a value.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ShownCount {
    pub(crate) value: String,
    pub(crate) count: u64,
}

/// A column.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ShownColumn {
    pub(crate) name: String,
    /// 0 is always shown.
    pub(crate) priority: u8,
}

/// A row.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ShownRow {
    pub(crate) cells: Vec<Value>,
    pub(crate) object: ShownObject,
}

/// The object of a row.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ShownObject {
    pub(crate) metadata: RowMetadata,
}

/// What identifies the object of a row.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RowMetadata {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) uid: String,
    annotations: std::collections::BTreeMap<String, String>,
}

impl RowMetadata {
    /// The member that holds the object.
    pub(crate) fn cluster(&self) -> Option<ClusterName> {
        self.annotations.get(CLUSTER_ANNOTATION)?.parse().ok()
    }

    /// An annotation; empty without one.
    pub(crate) fn annotation(&self, key: &str) -> &str {
        self.annotations.get(key).map_or("", String::as_str)
    }

    /// Where the object is, in a result of several kinds.
    pub(crate) fn address(&self) -> Option<ObjectAddress> {
        Some(ObjectAddress {
            cluster: self.cluster()?,
            path: NativePath::decode(self.annotations.get(PATH_ANNOTATION)?)?,
        })
    }
}

impl ShownTable {
    /// The cell of a row in the column with this name; empty without one.
    pub(crate) fn cell(&self, row: &ShownRow, column: &str) -> String {
        let position = self
            .column_definitions
            .iter()
            .position(|definition| definition.name == column);
        position
            .and_then(|position| row.cells.get(position))
            .map(text)
            .unwrap_or_default()
    }

    /// The counts of one facet.
    pub(crate) fn facet(&self, name: &str) -> Option<&ShownFacet> {
        self.metadata.facets.iter().find(|facet| facet.name == name)
    }
}

/// A cell as text.
pub(crate) fn text(cell: &Value) -> String {
    match cell {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

//! Pages of lists, and their shapes on the wire.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

/// What a list contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListShape {
    /// Whole objects.
    Objects,
    /// A Table: a row of cells for each object, with its metadata.
    Table,
}

/// One page of a list.
#[derive(Debug)]
pub struct ObjectPage {
    /// The continue token of the next page.
    pub next: Option<String>,
    /// The resource version at which a watch continues.
    pub version: Option<String>,
    /// The columns, of a Table.
    pub columns: Vec<TableColumn>,
    /// The objects.
    pub items: Vec<ListItem>,
    /// The warnings of the response.
    pub warnings: Vec<String>,
}

/// An object of a page.
#[derive(Debug)]
pub struct ListItem {
    /// The object, or in a Table its metadata.
    pub object: Box<RawValue>,
    /// The cells of its row in a Table.
    pub cells: Vec<Value>,
}

/// A column of a Table.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct TableColumn {
    /// Its name.
    pub name: String,
    /// Columns of a priority above 0 are only in wide tables.
    #[serde(default)]
    pub priority: i32,
}

#[derive(Deserialize)]
pub(super) struct RawList {
    #[serde(default)]
    metadata: ListMeta,
    items: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawTable {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(default)]
    column_definitions: Option<Vec<TableColumn>>,
    rows: Vec<RawRow>,
}

#[derive(Deserialize)]
struct RawRow {
    cells: Vec<Value>,
    object: Box<RawValue>,
}

impl From<RawList> for ObjectPage {
    fn from(list: RawList) -> Self {
        let items = list
            .items
            .into_iter()
            .map(|object| ListItem {
                object,
                cells: Vec::new(),
            })
            .collect();
        let ListMeta {
            continue_,
            resource_version,
            ..
        } = list.metadata;
        Self {
            next: non_empty(continue_),
            version: non_empty(resource_version),
            columns: Vec::new(),
            items,
            warnings: Vec::new(),
        }
    }
}

impl From<RawTable> for ObjectPage {
    fn from(table: RawTable) -> Self {
        let items = table
            .rows
            .into_iter()
            .map(|RawRow { cells, object }| ListItem { object, cells })
            .collect();
        let ListMeta {
            continue_,
            resource_version,
            ..
        } = table.metadata;
        Self {
            next: non_empty(continue_),
            version: non_empty(resource_version),
            columns: table.column_definitions.unwrap_or_default(),
            items,
            warnings: Vec::new(),
        }
    }
}

fn non_empty(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

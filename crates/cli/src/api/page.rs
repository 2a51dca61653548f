//! Pages of lists, and their shapes on the wire.

use fleetdex_query_api::answer::{ListMetadata, Table, TableColumn, TableRow};
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
    /// The metadata of the list.
    pub metadata: ListMetadata,
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

/// A list whose objects stay as they are sent.
#[derive(Deserialize)]
struct RawList {
    #[serde(default)]
    metadata: ListMetadata,
    items: Vec<Box<RawValue>>,
}

impl ObjectPage {
    /// Parses a list, or a Table.
    pub(super) fn parse(body: &[u8], shape: ListShape) -> Result<Self, serde_json::Error> {
        match shape {
            ListShape::Objects => serde_json::from_slice(body).map(RawList::into),
            ListShape::Table => serde_json::from_slice(body).map(Table::<Box<RawValue>>::into),
        }
    }

    /// Takes the continue token of the next page, if there is one.
    pub fn take_next(&mut self) -> Option<String> {
        let next = std::mem::take(&mut self.metadata.continue_token);
        (!next.is_empty()).then_some(next)
    }
}

impl From<RawList> for ObjectPage {
    fn from(list: RawList) -> Self {
        let item = |object| ListItem {
            object,
            cells: Vec::new(),
        };
        Self {
            metadata: list.metadata,
            columns: Vec::new(),
            items: list.items.into_iter().map(item).collect(),
            warnings: Vec::new(),
        }
    }
}

impl From<Table<Box<RawValue>>> for ObjectPage {
    fn from(table: Table<Box<RawValue>>) -> Self {
        let item = |row: TableRow<Box<RawValue>>| ListItem {
            object: row.object.unwrap_or_default(),
            cells: row.cells,
        };
        Self {
            metadata: table.metadata,
            columns: table.column_definitions.unwrap_or_default(),
            items: table.rows.into_iter().map(item).collect(),
            warnings: Vec::new(),
        }
    }
}

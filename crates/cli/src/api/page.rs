//! Pages of lists, and their shapes on the wire.

use fleetdex_query_api::answer::{ListMetadata, Table, TableColumn};
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

impl ListItem {
    pub(super) fn without_cells(object: Box<RawValue>) -> Self {
        let cells = Vec::new();
        Self { object, cells }
    }
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
        let (metadata, columns, items) = match shape {
            ListShape::Objects => {
                let list: RawList = serde_json::from_slice(body)?;
                let items = list.items.into_iter().map(ListItem::without_cells);
                (list.metadata, None, items.collect())
            }
            ListShape::Table => {
                let table: Table<Box<RawValue>> = serde_json::from_slice(body)?;
                let items = table.rows.into_iter().map(|row| ListItem {
                    object: row.object.unwrap_or_default(),
                    cells: row.cells,
                });
                (table.metadata, table.column_definitions, items.collect())
            }
        };
        Ok(Self {
            metadata,
            columns: columns.unwrap_or_default(),
            items,
            warnings: Vec::new(),
        })
    }

    /// Takes the continue token of the next page, if there is one.
    pub fn take_next(&mut self) -> Option<String> {
        let next = std::mem::take(&mut self.metadata.continue_token);
        (!next.is_empty()).then_some(next)
    }
}

//! A Table of objects as HTML.

use fleetdex_query_api::answer::TableColumn;
use maud::{Markup, html};
use serde_json::Value;

use crate::{
    address::ObjectAddress,
    layout::health,
    tables::{ShownRow, address, metadata, text},
};

/// Columns beyond those of every Table that are shown.
const ALSO_SHOWN: [&str; 2] = ["Health", "Health Reason"];

/// Columns whose cells change by the time alone. A row with nothing else that is new has not
/// changed.
const AGES: [&str; 4] = ["Age", "Duration", "Last Seen", "Last Schedule"];

/// A row, and the address of its object.
#[derive(Clone, Debug)]
pub(super) struct ResultRow {
    pub(super) row: ShownRow,
    pub(super) object: Option<ObjectAddress>,
}

impl ResultRow {
    /// A row of a result of several kinds.
    pub(super) fn of(row: &ShownRow) -> Self {
        Self {
            object: metadata(row).and_then(address),
            row: row.clone(),
        }
    }
}

/// Objects with the columns of the server.
pub(super) fn table(caption: &str, columns: &[TableColumn], rows: &[ResultRow]) -> Markup {
    let shown: Vec<(usize, &TableColumn)> = columns
        .iter()
        .enumerate()
        .filter(|(_, column)| column.priority == 0 || ALSO_SHOWN.contains(&&*column.name))
        .collect();
    html! {
        // Roles, because small screens show rows as blocks, which are no table for assistive
        // technology any more.
        table.results role="table" aria-label=(caption) {
            thead role="rowgroup" { tr role="row" { @for (_, column) in &shown { th role="columnheader" scope="col" { (column.name) } } } }
            tbody role="rowgroup" {
                @for result in rows {
                    tr role="row" data-row data-key=(key(&result.row)) {
                        @for (position, column) in &shown { (cell(result, *position, &column.name)) }
                    }
                }
            }
        }
    }
}

/// What identifies the object of a row among all clusters, also when the view is loaded again.
pub(super) fn key(row: &ShownRow) -> String {
    metadata(row).map_or_else(String::new, |metadata| {
        format!("{}/{}", metadata.annotations.cluster, metadata.uid)
    })
}

fn cell(result: &ResultRow, position: usize, column: &str) -> Markup {
    let value = result.row.cells.get(position).map(text).unwrap_or_default();
    let is_number = result.row.cells.get(position).is_some_and(Value::is_number);
    if column == "Name" {
        return html! {
            th role="rowheader" scope="row" data-label=(column) {
                @if let Some(object) = &result.object { a href=(object.page()) { (value) } } @else { (value) }
            }
        };
    }
    html! {
        td role="cell" data-label=(column) .number[is_number] .empty[value.is_empty()] data-age[AGES.contains(&column)] {
            @if column == "Health" { (health(&value)) } @else { (value) }
        }
    }
}

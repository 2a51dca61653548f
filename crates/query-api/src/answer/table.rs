//! Tables, as kubectl asks for them. Which columns a kind has: `fleetdex_server::render::table`.
//!
//! Source: `Table` of <https://pkg.go.dev/k8s.io/apimachinery/pkg/apis/meta/v1>

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ListMetadata;

/// A Table; `O` is what its rows have of their objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Table<O> {
    /// `Table`
    #[serde(default)]
    pub kind: String,
    /// The version of `meta.k8s.io` that the client understands.
    #[serde(default)]
    pub api_version: String,
    /// The metadata of the list.
    #[serde(default)]
    pub metadata: ListMetadata,
    /// The columns. Events of a watch have them in the first one only.
    pub column_definitions: Option<Vec<TableColumn>>,
    /// The rows.
    pub rows: Vec<TableRow<O>>,
}

/// A column.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableColumn {
    /// Its name.
    pub name: String,
    /// The JSON type of its cells.
    #[serde(rename = "type", default)]
    pub cell_type: String,
    /// How clients may format its cells.
    #[serde(default)]
    pub format: String,
    /// What it shows.
    #[serde(default)]
    pub description: String,
    /// 0 is always shown; others are shown in wide tables only.
    #[serde(default)]
    pub priority: i32,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableRow<O> {
    /// A cell for each column.
    pub cells: Vec<Value>,
    /// The object, if the row is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<O>,
}

impl<O> Table<O> {
    /// A Table of this version of `meta.k8s.io`. Columns of texts have a name, a description and a
    /// priority.
    pub fn new(
        api_version: &str,
        metadata: ListMetadata,
        columns: &[(&str, &str, i32)],
        rows: Vec<TableRow<O>>,
    ) -> Self {
        let column = |(name, description, priority): &(&str, &str, i32)| TableColumn {
            name: (*name).to_owned(),
            cell_type: "string".to_owned(),
            description: (*description).to_owned(),
            priority: *priority,
            ..TableColumn::default()
        };
        Self {
            kind: "Table".to_owned(),
            api_version: api_version.to_owned(),
            metadata,
            column_definitions: Some(columns.iter().map(column).collect()),
            rows,
        }
    }

    /// The columns; none if this is not the first event of a watch.
    pub fn columns(&self) -> &[TableColumn] {
        self.column_definitions.as_deref().unwrap_or_default()
    }

    /// The counts of one facet.
    pub fn facet(&self, name: &str) -> Option<&super::FacetCounts> {
        self.metadata.facets.iter().find(|facet| facet.name == name)
    }
}

//! The columns of a custom resource, as its definition names them in `additionalPrinterColumns`.
//!
//! Source: `tableconvertor` of <https://pkg.go.dev/k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor>

use fleetdex_core::{
    json_path::{JsonPathError, Path, text},
    model::PrinterColumn,
};
use serde_json::{Value, json};

use super::{
    column::{Cell, UNKNOWN, View, timestamp},
    node::{Node, Wanted},
};

/// Values that one path may find on its way: recursive descent multiplies them.
const MAX_FOUND: usize = 10_000;

/// A column and its path, understood.
#[derive(Clone, Debug)]
pub struct CustomColumn {
    column: PrinterColumn,
    path: Path,
}

/// The columns of a definition; an error if the path of one is not understood.
pub fn columns(printed: &[PrinterColumn]) -> Result<Vec<CustomColumn>, JsonPathError> {
    printed
        .iter()
        .map(|column| {
            Ok(CustomColumn {
                column: column.clone(),
                path: column.json_path.parse()?,
            })
        })
        .collect()
}

/// What they read, together with the name.
pub fn wanted(columns: &[CustomColumn]) -> Wanted {
    let mut wanted = Wanted::default();
    wanted.add(["metadata", "name"].into_iter());
    for column in columns {
        wanted.add(column.path.leading_fields());
    }
    wanted
}

impl CustomColumn {
    /// As it stands among the column definitions of a Table.
    pub fn definition(&self) -> Value {
        let PrinterColumn {
            name,
            kind,
            format,
            description,
            priority,
            json_path,
        } = &self.column;
        let usual = format!("Custom resource definition column (in JSONPath format): {json_path}");
        let description = if description.is_empty() {
            usual.as_str()
        } else {
            description
        };
        json!({ "name": name, "type": kind, "format": format, "description": description, "priority": priority })
    }

    /// Its cell for an object: the first value that the path finds, if it is of the column's type.
    pub fn cell(&self, view: &View<'_>) -> Cell {
        let found = self
            .path
            .find_within(&view.object, MAX_FOUND)
            .unwrap_or_default();
        let Some(value) = found.first() else {
            return Cell::Null;
        };
        match (&*self.column.kind, value) {
            ("string", value) => Cell::Text(printed(value)),
            ("integer", Node::Integer(number)) => Cell::Integer(*number),
            #[expect(
                clippy::cast_possible_truncation,
                reason = "an API server cuts the fraction off, too"
            )]
            ("integer", Node::Float(number)) => Cell::Integer(*number as i64),
            #[expect(
                clippy::cast_precision_loss,
                reason = "an API server shows it as a float, too"
            )]
            ("number", Node::Integer(number)) => Cell::Float(*number as f64),
            ("number", Node::Float(number)) => Cell::Float(*number),
            ("boolean", Node::Flag(flag)) => Cell::Flag(*flag),
            ("date", Node::Text(text)) if text.is_empty() => UNKNOWN.into(),
            ("date", Node::Text(_)) if timestamp(value).is_none() => "<invalid>".into(),
            ("date", Node::Text(_)) => view
                .since(value)
                .unwrap_or_else(|| UNKNOWN.to_owned())
                .into(),
            _ => Cell::Null,
        }
    }
}

/// A value as text; unlike kubectl, an API server tells `null` so.
fn printed(value: &Node<'_>) -> String {
    if *value == Node::Null {
        "<no value>".to_owned()
    } else {
        text(value)
    }
}

//! The columns of a custom resource, as its definition names them in `additionalPrinterColumns`.
//!
//! Source: `tableconvertor` of
//! <https://pkg.go.dev/k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor>

use fleetdex_core::{
    fuel::{Fuel, OutOfFuel},
    json_path::{JsonPath, JsonPathError, text_within},
    model::{MemberMask, PrinterColumn},
};
use serde_json::{Value, json};

use super::{
    column::{Cell, RowContext, UNKNOWN, timestamp},
    json_node::JsonNode,
};

/// A column and its path, understood.
#[derive(Clone, Debug)]
pub struct CustomColumn {
    column: PrinterColumn,
    path: JsonPath,
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
pub fn paths(columns: &[CustomColumn]) -> MemberMask {
    let mut paths = MemberMask::default();
    paths.add(["metadata", "name"]);
    for column in columns {
        paths.add(column.path.leading_fields());
    }
    paths
}

impl CustomColumn {
    /// The definition of the column in a Table.
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
    pub fn cell(&self, view: &RowContext<'_>) -> Result<Cell, OutOfFuel> {
        let found = match self.path.find(&view.object, view.fuel) {
            Err(JsonPathError::OutOfFuel(error)) => return Err(error),
            found => found.unwrap_or_default(),
        };
        let Some(value) = found.first() else {
            return Ok(Cell::Null);
        };
        Ok(match (&*self.column.kind, value) {
            ("string", value) => Cell::Text(printed(value, view.fuel)?),
            ("integer", JsonNode::Integer(number)) => Cell::Integer(*number),
            #[expect(
                clippy::cast_possible_truncation,
                reason = "an API server cuts the fraction off, too"
            )]
            ("integer", JsonNode::Float(number)) => Cell::Integer(*number as i64),
            #[expect(
                clippy::cast_precision_loss,
                reason = "an API server shows it as a float, too"
            )]
            ("number", JsonNode::Integer(number)) => Cell::Float(*number as f64),
            ("number", JsonNode::Float(number)) => Cell::Float(*number),
            ("boolean", JsonNode::Flag(flag)) => Cell::Flag(*flag),
            ("date", JsonNode::Text(text)) if text.is_empty() => UNKNOWN.into(),
            ("date", JsonNode::Text(_)) if timestamp(value).is_none() => "<invalid>".into(),
            ("date", JsonNode::Text(_)) => view.since_or(value, UNKNOWN),
            _ => Cell::Null,
        })
    }
}

/// A value as text. `null` is `<no value>`, as in the Tables of API servers; kubectl prints it
/// differently.
fn printed(value: &JsonNode<'_>, fuel: &Fuel) -> Result<String, OutOfFuel> {
    if *value == JsonNode::Null {
        Ok("<no value>".to_owned())
    } else {
        text_within(value, fuel)
    }
}

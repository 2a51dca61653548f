//! Tables: the columns that Kubernetes' API servers show of a kind, made from the objects' JSON.
//!
//! A built-in kind has the columns and cells of kube-apiserver; each API area has a file with a table of them. A custom resource has
//! those of its definition ([`custom`]). In front of all stands the cluster. Only what some column reads is taken out of an object
//! ([`node`]), and nothing of it is copied that is not shown.
//!
//! Source of columns and cells: <https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/printers/internalversion/printers.go>

mod access;
mod age;
mod autoscaling;
mod column;
mod core;
mod custom;
mod devices;
mod event;
mod kind;
mod networking;
mod node;
mod pod;
mod storage;
mod system;
mod text;
mod workload;

#[cfg(test)]
mod tests;

pub use age::human_duration;
use fleetdex_core::model::{Gvk, PrinterColumn, write_json_text};
use jiff::Timestamp;
use serde_json::json;

use self::{
    column::{Cell, Column, View, age, name, text},
    custom::CustomColumn,
    kind::{Completed, Kind},
    node::{Node, Wanted},
};

/// Every kind with columns of its own.
const KINDS: [&[Kind]; 10] = [
    core::KINDS,
    pod::KINDS,
    workload::KINDS,
    event::KINDS,
    storage::KINDS,
    networking::KINDS,
    access::KINDS,
    autoscaling::KINDS,
    system::KINDS,
    devices::KINDS,
];

/// Built-in kinds without columns of their own.
const BARE: [(&str, &str); 5] = [
    ("", "LimitRange"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("rbac.authorization.k8s.io", "Role"),
    ("storage.k8s.io", "CSIStorageCapacity"),
];
const BARE_COLUMNS: &[Column] = &[
    name(),
    text("Created At", "metadata.creationTimestamp").called("date"),
];
/// Custom resources whose definition names no columns, or cannot be read.
const OTHER_COLUMNS: &[Column] = &[name(), age().called("date")];

/// The Table of one kind.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Columns,
    completed: Option<fn(&View<'_>) -> Option<Completed>>,
    wanted: Wanted,
}

#[derive(Clone, Debug)]
enum Columns {
    BuiltIn(&'static [Column]),
    Custom(Vec<CustomColumn>),
}

impl Table {
    /// The Table of a kind; `printed` are the columns of its definition, if it is a custom resource and they are known.
    pub fn of(gvk: &Gvk, printed: Option<&[PrinterColumn]>) -> Self {
        let is_it = |kind: &&Kind| *gvk.group == *kind.group && *gvk.kind == *kind.name;
        if let Some(kind) = KINDS.iter().copied().flatten().find(is_it) {
            return Self::built_in(kind.columns, kind.completed);
        }
        if BARE
            .iter()
            .any(|(group, kind)| *gvk.group == **group && *gvk.kind == **kind)
        {
            return Self::built_in(BARE_COLUMNS, None);
        }
        match printed.map(custom::columns) {
            Some(Ok(columns)) if !columns.is_empty() => {
                let wanted = custom::wanted(&columns);
                Self {
                    columns: Columns::Custom(columns),
                    completed: None,
                    wanted,
                }
            }
            // An API server falls back to these, too, when it does not understand a definition's paths.
            Some(Err(_)) => Self::built_in(BARE_COLUMNS, None),
            Some(Ok(_)) | None => Self::built_in(OTHER_COLUMNS, None),
        }
    }

    fn built_in(
        columns: &'static [Column],
        completed: Option<fn(&View<'_>) -> Option<Completed>>,
    ) -> Self {
        let mut wanted = Wanted::default();
        for path in columns.iter().flat_map(Column::reads) {
            wanted.add(path.split('.'));
        }
        Self {
            columns: Columns::BuiltIn(columns),
            completed,
            wanted,
        }
    }

    /// Appends the column definitions, as a JSON list.
    pub fn write_definitions(&self, out: &mut Vec<u8>) {
        let of_cluster = json!({ "name": "Cluster", "type": "string", "format": "", "priority": 0,
            "description": "The member cluster that holds the object." });
        let mut definitions = vec![of_cluster];
        match &self.columns {
            Columns::BuiltIn(columns) => definitions.extend(columns.iter().map(|column| {
                let paths: Vec<String> = column.reads().iter().map(|path| format!(".{path}")).collect();
                json!({ "name": column.name, "type": column.kind, "format": column.format,
                    "description": format!("From {}.", paths.join(", ")), "priority": column.priority })
            })),
            Columns::Custom(columns) => {
                definitions.push(json!({ "name": "Name", "type": "string", "format": "name",
                    "description": "From .metadata.name.", "priority": 0 }));
                definitions.extend(columns.iter().map(CustomColumn::definition));
            }
        }
        out.extend_from_slice(json!(definitions).to_string().as_bytes());
    }

    /// Appends the members `cells` and `conditions` of a row. An object that cannot be read has its cluster's cell only, and empty ones.
    pub fn write_cells(&self, out: &mut Vec<u8>, cluster: &str, object: &str, now: Timestamp) {
        let parsed = Node::parse(object, &self.wanted)
            .inspect_err(|error| tracing::debug!(cluster, %error, "a row is empty"));
        let view = View {
            object: parsed.unwrap_or(Node::Null),
            now,
        };
        out.extend_from_slice(b"\"cells\":[");
        write_json_text(out, cluster);
        match &self.columns {
            Columns::BuiltIn(columns) => {
                for column in *columns {
                    write_cell(out, &column.cell(&view));
                }
            }
            Columns::Custom(columns) => {
                write_cell(out, &view.at("metadata.name").text().into());
                for column in &**columns {
                    write_cell(out, &column.cell(&view));
                }
            }
        }
        out.push(b']');
        if let Some(Completed { reason, message }) =
            self.completed.and_then(|completed| completed(&view))
        {
            let condition = json!([{ "type": "Completed", "status": "True", "reason": reason, "message": message }]);
            out.extend_from_slice(b",\"conditions\":");
            out.extend_from_slice(condition.to_string().as_bytes());
        }
    }
}

fn write_cell(out: &mut Vec<u8>, cell: &Cell) {
    out.push(b',');
    match cell {
        Cell::Null => out.extend_from_slice(b"null"),
        Cell::Flag(flag) => out.extend_from_slice(if *flag { b"true" } else { b"false" }),
        Cell::Integer(number) => out.extend_from_slice(number.to_string().as_bytes()),
        // Go writes a whole float without a fraction.
        Cell::Float(number) if number.fract() == 0.0 && number.abs() < 1e15 => {
            out.extend_from_slice(format!("{number:.0}").as_bytes());
        }
        Cell::Float(number) => out.extend_from_slice(json!(number).to_string().as_bytes()),
        Cell::Text(text) => write_json_text(out, text),
    }
}

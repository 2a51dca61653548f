//! Tables: prints objects with the columns of Kubernetes' API servers, from the objects' JSON.
//!
//! A built-in kind has the columns and cells of kube-apiserver; each API area has a file in
//! [`columns_by_kind`]. A custom resource has those of its definition ([`custom`]). The first
//! column is the cluster. The last ones of a wide table are what documents say of the object's
//! health. Only the fields that some column reads are parsed ([`json_node`]), and only what is
//! shown is copied.
//!
//! Source of columns and cells:
//! <https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/printers/internalversion/printers.go>

mod age;
mod column;
mod columns_by_kind;
mod custom;
mod json_node;
mod text;

#[cfg(test)]
mod tests;

pub use age::human_duration;
use fleetdex_core::{
    fuel::{Fuel, MeteredEvaluation},
    model::{Gvk, Interpretation, MemberMask, PrinterColumn, write_json_text},
    query::Hit,
};
use jiff::Timestamp;
use serde_json::json;

use self::{
    column::{
        Cell, Column, CompletedCondition, CompletedOf, KindColumns, RowContext, age, name, text,
    },
    columns_by_kind::{CREATED_AT_KINDS, KINDS},
    custom::CustomColumn,
    json_node::JsonNode,
};

/// The columns of [`CREATED_AT_KINDS`], and of custom resources whose columns cannot be understood.
const CREATED_AT_COLUMNS: &[Column] = &[
    name(),
    text("Created At", "metadata.creationTimestamp").with_type("date"),
];
/// The columns of custom resources whose definition names no columns, or is not known.
const OTHER_COLUMNS: &[Column] = &[name(), age().with_type("date")];
/// The columns of an interpretation. They are the last ones, and wide, so that a table that is not
/// wide has the columns of API servers.
const HEALTH_COLUMNS: [(&str, &str); 2] = [
    (
        "Health",
        "Healthy, Progressing, Degraded, Suspended, Missing or Unknown.",
    ),
    ("Health Reason", "A word for the cause of the health."),
];

/// Steps that the cells of one response may take, and how many each object adds that was taken from
/// them: some, and some for each byte of it. So the rows of an answer take no longer than it takes
/// to read their objects and to send them, and no object meets the limit for the number of those
/// before it.
const STEPS: u64 = 1_000_000;
const STEPS_PER_OBJECT: usize = 1_000;
const STEPS_PER_BYTE: usize = 2;

/// Prints objects of one kind as the Table of one response.
#[derive(Clone, Debug)]
pub struct TablePrinter {
    columns: TableColumns,
    completed: Option<CompletedOf>,
    paths: MemberMask,
    with_health: bool,
    /// What the cells of all rows may take.
    fuel: Fuel,
}

#[derive(Clone, Debug)]
enum TableColumns {
    BuiltIn(&'static [Column]),
    Custom(Vec<CustomColumn>),
}

impl TablePrinter {
    /// The printer of a kind; `definition_columns` are the columns of its definition, if it is a
    /// custom resource and they are known.
    pub fn of(gvk: &Gvk, definition_columns: Option<&[PrinterColumn]>) -> Self {
        let is_it = |kind: &&KindColumns| *gvk.group == *kind.group && *gvk.kind == *kind.name;
        if let Some(kind) = KINDS.into_iter().flatten().find(is_it) {
            return Self::built_in(kind.columns, kind.completed);
        }
        if CREATED_AT_KINDS.contains(&(&*gvk.group, &*gvk.kind)) {
            return Self::built_in(CREATED_AT_COLUMNS, None);
        }
        match definition_columns.map(custom::columns) {
            Some(Ok(columns)) if !columns.is_empty() => {
                let paths = custom::paths(&columns);
                Self::new(TableColumns::Custom(columns), None, paths)
            }
            // An API server falls back to these, too, when it does not understand a definition's
            // paths.
            Some(Err(_)) => Self::built_in(CREATED_AT_COLUMNS, None),
            Some(Ok(_)) | None => Self::built_in(OTHER_COLUMNS, None),
        }
    }

    fn built_in(columns: &'static [Column], completed: Option<CompletedOf>) -> Self {
        let mut paths = MemberMask::default();
        for path in columns.iter().flat_map(Column::reads) {
            paths.add(path.split('.'));
        }
        Self::new(TableColumns::BuiltIn(columns), completed, paths)
    }

    fn new(columns: TableColumns, completed: Option<CompletedOf>, paths: MemberMask) -> Self {
        Self {
            columns,
            completed,
            paths,
            with_health: false,
            fuel: Fuel::of(MeteredEvaluation::Table, STEPS),
        }
    }

    /// The same, with the columns of the health if documents of the kind have it.
    #[must_use]
    pub fn with_health(self, with_health: bool) -> Self {
        Self {
            with_health,
            ..self
        }
    }

    /// Appends the column definitions, as a JSON list.
    pub fn write_definitions(&self, out: &mut Vec<u8>) {
        let of_cluster = json!({ "name": "Cluster", "type": "string", "format": "", "priority": 0,
            "description": "The member cluster that holds the object." });
        let mut definitions = vec![of_cluster];
        match &self.columns {
            TableColumns::BuiltIn(columns) => definitions.extend(columns.iter().map(|column| {
                let paths: Vec<String> = column.reads().iter().map(|path| format!(".{path}")).collect();
                json!({ "name": column.name, "type": column.kind, "format": column.format,
                    "description": format!("From {}.", paths.join(", ")), "priority": column.priority })
            })),
            TableColumns::Custom(columns) => {
                definitions.push(json!({ "name": "Name", "type": "string", "format": "name",
                    "description": "From .metadata.name.", "priority": 0 }));
                definitions.extend(columns.iter().map(CustomColumn::definition));
            }
        }
        if self.with_health {
            definitions.extend(HEALTH_COLUMNS.iter().map(|(name, description)| {
                json!({ "name": name, "type": "string", "format": "", "description": description, "priority": 1 })
            }));
        }
        out.extend_from_slice(json!(definitions).to_string().as_bytes());
    }

    /// Appends the fields `cells` and `conditions` of a row. An object that cannot be parsed has
    /// empty cells besides its cluster and health.
    pub fn write_cells(&self, out: &mut Vec<u8>, hit: &Hit, now: Timestamp) {
        let cluster = hit.cluster.as_str();
        let parsed = JsonNode::parse(hit.object.get(), &self.paths)
            .inspect_err(|error| tracing::debug!(cluster, %error, "an object cannot be parsed; its cells are empty"));
        let view = RowContext {
            object: parsed.unwrap_or(JsonNode::Null),
            now,
            fuel: &self.fuel,
        };
        let bytes = hit.object.get().len();
        self.fuel.refill(STEPS_PER_OBJECT + STEPS_PER_BYTE * bytes);
        out.extend_from_slice(b"\"cells\":[");
        write_json_text(out, cluster);
        match &self.columns {
            TableColumns::BuiltIn(columns) => {
                for column in *columns {
                    write_cell(out, &column.cell(&view));
                }
            }
            TableColumns::Custom(columns) => {
                write_cell(out, &view.at("metadata.name").text().into());
                for column in &**columns {
                    write_cell(out, &column.cell(&view).into());
                }
            }
        }
        if self.with_health {
            write_health(out, hit.interpretation.as_deref());
        }
        out.push(b']');
        if let Some(CompletedCondition { reason, message }) =
            self.completed.and_then(|completed| completed(&view))
        {
            let condition = json!([{ "type": "Completed", "status": "True", "reason": reason, "message": message }]);
            out.extend_from_slice(b",\"conditions\":");
            out.extend_from_slice(condition.to_string().as_bytes());
        }
    }
}

/// Writes the cells of [`HEALTH_COLUMNS`], empty for an object that has no health.
fn write_health(out: &mut Vec<u8>, found: Option<&Interpretation>) {
    let cells = found.map_or(["", ""], |found| [found.health, &found.health_reason]);
    for cell in cells {
        out.push(b',');
        write_json_text(out, cell);
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

//! Objects as a table, names, JSON, YAML or the text of a template. Apart from templates, which are about the whole list, no more than a page of
//! objects is held.

use std::io::{self, Write};

use fleetdex_core::{
    json_path::go_text,
    terminal::{escaped, escaped_line},
};
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

use super::{
    Format, error::OutputError, format::CustomColumn, identity::Identity, list::ListWriter,
    resolve::Held,
};
use crate::{
    aligned::Columns,
    api::{Item, TableColumn},
};

/// Tables of a fleet begin with the cluster; the namespace comes next, and then the name.
const AFTER_CLUSTER: usize = 1;

/// How objects are shown.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of kubectl")]
pub struct Layout {
    /// The format.
    pub format: Format,
    /// Objects of all namespaces: tables of what lives in namespaces have a column for them.
    pub with_namespace: bool,
    /// Names have their resource in front, as `pod/web-0`.
    pub with_kind: bool,
    /// Tables have a line of titles.
    pub with_headers: bool,
    /// Tables have all labels in a column.
    pub with_labels: bool,
    /// Labels that have a column of their own.
    pub label_columns: Vec<String>,
    /// Each object by itself instead of a List of them.
    pub is_bare: bool,
    /// What happened to an object is told with it.
    pub with_events: bool,
    /// A terminal shows the text of templates. For other programs it stays as it is, as with kubectl.
    pub is_for_terminal: bool,
}

/// Shows objects in the order in which they come.
pub struct Printer {
    layout: Layout,
    resource: Option<Held>,
    body: Body,
    has_shown: bool,
    /// What happened to the object that is shown next.
    event: String,
}

enum Body {
    Table(Table),
    List(ListWriter),
    Names,
    Template(Vec<Value>),
}

/// The lines that wait for the end of a page.
#[derive(Default)]
struct Table {
    /// Which columns of the server's Table are shown, and their titles.
    columns: Vec<(usize, String)>,
    with_namespace: bool,
    is_begun: bool,
    lines: Vec<Vec<String>>,
    aligned: Columns,
}

impl Printer {
    /// Nothing yet.
    pub fn new(layout: Layout) -> Self {
        let body = match layout.format {
            Format::Table | Format::Wide | Format::CustomColumns(_) => {
                Body::Table(Table::default())
            }
            Format::Json => Body::List(ListWriter::json(layout.is_bare)),
            Format::Yaml => Body::List(ListWriter::yaml(layout.is_bare)),
            Format::Name => Body::Names,
            Format::JsonPath(_) => Body::Template(Vec::new()),
        };
        Self {
            layout,
            resource: None,
            body,
            has_shown: false,
            event: "ADDED".to_owned(),
        }
    }

    /// Objects of this resource follow.
    pub fn begin(&mut self, held: &Held) {
        self.resource = Some(held.clone());
        if let Body::Table(table) = &mut self.body
            && !matches!(self.layout.format, Format::CustomColumns(_))
        {
            let with_namespace = self.layout.with_namespace && held.resource.namespaced;
            *table = Table {
                with_namespace,
                ..Table::default()
            };
        }
    }

    /// Shows what happened to an object.
    pub fn add_event(
        &mut self,
        kind: &str,
        item: &Item,
        columns: &[TableColumn],
        out: &mut dyn Write,
    ) -> Result<(), OutputError> {
        if !self.layout.with_events {
            return self.add(item, columns, out);
        }
        if let Body::List(list) = &mut self.body {
            let event: Box<RawValue> =
                to_raw_value(&json!({ "type": kind, "object": item.object }))
                    .map_err(OutputError::NoObject)?;
            return list.add(&event, out);
        }
        kind.clone_into(&mut self.event);
        self.add(item, columns, out)
    }

    /// Shows an object, at the latest with the next [`Self::flush`]. `columns` are those of its page, if that is a Table.
    pub fn add(
        &mut self,
        item: &Item,
        columns: &[TableColumn],
        out: &mut dyn Write,
    ) -> Result<(), OutputError> {
        match &mut self.body {
            Body::List(list) => list.add(&item.object, out)?,
            Body::Template(objects) => {
                let object: Value =
                    serde_json::from_str(item.object.get()).map_err(OutputError::NoObject)?;
                match &self.layout.format {
                    Format::JsonPath(template) if self.layout.is_bare => {
                        self.layout
                            .write_rendered(&template.render(&object)?, out)?;
                    }
                    _ => objects.push(object),
                }
            }
            Body::Names => {
                let identity = Identity::of(&item.object)?;
                let kind = self
                    .resource
                    .as_ref()
                    .map(Held::qualified_singular)
                    .unwrap_or_default();
                let name = format!("{}/{kind}/{}", identity.cluster, identity.name);
                writeln!(out, "{}", escaped_line(&name))?;
            }
            Body::Table(table) => {
                if !table.is_begun {
                    table.is_begun = true;
                    if self.has_shown {
                        writeln!(out)?;
                    }
                    table.columns = self.layout.columns(columns);
                    if self.layout.with_headers {
                        let headers = self.layout.all_headers(table);
                        table.lines.push(headers);
                    }
                }
                let mut line = self.layout.line(item, table, self.resource.as_ref())?;
                if self.layout.with_events {
                    line.insert(0, self.event.clone());
                }
                table.lines.push(line);
            }
        }
        self.has_shown = true;
        Ok(())
    }

    /// Shows what waits: at the end of each page.
    pub fn flush(&mut self, out: &mut dyn Write) -> Result<(), OutputError> {
        if let Body::Table(table) = &mut self.body {
            table.aligned.write(out, &table.lines)?;
            table.lines.clear();
        }
        Ok(out.flush()?)
    }

    /// Whether there was nothing to show.
    pub fn is_empty(&self) -> bool {
        !self.has_shown
    }

    /// Shows what comes after the last object.
    pub fn finish(mut self, out: &mut dyn Write) -> Result<(), OutputError> {
        self.flush(out)?;
        match (self.body, &self.layout.format) {
            (Body::List(list), _) => list.finish(out),
            (Body::Template(objects), Format::JsonPath(template)) if !self.layout.is_bare => {
                let list = json!({ "apiVersion": "v1", "kind": "List", "metadata": { "resourceVersion": "" }, "items": objects });
                Ok(self.layout.write_rendered(&template.render(&list)?, out)?)
            }
            _ => Ok(()),
        }
    }
}

impl Layout {
    fn write_rendered(&self, text: &str, out: &mut dyn Write) -> io::Result<()> {
        let shown = if self.is_for_terminal {
            escaped(text)
        } else {
            text.into()
        };
        out.write_all(shown.as_bytes())
    }

    fn columns(&self, columns: &[TableColumn]) -> Vec<(usize, String)> {
        let is_wide = self.format == Format::Wide;
        let shown = columns
            .iter()
            .enumerate()
            .filter(|(_, column)| is_wide || column.priority == 0);
        shown
            .map(|(position, column)| (position, column.name.to_uppercase()))
            .collect()
    }

    fn all_headers(&self, table: &Table) -> Vec<String> {
        let first = self.with_events.then(|| "EVENT".to_owned());
        first.into_iter().chain(self.headers(table)).collect()
    }

    fn headers(&self, table: &Table) -> Vec<String> {
        if let Format::CustomColumns(own) = &self.format {
            return own.iter().map(|column| column.header.clone()).collect();
        }
        let mut headers: Vec<String> = table
            .columns
            .iter()
            .map(|(_, title)| title.clone())
            .collect();
        if table.with_namespace {
            headers.insert(headers.len().min(AFTER_CLUSTER), "NAMESPACE".to_owned());
        }
        headers.extend(self.label_columns.iter().map(|label| label_header(label)));
        headers.extend(self.with_labels.then(|| "LABELS".to_owned()));
        headers
    }

    fn line(
        &self,
        item: &Item,
        table: &Table,
        resource: Option<&Held>,
    ) -> Result<Vec<String>, OutputError> {
        if let Format::CustomColumns(own) = &self.format {
            let value: Value =
                serde_json::from_str(item.object.get()).map_err(OutputError::NoObject)?;
            return own
                .iter()
                .map(|column| custom_cell(column, &value))
                .collect();
        }
        let identity = Identity::of(&item.object)?;
        let mut cells: Vec<String> = table
            .columns
            .iter()
            .map(|(position, _)| item.cells.get(*position).map(cell).unwrap_or_default())
            .collect();
        if let (true, Some(held), Some(name)) =
            (self.with_kind, resource, cells.get_mut(AFTER_CLUSTER))
        {
            *name = format!("{}/{name}", held.qualified_singular());
        }
        if table.with_namespace {
            cells.insert(cells.len().min(AFTER_CLUSTER), identity.namespace.clone());
        }
        let label = |key: &String| {
            identity
                .labels
                .get(key)
                .cloned()
                .unwrap_or_else(|| "<none>".to_owned())
        };
        cells.extend(self.label_columns.iter().map(label));
        cells.extend(self.with_labels.then(|| identity.labels_cell()));
        Ok(cells)
    }
}

/// A cell as kubectl prints it: up to the first line break.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => match text.split_once(['\n', '\r', '\u{c}']) {
            Some((first, _)) => format!("{first}..."),
            None => text.clone(),
        },
        other => go_text(other),
    }
}

/// The last part of a label's key.
fn label_header(label: &str) -> String {
    label.rsplit('/').next().unwrap_or(label).to_uppercase()
}

fn custom_cell(column: &CustomColumn, object: &Value) -> Result<String, OutputError> {
    let found = column.path.find(object)?;
    if found.is_empty() {
        return Ok("<none>".to_owned());
    }
    Ok(found.into_iter().map(go_text).collect::<Vec<_>>().join(","))
}

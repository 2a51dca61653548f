//! Objects as a table, names, JSON, YAML or the text of a template. Apart from templates, which are about the whole list, no more than a page of
//! objects is held.

use std::io::{self, Write};

use jiff::Timestamp;
use serde_json::{Value, json, value::RawValue};

use super::{Format, format::CustomColumn, identity::Identity, list::ListWriter, resolve::Held};
use crate::cli::{
    aligned::Columns,
    json_path::{JsonPathError, go_text},
    table::{self, Column, Object},
};

/// An object or a list could not be shown.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// Standard output is closed.
    #[error("cannot write to standard output")]
    Write(#[from] io::Error),
    /// The server sent something else than an object.
    #[error("the server sent something that is no object: {0}")]
    NoObject(serde_json::Error),
    /// The list has no YAML form.
    #[error("cannot write the list as YAML: {0}")]
    Yaml(String),
    /// The template does not fit the objects.
    #[error(transparent)]
    JsonPath(#[from] JsonPathError),
}

/// How objects are shown.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The format.
    pub format: Format,
    /// Tables have the column NAMESPACE.
    pub with_namespace: bool,
    /// Names have their resource in front, as `pod/web-0`.
    pub with_kind: bool,
    /// Tables have a line of titles.
    pub with_headers: bool,
    /// Tables have all labels in a column.
    pub with_labels: bool,
    /// Labels that have a column of their own.
    pub label_columns: Vec<String>,
    /// The one object itself instead of a List.
    pub is_single: bool,
    /// The moment that ages are counted to.
    pub now: Timestamp,
}

/// Shows objects in the order in which they come.
pub struct Printer {
    layout: Layout,
    resource: Option<Held>,
    body: Body,
    has_shown: bool,
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
    columns: Vec<&'static Column>,
    is_begun: bool,
    lines: Vec<Vec<String>>,
    aligned: Columns,
}

impl Printer {
    /// Nothing yet.
    pub fn new(layout: Layout) -> Self {
        let body = match layout.format {
            Format::Table | Format::Wide | Format::CustomColumns(_) => Body::Table(Table::default()),
            Format::Json => Body::List(ListWriter::json(layout.is_single)),
            Format::Yaml => Body::List(ListWriter::yaml(layout.is_single)),
            Format::Name => Body::Names,
            Format::JsonPath(_) => Body::Template(Vec::new()),
        };
        Self { layout, resource: None, body, has_shown: false }
    }

    /// Objects of this resource follow.
    pub fn begin(&mut self, held: &Held) {
        self.resource = Some(held.clone());
        let Body::Table(table) = &mut self.body else { return };
        if matches!(self.layout.format, Format::CustomColumns(_)) {
            return;
        }
        let is_wide = self.layout.format == Format::Wide;
        let columns = table::columns(&held.group, &held.resource.kind).iter();
        *table = Table { columns: columns.filter(|column| !column.wide || is_wide).collect(), ..Table::default() };
    }

    /// Shows an object, at the latest with the next [`Self::flush`].
    pub fn add(&mut self, object: &RawValue, out: &mut dyn Write) -> Result<(), OutputError> {
        match &mut self.body {
            Body::List(list) => list.add(object, out)?,
            Body::Template(objects) => objects.push(serde_json::from_str(object.get()).map_err(OutputError::NoObject)?),
            Body::Names => {
                let identity = Identity::of(object)?;
                let kind = self.resource.as_ref().map(Held::qualified_singular).unwrap_or_default();
                writeln!(out, "{}/{kind}/{}", identity.cluster, identity.name)?;
            }
            Body::Table(table) => {
                if !table.is_begun {
                    table.is_begun = true;
                    if self.has_shown && !matches!(self.layout.format, Format::CustomColumns(_)) {
                        writeln!(out)?;
                    }
                    table.lines.extend(self.layout.with_headers.then(|| self.layout.headers(&table.columns)));
                }
                table.lines.push(self.layout.line(object, &table.columns, self.resource.as_ref())?);
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
            (Body::Template(mut objects), Format::JsonPath(template)) => {
                let whole = match objects.len() {
                    0 if self.layout.is_single => return Ok(()),
                    1 if self.layout.is_single => objects.remove(0),
                    _ => json!({ "apiVersion": "v1", "kind": "List", "metadata": { "resourceVersion": "" }, "items": objects }),
                };
                Ok(out.write_all(template.render(&whole)?.as_bytes())?)
            }
            _ => Ok(()),
        }
    }
}

impl Layout {
    fn headers(&self, columns: &[&Column]) -> Vec<String> {
        if let Format::CustomColumns(own) = &self.format {
            return own.iter().map(|column| column.header.clone()).collect();
        }
        let mut headers = vec!["CLUSTER".to_owned()];
        headers.extend(self.with_namespace.then(|| "NAMESPACE".to_owned()));
        headers.push("NAME".to_owned());
        headers.extend(columns.iter().map(|column| column.header.to_owned()));
        headers.extend(self.label_columns.iter().map(|label| label_header(label)));
        headers.extend(self.with_labels.then(|| "LABELS".to_owned()));
        headers
    }

    fn line(&self, object: &RawValue, columns: &[&Column], resource: Option<&Held>) -> Result<Vec<String>, OutputError> {
        let value: Value = serde_json::from_str(object.get()).map_err(OutputError::NoObject)?;
        if let Format::CustomColumns(own) = &self.format {
            return own.iter().map(|column| custom_cell(column, &value)).collect();
        }
        let identity = Identity::of(object)?;
        let kind = resource.filter(|_| self.with_kind).map(|held| format!("{}/", held.qualified_singular()));
        let mut cells = vec![identity.cluster.clone()];
        cells.extend(self.with_namespace.then(|| identity.namespace.clone()));
        cells.push(format!("{}{}", kind.unwrap_or_default(), identity.name));
        let shown = Object { value: &value, now: self.now };
        cells.extend(columns.iter().map(|column| column.cell(&shown)));
        let label = |key: &String| identity.labels.get(key).cloned().unwrap_or_default();
        cells.extend(self.label_columns.iter().map(label));
        cells.extend(self.with_labels.then(|| identity.labels_cell()));
        Ok(cells)
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

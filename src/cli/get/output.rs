//! Objects as a table, names, JSON or YAML.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use clap::ValueEnum;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::resolve::Held;
use crate::{
    cli::{
        aligned,
        table::{self, Column, Object},
    },
    model::CLUSTER_ANNOTATION,
};

/// How objects are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One line per object.
    #[default]
    Table,
    /// The same with more columns.
    Wide,
    /// A List as JSON.
    Json,
    /// A List as YAML.
    Yaml,
    /// `<cluster>/<resource>/<name>` per line.
    Name,
}

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
}

/// Which columns lead a table.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// The format.
    pub format: Format,
    /// With the column NAMESPACE.
    pub with_namespace: bool,
    /// The moment that ages are counted to.
    pub now: Timestamp,
}

/// What identifies an object of the fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The member that holds it.
    pub cluster: String,
    /// `metadata.namespace`; empty where there is none.
    pub namespace: String,
    /// `metadata.name`
    pub name: String,
}

impl Identity {
    /// Reads it from an object of the API's answer.
    pub fn of(object: &RawValue) -> Result<Self, OutputError> {
        #[derive(Deserialize)]
        struct Partial {
            metadata: Metadata,
        }
        #[derive(Deserialize)]
        struct Metadata {
            #[serde(default)]
            namespace: String,
            #[serde(default)]
            name: String,
            #[serde(default)]
            annotations: BTreeMap<String, String>,
        }
        let partial: Partial = serde_json::from_str(object.get()).map_err(OutputError::NoObject)?;
        let Metadata { namespace, name, mut annotations } = partial.metadata;
        Ok(Self { cluster: annotations.remove(CLUSTER_ANNOTATION).unwrap_or_default(), namespace, name })
    }
}

/// Collects what is shown at the end. A table keeps cells only, not objects.
pub struct Output {
    layout: Layout,
    columns: Vec<&'static Column>,
    resource: String,
    rows: Vec<Vec<String>>,
    objects: Vec<Box<RawValue>>,
}

impl Output {
    /// Nothing yet, of one resource.
    pub fn new(layout: Layout, held: &Held) -> Self {
        let all = table::columns(&held.group, &held.resource.kind).iter();
        let columns = all.filter(|column| !column.wide || layout.format == Format::Wide).collect();
        Self { layout, columns, resource: held.qualified_singular(), rows: Vec::new(), objects: Vec::new() }
    }

    /// Adds one object.
    pub fn add(&mut self, object: Box<RawValue>) -> Result<(), OutputError> {
        let Identity { cluster, namespace, name } = Identity::of(&object)?;
        match self.layout.format {
            Format::Json | Format::Yaml => self.objects.push(object),
            Format::Name => self.rows.push(vec![format!("{cluster}/{}/{name}", self.resource)]),
            Format::Table | Format::Wide => {
                let value: Value = serde_json::from_str(object.get()).map_err(OutputError::NoObject)?;
                let shown = Object { value: &value, now: self.layout.now };
                let mut cells = vec![cluster];
                cells.extend(self.layout.with_namespace.then_some(namespace));
                cells.push(name);
                cells.extend(self.columns.iter().map(|column| column.cell(&shown)));
                self.rows.push(cells);
            }
        }
        Ok(())
    }

    /// Whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.objects.is_empty()
    }

    /// Shows everything.
    pub fn write(self, out: &mut dyn Write) -> Result<(), OutputError> {
        match self.layout.format {
            Format::Json => serde_json::to_writer_pretty(&mut *out, &self.list()?).map_err(io::Error::from)?,
            Format::Yaml => {
                let text = serde_saphyr::to_string(&self.list()?).map_err(|error| OutputError::Yaml(error.to_string()))?;
                return Ok(out.write_all(text.as_bytes())?);
            }
            Format::Name => return Ok(aligned::write(out, &self.rows)?),
            Format::Table | Format::Wide if self.rows.is_empty() => return Ok(()),
            Format::Table | Format::Wide => return Ok(self.write_table(out)?),
        }
        Ok(writeln!(out)?)
    }

    /// Always a List, since the same name may stand in several clusters.
    fn list(&self) -> Result<Value, OutputError> {
        let items: Result<Vec<Value>, _> = self.objects.iter().map(|object| serde_json::from_str(object.get())).collect();
        let items = items.map_err(OutputError::NoObject)?;
        Ok(serde_json::json!({ "apiVersion": "v1", "kind": "List", "metadata": { "resourceVersion": "" }, "items": items }))
    }

    fn write_table(self, out: &mut dyn Write) -> io::Result<()> {
        let mut header = vec!["CLUSTER".to_owned()];
        header.extend(self.layout.with_namespace.then(|| "NAMESPACE".to_owned()));
        header.push("NAME".to_owned());
        header.extend(self.columns.iter().map(|column| column.header.to_owned()));
        let lines: Vec<Vec<String>> = std::iter::once(header).chain(self.rows).collect();
        aligned::write(out, &lines)
    }
}

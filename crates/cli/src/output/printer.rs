//! Prints objects as a table, names, JSON or YAML. It holds at most one page of objects.

use fleetdex_query_api::answer::TableColumn;
use std::io::Write;

use fleetdex_core::terminal::escaped_line;
use serde_json::{Map, Value};

use super::{
    columns::{AlignedColumns, cell_text},
    error::OutputError,
    format::OutputFormat,
    list_writer::ListWriter,
    object_name::ObjectName,
};
use crate::{
    api::{ListItem, TableEvent, WatchReader},
    console::CommandError,
    resources::DiscoveredResource,
};

/// Tables of a fleet begin with the cluster; the namespace comes next, and then the name.
const AFTER_CLUSTER: usize = 1;

/// How objects are printed.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag or a choice of kubectl"
)]
pub(crate) struct Layout {
    pub(crate) format: OutputFormat,
    /// Tables of namespaced resources have a column for the namespace.
    pub(crate) with_namespace: bool,
    /// The resource stands before names, as `pod/web-0`.
    pub(crate) with_kind: bool,
    /// Tables have a header line.
    pub(crate) with_headers: bool,
    /// Each object is printed by itself instead of in a List.
    pub(crate) is_bare: bool,
}

/// Prints objects in the order in which they are added.
pub(crate) struct Printer {
    layout: Layout,
    resource: Option<DiscoveredResource>,
    body: Output,
    count: usize,
}

enum Output {
    Table(PendingTable),
    List(ListWriter),
    Names,
}

/// The lines of the current page.
#[derive(Default)]
struct PendingTable {
    /// Positions in the server's Table, and headers, of the printed columns.
    columns: Vec<(usize, String)>,
    with_namespace: bool,
    has_begun: bool,
    lines: Vec<Vec<String>>,
    aligned: AlignedColumns,
}

impl Printer {
    pub(crate) fn new(layout: Layout) -> Self {
        let body = match layout.format {
            OutputFormat::Table | OutputFormat::Wide => Output::Table(PendingTable::default()),
            OutputFormat::Json => Output::List(ListWriter::new(false, layout.is_bare)),
            OutputFormat::Yaml => Output::List(ListWriter::new(true, layout.is_bare)),
            OutputFormat::Name => Output::Names,
        };
        Self {
            layout,
            resource: None,
            body,
            count: 0,
        }
    }

    /// Objects of this resource follow; without one, they are of any.
    pub(crate) fn begin(&mut self, resource: &DiscoveredResource) {
        self.resource = Some(resource.clone());
        if let Output::Table(table) = &mut self.body {
            let with_namespace = self.layout.with_namespace && resource.api.namespaced;
            *table = PendingTable {
                with_namespace,
                ..PendingTable::default()
            };
        }
    }

    /// Prints an object, or keeps its line. `columns` are those of its page, if that is a Table.
    fn add(
        &mut self,
        item: &ListItem,
        columns: &[TableColumn],
        out: &mut dyn Write,
    ) -> Result<(), OutputError> {
        match &mut self.body {
            Output::List(list) => list.add(&item.object, out)?,
            Output::Names => {
                let name = name(item, self.resource.as_ref())?;
                writeln!(out, "{}", escaped_line(&name))?;
            }
            Output::Table(table) => {
                if !table.has_begun {
                    table.has_begun = true;
                    if self.count > 0 {
                        writeln!(out)?;
                    }
                    table.columns = self.layout.columns(columns);
                    if self.layout.with_headers {
                        table.lines.push(table.headers());
                    }
                }
                let line = self.layout.line(item, table, self.resource.as_ref())?;
                table.lines.push(line);
            }
        }
        self.count += 1;
        Ok(())
    }

    /// Prints the objects of a page, at once.
    pub(crate) fn add_all(
        &mut self,
        items: &[ListItem],
        columns: &[TableColumn],
        out: &mut dyn Write,
    ) -> Result<(), OutputError> {
        for item in items {
            self.add(item, columns, out)?;
        }
        self.flush(out)
    }

    /// Prints the changes of a watch until it ends. `version` and `columns` become those of the
    /// last change. Returns whether the resource version has expired.
    pub(crate) async fn follow(
        &mut self,
        watch: &mut WatchReader,
        version: &mut Option<String>,
        columns: &mut Vec<TableColumn>,
        out: &mut dyn Write,
    ) -> Result<bool, CommandError> {
        while let Some(event) = watch.next().await? {
            let (item, reached) = match event {
                TableEvent::Expired => return Ok(true),
                TableEvent::Bookmark(reached) => (None, reached),
                TableEvent::Object {
                    item,
                    columns: first,
                    version,
                } => {
                    if !first.is_empty() {
                        *columns = first;
                    }
                    (Some(item), version)
                }
            };
            if let Some(reached) = reached.filter(|reached| !reached.is_empty()) {
                *version = Some(reached);
            }
            if let Some(item) = item {
                self.add_all(&[item], columns, out)?;
            }
        }
        Ok(false)
    }

    /// Prints the lines that are kept.
    fn flush(&mut self, out: &mut dyn Write) -> Result<(), OutputError> {
        if let Output::Table(table) = &mut self.body {
            table.aligned.write(out, &table.lines)?;
            table.lines.clear();
        }
        Ok(out.flush()?)
    }

    /// How many objects were added.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn format(&self) -> OutputFormat {
        self.layout.format
    }

    /// Prints what follows the last object.
    pub(crate) fn finish(self, out: &mut dyn Write) -> Result<(), OutputError> {
        self.finish_with(Map::new(), out)
    }

    /// Prints what follows the last object, in a List with these further members of its metadata.
    pub(crate) fn finish_with(
        mut self,
        metadata: Map<String, Value>,
        out: &mut dyn Write,
    ) -> Result<(), OutputError> {
        self.flush(out)?;
        match self.body {
            Output::List(list) => list.finish(metadata, out),
            Output::Table(_) | Output::Names => Ok(()),
        }
    }
}

/// `<cluster>/<resource>/<name>`; without a resource, by the kind of the object.
fn name(item: &ListItem, resource: Option<&DiscoveredResource>) -> Result<String, OutputError> {
    let object = ObjectName::of(&item.object)?;
    Ok(match resource {
        Some(resource) => {
            let singular = resource.qualified_singular();
            format!("{}/{singular}/{}", object.cluster, object.name)
        }
        None => object.to_string(),
    })
}

impl PendingTable {
    fn headers(&self) -> Vec<String> {
        let mut headers: Vec<String> = self
            .columns
            .iter()
            .map(|(_, header)| header.clone())
            .collect();
        if self.with_namespace {
            headers.insert(headers.len().min(AFTER_CLUSTER), "NAMESPACE".to_owned());
        }
        headers
    }
}

impl Layout {
    fn columns(self, columns: &[TableColumn]) -> Vec<(usize, String)> {
        let is_wide = self.format == OutputFormat::Wide;
        let shown = columns
            .iter()
            .enumerate()
            .filter(|(_, column)| is_wide || column.priority == 0);
        shown
            .map(|(position, column)| (position, column.name.to_uppercase()))
            .collect()
    }

    fn line(
        self,
        item: &ListItem,
        table: &PendingTable,
        resource: Option<&DiscoveredResource>,
    ) -> Result<Vec<String>, OutputError> {
        let mut cells: Vec<String> = table
            .columns
            .iter()
            .map(|(position, _)| item.cells.get(*position).map(cell_text).unwrap_or_default())
            .collect();
        if let (true, Some(resource), Some(name)) =
            (self.with_kind, resource, cells.get_mut(AFTER_CLUSTER))
        {
            *name = format!("{}/{name}", resource.qualified_singular());
        }
        if table.with_namespace {
            let namespace = ObjectName::of(&item.object)?.namespace;
            cells.insert(cells.len().min(AFTER_CLUSTER), namespace);
        }
        Ok(cells)
    }
}

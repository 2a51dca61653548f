//! Prints found objects and their counts.

use fleetdex_core::terminal::escaped_line;
use serde_json::{Map, Value, json};

use super::args::SearchArgs;
use crate::{
    api::{FacetCounts, FacetValue, ListItem, TableColumn},
    columns::write_aligned,
    console::{CommandError, Console},
    get::{Layout, OutputError, OutputFormat, Printer},
    search_output,
};

/// Prints objects in the order in which they are added.
pub(super) struct FoundPrinter {
    format: OutputFormat,
    printer: Printer,
    count: usize,
}

impl FoundPrinter {
    pub(super) fn new(args: &SearchArgs) -> Self {
        let layout = Layout {
            format: args.output.output,
            // The Table has columns for the namespace and the kind.
            with_namespace: false,
            with_kind: false,
            with_headers: !args.output.no_headers,
            is_bare: args.watch,
        };
        Self {
            format: layout.format,
            printer: Printer::new(layout),
            count: 0,
        }
    }

    /// How many objects were added.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Prints objects. `columns` are those of their Table.
    pub(super) fn add(
        &mut self,
        items: &[ListItem],
        columns: &[TableColumn],
        console: &mut Console<'_>,
    ) -> Result<(), CommandError> {
        self.count += items.len();
        for item in items {
            if self.format == OutputFormat::Name {
                let object: Value =
                    serde_json::from_str(item.object.get()).map_err(OutputError::NoObject)?;
                let name = search_output::name(&object);
                writeln!(console.out, "{}", escaped_line(&name))?;
            } else {
                self.printer.add(item, columns, console.out)?;
            }
        }
        self.printer.flush(console.out)?;
        Ok(())
    }

    /// Prints the end, with counts.
    pub(super) fn finish(
        self,
        facets: &[FacetCounts],
        console: &mut Console<'_>,
    ) -> Result<(), CommandError> {
        let mut metadata = Map::new();
        if !facets.is_empty() {
            metadata.insert("facets".to_owned(), json!(facets));
        }
        self.printer.finish_with(metadata, console.out)?;
        let is_table = matches!(self.format, OutputFormat::Table | OutputFormat::Wide);
        if is_table {
            for facet in facets {
                print_counts(facet, self.count > 0, console)?;
            }
        }
        Ok(())
    }
}

fn print_counts(
    facet: &FacetCounts,
    follows_table: bool,
    console: &mut Console<'_>,
) -> Result<(), CommandError> {
    if facet.values.is_empty() {
        return Ok(());
    }
    let mut lines = vec![vec![facet.name.to_uppercase(), "COUNT".to_owned()]];
    let line = |FacetValue { value, count }: &FacetValue| {
        let value = value.as_deref().filter(|value| !value.is_empty());
        vec![value.unwrap_or("<none>").to_owned(), count.to_string()]
    };
    lines.extend(facet.values.iter().map(line));
    if facet.others > 0 {
        lines.push(vec!["<others>".to_owned(), facet.others.to_string()]);
    }
    if follows_table {
        writeln!(console.out)?;
    }
    write_aligned(console.out, &lines)?;
    Ok(())
}

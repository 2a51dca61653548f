//! Prints the counts of found objects.

use fleetdex_query_api::answer::{FacetCount, FacetCounts};
use serde_json::{Map, json};

use crate::{
    console::{CommandError, Console},
    output::{Printer, columns::write_aligned},
};

/// Prints the end of a search, with counts.
pub(super) fn finish(
    printer: Printer,
    facets: &[FacetCounts],
    console: &mut Console<'_>,
) -> Result<(), CommandError> {
    let (is_table, has_objects) = (printer.format().is_table(), printer.count() > 0);
    let mut metadata = Map::new();
    if !facets.is_empty() {
        metadata.insert("facets".to_owned(), json!(facets));
    }
    printer.finish_with(metadata, console.out)?;
    for facet in facets.iter().filter(|_| is_table) {
        print_counts(facet, has_objects, console)?;
    }
    Ok(())
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
    let line = |FacetCount { value, count }: &FacetCount| {
        let value = if value.is_empty() { "<none>" } else { value };
        vec![value.to_owned(), count.to_string()]
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

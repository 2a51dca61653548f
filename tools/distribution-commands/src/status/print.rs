//! Prints what was found.

use std::io::{self, Write};

use fleetdex_cli::{
    console::{CommandError, Console},
    output::{OutputFormat, columns::write_aligned, print_document},
};
use fleetdex_core::terminal::escaped_line;
use fleetdex_distribution::placement_report::{PlacementReport, PlacementRow};
use serde_json::json;

use super::{args::StatusArgs, found::FoundBindings};

/// Shown where nothing is known.
const NONE: &str = "-";
const CONDITIONS: [&str; 5] = ["CONDITION", "STATUS", "SINCE", "REASON", "MESSAGE"];

/// Prints what was found.
pub(super) fn write(
    found: &FoundBindings,
    args: &StatusArgs,
    console: &mut Console<'_>,
) -> Result<(), CommandError> {
    match args.output.format {
        format @ (OutputFormat::Json | OutputFormat::Yaml) => {
            let document = json!({"items": found.reports});
            return print_document(&document, format, console);
        }
        OutputFormat::Name => {
            for report in &found.reports {
                writeln!(console.out, "{}", escaped_line(&report.object_word()))?;
            }
            return Ok(());
        }
        OutputFormat::Table | OutputFormat::Wide => {}
    }
    if found.reports.is_empty() {
        writeln!(console.err, "No distributed objects found {}.", found.place)?;
        return Ok(());
    }
    let table = StatusTable {
        with_namespace: args.all_namespaces,
        is_wide: args.output.format == OutputFormat::Wide,
    };
    let mut lines: Vec<Vec<String>> = Vec::new();
    if !args.output.no_headers {
        lines.push(table.line("NAMESPACE", &HEADERS.map(str::to_owned)));
    }
    lines.extend(found.reports.iter().flat_map(|report| table.lines(report)));
    write_aligned(console.out, &lines)?;
    if found.is_of_one_object {
        for report in &found.reports {
            write_reasons(report, console.out)?;
        }
    }
    Ok(())
}

const HEADERS: [&str; COLUMNS] = [
    "OBJECT", "CLUSTER", "DESIRED", "ACTUAL", "APPLIED", "HEALTH", "POLICY", "BINDING", "MESSAGE",
];
const COLUMNS: usize = 9;
/// The columns that are printed with `-o wide` only.
const WIDE: std::ops::Range<usize> = 6..8;

/// The table of objects and clusters.
struct StatusTable {
    with_namespace: bool,
    is_wide: bool,
}

impl StatusTable {
    /// A line for each cluster; one more for what is to be said of the object.
    fn lines(&self, report: &PlacementReport) -> Vec<Vec<String>> {
        let namespace = &report.object.namespace;
        let of = |cells: [&str; 5], message: &str| {
            let [cluster, desired, actual, applied, health] = cells;
            let policy = report.policy.as_deref().unwrap_or(NONE);
            let object = report.object_word();
            let cells = [
                &object,
                cluster,
                desired,
                actual,
                applied,
                health,
                policy,
                &report.binding,
                message,
            ];
            self.line(namespace, &cells.map(str::to_owned))
        };
        let remark = report.remark();
        let remark = (!remark.is_empty()).then(|| of([NONE; 5], &remark));
        let rows = report.clusters.iter().map(|row| {
            let PlacementRow {
                cluster, message, ..
            } = row;
            let (desired, actual) = (number(row.desired), number(row.actual));
            let health = if row.health.is_empty() {
                NONE
            } else {
                &row.health
            };
            let cells = [cluster, &*desired, &actual, row.applied.as_str(), health];
            of(cells, message)
        });
        remark.into_iter().chain(rows).collect()
    }

    /// The cells that are printed.
    fn line(&self, namespace: &str, cells: &[String; COLUMNS]) -> Vec<String> {
        let namespace = self.with_namespace.then(|| namespace.to_owned());
        let shown = cells.iter().enumerate();
        let shown = shown.filter(|(position, _)| self.is_wide || !WIDE.contains(position));
        let shown = shown.map(|(_, cell)| cell.clone());
        namespace.into_iter().chain(shown).collect()
    }
}

fn number(number: Option<i64>) -> String {
    number.map_or_else(|| NONE.to_owned(), |number| number.to_string())
}

/// The clusters that are not chosen, and the conditions.
fn write_reasons(report: &PlacementReport, out: &mut dyn Write) -> io::Result<()> {
    if !report.not_chosen.is_empty() {
        let mut lines = vec![vec!["NOT CHOSEN".to_owned(), "REASON".to_owned()]];
        for group in &report.not_chosen {
            let names = group.clusters.iter();
            lines.extend(names.map(|name| vec![name.clone(), group.reason.clone()]));
        }
        writeln!(out)?;
        write_aligned(out, &lines)?;
    }
    if !report.conditions.is_empty() {
        let mut lines = vec![CONDITIONS.map(str::to_owned).to_vec()];
        lines.extend(report.conditions.iter().map(|condition| {
            vec![
                condition.kind.clone(),
                condition.status.clone(),
                condition.last_transition_time.clone(),
                condition.reason.clone(),
                condition.message.clone(),
            ]
        }));
        writeln!(out)?;
        write_aligned(out, &lines)?;
    }
    Ok(())
}

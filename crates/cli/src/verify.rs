//! `fleetdex verify`: asks a running server to compare its indices with the clusters, and prints
//! the report. The server repairs drift.

use std::{
    collections::BTreeSet,
    io::{self, Write},
    process::ExitCode,
};

use clap::ValueEnum;
use fleetdex_core::terminal::escaped_json;
use fleetdex_query_api::report::{ComparisonCounts, ReportLine, Row, VerificationResult};
use serde_json::json;

use super::{
    api::{Api, ClientConfig},
    completion,
    console::{CommandError, Console},
    output::columns::write_aligned,
};

/// Shown for an unknown number.
const UNKNOWN: &str = "-";

/// Compares every index with its clusters.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 no drift; 1 drift was found and is being repaired; 2 something could not be verified."
)]
pub struct VerifyArgs {
    /// Only these clusters (repeatable, or separated by commas)
    #[arg(long = "cluster", value_name = "CLUSTER", value_delimiter = ',', add = completion::clusters())]
    pub clusters: Vec<String>,

    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub output: ReportFormat,

    /// The server.
    #[command(flatten)]
    pub server: ClientConfig,
}

/// How a report is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// One line per kind and cluster.
    #[default]
    Table,
    /// The same with the ids of some differing documents.
    Json,
}

/// The result of a report, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReportResult {
    Drift,
    NotVerified,
    Clean,
}

impl ReportResult {
    fn of(rows: &[Row]) -> Self {
        if rows
            .iter()
            .any(|row| matches!(row.outcome, VerificationResult::Drift(_)))
        {
            return Self::Drift;
        }
        // Without any watched kind nothing was verified.
        let is_clean = !rows.is_empty()
            && rows
                .iter()
                .all(|row| matches!(row.outcome, VerificationResult::Clean(_)));
        if is_clean {
            Self::Clean
        } else {
            Self::NotVerified
        }
    }

    fn exit_code(self) -> u8 {
        match self {
            Self::Clean => 0,
            Self::Drift => 1,
            Self::NotVerified => 2,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Clean => "OK",
            Self::Drift => "Drift",
            Self::NotVerified => "NotVerified",
        }
    }
}

/// Verifies, prints, and returns the exit code.
pub async fn run(args: &VerifyArgs) -> ExitCode {
    let (mut out, mut err) = (io::stdout(), io::stderr());
    ExitCode::from(verify(args, &mut out, &mut err).await)
}

/// Returns the exit code.
async fn verify(args: &VerifyArgs, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let rows = match fetch(args, err).await {
        Ok(rows) => rows,
        Err(error) => {
            print_error(&error, err);
            return ReportResult::NotVerified.exit_code();
        }
    };
    match print(&rows, args.output, out) {
        // The reader closed the pipe, as `head` does.
        Err(source) if source.kind() != io::ErrorKind::BrokenPipe => {
            print_error(&not_written(source), err);
        }
        _ => {}
    }
    ReportResult::of(&rows).exit_code()
}

fn not_written(source: io::Error) -> CommandError {
    let what = "cannot write the report".to_owned();
    CommandError::Write { what, source }
}

fn print_error(error: &CommandError, err: &mut dyn Write) {
    let console = &mut Console {
        out: &mut io::sink(),
        err,
        has_colours: false,
    };
    console.print_error(error);
}

/// Returns every row, sorted; prints progress meanwhile.
async fn fetch(args: &VerifyArgs, err: &mut dyn Write) -> Result<Vec<Row>, CommandError> {
    let api = Api::new(&args.server).await?;
    let mut rows = Vec::new();
    let mut written = Ok(());
    api.verify(&args.clusters, |line| match line {
        ReportLine::Row(row) => rows.push(row),
        ReportLine::Progress { done, total } => {
            written = writeln!(err, "verified {done} of {total} kinds");
        }
        ReportLine::End { .. } => {}
    })
    .await?;
    written.map_err(not_written)?;
    if rows.is_empty() {
        let note = "nothing is watched: no ResourceRegistry selects a resource";
        writeln!(err, "{note}").map_err(not_written)?;
    }
    rows.sort_unstable();
    Ok(rows)
}

fn print(rows: &[Row], format: ReportFormat, out: &mut dyn Write) -> io::Result<()> {
    match format {
        ReportFormat::Table if rows.is_empty() => Ok(()),
        ReportFormat::Table => write_aligned(out, &table(rows)),
        ReportFormat::Json => {
            let report = json!({ "kind": "Verification", "result": ReportResult::of(rows).name(), "rows": rows });
            writeln!(out, "{}", escaped_json(&format!("{report:#}")))
        }
    }
}

/// Namespaces and stores have a column only if the rows differ in them.
fn table(rows: &[Row]) -> Vec<Vec<String>> {
    let with_namespace = rows.iter().any(|row| !row.namespace.is_empty());
    let with_store = rows
        .iter()
        .map(|row| &row.store)
        .collect::<BTreeSet<_>>()
        .len()
        > 1;
    let line = |[cluster, kind, namespace, store]: [String; 4], rest: Vec<String>| {
        let mut cells = vec![cluster, kind];
        cells.extend(with_namespace.then_some(namespace));
        cells.extend(with_store.then_some(store));
        cells.extend(rest);
        cells
    };
    let titles = [
        "OBJECTS",
        "DOCUMENTS",
        "MISSING",
        "DIFFERING",
        "SURPLUS",
        "RESULT",
    ];
    let mut lines = vec![line(
        ["CLUSTER", "KIND", "NAMESPACE", "STORE"].map(str::to_owned),
        titles.map(str::to_owned).to_vec(),
    )];
    for row in rows {
        let names = [
            row.cluster.clone(),
            kind(row),
            row.namespace.clone(),
            row.store.clone(),
        ];
        lines.push(line(names, outcome(&row.outcome)));
    }
    lines
}

fn kind(row: &Row) -> String {
    if row.kind.is_empty() {
        "*".to_owned()
    } else {
        format!("{}/{}", row.api_version, row.kind)
    }
}

fn outcome(outcome: &VerificationResult) -> Vec<String> {
    let cells = |counts: &ComparisonCounts, result: &str| {
        let numbers = [
            counts.objects,
            counts.documents,
            counts.missing,
            counts.differing,
            counts.surplus,
        ];
        let numbers = numbers.iter().map(u64::to_string);
        numbers.chain([result.to_owned()]).collect()
    };
    match outcome {
        VerificationResult::Clean(counts) => cells(counts, "ok"),
        VerificationResult::Drift(counts) => cells(counts, "drift, being repaired"),
        VerificationResult::NotVerified { reason } => {
            let mut unknown = vec![UNKNOWN.to_owned(); 5];
            unknown.push(format!("not verified: {reason}"));
            unknown
        }
    }
}

#[cfg(test)]
mod tests;

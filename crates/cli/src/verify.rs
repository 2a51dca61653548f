//! `fleetdex verify`: whether what is stored is as the objects of the clusters, asked of a running server, which finds out and repairs.

use std::{
    collections::BTreeSet,
    io::{self, Write},
    process::ExitCode,
};

use clap::ValueEnum;
use fleetdex_core::{
    model::causes,
    terminal::{escaped, escaped_json},
};
use fleetdex_server::report::{Counts, Line, Outcome, Row};
use serde_json::json;

use super::{
    aligned,
    api::{Api, ApiError, Place},
    completion,
};

/// Stands for a number that is not known.
const UNKNOWN: &str = "-";

/// Compares what is stored with the objects of the clusters.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 everything is as it should be; 1 drift was found, and is being repaired; 2 something could not be verified."
)]
pub struct Args {
    /// Only these clusters (repeatable, or separated by commas)
    #[arg(long = "cluster", value_name = "CLUSTER", value_delimiter = ',', env = "FLEETDEX_CLUSTER", add = completion::clusters())]
    pub clusters: Vec<String>,

    /// How to show it
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Format,

    /// Whom to ask.
    #[command(flatten)]
    pub server: Place,
}

/// How a report is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One line per kind and cluster.
    #[default]
    Table,
    /// The same with ids of some documents that are wrong.
    Json,
}

/// What a report comes to, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Drift,
    NotVerified,
    Clean,
}

impl Verdict {
    fn of(rows: &[Row]) -> Self {
        if rows
            .iter()
            .any(|row| matches!(row.outcome, Outcome::Drift(_)))
        {
            return Self::Drift;
        }
        // Where nothing is followed, nothing has been verified.
        let is_clean = !rows.is_empty()
            && rows
                .iter()
                .all(|row| matches!(row.outcome, Outcome::Clean(_)));
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

    fn word(self) -> &'static str {
        match self {
            Self::Clean => "OK",
            Self::Drift => "Drift",
            Self::NotVerified => "NotVerified",
        }
    }
}

/// There is nothing to show, or nowhere to show it.
#[derive(Debug, thiserror::Error)]
enum VerifyError {
    /// The server cannot be asked, or refused.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// Standard output or standard error is closed.
    #[error("cannot write the report")]
    Write(#[from] io::Error),
}

/// Asks, shows, and tells how it went by the exit code.
pub async fn run(args: &Args) -> ExitCode {
    let (mut out, mut err) = (io::stdout(), io::stderr());
    ExitCode::from(verify(args, &mut out, &mut err).await)
}

/// The exit code.
async fn verify(args: &Args, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let rows = match ask(args, err).await {
        Ok(rows) => rows,
        Err(error) => {
            tell(&error, err);
            return Verdict::NotVerified.exit_code();
        }
    };
    match show(&rows, args.output, out) {
        // Whoever reads our output has seen enough, as `head` does.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => tell(&error.into(), err),
        _ => {}
    }
    Verdict::of(&rows).exit_code()
}

fn tell(error: &VerifyError, err: &mut dyn Write) {
    let text = match error {
        // As kubectl prints it.
        VerifyError::Api(refused) if refused.is_refusal() => refused.to_string(),
        other => format!("error: {}", causes(other)),
    };
    // Nothing more can be done where standard error is closed, too.
    let _told = writeln!(err, "{}", escaped(&text));
}

/// Every row, sorted. How far it is, is told meanwhile.
async fn ask(args: &Args, err: &mut dyn Write) -> Result<Vec<Row>, VerifyError> {
    let api = Api::new(&args.server).await?;
    let mut rows = Vec::new();
    let mut told = Ok(());
    api.verify(&args.clusters, |line| match line {
        Line::Row(row) => rows.push(row),
        Line::Progress { done, total } => told = writeln!(err, "verified {done} of {total} kinds"),
        Line::End { .. } => {}
    })
    .await?;
    told?;
    if rows.is_empty() {
        writeln!(
            err,
            "nothing is followed: no ResourceRegistry selects anything"
        )?;
    }
    rows.sort_unstable();
    Ok(rows)
}

fn show(rows: &[Row], format: Format, out: &mut dyn Write) -> io::Result<()> {
    match format {
        Format::Table if rows.is_empty() => Ok(()),
        Format::Table => aligned::write(out, &table(rows)),
        Format::Json => {
            let report =
                json!({ "kind": "Verification", "result": Verdict::of(rows).word(), "rows": rows });
            writeln!(out, "{}", escaped_json(&format!("{report:#}")))
        }
    }
}

/// Namespaces and stores have a column where they make a difference.
fn table(rows: &[Row]) -> Vec<Vec<String>> {
    let with_namespace = rows.iter().any(|row| !row.namespace.is_empty());
    let with_store = rows
        .iter()
        .map(|row| &row.store)
        .collect::<BTreeSet<_>>()
        .len()
        > 1;
    let line = |[cluster, kind, namespace, store]: [String; 4], rest: [String; 6]| {
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
        titles.map(str::to_owned),
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

fn outcome(outcome: &Outcome) -> [String; 6] {
    let numbers = |counts: &Counts, result: &str| {
        let Counts {
            objects,
            documents,
            missing,
            differing,
            surplus,
            ..
        } = counts;
        let [objects, documents, missing, differing, surplus] =
            [objects, documents, missing, differing, surplus].map(ToString::to_string);
        [
            objects,
            documents,
            missing,
            differing,
            surplus,
            result.to_owned(),
        ]
    };
    match outcome {
        Outcome::Clean(counts) => numbers(counts, "ok"),
        Outcome::Drift(counts) => numbers(counts, "drift, being repaired"),
        Outcome::NotVerified { reason } => {
            let [first, second, third, fourth, fifth] = [UNKNOWN; 5].map(str::to_owned);
            [
                first,
                second,
                third,
                fourth,
                fifth,
                format!("not verified: {reason}"),
            ]
        }
    }
}

#[cfg(test)]
mod tests;

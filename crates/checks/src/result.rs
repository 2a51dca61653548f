//! What a check has found, and what to do about it.

use std::io::{self, Write};

use clap::ValueEnum;
use fleetdex_cli::output::columns::write_aligned;
use fleetdex_core::terminal::{escaped_json, escaped_line};
use serde::Serialize;
use serde_json::json;

/// The result of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum CheckStatus {
    /// As it should be.
    #[serde(rename = "OK")]
    Ok,
    /// Not checked, because something that it needs is not there.
    Skipped,
    /// It works, but will not for ever.
    Warning,
    /// It does not work.
    Error,
}

impl CheckStatus {
    fn text(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Skipped => "Skipped",
            Self::Warning => "Warning",
            Self::Error => "Error",
        }
    }
}

/// One check of one thing.
#[derive(Clone, Debug, Serialize)]
pub struct CheckResult {
    /// The result.
    pub status: CheckStatus,
    /// What was checked, such as `cluster member1`.
    pub subject: String,
    /// The check, in lower case.
    pub check: &'static str,
    /// What was found.
    pub message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub action: String,
}

/// Collects the results of the checks of one thing.
#[derive(Debug)]
pub struct Checks {
    subject: String,
    /// In the order of the checks.
    pub results: Vec<CheckResult>,
}

impl Checks {
    /// No checks yet.
    pub fn of(subject: impl Into<String>) -> Self {
        Self {
            subject: subject.into(),
            results: Vec::new(),
        }
    }

    /// As it should be.
    pub fn ok(&mut self, check: &'static str, message: impl Into<String>) {
        self.add(CheckStatus::Ok, check, message.into(), "");
    }

    /// Not checked.
    pub fn skipped(&mut self, check: &'static str, message: impl Into<String>, action: &str) {
        self.add(CheckStatus::Skipped, check, message.into(), action);
    }

    /// It will not work for ever.
    pub fn warning(&mut self, check: &'static str, message: impl Into<String>, action: &str) {
        self.add(CheckStatus::Warning, check, message.into(), action);
    }

    /// It does not work.
    pub fn error(&mut self, check: &'static str, message: impl Into<String>, action: &str) {
        self.add(CheckStatus::Error, check, message.into(), action);
    }

    fn add(&mut self, status: CheckStatus, check: &'static str, message: String, action: &str) {
        self.results.push(CheckResult {
            status,
            subject: self.subject.clone(),
            check,
            message,
            action: action.to_owned(),
        });
    }
}

/// The worst result; `Ok` without any.
pub fn worst(results: &[CheckResult]) -> CheckStatus {
    let statuses = results.iter().map(|result| result.status);
    statuses.max().unwrap_or(CheckStatus::Ok)
}

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum CheckFormat {
    /// A line per check, then what to do.
    #[default]
    Table,
    /// One object with all results.
    Json,
}

/// Prints the results; `kind` is the kind of the object in JSON.
pub fn print(
    kind: &str,
    format: CheckFormat,
    results: &[CheckResult],
    out: &mut dyn Write,
) -> io::Result<()> {
    match format {
        CheckFormat::Table => print_table(results, out),
        CheckFormat::Json => print_json(kind, results, out),
    }
}

/// Prints a table, and below it what to do.
fn print_table(results: &[CheckResult], out: &mut dyn Write) -> io::Result<()> {
    let header = ["STATUS", "SUBJECT", "CHECK", "FOUND"].map(str::to_owned);
    let rows = results.iter().map(|result| {
        vec![
            result.status.text().to_owned(),
            result.subject.clone(),
            result.check.to_owned(),
            result.message.clone(),
        ]
    });
    let lines: Vec<Vec<String>> = [header.to_vec()].into_iter().chain(rows).collect();
    write_aligned(out, &lines)?;
    let mut title = "\nWhat to do:\n";
    for result in results.iter().filter(|result| !result.action.is_empty()) {
        let CheckResult {
            subject,
            check,
            action,
            ..
        } = result;
        let line = escaped_line(&format!("{subject}, {check}: {action}")).into_owned();
        writeln!(out, "{title}- {line}")?;
        title = "";
    }
    Ok(())
}

/// Prints one object with all results.
fn print_json(kind: &str, results: &[CheckResult], out: &mut dyn Write) -> io::Result<()> {
    let report = json!({ "kind": kind, "status": worst(results), "results": results });
    writeln!(out, "{}", escaped_json(&format!("{report:#}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_what_to_do_and_the_worst_result_counts() {
        let mut checks = Checks::of("cluster member1");
        checks.ok("version", "v1.36.3");
        assert_eq!(worst(&checks.results), CheckStatus::Ok);
        checks.error("connection", "refused\u{1b}[31m", "start it");
        checks.skipped("clock", "no answer", "");
        let mut out = Vec::new();
        print_table(&checks.results, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.contains("What to do:\n- cluster member1, connection: start it"),
            "{text}"
        );
        assert!(!text.contains('\u{1b}'), "{text}");
        assert_eq!(worst(&checks.results), CheckStatus::Error);
    }
}

//! What a migration prints: checks first, then each step as it is done.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use fleetdex_core::terminal::escaped_line;

use fleetdex_checks::result::{CheckFormat, CheckResult, CheckStatus, Checks, print, worst};

/// The kind of the object in JSON.
const KIND: &str = "Migration";

/// A step failed.
#[derive(Debug, thiserror::Error)]
#[error("step {step:?}: {problem}\n{holds}\n{next}")]
pub struct StepFailed {
    /// The step, such as `install the CRD`.
    pub step: &'static str,
    /// What failed.
    pub problem: String,
    /// What is changed by now, and what is not.
    pub holds: &'static str,
    /// How to go on, or back.
    pub next: String,
}

/// Why a migration ended before its end.
#[derive(Debug, thiserror::Error)]
pub enum MigrationEnded {
    /// A step failed.
    #[error(transparent)]
    Failed(#[from] StepFailed),
    /// Standard output is closed.
    #[error("cannot write the output")]
    Output(#[from] io::Error),
}

/// Collects and prints what was found and done.
pub struct MigrationReport<'o> {
    format: CheckFormat,
    out: &'o mut dyn Write,
    results: Vec<CheckResult>,
    has_steps: bool,
}

impl<'o> MigrationReport<'o> {
    /// Nothing yet.
    pub fn new(format: CheckFormat, out: &'o mut dyn Write) -> Self {
        Self {
            format,
            out,
            results: Vec::new(),
            has_steps: false,
        }
    }

    /// Adds what checks have found; returns whether nothing of it stands in the way.
    pub fn checked(&mut self, results: Vec<CheckResult>) -> io::Result<bool> {
        let is_possible = worst(&results) != CheckStatus::Error;
        if self.format == CheckFormat::Table {
            print(KIND, self.format, &results, self.out)?;
        }
        self.results.extend(results);
        Ok(is_possible)
    }

    /// Says that a step is done.
    pub fn done(&mut self, step: &'static str, message: &str) -> io::Result<()> {
        let mut checks = Checks::of("migration");
        checks.ok(step, message);
        self.add(checks, &format!("{step}: {message}"))
    }

    /// Says what a user should know about a step.
    pub fn warn(&mut self, step: &'static str, message: &str, action: &str) -> io::Result<()> {
        let mut checks = Checks::of("migration");
        checks.warning(step, message, action);
        self.add(checks, &format!("{step}: Warning: {message}; {action}"))
    }

    /// Says what is not as it was exported.
    pub fn differs(&mut self, step: &'static str, message: &str, action: &str) -> io::Result<()> {
        let mut checks = Checks::of("migration");
        checks.error(step, message, action);
        self.add(checks, &format!("{step}: Error: {message}; {action}"))
    }

    /// Ends the report with one sentence; it is not in JSON, whose `status` says the same.
    pub fn conclude(&mut self, sentence: &str) -> io::Result<()> {
        if self.format == CheckFormat::Table {
            writeln!(self.out, "\n{sentence}")?;
        }
        Ok(())
    }

    fn add(&mut self, checks: Checks, line: &str) -> io::Result<()> {
        self.results.extend(checks.results);
        if self.format == CheckFormat::Table {
            if !self.has_steps {
                writeln!(self.out)?;
            }
            self.has_steps = true;
            writeln!(self.out, "{}", escaped_line(line))?;
            self.out.flush()?;
        }
        Ok(())
    }

    /// Prints what is left to print. `is_done` is false if a check stands in the way.
    pub fn finish(mut self, is_done: Result<bool, MigrationEnded>) -> anyhow::Result<ExitCode> {
        let code = match is_done {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(MigrationEnded::Failed(failed)) if self.format == CheckFormat::Json => {
                let mut checks = Checks::of("migration");
                let action = format!("{} {}", failed.holds, failed.next);
                checks.error(failed.step, failed.problem, &action);
                self.results.extend(checks.results);
                ExitCode::FAILURE
            }
            Err(ended) => return Err(ended.into()),
        };
        if self.format == CheckFormat::Json {
            print(KIND, self.format, &self.results, self.out)?;
        }
        Ok(code)
    }
}

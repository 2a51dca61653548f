//! Prints warnings and errors of commands, and maps their results to exit codes.

use std::{
    collections::BTreeSet,
    env,
    error::Error,
    io::{self, IsTerminal as _, Write},
    process::ExitCode,
};

use fleetdex_core::{
    model::causes,
    terminal::{escaped, escaped_line},
};

use super::{ArgsError, ClientError};

/// Bold yellow, as kubectl has it.
const WARNING: &str = "\x1b[33;1m";
/// Bold red.
const ERROR: &str = "\x1b[31;1m";
const PLAIN: &str = "\x1b[0m";

/// A command failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The server cannot be reached, or refused.
    #[error(transparent)]
    Api(#[from] ClientError),
    /// The arguments do not form a query.
    #[error(transparent)]
    Args(#[from] ArgsError),
    /// The message of kubectl, with the reason.
    #[error("the server doesn't have a resource type {0:?}: no ResourceRegistry selects it")]
    UnknownResource(String),
    /// The arguments contradict each other.
    #[error("{0}")]
    Usage(String),
    /// Standard output or standard error is closed.
    #[error("{what}")]
    Write {
        /// What cannot be written.
        what: String,
        /// Why.
        source: io::Error,
    },
    /// The error of one command.
    #[error(transparent)]
    Failed(Box<dyn Error + Send + Sync>),
}

impl From<io::Error> for CommandError {
    fn from(source: io::Error) -> Self {
        let what = "cannot write the output".to_owned();
        Self::Write { what, source }
    }
}

impl CommandError {
    /// The error of one command.
    pub fn failed(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Failed(Box::new(error))
    }

    /// Whether the reader closed the pipe, as `head` does.
    fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Write { source, .. } if source.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// Standard output and standard error of a command.
pub struct Console<'c> {
    /// Standard output.
    pub out: &'c mut dyn Write,
    /// Standard error: warnings and errors.
    pub err: &'c mut dyn Write,
    /// Whether standard error supports colours.
    pub has_colours: bool,
}

impl Console<'_> {
    /// Prints a warning.
    pub fn warn(&mut self, text: &str) -> io::Result<()> {
        let text = escaped_line(text);
        if self.has_colours {
            writeln!(self.err, "{WARNING}Warning:{PLAIN} {text}")
        } else {
            writeln!(self.err, "Warning: {text}")
        }
    }

    /// Prints an error: a refusal as kubectl prints it, any other error with its causes.
    pub fn print_error(&mut self, error: &CommandError) {
        let written = match error {
            CommandError::Api(refused) if refused.is_refusal() => {
                writeln!(self.err, "{}", escaped(&refused.to_string()))
            }
            other if self.has_colours => {
                writeln!(self.err, "{ERROR}error:{PLAIN} {}", escaped(&causes(other)))
            }
            other => writeln!(self.err, "error: {}", escaped(&causes(other))),
        };
        // Nothing is left to do if standard error is closed as well.
        drop(written);
    }

    /// Flushes the output and prints an error; returns whether the command completed.
    pub fn finish(&mut self, result: Result<bool, CommandError>) -> bool {
        match result.and_then(|is_complete| {
            self.out
                .flush()
                .map(|()| is_complete)
                .map_err(CommandError::from)
        }) {
            Ok(is_complete) => is_complete,
            Err(error) if error.is_broken_pipe() => true,
            Err(error) => {
                self.print_error(&error);
                false
            }
        }
    }
}

/// The warnings printed so far: each text is printed once.
#[derive(Debug, Default)]
pub(super) struct Warnings(BTreeSet<String>);

impl Warnings {
    /// Prints the texts that were not printed before.
    pub(super) fn print(
        &mut self,
        texts: Vec<String>,
        console: &mut Console<'_>,
    ) -> io::Result<()> {
        for text in texts {
            if self.0.insert(text.clone()) {
                console.warn(&text)?;
            }
        }
        Ok(())
    }
}

/// Runs a command on the standard output and standard error of the process. The exit code is 1
/// unless it completed.
pub async fn run<A, C>(args: &A, command: C) -> ExitCode
where
    C: AsyncFnOnce(&A, &mut Console<'_>) -> Result<bool, CommandError>,
{
    if completes(args, command).await {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The same for a command with exit codes of its own: whether it completed.
pub async fn completes<A, C>(args: &A, command: C) -> bool
where
    C: AsyncFnOnce(&A, &mut Console<'_>) -> Result<bool, CommandError>,
{
    let (mut out, mut err) = (io::BufWriter::new(io::stdout()), io::stderr());
    let mut console = Console {
        out: &mut out,
        err: &mut err,
        has_colours: wants_colours(),
    };
    let result = command(args, &mut console).await;
    console.finish(result)
}

/// Colours are used on a capable terminal, unless `NO_COLOR` is set: <https://no-color.org>
fn wants_colours() -> bool {
    let is_disabled = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_dumb = env::var_os("TERM").is_none_or(|terminal| terminal == "dumb");
    !is_disabled && !is_dumb && io::stderr().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::OutputError;

    fn finished(result: Result<bool, CommandError>, has_colours: bool) -> (bool, String) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let is_complete = Console {
            out: &mut out,
            err: &mut err,
            has_colours,
        }
        .finish(result);
        (is_complete, String::from_utf8(err).unwrap())
    }

    #[test]
    fn a_closed_pipe_is_not_an_error() {
        let closed = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert_eq!(finished(Err(closed().into()), false), (true, String::new()));
        assert_eq!(
            finished(Err(OutputError::Write(closed()).into()), false),
            (true, String::new())
        );
        let full = || CommandError::from(io::Error::from(io::ErrorKind::StorageFull));
        assert!(!finished(Err(full()), false).0);
    }

    #[test]
    fn text_of_a_server_does_not_control_the_terminal() {
        let (_, printed) = finished(
            Err(CommandError::Usage("\u{1b}]0;title\u{7}\rno".to_owned())),
            false,
        );
        assert_eq!(printed, "error: ^[]0;title^G\\rno\n");
        let (mut out, mut err) = (Vec::new(), Vec::new());
        Console {
            out: &mut out,
            err: &mut err,
            has_colours: false,
        }
        .warn("\u{1b}[2J")
        .unwrap();
        assert_eq!(err, b"Warning: ^[[2J\n");
    }

    #[test]
    fn errors_are_coloured_on_terminals_only() {
        let unknown = || Err(CommandError::UnknownResource("widgets".to_owned()));
        let (_, plain) = finished(unknown(), false);
        assert_eq!(
            plain,
            "error: the server doesn't have a resource type \"widgets\": no ResourceRegistry selects it\n"
        );
        let (_, coloured) = finished(unknown(), true);
        assert!(
            coloured.starts_with("\u{1b}[31;1merror:\u{1b}[0m the server"),
            "{coloured}"
        );
    }
}

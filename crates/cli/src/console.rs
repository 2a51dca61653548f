//! What commands say beside their output, and how they end.

use std::{
    env,
    io::{self, IsTerminal as _, Write},
    process::ExitCode,
};

use fleetdex_core::{
    json_path::JsonPathError,
    model::causes,
    terminal::{escaped, escaped_line},
};

use super::{ApiError, ArgsError, get::OutputError};

/// Bold yellow, as kubectl has it.
const WARNING: &str = "\x1b[33;1m";
/// Bold red.
const ERROR: &str = "\x1b[31;1m";
const PLAIN: &str = "\x1b[0m";

/// A command cannot do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The server cannot be asked, or refused.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The arguments make no query.
    #[error(transparent)]
    Args(#[from] ArgsError),
    /// The server's answer cannot be shown.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// As kubectl words it, and why that is so here.
    #[error("the server doesn't have a resource type {0:?}: no ResourceRegistry selects it")]
    UnknownResource(String),
    /// Arguments that do not fit together.
    #[error("{0}")]
    Usage(String),
    /// Standard output or standard error is closed.
    #[error("cannot write the answer")]
    Write(#[from] io::Error),
}

impl From<JsonPathError> for CommandError {
    fn from(error: JsonPathError) -> Self {
        Self::Output(error.into())
    }
}

impl CommandError {
    /// Whoever reads our output has seen enough, as `head` does.
    fn is_broken_pipe(&self) -> bool {
        let (Self::Write(error) | Self::Output(OutputError::Write(error))) = self else {
            return false;
        };
        error.kind() == io::ErrorKind::BrokenPipe
    }
}

/// Standard output and standard error of a command.
pub struct Console<'c> {
    /// The answer.
    pub out: &'c mut dyn Write,
    /// Everything else.
    pub err: &'c mut dyn Write,
    /// Whether standard error shows colours.
    pub has_colours: bool,
}

impl Console<'_> {
    /// Tells what the server warned of.
    pub fn warn(&mut self, text: &str) -> io::Result<()> {
        let text = escaped_line(text);
        if self.has_colours {
            writeln!(self.err, "{WARNING}Warning:{PLAIN} {text}")
        } else {
            writeln!(self.err, "Warning: {text}")
        }
    }

    /// Tells an error: a refusal as kubectl prints it, anything else with its causes.
    pub fn tell(&mut self, error: &CommandError) {
        let told = match error {
            CommandError::Api(refused) if refused.is_refusal() => {
                writeln!(self.err, "{}", escaped(&refused.to_string()))
            }
            other if self.has_colours => {
                writeln!(self.err, "{ERROR}error:{PLAIN} {}", escaped(&causes(other)))
            }
            other => writeln!(self.err, "error: {}", escaped(&causes(other))),
        };
        // Nothing more can be done where standard error is closed, too.
        drop(told);
    }

    /// Whether a command did all that it was asked for; what prevented it is told.
    pub fn end(&mut self, result: Result<bool, CommandError>) -> bool {
        match result.and_then(|is_complete| {
            self.out
                .flush()
                .map(|()| is_complete)
                .map_err(CommandError::from)
        }) {
            Ok(is_complete) => is_complete,
            Err(error) if error.is_broken_pipe() => true,
            Err(error) => {
                self.tell(&error);
                false
            }
        }
    }
}

/// Runs a command with the process's standard output and standard error. Exit code 1 if it did not do all that it was asked for.
pub(super) async fn run<C>(command: C) -> ExitCode
where
    C: AsyncFnOnce(&mut Console<'_>) -> Result<bool, CommandError>,
{
    let (mut out, mut err) = (io::BufWriter::new(io::stdout()), io::stderr());
    let mut console = Console {
        out: &mut out,
        err: &mut err,
        has_colours: wants_colours(),
    };
    let result = command(&mut console).await;
    if console.end(result) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// On a terminal that can, unless `NO_COLOR` is set: <https://no-color.org>
fn wants_colours() -> bool {
    let is_unwanted = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_dumb = env::var_os("TERM").is_none_or(|terminal| terminal == "dumb");
    !is_unwanted && !is_dumb && io::stderr().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(result: Result<bool, CommandError>, has_colours: bool) -> (bool, String) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let is_complete = Console {
            out: &mut out,
            err: &mut err,
            has_colours,
        }
        .end(result);
        (is_complete, String::from_utf8(err).unwrap())
    }

    #[test]
    fn a_pipe_that_was_closed_is_no_error() {
        let closed = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert_eq!(ended(Err(closed().into()), false), (true, String::new()));
        assert_eq!(
            ended(Err(OutputError::Write(closed()).into()), false),
            (true, String::new())
        );
        let full = || CommandError::from(io::Error::from(io::ErrorKind::StorageFull));
        assert!(!ended(Err(full()), false).0);
    }

    #[test]
    fn what_a_server_says_does_not_control_the_terminal() {
        let (_, told) = ended(
            Err(CommandError::Usage("\u{1b}]0;title\u{7}\rno".to_owned())),
            false,
        );
        assert_eq!(told, "error: ^[]0;title^G\\rno\n");
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
    fn colours_are_for_terminals() {
        let unknown = || Err(CommandError::UnknownResource("widgets".to_owned()));
        let (_, plain) = ended(unknown(), false);
        assert_eq!(
            plain,
            "error: the server doesn't have a resource type \"widgets\": no ResourceRegistry selects it\n"
        );
        let (_, coloured) = ended(unknown(), true);
        assert!(
            coloured.starts_with("\u{1b}[31;1merror:\u{1b}[0m the server"),
            "{coloured}"
        );
    }
}

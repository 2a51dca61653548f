//! Logs on standard error, as text for people or JSON for collectors.

use std::io::{IsTerminal, Write};

use clap::{Args, ValueEnum};
use fleetdex_core::terminal::escaped_line;
use tracing_subscriber::{
    EnvFilter,
    filter::{LevelFilter, ParseError},
};

/// The filter without `--log-level` and `RUST_LOG`.
const DEFAULT_FILTER: &str = "info";
/// The verifier of reqwest's certificates logs an ERROR for each attempt that fails, without the
/// server. The caller that connects reports the failure once, with the server.
const REPORTED_ELSEWHERE: &str = "rustls_platform_verifier=off";

/// The flags of every long-running command.
#[derive(Args, Clone, Debug, Default)]
pub struct LogArgs {
    /// Format of log lines.
    #[arg(long, env = "FLEETDEX_LOG_FORMAT", value_enum, default_value_t)]
    pub log_format: LogFormat,

    /// What to log: a level, or directives such as `info,fleetdex_clusters::watch=debug`. Without
    /// it `RUST_LOG` is used, then `info`.
    #[arg(long, env = "FLEETDEX_LOG_LEVEL")]
    pub log_level: Option<String>,
}

impl LogArgs {
    /// The same, but only errors unless a level is set: for programs that report their progress
    /// themselves.
    #[must_use]
    pub fn quiet(&self) -> Self {
        let is_set = self.log_level.is_some() || std::env::var_os("RUST_LOG").is_some();
        Self {
            log_level: if is_set {
                self.log_level.clone()
            } else {
                Some("error".to_owned())
            },
            ..self.clone()
        }
    }
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One line per event, for people.
    #[default]
    Text,
    /// One JSON object per event, for collectors.
    Json,
}

/// Logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter is invalid.
    #[error(
        "cannot read the log filter {filter:?} (from --log-level or RUST_LOG; try `debug` or `info,fleetdex_clusters::watch=debug`)"
    )]
    Filter {
        /// The filter.
        filter: String,
        /// Why it is invalid.
        source: ParseError,
    },
    /// No level has this name.
    #[error(
        "the log filter (from --log-level or RUST_LOG) has {word:?}, which is no level: off, error, warn, info, debug or trace. For one target, give its level: {word}=debug"
    )]
    Level {
        /// The word.
        word: String,
    },
    /// A global subscriber is already installed.
    #[error("logging was set up twice")]
    Again,
}

/// Installs the process-wide subscriber. Lines go to standard error; standard output is for
/// results.
pub fn init(args: &LogArgs) -> Result<(), LogError> {
    let filter = filter(
        args.log_level.as_deref(),
        std::env::var("RUST_LOG").ok().as_deref(),
    )?;
    // Colours are only for terminals.
    let colours = std::io::stderr().is_terminal();
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || OneLine {
            out: std::io::stderr(),
            colours,
        })
        .with_ansi(colours);
    let installed = match args.log_format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    installed.map_err(|_| LogError::Again)
}

/// Writes each event as one line without control characters. Fields of events hold text of members,
/// users and stores; a line break in it would begin a line that looks like a log line of Fleetdex,
/// and `tracing_subscriber` escapes control characters in messages only. It calls `write` once for
/// each event.
struct OneLine<W> {
    out: W,
    /// Whether colour sequences pass through.
    colours: bool,
}

impl<W: Write> Write for OneLine<W> {
    fn write(&mut self, event: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let line = text.strip_suffix('\n').unwrap_or(&text);
        let mut shown = shown(line, self.colours);
        if line.len() < text.len() {
            shown.push('\n');
        }
        self.out.write_all(shown.as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

const ESCAPE: char = '\u{1b}';

fn shown(line: &str, colours: bool) -> String {
    if !colours {
        return escaped_line(line).into_owned();
    }
    let mut pieces = line.split(ESCAPE);
    let mut shown = escaped_line(pieces.next().unwrap_or_default()).into_owned();
    for piece in pieces {
        let (colour, rest) = piece.split_at(colour_length(piece));
        shown.push_str(if colour.is_empty() { "^[" } else { "\u{1b}" });
        shown.push_str(colour);
        shown.push_str(&escaped_line(rest));
    }
    shown
}

/// The length of the rest of a colour sequence, such as `[2m`; 0 for any other sequence.
fn colour_length(after_escape: &str) -> usize {
    let Some(rest) = after_escape.strip_prefix('[') else {
        return 0;
    };
    let digits = rest
        .bytes()
        .take_while(|byte| byte.is_ascii_digit() || *byte == b';')
        .count();
    if rest[digits..].starts_with('m') {
        digits + 2
    } else {
        0
    }
}

/// The filter of the flag, else of the environment, else the default. A directive of the user for
/// what is [`REPORTED_ELSEWHERE`] wins, as it comes last.
fn filter(flag: Option<&str>, environment: Option<&str>) -> Result<EnvFilter, LogError> {
    let given = flag
        .or(environment)
        .map(str::trim)
        .filter(|text| !text.is_empty());
    let directives = given.unwrap_or(DEFAULT_FILTER);
    if let Some(word) = misspelt_level(directives) {
        return Err(LogError::Level {
            word: word.to_owned(),
        });
    }
    EnvFilter::builder()
        .parse(format!("{REPORTED_ELSEWHERE},{directives}"))
        .map_err(|source| LogError::Filter {
            filter: directives.to_owned(),
            source,
        })
}

/// A directive that is one word and no level. `EnvFilter` takes it for a target whose every event
/// is logged, and nothing else is.
fn misspelt_level(directives: &str) -> Option<&str> {
    directives.split(',').map(str::trim).find(|directive| {
        let is_word = !directive.is_empty() && directive.chars().all(char::is_alphanumeric);
        is_word && directive.parse::<LevelFilter>().is_err()
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    #[derive(Clone, Default)]
    struct CapturedLines(Arc<Mutex<Vec<u8>>>);

    impl Write for CapturedLines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn text_of_a_member_cannot_forge_lines_or_move_the_cursor() {
        for colours in [false, true] {
            let lines = CapturedLines::default();
            let out = lines.clone();
            let writer = move || OneLine {
                out: out.clone(),
                colours,
            };
            let subscriber = tracing_subscriber::fmt()
                .with_ansi(colours)
                .with_writer(writer)
                .finish();
            tracing::subscriber::with_default(subscriber, || {
                tracing::warn!(id = %"X\n2026-02-03T10:00:00Z ERROR forged\r\u{1b}[2J\u{9b}2J", "the store refused a document");
            });
            let written = String::from_utf8(lines.0.lock().clone()).unwrap();
            assert_eq!(written.matches('\n').count(), 1, "{written}");
            assert!(
                written.ends_with('\n')
                    && written.contains(r"X\n2026-02-03T10:00:00Z ERROR forged\r^[[2J\u009b2J"),
                "{written:?}"
            );
            assert_eq!(
                written.contains("\u{1b}[2m"),
                colours,
                "colours of log lines pass through: {written:?}"
            );
        }
    }

    #[test]
    fn a_misspelt_level_is_refused() {
        let problem = filter(Some("verbos"), None).unwrap_err().to_string();
        assert!(
            problem.contains("\"verbos\", which is no level"),
            "{problem}"
        );
        for accepted in [
            "DEBUG",
            "2",
            "warn,hyper=off",
            "fleetdex_sync",
            "info,fleetdex_sync::unit=trace",
            "info,",
        ] {
            assert!(filter(Some(accepted), None).is_ok(), "{accepted}");
        }
    }

    #[test]
    fn the_flag_wins_over_the_environment_and_nothing_means_info() {
        let chosen = |flag, environment| {
            let filter = filter(flag, environment).unwrap().to_string();
            let rest = filter.replace(REPORTED_ELSEWHERE, "");
            rest.trim_matches(',').to_owned()
        };
        assert_eq!(chosen(Some("debug"), Some("warn")), "debug");
        assert_eq!(chosen(None, Some("warn")), "warn");
        assert_eq!(chosen(None, Some(" ")), "info");
        assert_eq!(chosen(None, None), "info");
    }

    #[test]
    fn a_failed_verification_is_not_logged_for_each_attempt() {
        let logged = |filter_text| {
            let lines = CapturedLines::default();
            let out = lines.clone();
            let subscriber = tracing_subscriber::fmt()
                .with_env_filter(filter(filter_text, None).unwrap())
                .with_writer(move || out.clone())
                .finish();
            tracing::subscriber::with_default(subscriber, || {
                tracing::error!(
                    target: "rustls_platform_verifier::verification::others",
                    "failed to verify TLS certificate: invalid peer certificate: UnknownIssuer"
                );
            });
            let length = lines.0.lock().len();
            length > 0
        };
        assert!(!logged(None));
        assert!(!logged(Some("debug")));
        assert!(logged(Some("rustls_platform_verifier=error")));
    }

    #[test]
    fn a_broken_filter_is_named_in_the_error() {
        let error = filter(Some("fleetdex=loud"), None).unwrap_err();
        assert!(error.to_string().contains("\"fleetdex=loud\""), "{error}");
    }
}

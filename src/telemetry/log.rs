//! Logs on standard error, as text for people or JSON for collectors.

use std::io::IsTerminal;

use clap::{Args, ValueEnum};
use tracing_subscriber::{EnvFilter, filter::ParseError};

/// What is logged when neither `--log-level` nor `RUST_LOG` says otherwise.
const DEFAULT_FILTER: &str = "info";

/// The flags that every long-running command has.
#[derive(Args, Clone, Debug, Default)]
pub struct LogArgs {
    /// Format of log lines.
    #[arg(long, env = "FLEETDEX_LOG_FORMAT", value_enum, default_value_t)]
    pub log_format: LogFormat,

    /// What to log: a level, or directives such as `info,fleetdex::watch=debug`. Without it `RUST_LOG` counts, then `info`.
    #[arg(long, env = "FLEETDEX_LOG_LEVEL")]
    pub log_level: Option<String>,
}

impl LogArgs {
    /// The same, with nothing but errors unless something else was asked for: for programs that tell people what they do.
    #[must_use]
    pub fn quiet(&self) -> Self {
        let is_set = self.log_level.is_some() || std::env::var_os("RUST_LOG").is_some();
        Self { log_level: if is_set { self.log_level.clone() } else { Some("error".to_owned()) }, ..self.clone() }
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
    /// The filter is no filter.
    #[error("cannot read the log filter {filter:?} (from --log-level or RUST_LOG; try `debug` or `info,fleetdex::watch=debug`)")]
    Filter {
        /// What was given.
        filter: String,
        /// What is wrong with it.
        source: ParseError,
    },
    /// There is a global subscriber already.
    #[error("logging was set up twice")]
    Again,
}

/// Installs the process-wide subscriber. Lines go to standard error, so that standard output stays the answer's.
pub fn init(args: &LogArgs) -> Result<(), LogError> {
    let filter = filter(args.log_level.as_deref(), std::env::var("RUST_LOG").ok().as_deref())?;
    // Colours are for terminals; in a file they are noise.
    let colours = std::io::stderr().is_terminal();
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours);
    let installed = match args.log_format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    installed.map_err(|_| LogError::Again)
}

/// The flag wins over the environment; both empty is the default.
fn filter(flag: Option<&str>, environment: Option<&str>) -> Result<EnvFilter, LogError> {
    let given = flag.or(environment).map(str::trim).filter(|text| !text.is_empty());
    let directives = given.unwrap_or(DEFAULT_FILTER);
    EnvFilter::builder().parse(directives).map_err(|source| LogError::Filter { filter: directives.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_wins_over_the_environment_and_nothing_means_info() {
        let chosen = |flag, environment| filter(flag, environment).unwrap().to_string();
        assert_eq!(chosen(Some("debug"), Some("warn")), "debug");
        assert_eq!(chosen(None, Some("warn")), "warn");
        assert_eq!(chosen(None, Some(" ")), "info");
        assert_eq!(chosen(None, None), "info");
    }

    #[test]
    fn a_broken_filter_is_named_in_the_error() {
        let error = filter(Some("fleetdex=loud"), None).unwrap_err();
        assert!(error.to_string().contains("\"fleetdex=loud\""), "{error}");
    }
}

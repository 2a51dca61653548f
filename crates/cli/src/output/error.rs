//! Why an object or a list could not be printed.

use std::io;

use fleetdex_core::yaml;

use crate::console::CommandError;

/// An object or a list could not be printed.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// Standard output is closed.
    #[error("cannot write to standard output")]
    Write(#[from] io::Error),
    /// The server sent an item that is not an object.
    #[error("the server sent an item that is not an object: {0}")]
    NoObject(serde_json::Error),
    /// A value has no YAML form.
    #[error("cannot write the list as YAML: {0}")]
    Yaml(String),
}

impl From<yaml::Error> for OutputError {
    fn from(error: yaml::Error) -> Self {
        Self::Yaml(error.to_string())
    }
}

impl From<OutputError> for CommandError {
    fn from(error: OutputError) -> Self {
        let what = error.to_string();
        match error {
            OutputError::Write(source) => Self::Write { what, source },
            other => Self::failed(other),
        }
    }
}

//! Why an object or a list could not be printed.

use std::io;

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

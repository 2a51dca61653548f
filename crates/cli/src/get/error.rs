//! Why an object or a list could not be shown.

use std::io;

use fleetdex_core::json_path::JsonPathError;

/// An object or a list could not be shown.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// Standard output is closed.
    #[error("cannot write to standard output")]
    Write(#[from] io::Error),
    /// The server sent something else than an object.
    #[error("the server sent something that is no object: {0}")]
    NoObject(serde_json::Error),
    /// The list has no YAML form.
    #[error("cannot write the list as YAML: {0}")]
    Yaml(String),
    /// The template does not fit the objects.
    #[error(transparent)]
    JsonPath(#[from] JsonPathError),
}

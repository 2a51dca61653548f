//! What is wrong with a member of a configuration.

use fleetdex_core::model::quoted;

/// A member of a configuration that cannot work, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct FieldProblem {
    /// Where it is, such as `webhooks[0].clientConfig.url`.
    pub path: String,
    /// What is wrong and what to write instead.
    pub message: String,
}

impl FieldProblem {
    /// A problem at a path.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            message: message.into(),
        }
    }
}

/// Text of a configuration for a message: in quotes, on one line, cut when it is long.
pub fn shown(text: &str) -> String {
    format!("\"{}\"", quoted(text))
}

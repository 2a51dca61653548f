//! Why a request is no question.

/// A request is no question of the query API.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuestionError {
    /// A part of the request is invalid; the message names it.
    #[error("{0}")]
    Invalid(String),
    /// The API has no such path.
    #[error("the server could not find {path}")]
    NoSuchPath {
        /// The path.
        path: String,
    },
    /// The path leads to nothing that is served; the message says which paths do.
    #[error("{0}")]
    NotFound(String),
    /// The path is served with other methods.
    #[error("method {method} is not served here; use {allowed}")]
    MethodNotAllowed {
        /// The method of the request.
        method: String,
        /// The methods that are served.
        allowed: &'static str,
    },
}

impl QuestionError {
    /// An [`Invalid`](Self::Invalid) part of the request.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid(message.into())
    }

    /// The HTTP status.
    pub fn code(&self) -> u16 {
        match self {
            Self::Invalid(_) => 400,
            Self::NoSuchPath { .. } | Self::NotFound(_) => 404,
            Self::MethodNotAllowed { .. } => 405,
        }
    }
}

//! Why a request is no question.

use std::fmt::Display;

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

    /// A parameter with an invalid value.
    pub fn parameter(name: &str, problem: impl Display) -> Self {
        Self::Invalid(format!("parameter {name}: {problem}"))
    }

    /// A path with an invalid segment.
    pub fn path(problem: impl Display) -> Self {
        Self::Invalid(format!("path: {problem}"))
    }

    pub(crate) fn not_yet(what: &str) -> Self {
        Self::Invalid(format!("{what} is not supported yet"))
    }

    /// The first of these problems that there is.
    pub(crate) fn first_of<const COUNT: usize>(
        problems: [(bool, &'static str); COUNT],
    ) -> Result<(), Self> {
        match problems.into_iter().find(|(is_there, _)| *is_there) {
            Some((_, problem)) => Err(Self::invalid(problem)),
            None => Ok(()),
        }
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

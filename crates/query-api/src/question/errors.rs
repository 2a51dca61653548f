//! Errors of several kinds of requests.

use crate::error::QuestionError;

pub(super) fn not_yet(what: &str) -> QuestionError {
    QuestionError::invalid(format!("{what} is not supported yet"))
}

pub(super) fn unknown(key: &str, known: &str) -> QuestionError {
    QuestionError::invalid(format!("parameter {key:?} is unknown; known are {known}"))
}

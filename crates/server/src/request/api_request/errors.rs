//! Errors of several kinds of requests.

use crate::request::api_error::ApiError;

pub(super) fn not_yet(what: &str) -> ApiError {
    ApiError::bad_request(format!("{what} is not supported yet"))
}

pub(super) fn unknown(key: &str, known: &str) -> ApiError {
    ApiError::bad_request(format!("parameter {key:?} is unknown; known are {known}"))
}

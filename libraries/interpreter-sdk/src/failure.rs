//! Why an interpreter has no answer.

use std::error::Error;

use fleetdex_core::model::causes;
use fleetdex_interpreter::Operation;

/// What an interpreter answers.
pub type InterpreterResult<T> = Result<T, InterpreterFailure>;

/// Why an interpreter has no answer. `?` makes one of any error, with code 500.
///
/// It is no [`Error`] itself, as with `anyhow`: otherwise there could be no such conversion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterpreterFailure {
    /// A code as HTTP has them, from 400 to 599.
    pub code: u16,
    /// Why there is no answer. Users read it as the reason of the unknown health.
    pub message: String,
}

impl InterpreterFailure {
    /// A failure; other codes than errors of HTTP become 400 or 599.
    pub fn new(code: u16, message: impl Into<String>) -> Self {
        Self {
            code: code.clamp(400, 599),
            message: message.into(),
        }
    }

    /// The request is wrong, or its object is.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, message)
    }

    /// The interpreter does not implement the operation.
    pub fn unsupported(operation: Operation) -> Self {
        Self::new(501, format!("operation not supported: {operation}"))
    }
}

impl<E: Error + 'static> From<E> for InterpreterFailure {
    fn from(error: E) -> Self {
        Self::new(500, causes(&error))
    }
}

//! Why an answer results in nothing.

use super::{dialect::API_VERSION, patch::PatchFault};
use crate::Operation;

/// The longest body of an answer, in bytes: a patch that replaces the greatest object, in base64,
/// fits.
pub const MAX_ANSWER_BYTES: usize = 12 << 20;

/// An answer that results in nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The body is too long.
    #[error("the answer has {0} bytes, more than {MAX_ANSWER_BYTES}")]
    TooLarge(usize),
    /// The body is no message.
    #[error("the answer cannot be read: {0}")]
    Unreadable(String),
    /// The body is an object of another kind.
    #[error("the answer is \"{found}\", not {expected} of {API_VERSION}")]
    OtherKind {
        /// The kind that answers have.
        expected: &'static str,
        /// `apiVersion` and kind of the answer.
        found: String,
    },
    /// There is no response.
    #[error("the answer has no response")]
    NoResponse,
    /// It answers another request.
    #[error("response.uid is \"{found}\", not \"{expected}\", which the request has")]
    OtherUid {
        /// The one of the request.
        expected: String,
        /// The one of the answer.
        found: String,
    },
    /// The webhook says that it failed.
    #[error("the webhook failed with code {code}: {message}")]
    Unsuccessful {
        /// What it gives as the code.
        code: i64,
        /// What it gives as the reason.
        message: String,
    },
    /// The webhook says that it failed, but not why.
    #[error(
        "response.successful is not true, and response.status, which has to say why, is absent"
    )]
    Unexplained,
    /// A member that the operation needs is absent.
    #[error("response.{1} is absent, and {0} needs it")]
    Absent(Operation, &'static str),
    /// A member has a value that it cannot have.
    #[error("response.{path} {problem}")]
    Invalid {
        /// Where it is.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The patch cannot be applied.
    #[error(transparent)]
    Patch(#[from] PatchFault),
}

/// A member has a value that it cannot have.
pub(super) fn invalid(path: impl Into<String>, problem: impl Into<String>) -> AnswerError {
    AnswerError::Invalid {
        path: path.into(),
        problem: problem.into(),
    }
}

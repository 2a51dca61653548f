//! Why the redactions of a projection cannot be applied to an object.

use crate::fuel::OutOfFuel;

/// An object cannot be redacted.
#[derive(Debug, thiserror::Error)]
pub enum RedactionError {
    /// It cannot be parsed whole.
    #[error(transparent)]
    Unparsable(#[from] serde_json::Error),
    /// The redactions take too many steps.
    #[error(transparent)]
    OutOfFuel(#[from] OutOfFuel),
}

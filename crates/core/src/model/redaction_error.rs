//! Why the redactions of a projection cannot be applied to an object.

use crate::fuel::OutOfFuel;

/// An object cannot be redacted.
#[derive(Debug, thiserror::Error)]
pub enum RedactionError {
    /// It cannot be parsed whole.
    #[error(transparent)]
    Unparsable(#[from] serde_json::Error),
    /// It would take more memory than an object may have.
    #[error("it takes more than {} MiB when it is parsed", .0 >> 20)]
    TooLargeParsed(usize),
    /// The redactions take too many steps.
    #[error(transparent)]
    OutOfFuel(#[from] OutOfFuel),
}

//! Questions that may be withdrawn.

use tokio_util::sync::CancellationToken;

use crate::StoreError;

/// Whether somebody still waits for an answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked(pub(super) CancellationToken);

impl Asked {
    /// An error when the question was withdrawn. What was read of the answer is of no use then.
    pub(super) fn still(&self) -> Result<(), StoreError> {
        if self.0.is_cancelled() {
            return Err(StoreError::Embedded(
                "the question was withdrawn".to_owned(),
            ));
        }
        Ok(())
    }
}

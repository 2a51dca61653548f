//! Cancellation of queries.

use tokio_util::sync::CancellationToken;

use crate::StoreError;

/// Whether a query's client still waits for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Cancellation(pub(super) CancellationToken);

impl Cancellation {
    /// Fails once the query is cancelled. What was read of its result is of no use then.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        if self.0.is_cancelled() {
            return Err(StoreError::Embedded("the query was cancelled".to_owned()));
        }
        Ok(())
    }
}

//! How long a store is waited for.

use std::time::Duration;

use fleetdex_store::StoreError;
use tokio::time::timeout;

use crate::api_error::ApiError;

/// What stores answer within `limit`.
pub(crate) async fn in_time<T>(
    limit: Duration,
    answer: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, ApiError> {
    let answered = timeout(limit, answer).await;
    Ok(answered.map_err(|_| ApiError::Timeout(limit.as_secs()))??)
}

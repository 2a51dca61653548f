//! Refreshes indices, so that searches see what was written.

use std::time::Duration;

use bytes::Bytes;
use fleetdex_core::model::IndexName;
use http::Method;
use serde::Deserialize;

use crate::{
    StoreError,
    opensearch::connection::client::{Call, Client, parse},
};

/// Segments of one second are written in a fraction of it; merges may hold that up.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(30);

/// Refreshes all indices that queries are answered from.
#[derive(Clone)]
pub(crate) struct Refresher {
    pub(crate) client: Client,
    pub(crate) alias: IndexName,
}

#[derive(Deserialize)]
struct RefreshResponse {
    #[serde(rename = "_shards")]
    shards: RefreshShards,
}

#[derive(Deserialize)]
struct RefreshShards {
    failed: u64,
}

impl Refresher {
    pub(crate) async fn refresh(&self) -> Result<(), StoreError> {
        let operation = "refreshing the indices";
        let path = format!(
            "/{}/_refresh?ignore_unavailable=true&allow_no_indices=true",
            self.alias
        );
        let call = Call {
            operation,
            method: Method::POST,
            path,
            body: Bytes::new(),
            timeout: REFRESH_TIMEOUT,
        };
        let answer: RefreshResponse = parse(operation, &self.client.call(call).await?)?;
        if answer.shards.failed > 0 {
            let reason = format!("{} shards were not refreshed", answer.shards.failed);
            return Err(StoreError::busy(503, reason));
        }
        Ok(())
    }
}

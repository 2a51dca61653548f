//! Sweeps: deletes the documents of partitions that are gone, and shared indices without
//! partitions.

use fleetdex_core::model::{IndexName, JsonLine};
use http::Method;
use serde::de::IgnoredAny;
use serde_json::json;

use super::{partitions::too_many_changes, shared_index::SharedIndex};
use crate::{
    StoreError,
    bulk::Verdict,
    opensearch::{
        connection::responses::Purpose,
        engine::Engine,
        read::search_response::{RawHit, SearchResponse},
    },
};

/// Documents that are deleted by one request.
const DELETIONS: usize = 5_000;

/// A document of a removed partition.
type StrayHit = RawHit<IgnoredAny>;

impl Engine {
    /// Deletes documents that no partition has, and shared indices without partitions.
    pub(crate) async fn sweep_shared_indices(&self, pattern: &str) -> Result<(), StoreError> {
        // One index that fails does not keep the others from being swept.
        let mut outcome = Ok(());
        for (shared, _) in self.shared_indices(pattern).await? {
            let swept = if shared.partitions.is_empty() {
                self.delete_shared_index(&shared).await
            } else {
                self.sweep_shared_index(&shared).await
            };
            outcome = outcome.and(swept);
        }
        outcome
    }

    async fn delete_shared_index(&self, shared: &SharedIndex) -> Result<(), StoreError> {
        let index = &shared.index;
        let operation = "deleting a shared index";
        if let Some(actions) = shared.restoring() {
            self.try_change(operation, &actions).await?;
            return Err(too_many_changes(operation));
        }
        if let Some(actions) = shared.closing()
            && !self.try_change(operation, &actions).await?
        {
            // A partition was added meanwhile.
            return Ok(());
        }
        let path = format!("/{index}?ignore_unavailable=true");
        self.send(operation, Method::DELETE, path, None).await?;
        tracing::info!(%index, "deleted a shared index without partitions");
        Ok(())
    }

    /// Deletes the documents of partitions that were removed before. What a partition gets that is
    /// added meanwhile stays: its number is higher than the version that was read.
    async fn sweep_shared_index(&self, shared: &SharedIndex) -> Result<(), StoreError> {
        let index = &shared.index;
        self.refresh_index(index).await?;
        let body = json!({
            "size": DELETIONS,
            "query": { "bool": { "must_not": [{ "terms": { "_routing": shared.routings() } }] } },
            "_source": false,
            "track_total_hits": false,
        });
        loop {
            let path = format!(
                "/{index}/_search?filter_path=timed_out,_shards,hits.hits._id,hits.hits._routing"
            );
            let found: SearchResponse<IgnoredAny> =
                self.run_search(Purpose::Upkeep, path, &body).await?;
            let strays: Vec<StrayHit> = found
                .hits
                .hits
                .into_iter()
                .filter(|hit| {
                    let routing = hit.routing.as_deref();
                    routing.is_none_or(|routing| shared.is_gone(routing))
                })
                .collect();
            if strays.is_empty() {
                return Ok(());
            }
            tracing::info!(%index, documents = strays.len(), "deleting documents of removed partitions");
            if !self.delete_strays(index, &strays).await? {
                // Another sweep has deleted them, or this search is behind.
                let reason =
                    format!("{index} still shows documents of removed partitions that are deleted");
                return Err(StoreError::busy(409, reason));
            }
            self.refresh_index(index).await?;
        }
    }

    /// Whether any was there.
    async fn delete_strays(
        &self,
        index: &IndexName,
        strays: &[StrayHit],
    ) -> Result<bool, StoreError> {
        let operation = "deleting documents of removed partitions";
        let lines: Vec<JsonLine> = strays
            .iter()
            .map(|stray| {
                // With an external version it would create the index again that another sweep has
                // deleted.
                let mut action = json!({ "_index": index, "_id": stray.id });
                if let Some(routing) = &stray.routing {
                    action["routing"] = json!(routing);
                }
                JsonLine::new(json!({ "delete": action }).to_string())
            })
            .collect();
        let verdicts = self
            .client
            .bulk_of_all(operation, &lines, lines.len())
            .await?;
        Ok(verdicts.contains(&Verdict::Deleted))
    }
}

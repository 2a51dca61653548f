//! Responses of `_search`.

use fleetdex_core::planted::{Bug, planted};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
pub(super) struct SearchResponse<S> {
    pub(super) timed_out: bool,
    #[serde(rename = "_shards")]
    pub(super) shards: Shards,
    pub(super) pit_id: Option<String>,
    #[serde(default = "Hits::none")]
    pub(super) hits: Hits<S>,
    pub(super) aggregations: Option<Value>,
}

#[derive(Deserialize)]
pub(super) struct Shards {
    pub(super) total: u64,
    successful: u64,
    failed: u64,
}

/// What a response lacks.
pub(super) enum Lack {
    /// Shards that no node has, as after their index was deleted. OpenSearch counts them neither
    /// as failed nor as successful.
    Unavailable(String),
    Other(String),
}

impl<S> SearchResponse<S> {
    /// What it lacks; `None` if it is whole.
    pub(super) fn lack(&self) -> Option<Lack> {
        if self.timed_out {
            let reason = "a search timed out in OpenSearch".to_owned();
            return Some(Lack::Other(reason));
        }
        let Shards {
            total,
            successful,
            failed,
        } = self.shards;
        if failed > 0 {
            return Some(Lack::Other(format!("{failed} of {total} shards failed")));
        }
        let unavailable = total.saturating_sub(successful);
        if unavailable == 0 || planted(Bug::IgnoreMissingShards) {
            return None;
        }
        let reason = format!("{unavailable} of {total} shards are not available");
        Some(Lack::Unavailable(reason))
    }
}

#[derive(Deserialize)]
pub(super) struct Hits<S> {
    pub(super) total: Option<Total>,
    #[serde(default = "Vec::new")]
    pub(super) hits: Vec<RawHit<S>>,
}

impl<S> Hits<S> {
    fn none() -> Self {
        Self {
            total: None,
            hits: Vec::new(),
        }
    }
}

#[derive(Deserialize)]
pub(super) struct Total {
    pub(super) value: u64,
}

/// A hit, whose document is read as `S`.
#[derive(Deserialize)]
pub(super) struct RawHit<S> {
    #[serde(rename = "_id")]
    pub(super) id: String,
    #[serde(rename = "_version")]
    pub(super) version: Option<u64>,
    #[serde(rename = "_routing")]
    pub(super) routing: Option<String>,
    #[serde(rename = "_source")]
    pub(super) source: Option<S>,
    #[serde(default)]
    pub(super) sort: Vec<Value>,
}

/// The response of a `terms` aggregation of texts.
#[derive(Deserialize)]
pub(super) struct TermsResponse {
    pub(super) buckets: Vec<TermBucket>,
    #[serde(default)]
    pub(super) sum_other_doc_count: u64,
}

#[derive(Deserialize)]
pub(super) struct TermBucket {
    pub(super) key: String,
    pub(super) doc_count: u64,
}

//! Responses of `_search`.

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
    #[serde(default)]
    pub(super) total: u64,
    pub(super) failed: u64,
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

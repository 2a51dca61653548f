//! Ids and versions of stored documents, read page by page from one point in time.

use std::sync::Arc;

use async_trait::async_trait;
use fleetdex_core::{
    model::{document_id, index_fields},
    planted::{Bug, planted},
    query::Requester,
};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::{contexts::KEEP_ALIVE, extent::extent_queries};
use crate::{
    DocumentVersions, Extent, IndexRevision, MadeBy, StoreError, StoredVersion, Visit,
    opensearch::{
        connection::responses::{Purpose, fewer},
        engine::Engine,
    },
};

/// Most hits that OpenSearch returns in one page (`index.max_result_window`).
const PAGE: usize = 10_000;
/// The fields that are read of a response; the rest would be half of it.
const READ: &str =
    "filter_path=timed_out,_shards,pit_id,hits.hits._id,hits.hits._version,hits.hits.sort";

/// Namespace and name, then the parts of the id, which is unique within a cluster. OpenSearch 2
/// does not know `_shard_doc`. A missing value, such as the namespace of a node, or one that is too
/// long to be indexed, sorts first, like an empty text.
pub(crate) fn by_name() -> Value {
    let keys = [
        index_fields::NAMESPACE,
        index_fields::NAME,
        index_fields::UID,
        index_fields::API_VERSION,
        index_fields::KIND,
    ];
    keys.map(|key| json!({ key: { "order": "asc", "missing": "_first" } }))
        .into()
}

/// The query of documents that were made by certain rules.
fn made_by_clause(made_by: &MadeBy<'_>) -> Value {
    let by = |hash: &str| json!({ "term": { (index_fields::RULES_HASH): hash } });
    match made_by {
        MadeBy::Rules(hash) => by(hash),
        MadeBy::OtherRules(hash) => json!({ "bool": { "must_not": [by(hash)] } }),
        MadeBy::AnyRules => json!({ "exists": { "field": index_fields::RULES_HASH } }),
    }
}

#[async_trait]
impl DocumentVersions for Engine {
    async fn visit_versions(
        &self,
        revision: &IndexRevision,
        extent: &Extent,
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        let index = &revision.index;
        let _turn = self.contexts.0.visits.acquire().await;
        self.refresh_index(index).await?;
        let pit = self
            .open_pit(index.as_str(), false, &Requester::Operator)
            .await?;
        let mut outcome = Ok(());
        for query in extent_queries(extent) {
            outcome = self.visit_pit(&pit.id, &query, visit).await;
            if outcome.is_err() {
                break;
            }
        }
        pit.close().await;
        outcome
    }

    async fn has_documents_made_by(
        &self,
        revision: &IndexRevision,
        extent: &Extent,
        made_by: &MadeBy<'_>,
    ) -> Result<bool, StoreError> {
        let is_of_others = !matches!(made_by, MadeBy::Rules(_));
        if is_of_others && planted(Bug::KeepDocumentsOfOtherRules) {
            return Ok(false);
        }
        let clause = made_by_clause(made_by);
        let found = self.ids_of(revision, extent, &clause, 1).await?;
        Ok(!found.is_empty())
    }

    async fn rejected(
        &self,
        revision: &IndexRevision,
        extent: &Extent,
    ) -> Result<Vec<Arc<str>>, StoreError> {
        let rejected = json!({ "exists": { "field": index_fields::REJECTED } });
        // At most one page: a status that counted more of them would say nothing more.
        self.ids_of(revision, extent, &rejected, PAGE).await
    }
}

impl Engine {
    async fn visit_pit(
        &self,
        pit: &str,
        query: &Value,
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        let mut pit = pit.to_owned();
        let mut after: Option<Vec<Value>> = None;
        let mut size = PAGE;
        loop {
            let mut body = json!({
                "size": size,
                "pit": { "id": pit, "keep_alive": KEEP_ALIVE },
                "query": query,
                "sort": by_name(),
                "_source": false,
                "version": true,
                "track_total_hits": false,
            });
            if let Some(after) = &after {
                body["search_after"] = json!(after);
            }
            let answer = match self
                .run_search::<IgnoredAny>(Purpose::Upkeep, format!("/_search?{READ}"), &body)
                .await
            {
                Err(StoreError::AnswerTooLarge { .. }) if let Some(less) = fewer(size) => {
                    size = less;
                    continue;
                }
                other => other?,
            };
            for hit in &answer.hits.hits {
                let text = |position: usize| {
                    hit.sort
                        .get(position)
                        .and_then(Value::as_str)
                        .unwrap_or_default()
                };
                // OpenSearch's own counter starts at 1, so there is always a version to compare.
                if let Some(Ok(version)) = hit.version.map(|version| version.to_string().parse()) {
                    visit(StoredVersion {
                        id: document_id(&hit.id),
                        version,
                        namespace: text(0),
                        name: text(1),
                    });
                }
            }
            if answer.hits.hits.len() < size {
                return Ok(());
            }
            after = answer.hits.hits.into_iter().next_back().map(|hit| hit.sort);
            pit = answer.pit_id.unwrap_or(pit);
        }
    }

    /// The ids of documents of an extent that a query selects: `size` for each query of the extent
    /// at most.
    async fn ids_of(
        &self,
        revision: &IndexRevision,
        extent: &Extent,
        selected: &Value,
        size: usize,
    ) -> Result<Vec<Arc<str>>, StoreError> {
        let index = &revision.index;
        let _turn = self.contexts.0.visits.acquire().await;
        let mut ids = Vec::new();
        for query in extent_queries(extent) {
            let body = json!({
                "size": size,
                "query": { "bool": { "filter": [selected, query] } },
                "_source": false,
                "track_total_hits": false,
            });
            let path = format!("/{index}/_search?{READ}");
            let answer = self
                .run_search::<IgnoredAny>(Purpose::Upkeep, path, &body)
                .await?;
            let hits = answer.hits.hits.iter();
            ids.extend(hits.map(|hit| Arc::from(document_id(&hit.id))));
        }
        Ok(ids)
    }
}

//! The reading side of the engine.

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use fleetdex_core::{
    model::InvalidName,
    query::{
        CheckedRelatives, Cursor, GroupKey, Groups, Page, Query, QueryError, RankedPage,
        RankedQuery, Relative, RelativesQuery, ResourceName, ValueCounts, ValuesQuery,
        merge::SortedPage, owners::MAX_OWNERS,
    },
};
use serde::de::IgnoredAny;
use serde_json::Value;

use super::search_response::SearchResponse;
use crate::{
    IndexReader, StoreError,
    changes::Log,
    opensearch::{
        connection::responses::Purpose,
        dsl::relatives_body,
        engine::{Engine, search_path},
    },
};

#[async_trait]
impl IndexReader for Engine {
    async fn search(&self, query: &Query, from: Option<&Cursor>) -> Result<Page, StoreError> {
        match from {
            None => self.search_first(query).await,
            Some(cursor) => self.search_next(query, cursor).await,
        }
    }

    fn pin(&self, cursor: &Cursor) {
        self.contexts.0.quota.pin(&cursor.snapshot);
    }

    fn release(&self, cursor: &Cursor) {
        self.close_later(cursor.snapshot.clone());
    }

    async fn ranked_page(&self, query: &RankedQuery) -> Result<RankedPage, StoreError> {
        self.search_ranked(query).await
    }

    async fn frequent_values(&self, query: &ValuesQuery) -> Result<Vec<ValueCounts>, StoreError> {
        self.count_values(query).await
    }

    async fn relatives(&self, query: &RelativesQuery) -> Result<BTreeSet<Relative>, StoreError> {
        let body = relatives_body(CheckedRelatives::new(query)?);
        let Some(target) = self.target(&query.clusters, &query.permitted) else {
            return Ok(BTreeSet::new());
        };
        let path = search_path(&target);
        let answer = self.run_search(Purpose::Question, path, &body).await?;
        read_relatives(&answer)
    }

    async fn first_page(&self, query: &Query) -> Result<(Page, u64), StoreError> {
        // Before the search, which may show more.
        let visible = self.feed.visible_sequence(&query.resource).await;
        Ok((self.search_first(query).await?, visible))
    }

    async fn sorted_page(
        &self,
        query: &Query,
        from: Option<&Cursor>,
    ) -> Result<SortedPage, StoreError> {
        match from {
            None => self.placed_first(query).await,
            Some(cursor) => self.placed_next(query, cursor).await,
        }
    }

    async fn open_view(&self, query: &Query) -> Result<String, StoreError> {
        // Where nothing may be seen, nothing is left to read.
        let target = self
            .target(&query.clusters, &query.permitted)
            .ok_or(StoreError::Expired)?;
        Ok(self.open_pit(&target, true, &query.requester).await?.keep())
    }

    async fn visible_sequence(&self, resource: &ResourceName) -> Result<u64, StoreError> {
        Ok(self.feed.visible_sequence(resource).await)
    }

    async fn change_log(&self) -> Result<Arc<Log>, StoreError> {
        Ok(self.feed.change_log().await)
    }

    async fn aggregate(
        &self,
        query: &Query,
        by: &[GroupKey],
        top: usize,
    ) -> Result<Groups, StoreError> {
        self.count_groups(query, by, top).await
    }

    async fn groups(&self, query: &Query, by: &[GroupKey]) -> Result<Groups, StoreError> {
        self.find_groups(query, by).await
    }
}

fn read_relatives(answer: &SearchResponse<IgnoredAny>) -> Result<BTreeSet<Relative>, StoreError> {
    let found = answer.hits.total.as_ref().map_or(0, |total| total.value);
    if found > MAX_OWNERS as u64 {
        let (what, limit) = ("owners", MAX_OWNERS);
        let found = MAX_OWNERS + 1;
        return Err(QueryError::TooLarge { what, found, limit }.into());
    }
    let mut relatives = BTreeSet::new();
    for hit in &answer.hits.hits {
        let [
            Value::String(cluster),
            Value::String(uid),
            Value::String(group),
            Value::String(plural),
            namespace,
        ] = hit.sort.as_slice()
        else {
            continue;
        };
        let garbled = |error: InvalidName| StoreError::garbled("a search", error);
        relatives.insert(Relative {
            cluster: cluster.parse().map_err(garbled)?,
            namespace: namespace.as_str().unwrap_or_default().to_owned(),
            resource: ResourceName::new(group, plural),
            uid: uid.clone(),
        });
    }
    Ok(relatives)
}

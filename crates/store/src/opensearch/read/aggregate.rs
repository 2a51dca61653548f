//! Counts in groups: pages of `composite` aggregations, all from one point in time.

use fleetdex_core::query::{GroupKey, Groups, Query, QueryError, aggregate::GroupCounts};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Map, Value, json};

use super::{contexts::KEEP_ALIVE, search_response::SearchResponse};
use crate::{
    StoreError,
    opensearch::{
        connection::responses::{Purpose, fewer},
        dsl::composite::{Composite, PAGE, composites},
        engine::{Engine, search_path},
    },
};

/// Pages of one result at most: ten for the maximum number of groups, and room for buckets of other
/// labels.
const MAX_PAGES: usize = 50;

#[derive(Deserialize)]
struct Aggregations {
    groups: Buckets,
}

#[derive(Deserialize)]
struct Buckets {
    buckets: Vec<Bucket>,
    after_key: Option<Value>,
}

#[derive(Deserialize)]
struct Bucket {
    key: Map<String, Value>,
    doc_count: u64,
}

impl Engine {
    pub(crate) async fn count_groups(
        &self,
        query: &Query,
        by: &[GroupKey],
        top: usize,
    ) -> Result<Groups, StoreError> {
        let requests = composites(query, by)?;
        let Some(target) = self.target(&query.clusters, &query.permitted) else {
            return Ok(Groups::default());
        };
        if let [only] = requests.as_slice() {
            let mut tally = GroupCounts::default();
            let path = search_path(&target);
            if self
                .count_page(only, &path, None, None, &mut tally)
                .await?
                .is_none()
            {
                return Ok(tally.largest(top));
            }
        }
        // Only a count of several requests needs a point in time.
        let pit = match self.open_pit(&target, true, &query.requester).await {
            // Nothing of the query is visible yet. A first page had shown something.
            Err(StoreError::Expired) if requests.len() > 1 => return Ok(Groups::default()),
            opened => opened?,
        };
        let counted = self.count_all(&requests, "/_search", Some(&pit.id)).await;
        pit.close().await;
        Ok(counted?.largest(top))
    }

    /// The groups, page by page, each as of its own request: a point in time would take contexts,
    /// which are few.
    pub(crate) async fn find_groups(
        &self,
        query: &Query,
        by: &[GroupKey],
    ) -> Result<Groups, StoreError> {
        let requests = composites(query, by)?;
        let Some(target) = self.target(&query.clusters, &query.permitted) else {
            return Ok(Groups::default());
        };
        let path = search_path(&target);
        Ok(self
            .count_all(&requests, &path, None)
            .await?
            .largest(usize::MAX))
    }

    async fn count_all(
        &self,
        requests: &[Composite],
        path: &str,
        pit: Option<&str>,
    ) -> Result<GroupCounts, StoreError> {
        let mut tally = GroupCounts::default();
        let mut pages = 0;
        for request in requests {
            let mut after = None;
            loop {
                after = self
                    .count_page(request, path, pit, after.as_ref(), &mut tally)
                    .await?;
                pages += 1;
                if after.is_none() {
                    break;
                }
                if pages == MAX_PAGES {
                    let (what, found) = ("groups", pages * PAGE);
                    let limit = found;
                    return Err(QueryError::TooLarge { what, found, limit }.into());
                }
            }
        }
        Ok(tally)
    }

    /// Counts the buckets after another one. Returns the last of them, unless there are no more.
    async fn count_page(
        &self,
        request: &Composite,
        path: &str,
        pit: Option<&str>,
        after: Option<&Value>,
        tally: &mut GroupCounts,
    ) -> Result<Option<Value>, StoreError> {
        let mut size = PAGE;
        let answer = loop {
            let mut body = request.body(after, size);
            if let Some(id) = pit {
                body["pit"] = json!({ "id": id, "keep_alive": KEEP_ALIVE });
            }
            match self
                .run_search(Purpose::Question, path.to_owned(), &body)
                .await
            {
                Err(StoreError::AnswerTooLarge { .. }) if let Some(less) = fewer(size) => {
                    size = less;
                }
                other => break other?,
            }
        };
        if let Some(values) = request.only_group() {
            let total = answer.hits.total.map_or(0, |total| total.value);
            if total > 0 {
                tally.add(values, total)?;
            }
            return Ok(None);
        }
        let Some(page) = buckets(answer)? else {
            return Ok(None);
        };
        let is_last = page.buckets.len() < size;
        for bucket in page.buckets {
            if request.is_over(&bucket.key) {
                return Ok(None);
            }
            if let Some((values, count)) = request.read(&bucket.key, bucket.doc_count) {
                tally.add(values, count)?;
            }
        }
        Ok(page.after_key.filter(|_| !is_last))
    }
}

/// The buckets of a response; `None` if it covered no index.
fn buckets(answer: SearchResponse<IgnoredAny>) -> Result<Option<Buckets>, StoreError> {
    let Some(found) = answer.aggregations else {
        return Ok(None);
    };
    let read: Result<Aggregations, _> = serde_json::from_value(found);
    read.map(|aggregations| Some(aggregations.groups))
        .map_err(|error| StoreError::garbled("an aggregation", error))
}

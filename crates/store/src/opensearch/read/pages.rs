//! Pages of lists: the first one without a point in time where nothing follows it, further ones
//! from one.

use fleetdex_core::{
    model::{HitSource, quoted},
    planted::{Bug, planted},
    query::{
        CheckedQuery, Cursor, Hit, Page, Permitted, Query, SortKey,
        merge::{OrderKey, SortedHit, SortedPage},
    },
};
use serde::de::IgnoredAny;
use serde_json::Value;

use super::{
    contexts::KEEP_ALIVE,
    points_in_time::OpenPointInTime,
    search_response::{RawHit, SearchResponse},
};
use crate::{
    StoreError,
    opensearch::{
        connection::responses::{Purpose, fewer},
        dsl::{Paging, PointInTime, request_body},
        engine::{Engine, search_path},
    },
};

/// How often a list begins anew because an index was deleted while its first page was read.
const FIRST_ATTEMPTS: usize = 3;

impl Engine {
    /// Requests one page of at most `size` objects and, if that looks ahead, one more, which shows
    /// whether another page follows. A page that is too long is requested again with fewer objects,
    /// and `size` is reduced to that.
    async fn page(
        &self,
        query: &Query,
        path: &str,
        size: &mut PageSize,
        (snapshot, after): (Option<&str>, &[Value]),
        count: bool,
    ) -> Result<SearchResponse<HitSource>, StoreError> {
        let purpose = Purpose::from(&query.requester);
        let checked = CheckedQuery::new(query)?;
        loop {
            let paging = Paging {
                point_in_time: snapshot.map(|id| PointInTime {
                    id: id.to_owned(),
                    keep_alive: KEEP_ALIVE.to_owned(),
                }),
                after: after.to_vec(),
                limit: Some(size.limit),
                look_ahead: size.look_ahead,
                count_total: count,
            };
            let mut body = request_body(&checked, &paging);
            let answer = self.run_search(purpose, path.to_owned(), &body).await;
            match answer {
                // A view ends with any of its indices.
                Err(StoreError::Refused { status: 404, .. }) if snapshot.is_some() => {
                    return Err(StoreError::Expired);
                }
                Err(StoreError::AnswerTooLarge { limit, .. }) => {
                    tracing::debug!(resource = %query.resource.plural, objects = size.limit, "a page is requested again with fewer objects");
                    let Some(less) = size.less() else {
                        body["_source"] = false.into();
                        return Err(self.too_large_alone(purpose, path, &body, limit).await);
                    };
                    *size = less;
                }
                other => return other,
            }
        }
    }

    /// The error that names the only document that a search finds, which is too large.
    async fn too_large_alone(
        &self,
        purpose: Purpose,
        path: &str,
        body: &Value,
        limit: usize,
    ) -> StoreError {
        let found = self
            .run_search::<IgnoredAny>(purpose, path.to_owned(), body)
            .await;
        let id = found
            .ok()
            .and_then(|answer| answer.hits.hits.into_iter().next())
            .map(|hit| hit.id);
        let operation = match id {
            Some(id) => format!("a search that finds document {} alone", quoted(&id)),
            None => "a search that finds one document".to_owned(),
        };
        StoreError::AnswerTooLarge { operation, limit }
    }

    /// Requests the first page, and opens a point in time if others follow. `None` if no index can
    /// have an object of the query.
    async fn first_response(&self, query: &Query) -> Result<Option<FirstResponse>, StoreError> {
        let Some(target) = self.target(&query.clusters, &query.permitted) else {
            return Ok(None);
        };
        let mut attempts = 1;
        loop {
            match self.try_first_response(query, &target).await {
                // An index was deleted between two requests; the next ones do not name it.
                Err(StoreError::Expired) if attempts < FIRST_ATTEMPTS => attempts += 1,
                response => return response.map(Some),
            }
        }
    }

    async fn try_first_response(
        &self,
        query: &Query,
        target: &str,
    ) -> Result<FirstResponse, StoreError> {
        let path = search_path(target);
        let mut size = PageSize::of(query);
        let answer = self
            .page(query, &path, &mut size, (None, &[]), false)
            .await?;
        if !size.leaves_more(&answer) {
            return Ok(FirstResponse {
                answer,
                size,
                pit: None,
            });
        }
        // The same page is read once more, and needs memory.
        drop(answer);
        // Only a list of several pages needs a point in time.
        let mut pit = self.open_pit(target, true, &query.requester).await?;
        let mut answer = self
            .page(query, "/_search", &mut size, (Some(&pit.id), &[]), true)
            .await?;
        pit.renamed(answer.pit_id.take());
        Ok(FirstResponse {
            answer,
            size,
            pit: Some(pit),
        })
    }

    /// Requests the page after a cursor.
    async fn next_response(
        &self,
        query: &Query,
        cursor: &Cursor,
    ) -> Result<NextResponse, StoreError> {
        self.use_pit(cursor)?;
        let mut size = PageSize::of(query);
        let from = (Some(cursor.snapshot.as_str()), cursor.after.as_slice());
        let mut answer = self.page(query, "/_search", &mut size, from, false).await?;
        let pit = answer.pit_id.take();
        Ok(NextResponse {
            shards: answer.shards.total,
            answer,
            size,
            pit: pit.unwrap_or_else(|| cursor.snapshot.clone()),
        })
    }

    pub(crate) async fn search_first(&self, query: &Query) -> Result<Page, StoreError> {
        let Some(FirstResponse { answer, size, pit }) = self.first_response(query).await? else {
            return Ok(Page::default());
        };
        let page = read_page(answer, size, pit.as_ref().map(|pit| pit.id.as_str()), None)?;
        match (pit, &page.next) {
            (Some(pit), Some(_)) => drop(pit.keep()),
            (Some(pit), None) => pit.close().await,
            (None, _) => {}
        }
        Ok(page)
    }

    pub(crate) async fn search_next(
        &self,
        query: &Query,
        cursor: &Cursor,
    ) -> Result<Page, StoreError> {
        let seen_by_all = planted(Bug::ForgetPermissionOfFurtherPages).then(|| Query {
            permitted: Permitted::Everything,
            ..query.clone()
        });
        let query = seen_by_all.as_ref().unwrap_or(query);
        let next = self.next_response(query, cursor).await?;
        let page = read_page(next.answer, next.size, Some(&next.pit), cursor.remaining)?;
        match page.next {
            Some(_) => self.adopt_pit(&next.pit, next.shards, &query.requester),
            None => self.close_pit(&next.pit).await,
        }
        Ok(page)
    }

    /// One page, and the sort position of each object. `left`: how many objects are left from there
    /// on, where known.
    fn placed(
        query: &Query,
        size: PageSize,
        mut answer: SearchResponse<HitSource>,
        left: Option<u64>,
    ) -> Result<SortedPage, StoreError> {
        let more = size.leaves_more(&answer);
        let mut hits = std::mem::take(&mut answer.hits.hits);
        hits.truncate(size.limit);
        let left = left.or_else(|| answer.hits.total.map(|total| total.value));
        let remaining = left
            .map(|left| left.saturating_sub(hits.len() as u64))
            .filter(|_| more);
        let items = hits
            .into_iter()
            .map(|hit| read_placed(query, hit))
            .collect::<Result<Vec<_>, StoreError>>()?;
        Ok(SortedPage {
            items,
            view: None,
            more,
            remaining,
        })
    }

    pub(crate) async fn placed_first(&self, query: &Query) -> Result<SortedPage, StoreError> {
        let Some(FirstResponse { answer, size, pit }) = self.first_response(query).await? else {
            return Ok(SortedPage::default());
        };
        let page = Self::placed(query, size, answer, None)?;
        Ok(SortedPage {
            view: pit.map(OpenPointInTime::keep),
            ..page
        })
    }

    pub(crate) async fn placed_next(
        &self,
        query: &Query,
        cursor: &Cursor,
    ) -> Result<SortedPage, StoreError> {
        let next = self.next_response(query, cursor).await?;
        let page = Self::placed(query, next.size, next.answer, cursor.remaining)?;
        self.adopt_pit(&next.pit, next.shards, &query.requester);
        Ok(SortedPage {
            view: Some(next.pit),
            ..page
        })
    }
}

/// The first page of a list.
struct FirstResponse {
    answer: SearchResponse<HitSource>,
    size: PageSize,
    /// The point in time of further pages, if there are any.
    pit: Option<OpenPointInTime>,
}

/// A further page of a list.
struct NextResponse {
    answer: SearchResponse<HitSource>,
    size: PageSize,
    /// The id of the point in time after this search.
    pit: String,
    shards: u64,
}

/// The size of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PageSize {
    limit: usize,
    /// Whether one object more is requested.
    look_ahead: bool,
}

impl PageSize {
    fn of(query: &Query) -> Self {
        Self {
            limit: query.limit,
            look_ahead: true,
        }
    }

    /// The next smaller size; `None` after a single object.
    fn less(self) -> Option<Self> {
        match fewer(self.limit) {
            Some(limit) => Some(Self { limit, ..self }),
            None if self.look_ahead => Some(Self {
                look_ahead: false,
                ..self
            }),
            None => None,
        }
    }

    /// Whether another page follows. An object that was requested alone does not tell: then the
    /// page after it may be empty.
    fn leaves_more<S>(self, answer: &SearchResponse<S>) -> bool {
        let found = answer.hits.hits.len();
        if self.look_ahead {
            found > self.limit
        } else {
            found == self.limit
        }
    }
}

/// The objects of a page. `snapshot`: the point in time of further pages. `left_before`: how many
/// objects were left before this page, where that has been counted.
fn read_page(
    mut answer: SearchResponse<HitSource>,
    size: PageSize,
    snapshot: Option<&str>,
    left_before: Option<u64>,
) -> Result<Page, StoreError> {
    let more = size.leaves_more(&answer);
    let mut hits = std::mem::take(&mut answer.hits.hits);
    hits.truncate(size.limit);
    let after = hits.last().map(|hit| hit.sort.clone()).unwrap_or_default();
    let items = hits
        .into_iter()
        .map(read_hit)
        .collect::<Result<Vec<_>, StoreError>>()?;
    let left_before = left_before.or_else(|| answer.hits.total.map(|total| total.value));
    let remaining = left_before
        .map(|left| left.saturating_sub(items.len() as u64))
        .filter(|_| more && snapshot.is_some());
    let next = snapshot.filter(|_| more).map(|snapshot| Cursor {
        snapshot: snapshot.to_owned(),
        after,
        remaining,
    });
    Ok(Page {
        items,
        next,
        remaining,
    })
}

/// An object and its sort position: its sort values are those of the query's keys, of the cluster
/// unless that is one of the keys, of UID and `apiVersion`.
fn read_placed(query: &Query, hit: RawHit<HitSource>) -> Result<SortedHit, StoreError> {
    let after = hit.sort.clone();
    let key = |value: &Value| match value {
        // A missing number is sent as the least or the greatest one, and sorts where absent values
        // do.
        Value::Number(number) => number
            .as_i64()
            .filter(|time| ![i64::MIN, i64::MAX].contains(time))
            .map(OrderKey::Time),
        Value::String(text) => OrderKey::of_text(text),
        _ => None,
    };
    let mut order: Vec<Option<OrderKey>> = after.iter().map(key).collect();
    if let Some(position) = query
        .sort
        .iter()
        .position(|sort| sort.key == SortKey::Cluster)
    {
        let cluster = order.get(position).cloned().flatten();
        order.insert(query.sort.len().min(order.len()), cluster);
    }
    Ok(SortedHit {
        hit: read_hit(hit)?,
        order,
        after,
    })
}

pub(crate) fn read_hit(hit: RawHit<HitSource>) -> Result<Hit, StoreError> {
    let (id, memory) = (hit.id, hit.memory);
    let garbled = |reason: String| StoreError::garbled("a search", reason);
    let HitSource(restored) = hit
        .source
        .ok_or_else(|| garbled(format!("document {id} has no source")))?;
    let restored = restored.map_err(|error| garbled(format!("document {id}: {error}")))?;
    Ok(Hit {
        cluster: restored.cluster,
        object: restored.object,
        interpretation: restored.interpretation.map(Box::new),
        memory,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_that_is_none_of_ours_is_named() {
        let answer = json!({ "timed_out": false, "_shards": { "total": 1, "successful": 1, "failed": 0 }, "hits": { "hits": [{ "_id": "v1/Pod/u", "_source": {} }] } });
        let answer: SearchResponse<HitSource> =
            SearchResponse::parse(answer.to_string().as_bytes()).unwrap();
        let error = read_page(
            answer,
            PageSize {
                limit: 10,
                look_ahead: true,
            },
            None,
            None,
        )
        .unwrap_err();
        assert!(
            error
                .to_string()
                .contains("document v1/Pod/u: missing field `cluster`"),
            "{error}"
        );
    }
}

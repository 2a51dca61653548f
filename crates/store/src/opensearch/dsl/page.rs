//! The `_search` for one page of a query.

use fleetdex_core::{
    model::{index_fields, sort_field},
    query::{CheckedQuery, Query, Sort, SortKey},
};
use serde_json::{Value, json};

use super::clauses::query_clause;

/// Which page of a list to ask for, and how.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Paging {
    /// The point in time to read from.
    pub point_in_time: Option<PointInTime>,
    /// Sort values of the last object of the page before; empty for the first page.
    pub after: Vec<Value>,
    /// Objects in the page, if fewer than the query's limit.
    pub limit: Option<usize>,
    /// Ask for one object more than the page holds, which shows whether another page follows.
    pub look_ahead: bool,
    /// Count every match exactly, which costs time.
    pub count_total: bool,
}

/// An open point in time of OpenSearch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PointInTime {
    /// Its `pit_id`.
    pub id: String,
    /// How much longer to keep it open, such as `5m`.
    pub keep_alive: String,
}

/// The body of the `_search` request for one page of a query.
pub fn request_body(checked: &CheckedQuery<'_>, paging: &Paging) -> Value {
    let query = checked.query();
    let limit = paging
        .limit
        .map_or(query.limit, |limit| limit.min(query.limit));
    let mut body = json!({
        "size": limit + usize::from(paging.look_ahead),
        "track_total_hits": paging.count_total,
        "query": query_clause(checked),
        "sort": sort(query),
    });
    if let Some(PointInTime { id, keep_alive }) = &paging.point_in_time {
        body["pit"] = json!({ "id": id, "keep_alive": keep_alive });
    }
    if !paging.after.is_empty() {
        body["search_after"] = Value::Array(paging.after.clone());
    }
    body
}

/// The query's sort keys, followed by a tie-breaker, so that no page repeats or loses an object.
///
/// The tie-breaker is cluster, UID and version, which identify each document of a resource.
/// OpenSearch 2 has no `_shard_doc`.
fn sort(query: &Query) -> Value {
    let mut keys: Vec<Value> = query.sort.iter().map(sort_key).collect();
    if query.sort.iter().all(|sort| sort.key != SortKey::Cluster) {
        keys.push(json!({ (index_fields::CLUSTER): { "order": "asc" } }));
    }
    keys.push(json!({ (index_fields::UID): { "order": "asc" } }));
    keys.push(json!({ (index_fields::API_VERSION): { "order": "asc" } }));
    keys.into()
}

fn sort_key(sort: &Sort) -> Value {
    let order = if sort.descending { "desc" } else { "asc" };
    // An object without a namespace sorts as if it were empty, one without a time as the oldest.
    // `missing` is always set: with its default, OpenSearch loses objects without a time between
    // pages.
    let missing = if sort.descending { "_last" } else { "_first" };
    match &sort.key {
        SortKey::Namespace => {
            json!({ (index_fields::NAMESPACE): { "order": order, "missing": missing } })
        }
        SortKey::Name => json!({ (index_fields::NAME): { "order": order } }),
        SortKey::Cluster => json!({ (index_fields::CLUSTER): { "order": order } }),
        SortKey::CreationTimestamp => {
            json!({ (index_fields::CREATION_TIMESTAMP): { "order": order, "missing": missing } })
        }
        // An index has no such field before some object has a value of it.
        SortKey::Field(path, _) => {
            let field = format!("{}.{}", index_fields::SORT, sort_field(path));
            json!({ field: { "order": order, "missing": missing, "unmapped_type": "keyword" } })
        }
    }
}

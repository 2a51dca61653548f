//! What OpenSearch is asked for a query: the bodies of the `_search` requests, without sending
//! them.
//!
//! They are the same for every store, because an embedded store answers as OpenSearch would.

use fleetdex_core::query::{CheckedQuery, GroupKey, Query, QueryError};
use serde_json::Value;

use crate::opensearch::dsl::{
    Paging,
    composite::{PAGE, composites},
    request_body,
};

pub use crate::opensearch::dsl::ranked_body as ranked_page;

/// The first page of a query. It has one object more than is returned, which shows whether another
/// page follows.
pub fn first_page(query: &Query) -> Result<Value, QueryError> {
    let paging = Paging {
        look_ahead: true,
        ..Paging::default()
    };
    Ok(request_body(&CheckedQuery::new(query)?, &paging))
}

/// The first page of a query for a person who sends it: no object more, and an exact count.
pub fn counted_page(query: &Query) -> Result<Value, QueryError> {
    let paging = Paging {
        count_total: true,
        ..Paging::default()
    };
    Ok(request_body(&CheckedQuery::new(query)?, &paging))
}

/// The first page of each request that counts the objects of a query in groups.
pub fn groups(query: &Query, by: &[GroupKey]) -> Result<Vec<Value>, QueryError> {
    let requests = composites(query, by)?;
    Ok(requests
        .iter()
        .map(|request| request.body(None, PAGE))
        .collect())
}

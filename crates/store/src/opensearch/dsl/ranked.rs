//! The `_search` for one page over several resources.

use fleetdex_core::{
    model::index_fields,
    query::{Facet, QueryError, RankPosition, RankedQuery},
};
use serde_json::{Map, Value, json};

use super::selections::selected;

/// Values of a facet that a store returns: enough for the largest of several stores together.
const FACET_VALUES: usize = 1_000;
/// Values that each shard returns, so that counts are exact up to so many.
const SHARD_VALUES: usize = 10_000;

/// What is fetched of each document: what identifies its object, and how it is.
const SOURCE: [&str; 11] = [
    index_fields::API_VERSION,
    index_fields::KIND,
    index_fields::CLUSTER,
    index_fields::NAME,
    index_fields::NAMESPACE,
    index_fields::UID,
    index_fields::RESOURCE_VERSION,
    index_fields::CREATION_TIMESTAMP,
    index_fields::HEALTH_FIELDS,
    index_fields::INTERPRETED_BY,
    index_fields::REJECTED,
];

/// The body of the `_search` for one page over several resources. It asks for one object more than
/// the page holds, which shows whether another page follows, and for an exact count.
pub fn ranked_body(ranked: &RankedQuery) -> Result<Value, QueryError> {
    let checked = ranked.checked()?;
    let mut body = json!({
        "size": ranked.limit + 1,
        "track_total_hits": true,
        "_source": SOURCE,
        "query": selected(&checked)?,
        "sort": [
            { "_score": { "order": "desc" } },
            { (index_fields::CREATION_TIMESTAMP): { "order": "desc", "missing": "_last" } },
            { (index_fields::CLUSTER): { "order": "asc" } },
            { (index_fields::UID): { "order": "asc" } },
            { (index_fields::API_VERSION): { "order": "asc" } },
            { (index_fields::KIND): { "order": "asc" } },
        ],
    });
    if let Some(position) = &ranked.after {
        body["search_after"] = search_after(position);
    }
    if !ranked.facets.is_empty() {
        let facets = ranked.facets.iter().copied().map(facet);
        body["aggs"] = facets.collect::<Map<_, _>>().into();
    }
    Ok(body)
}

fn search_after(position: &RankPosition) -> Value {
    let p = position;
    // OpenSearch sends and reads a missing time as the least one.
    let created = p.created.0.unwrap_or(i64::MIN);
    json!([p.score.0, created, p.cluster, p.uid, p.api_version, p.kind])
}

fn facet(facet: Facet) -> (String, Value) {
    let terms = json!({ "terms": {
        "field": facet.field(),
        "size": FACET_VALUES,
        "shard_size": SHARD_VALUES,
        "order": [{ "_count": "desc" }, { "_key": "asc" }],
    } });
    (facet.name().to_owned(), terms)
}

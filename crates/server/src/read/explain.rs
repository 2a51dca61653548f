//! Explanations of queries: the OpenSearch requests, what the caller may see, and an estimate of
//! the cost.
//!
//! Owners are looked up even so, because the OpenSearch requests name them.

use std::time::Duration;

use fleetdex_core::query::{Grant, Permitted};
use fleetdex_query_api::{
    answer::{Explanation, StoreRequests},
    question::{AggregateRequest, ListRequest},
};
use fleetdex_store::explain;
use serde_json::{Value, json};

use super::query_plan::{QueryPlan, refused};
use crate::{api_error::ApiError, store_timeout::in_time};

/// How long the store may take to count.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Explains a list.
pub async fn list(plan: &QueryPlan, request: &ListRequest) -> Result<Explanation, ApiError> {
    let mut bodies = Vec::new();
    for part in plan.stores.parts() {
        let body = explain::first_page(&part.query(&plan.query));
        bodies.push(vec![
            body.map_err(|error| ApiError::bad_request(error.to_string()))?,
        ]);
    }
    let objects = count(plan).await?;
    let page = plan.query.limit as u64;
    let pages = if request.limit.is_some() {
        objects.min(1)
    } else {
        objects.div_ceil(page)
    };
    Ok(document(
        plan,
        bodies,
        json!({ "objects": objects, "pageSize": page, "pages": pages }),
    ))
}

/// Explains counts.
pub async fn counts(plan: &QueryPlan, request: &AggregateRequest) -> Result<Explanation, ApiError> {
    let mut bodies = Vec::new();
    for part in plan.stores.parts() {
        let of_part = explain::groups(&part.query(&plan.query), &request.by);
        bodies.push(of_part.map_err(|error| refused("by", &error, &part.name))?);
    }
    Ok(document(
        plan,
        bodies,
        json!({ "objects": count(plan).await? }),
    ))
}

/// The number of objects that the query selects, counted in the index.
async fn count(plan: &QueryPlan) -> Result<u64, ApiError> {
    if plan.is_empty {
        return Ok(0);
    }
    let counted = in_time(TIMEOUT, plan.stores.aggregate(&plan.query, &[], 1));
    Ok(counted.await?.total)
}

/// The explanation; `bodies` are the request bodies of each store.
fn document(plan: &QueryPlan, bodies: Vec<Vec<Value>>, mut estimate: Value) -> Explanation {
    let parts = plan.stores.parts().iter().zip(&bodies);
    let of_store = parts.map(|(part, requests)| StoreRequests {
        store: part.name.to_string(),
        requests: requests.clone(),
    });
    let stores = of_store.filter(|_| bodies.len() > 1).collect();
    let requests: Vec<Value> = bodies.into_iter().flatten().collect();
    let sizes = requests.iter().map(|request| size(&request["query"]));
    let size = sizes.fold(QuerySize::default(), QuerySize::plus);
    estimate["requests"] = requests.len().into();
    estimate["clauses"] = size.clauses.into();
    estimate["values"] = size.values.into();
    Explanation {
        store: Some(plan.stores.names()),
        permitted: Some(permitted(&plan.query.permitted)),
        estimate: Some(estimate),
        stores,
        ..Explanation::of(requests)
    }
}

/// `"everything"`, or the clusters and namespaces that the caller may see.
fn permitted(permitted: &Permitted) -> Value {
    let shown = |grant: &Grant| {
        let clusters = texts(grant.clusters.as_ref());
        let namespaces = texts(grant.namespaces.as_ref());
        json!({ "clusters": clusters, "namespaces": namespaces })
    };
    match permitted {
        Permitted::Everything => json!("everything"),
        Permitted::Only(grants) => grants.iter().map(shown).collect(),
    }
}

fn texts<N: ToString>(names: Option<&Vec<N>>) -> Value {
    let texts = |names: &Vec<N>| names.iter().map(ToString::to_string).collect();
    names.map_or_else(|| json!("all"), texts)
}

/// The size of a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct QuerySize {
    clauses: usize,
    values: usize,
}

impl QuerySize {
    fn plus(self, other: Self) -> Self {
        Self {
            clauses: self.clauses + other.clauses,
            values: self.values + other.values,
        }
    }
}

/// Counts the leaf clauses and their values.
fn size(clause: &Value) -> QuerySize {
    let Some((kind, body)) = clause.as_object().and_then(|members| members.iter().next()) else {
        return QuerySize::default();
    };
    let parts = body
        .as_object()
        .into_iter()
        .flat_map(serde_json::Map::values);
    if kind == "bool" {
        let sizes = parts.filter_map(Value::as_array).flatten().map(size);
        return sizes.fold(QuerySize::default(), QuerySize::plus);
    }
    let values = parts.map(|value| match value {
        Value::Array(values) => values.len(),
        Value::Object(bounds) => bounds.len(),
        _ => 1,
    });
    QuerySize {
        clauses: 1,
        values: values.sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clauses_and_values_are_counted_at_every_depth() {
        let query = json!({ "bool": {
            "filter": [{ "term": { "a": "b" } }, { "terms": { "c": ["d", "e"] } }, { "bool": { "should": [{ "match_all": {} }] } }],
            "must_not": [{ "range": { "f": { "gt": "g", "lt": "h" } } }],
        } });
        assert_eq!(
            size(&query),
            QuerySize {
                clauses: 4,
                values: 5
            }
        );
    }
}

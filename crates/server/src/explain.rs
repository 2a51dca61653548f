//! How a question would be answered, instead of the answer: what OpenSearch is asked, what the caller may see, and what it costs.
//!
//! Owners are looked for even so, because the question names them.

use std::time::Duration;

use fleetdex_core::query::{
    Grant, Permitted, QueryError,
    composite::{self, composites},
    dsl::{self, Paging},
};
use serde_json::{Value, json, value::RawValue};
use tokio::time::timeout;

use super::{
    aggregate::raw,
    request::{AggregateRequest, GROUPS, ListRequest, VERSION},
    status::ApiError,
    target::Target,
};

/// How long the store may take to count.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Explains a list.
pub async fn list(target: &Target, request: &ListRequest) -> Result<Box<RawValue>, ApiError> {
    let paging = Paging {
        look_ahead: true,
        ..Paging::default()
    };
    let mut bodies = Vec::new();
    for part in target.stores.parts() {
        bodies.push(vec![
            dsl::request_body(&part.query(&target.query), &paging)
                .map_err(|error| refused(&error))?,
        ]);
    }
    let objects = count(target).await?;
    let page = target.query.limit as u64;
    let pages = if request.limit.is_some() {
        objects.min(1)
    } else {
        objects.div_ceil(page)
    };
    answer(
        target,
        &bodies,
        json!({ "objects": objects, "pageSize": page, "pages": pages }),
    )
}

/// Explains counts.
pub async fn counts(
    target: &Target,
    request: &AggregateRequest,
) -> Result<Box<RawValue>, ApiError> {
    let mut bodies = Vec::new();
    for part in target.stores.parts() {
        let requests = composites(&part.query(&target.query), &request.by)
            .map_err(|error| super::target::refused("by", &error, &part.name))?;
        let of_part: Result<Vec<Value>, QueryError> = requests
            .iter()
            .map(|request| request.body(None, composite::PAGE))
            .collect();
        bodies.push(of_part.map_err(|error| refused(&error))?);
    }
    answer(target, &bodies, json!({ "objects": count(target).await? }))
}

fn refused(error: &QueryError) -> ApiError {
    ApiError::bad_request(error.to_string())
}

/// Objects that the query selects: counted in the index, none is read.
async fn count(target: &Target) -> Result<u64, ApiError> {
    if target.nothing_to_ask {
        return Ok(0);
    }
    let counted = timeout(TIMEOUT, target.stores.aggregate(&target.query, &[], 1)).await;
    Ok(counted
        .map_err(|_| ApiError::Timeout(TIMEOUT.as_secs()))??
        .total)
}

/// `bodies`: what each store is asked.
fn answer(
    target: &Target,
    bodies: &[Vec<Value>],
    mut estimate: Value,
) -> Result<Box<RawValue>, ApiError> {
    let requests: Vec<&Value> = bodies.iter().flatten().collect();
    let size = requests
        .iter()
        .map(|request| size(&request["query"]))
        .fold(Size::default(), Size::plus);
    estimate["requests"] = requests.len().into();
    estimate["clauses"] = size.clauses.into();
    estimate["values"] = size.values.into();
    let mut explanation = json!({
        "kind": "Explanation",
        "apiVersion": format!("{}/{VERSION}", GROUPS[0]),
        "metadata": {},
        "store": target.stores.names(),
        "permitted": permitted(&target.query.permitted),
        "estimate": estimate,
        "requests": requests,
    });
    if bodies.len() > 1 {
        let stores = target.stores.parts().iter().zip(bodies);
        explanation["stores"] = stores
            .map(|(part, requests)| json!({ "store": part.name.as_str(), "requests": requests }))
            .collect();
    }
    raw(&explanation)
}

/// `"everything"`, or the clusters and namespaces of which an object has to be in one.
fn permitted(permitted: &Permitted) -> Value {
    let list =
        |names: Option<Vec<String>>| names.map_or_else(|| json!("all"), |names| json!(names));
    let shown = |grant: &Grant| {
        let clusters = grant
            .clusters
            .as_ref()
            .map(|names| names.iter().map(ToString::to_string).collect());
        let namespaces = grant
            .namespaces
            .as_ref()
            .map(|names| names.iter().map(ToString::to_string).collect());
        json!({ "clusters": list(clusters), "namespaces": list(namespaces) })
    };
    match permitted {
        Permitted::Everything => json!("everything"),
        Permitted::Only(grants) => grants.iter().map(shown).collect(),
    }
}

/// How much a query asks at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Size {
    clauses: usize,
    values: usize,
}

impl Size {
    fn plus(self, other: Self) -> Self {
        Self {
            clauses: self.clauses + other.clauses,
            values: self.values + other.values,
        }
    }
}

/// The clauses that are no combination of others, and the values that they name.
fn size(clause: &Value) -> Size {
    let Some((kind, body)) = clause.as_object().and_then(|members| members.iter().next()) else {
        return Size::default();
    };
    if kind == "bool" {
        let parts = body
            .as_object()
            .into_iter()
            .flat_map(serde_json::Map::values);
        return parts
            .filter_map(Value::as_array)
            .flatten()
            .map(size)
            .fold(Size::default(), Size::plus);
    }
    let values = body
        .as_object()
        .into_iter()
        .flat_map(serde_json::Map::values)
        .map(|value| match value {
            Value::Array(values) => values.len(),
            Value::Object(bounds) => bounds.len(),
            _ => 1,
        });
    Size {
        clauses: 1,
        values: values.sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clauses_and_values_are_counted_wherever_they_stand() {
        let query = json!({ "bool": {
            "filter": [{ "term": { "a": "b" } }, { "terms": { "c": ["d", "e"] } }, { "bool": { "should": [{ "match_all": {} }] } }],
            "must_not": [{ "range": { "f": { "gt": "g", "lt": "h" } } }],
        } });
        assert_eq!(
            size(&query),
            Size {
                clauses: 4,
                values: 5
            }
        );
    }
}

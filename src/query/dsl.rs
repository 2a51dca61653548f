//! Queries to the JSON of OpenSearch's `_search`.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{Query, QueryError, Sort, SortKey, field_term, label_number_term, label_term};
use crate::{
    model::FieldPath,
    selector::{FieldRequirement, FieldTest, LabelRequirement, LabelTest},
};

/// Clauses of one `bool` query that OpenSearch takes (`indices.query.bool.max_clause_count`).
const MAX_CLAUSES: usize = 1024;

/// Values of one `terms` query that OpenSearch takes (`index.max_terms_count`).
const MAX_VALUES: usize = 65_536;

/// Which page of an answer to ask for, and how.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Paging {
    /// The point in time to read from; with it, ties are broken by `_shard_doc`, which is never ambiguous.
    pub snapshot: Option<Snapshot>,
    /// Sort values of the last object of the page before; empty for the first page.
    pub after: Vec<Value>,
    /// Ask for one object more than the query's limit, which tells whether another page follows.
    pub look_ahead: bool,
    /// Count every match exactly, which costs time.
    pub count_total: bool,
}

/// An open point in time of OpenSearch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Its `pit_id`.
    pub id: String,
    /// How much longer to keep it open, such as `5m`.
    pub keep_alive: String,
}

/// The body of the `_search` request that answers one page of a query.
pub fn request_body(query: &Query, paging: &Paging) -> Result<Value, QueryError> {
    let size = query.limit.saturating_add(usize::from(paging.look_ahead));
    let mut body = json!({
        "size": size,
        "track_total_hits": paging.count_total,
        "query": query_clause(query)?,
        "sort": sort(query, paging),
    });
    if let Some(snapshot) = &paging.snapshot {
        body["pit"] = json!({ "id": snapshot.id, "keep_alive": snapshot.keep_alive });
    }
    if !paging.after.is_empty() {
        body["search_after"] = Value::Array(paging.after.clone());
    }
    Ok(body)
}

/// The `query` part alone, for `_count` and `_delete_by_query`.
pub fn query_clause(query: &Query) -> Result<Value, QueryError> {
    query.check()?;
    let mut clauses = Clauses::default();
    clauses.filter.push(term("search.group", &query.resource.group));
    clauses.filter.push(term("search.resource", &query.resource.plural));
    clauses.one_of("cluster", query.clusters.iter().map(ToString::to_string).collect())?;
    clauses.one_of("metadata.namespace", query.namespaces.iter().map(ToString::to_string).collect())?;
    clauses.one_of("metadata.name", query.names.clone())?;
    for requirement in query.labels.requirements() {
        clauses.label(requirement)?;
    }
    for requirement in query.fields.requirements() {
        clauses.field(query, requirement)?;
    }
    clauses.into_bool()
}

/// What must and what must not match.
#[derive(Default)]
struct Clauses {
    filter: Vec<Value>,
    must_not: Vec<Value>,
}

impl Clauses {
    /// No values at all ask for nothing.
    fn one_of(&mut self, field: &str, values: Vec<String>) -> Result<(), QueryError> {
        if !values.is_empty() {
            self.filter.push(any_of(field, values)?);
        }
        Ok(())
    }

    fn label(&mut self, requirement: &LabelRequirement) -> Result<(), QueryError> {
        let key = requirement.key();
        let terms =
            |values: &BTreeSet<String>| any_of("search.labels", values.iter().map(|value| label_term(key, value)).collect());
        match requirement.test() {
            LabelTest::In(values) => self.filter.push(terms(values)?),
            LabelTest::NotIn(values) => self.must_not.push(terms(values)?),
            LabelTest::Exists => self.filter.push(term("search.labelKeys", key)),
            LabelTest::DoesNotExist => self.must_not.push(term("search.labelKeys", key)),
            LabelTest::GreaterThan(bound) => {
                let over = json!({ "gt": label_number_term(key, *bound), "lte": label_number_term(key, i64::MAX) });
                self.filter.push(range("search.numbers", &over));
            }
            LabelTest::LessThan(bound) => {
                let under = json!({ "gte": label_number_term(key, i64::MIN), "lt": label_number_term(key, *bound) });
                self.filter.push(range("search.numbers", &under));
            }
        }
        Ok(())
    }

    fn field(&mut self, query: &Query, requirement: &FieldRequirement) -> Result<(), QueryError> {
        let test = &requirement.test;
        let Some(path) = query.selectable.stored_path(requirement.path.as_str())? else {
            let everything_or_nothing = if test.accepts("") { "match_all" } else { "match_none" };
            self.filter.push(json!({ everything_or_nothing: {} }));
            return Ok(());
        };
        let always_stored = query.selectable.is_always_stored(&path);
        let reads_one = reads_one_of(&path, always_stored, test)?;
        match test {
            FieldTest::In(_) => self.filter.push(reads_one),
            FieldTest::NotIn(_) => self.must_not.push(reads_one),
        }
        Ok(())
    }

    fn into_bool(self) -> Result<Value, QueryError> {
        let found = self.filter.len() + self.must_not.len();
        if found > MAX_CLAUSES {
            return Err(QueryError::TooLarge { what: "requirements", found, limit: MAX_CLAUSES });
        }
        let mut clauses = Map::new();
        clauses.insert("filter".to_owned(), self.filter.into());
        if !self.must_not.is_empty() {
            clauses.insert("must_not".to_owned(), self.must_not.into());
        }
        Ok(json!({ "bool": clauses }))
    }
}

/// The field reads one of the values that the test names. An absent optional field reads empty, too, but has no term that says so.
fn reads_one_of(path: &FieldPath, always_stored: bool, test: &FieldTest) -> Result<Value, QueryError> {
    let own_field = matches!(path.as_str(), "metadata.name" | "metadata.namespace");
    let asks_for_empty = test.values().contains("");
    if always_stored || (!own_field && !asks_for_empty) {
        return any_of("search.fields", test.values().iter().map(|value| field_term(path.as_str(), value)).collect());
    }
    let (field, not_empty) = if own_field {
        (path.as_str(), json!({ "exists": { "field": path.as_str() } }))
    } else {
        // '>' follows '=' in ASCII: everything between them starts with "path=" and goes on.
        let from_path = json!({ "gt": format!("{path}="), "lt": format!("{path}>") });
        ("search.fields", range("search.fields", &from_path))
    };
    let keyword = |value: &String| {
        if own_field { value.clone() } else { field_term(path.as_str(), value) }
    };
    let others: Vec<String> = test.values().iter().filter(|value| !value.is_empty()).map(keyword).collect();
    if !asks_for_empty {
        return any_of(field, others);
    }
    let empty = json!({ "bool": { "must_not": [not_empty] } });
    if others.is_empty() {
        return Ok(empty);
    }
    Ok(json!({ "bool": { "should": [empty, any_of(field, others)?], "minimum_should_match": 1 } }))
}

fn term(field: &str, value: &str) -> Value {
    json!({ "term": { field: value } })
}

fn range(field: &str, bounds: &Value) -> Value {
    json!({ "range": { field: bounds } })
}

fn any_of(field: &str, mut values: Vec<String>) -> Result<Value, QueryError> {
    if values.len() > MAX_VALUES {
        return Err(QueryError::TooLarge { what: "values in one set", found: values.len(), limit: MAX_VALUES });
    }
    match (values.pop(), values.is_empty()) {
        (Some(only), true) => Ok(term(field, &only)),
        (last, _) => {
            values.extend(last);
            Ok(json!({ "terms": { field: values } }))
        }
    }
}

/// The query's keys, then what tells equal ones apart, so that no page repeats or loses an object.
fn sort(query: &Query, paging: &Paging) -> Value {
    let mut keys: Vec<Value> = query.sort.iter().map(sort_key).collect();
    keys.push(json!({ "metadata.uid": { "order": "asc" } }));
    if paging.snapshot.is_some() {
        keys.push(json!({ "_shard_doc": { "order": "asc" } }));
    }
    keys.into()
}

fn sort_key(sort: &Sort) -> Value {
    let order = if sort.descending { "desc" } else { "asc" };
    // An object without a namespace sorts as if it were empty.
    let missing = if sort.descending { "_last" } else { "_first" };
    match sort.key {
        SortKey::Namespace => {
            json!({ "metadata.namespace": { "order": order, "missing": missing } })
        }
        SortKey::Name => json!({ "metadata.name": { "order": order } }),
        SortKey::Cluster => json!({ "cluster": { "order": order } }),
        SortKey::CreationTimestamp => json!({ "metadata.creationTimestamp": { "order": order } }),
    }
}

//! Queries to the JSON of OpenSearch's `_search`.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{
    Grant, Owners, Permitted, Query, QueryError, Relation, Relatives, Sort, SortKey, field_term,
    label_number_term, label_term, owners::MAX_OWNERS,
};
use crate::{
    model::{Quantity, quantity, sort_field},
    selector::{Comparison, FieldRequirement, FieldTest, LabelRequirement, LabelTest},
};

/// Clauses of one `bool` query that OpenSearch takes (`indices.query.bool.max_clause_count`).
const MAX_CLAUSES: usize = 1024;

/// Values of one `terms` query that OpenSearch takes (`index.max_terms_count`).
const MAX_VALUES: usize = 65_536;

/// Objects of one page at most: OpenSearch gives 10,000 hits (`index.max_result_window`), and one more than the page tells whether
/// another page follows.
pub const MAX_LIMIT: usize = 9_999;

/// Which page of an answer to ask for, and how.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Paging {
    /// The point in time to read from.
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
    if query.limit > MAX_LIMIT {
        return Err(QueryError::TooLarge {
            what: "objects in one page",
            found: query.limit,
            limit: MAX_LIMIT,
        });
    }
    let size = query.limit + usize::from(paging.look_ahead);
    let mut body = json!({
        "size": size,
        "track_total_hits": paging.count_total,
        "query": query_clause(query)?,
        "sort": sort(query),
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
    clauses
        .filter
        .push(term("search.group", &query.resource.group));
    clauses
        .filter
        .push(term("search.resource", &query.resource.plural));
    clauses.one_of(
        "cluster",
        query.clusters.iter().map(ToString::to_string).collect(),
    )?;
    clauses.one_of(
        "metadata.namespace",
        query.namespaces.iter().map(ToString::to_string).collect(),
    )?;
    clauses.one_of("metadata.name", query.names.clone())?;
    clauses.permission(&query.permitted)?;
    clauses.created(query);
    if let Some(owners) = &query.owners {
        clauses.owned(owners)?;
    }
    for requirement in query.labels.requirements() {
        clauses.label(requirement)?;
    }
    for requirement in query.fields.requirements() {
        clauses.field(query, requirement)?;
    }
    clauses.into_bool()
}

/// The body of the `_search` that finds relatives: what is told of each are its sort values ([`RELATIVE_KEYS`]). One more than may be found tells that there are
/// too many.
pub fn relatives_body(asked: &Relatives) -> Result<Value, QueryError> {
    let mut clauses = Clauses::default();
    clauses.one_of(
        "cluster",
        asked.clusters.iter().map(ToString::to_string).collect(),
    )?;
    if !asked.namespaces.is_empty() {
        let inside = any_of(
            "metadata.namespace",
            asked.namespaces.iter().map(ToString::to_string).collect(),
        )?;
        let outside =
            json!({ "bool": { "must_not": [{ "exists": { "field": "metadata.namespace" } }] } });
        clauses
            .filter
            .push(json!({ "bool": { "should": [inside, outside], "minimum_should_match": 1 } }));
    }
    clauses.permission(&asked.permitted)?;
    match &asked.relation {
        Relation::Named { resource, names } => {
            if let Some(resource) = resource {
                clauses.filter.push(term("search.group", &resource.group));
                clauses
                    .filter
                    .push(term("search.resource", &resource.plural));
            }
            clauses.filter.push(any_of("metadata.name", names.clone())?);
        }
        Relation::OwnedBy(owners) => clauses.owned(owners)?,
    }
    Ok(json!({
        "size": MAX_OWNERS,
        "track_total_hits": MAX_OWNERS + 1,
        "_source": false,
        "query": clauses.into_bool()?,
        "sort": RELATIVE_KEYS.map(|key| json!({ key: { "order": "asc" } })),
    }))
}

/// What is told of a relative: its cluster, UID, group, plural, and namespace if it has one.
pub const RELATIVE_KEYS: [&str; 5] = [
    "cluster",
    "metadata.uid",
    "search.group",
    "search.resource",
    "metadata.namespace",
];

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

    fn permission(&mut self, permitted: &Permitted) -> Result<(), QueryError> {
        let Permitted::Only(grants) = permitted else {
            return Ok(());
        };
        let covering: Vec<&Grant> = grants.iter().filter(|grant| !grant.is_empty()).collect();
        let mut alternatives = Vec::new();
        for grant in covering {
            let mut parts = Self::default();
            parts.one_of(
                "cluster",
                grant
                    .clusters
                    .iter()
                    .flatten()
                    .map(ToString::to_string)
                    .collect(),
            )?;
            parts.one_of(
                "metadata.namespace",
                grant
                    .namespaces
                    .iter()
                    .flatten()
                    .map(ToString::to_string)
                    .collect(),
            )?;
            if parts.filter.is_empty() {
                return Ok(());
            }
            alternatives.push(parts.filter);
        }
        // OpenSearch counts the clauses of alternatives, too.
        let found = alternatives.iter().map(Vec::len).sum();
        if found > MAX_CLAUSES {
            return Err(QueryError::TooLarge {
                what: "permissions",
                found,
                limit: MAX_CLAUSES,
            });
        }
        match alternatives.pop() {
            None => self.filter.push(json!({ "match_none": {} })),
            Some(only) if alternatives.is_empty() => self.filter.extend(only),
            Some(last) => {
                alternatives.push(last);
                let should: Vec<Value> = alternatives
                    .into_iter()
                    .map(|parts| json!({ "bool": { "filter": parts } }))
                    .collect();
                self.filter
                    .push(json!({ "bool": { "should": should, "minimum_should_match": 1 } }));
            }
        }
        Ok(())
    }

    fn created(&mut self, query: &Query) {
        let mut bounds = Map::new();
        bounds.extend(query.since.map(|since| ("gte".to_owned(), since.into())));
        bounds.extend(query.before.map(|before| ("lt".to_owned(), before.into())));
        if !bounds.is_empty() {
            self.filter
                .push(range("metadata.creationTimestamp", &bounds.into()));
        }
    }

    fn owned(&mut self, owners: &Owners) -> Result<(), QueryError> {
        let mut alternatives = Vec::new();
        for (cluster, uids) in owners.by_cluster() {
            let mut parts = Self::default();
            parts.one_of("cluster", cluster.iter().map(ToString::to_string).collect())?;
            parts
                .filter
                .push(any_of("search.owners", uids.iter().cloned().collect())?);
            alternatives.push(json!({ "bool": { "filter": parts.filter } }));
        }
        // Each has a clause for its cluster and one for its owners.
        if alternatives.len() > MAX_CLAUSES / 2 {
            let (found, limit) = (alternatives.len(), MAX_CLAUSES / 2);
            return Err(QueryError::TooLarge {
                what: "clusters with owners",
                found,
                limit,
            });
        }
        self.filter.push(if alternatives.is_empty() {
            json!({ "match_none": {} })
        } else {
            json!({ "bool": { "should": alternatives, "minimum_should_match": 1 } })
        });
        Ok(())
    }

    fn label(&mut self, requirement: &LabelRequirement) -> Result<(), QueryError> {
        let key = requirement.key();
        let terms = |values: &BTreeSet<String>| {
            any_of(
                "search.labels",
                values.iter().map(|value| label_term(key, value)).collect(),
            )
        };
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
            let everything_or_nothing = if test.accepts("") {
                "match_all"
            } else {
                "match_none"
            };
            self.filter.push(json!({ everything_or_nothing: {} }));
            return Ok(());
        };
        let field = StoredField {
            path: path.as_str(),
            always_stored: query.selectable.is_always_stored(&path),
        };
        if let FieldTest::Compares(comparison, bound) = test {
            self.filter.push(field.compares(*comparison, *bound));
            return Ok(());
        }
        let asks_for_empty = !field.has_term_for_empty() && test.values().contains("");
        let named: Vec<&String> = test
            .values()
            .iter()
            .filter(|value| !(asks_for_empty && value.is_empty()))
            .collect();
        match (test, asks_for_empty, named.is_empty()) {
            (FieldTest::In(_), false, _) => self.filter.push(field.reads_one_of(&named)?),
            (FieldTest::NotIn(_), false, _) => self.must_not.push(field.reads_one_of(&named)?),
            (FieldTest::In(_), true, true) => self.must_not.push(field.is_not_empty()),
            (FieldTest::In(_), true, false) => {
                let empty = json!({ "bool": { "must_not": [field.is_not_empty()] } });
                let either = json!({ "bool": { "should": [empty, field.reads_one_of(&named)?], "minimum_should_match": 1 } });
                self.filter.push(either);
            }
            (FieldTest::Compares(..), ..) => {}
            (FieldTest::NotIn(_), true, true) => self.filter.push(field.is_not_empty()),
            (FieldTest::NotIn(_), true, false) => {
                self.filter.push(field.is_not_empty());
                self.must_not.push(field.reads_one_of(&named)?);
            }
        }
        Ok(())
    }

    fn into_bool(self) -> Result<Value, QueryError> {
        let found = self.filter.len() + self.must_not.len();
        if found > MAX_CLAUSES {
            return Err(QueryError::TooLarge {
                what: "requirements",
                found,
                limit: MAX_CLAUSES,
            });
        }
        let mut clauses = Map::new();
        clauses.insert("filter".to_owned(), self.filter.into());
        if !self.must_not.is_empty() {
            clauses.insert("must_not".to_owned(), self.must_not.into());
        }
        Ok(json!({ "bool": clauses }))
    }
}

/// A selectable field, and where documents hold it.
struct StoredField<'a> {
    path: &'a str,
    /// Every document has a term for it.
    always_stored: bool,
}

impl StoredField<'_> {
    /// Name and namespace are mapped under their own paths.
    fn has_own_field(&self) -> bool {
        matches!(self.path, "metadata.name" | "metadata.namespace")
    }

    /// An absent optional field reads empty, too, but has no term that says so.
    fn has_term_for_empty(&self) -> bool {
        self.always_stored && !self.has_own_field()
    }

    fn reads_one_of(&self, values: &[&String]) -> Result<Value, QueryError> {
        if self.has_own_field() {
            return any_of(self.path, values.iter().map(ToString::to_string).collect());
        }
        any_of(
            "search.fields",
            values
                .iter()
                .map(|value| field_term(self.path, value))
                .collect(),
        )
    }

    fn compares(&self, comparison: Comparison, bound: Quantity) -> Value {
        let bound = quantity::field_term(self.path, bound);
        // '>' follows '=' in ASCII: all numbers of the field lie between these.
        let (least, beyond) = (format!("{}=", self.path), format!("{}>", self.path));
        let bounds = match comparison {
            Comparison::Above => json!({ "gt": bound, "lt": beyond }),
            Comparison::From => json!({ "gte": bound, "lt": beyond }),
            Comparison::Below => json!({ "gt": least, "lt": bound }),
            Comparison::UpTo => json!({ "gt": least, "lte": bound }),
        };
        range("search.numbers", &bounds)
    }

    fn is_not_empty(&self) -> Value {
        if self.has_own_field() {
            return json!({ "exists": { "field": self.path } });
        }
        // '>' follows '=' in ASCII: what lies between these starts with "path=" and goes on.
        range(
            "search.fields",
            &json!({ "gt": format!("{}=", self.path), "lt": format!("{}>", self.path) }),
        )
    }
}

fn term(field: &str, value: &str) -> Value {
    json!({ "term": { field: value } })
}

fn range(field: &str, bounds: &Value) -> Value {
    json!({ "range": { field: bounds } })
}

fn any_of(field: &str, mut values: Vec<String>) -> Result<Value, QueryError> {
    if values.len() > MAX_VALUES {
        return Err(QueryError::TooLarge {
            what: "values in one set",
            found: values.len(),
            limit: MAX_VALUES,
        });
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
///
/// Not `_shard_doc`, which OpenSearch 2 does not know: cluster, UID and version tell all documents of a resource apart.
fn sort(query: &Query) -> Value {
    let mut keys: Vec<Value> = query.sort.iter().map(sort_key).collect();
    if query.sort.iter().all(|sort| sort.key != SortKey::Cluster) {
        keys.push(json!({ "cluster": { "order": "asc" } }));
    }
    keys.push(json!({ "metadata.uid": { "order": "asc" } }));
    keys.push(json!({ "apiVersion": { "order": "asc" } }));
    keys.into()
}

fn sort_key(sort: &Sort) -> Value {
    let order = if sort.descending { "desc" } else { "asc" };
    // An object without a namespace sorts as if it were empty, one without a time as the oldest. Always said: left to its default,
    // OpenSearch loses objects without a time between pages.
    let missing = if sort.descending { "_last" } else { "_first" };
    match &sort.key {
        SortKey::Namespace => {
            json!({ "metadata.namespace": { "order": order, "missing": missing } })
        }
        SortKey::Name => json!({ "metadata.name": { "order": order } }),
        SortKey::Cluster => json!({ "cluster": { "order": order } }),
        SortKey::CreationTimestamp => {
            json!({ "metadata.creationTimestamp": { "order": order, "missing": missing } })
        }
        // An index has no such field before some object has a value of it.
        SortKey::Field(path, _) => {
            let field = format!("search.sort.{}", sort_field(path));
            json!({ field: { "order": order, "missing": missing, "unmapped_type": "keyword" } })
        }
    }
}

#[cfg(test)]
mod tests;

//! Translates checked queries to the JSON of OpenSearch's `_search`.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{
    CheckedQuery, CheckedRelatives, Grant, Owners, Permitted, Query, Relation, Sort, SortKey,
    checked::StoredField, field_term, label_number_term, label_term, owners::MAX_OWNERS,
};
use crate::{
    model::{DEPENDS_ON, Quantity, quantity, sort_field},
    selector::{Comparison, FieldTest, LabelRequirement, LabelTest},
};

mod ranked;

pub use ranked::{ranked_body, resources_clause, values_body};

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

/// The `query` part alone, for `_count` and `_delete_by_query`.
pub fn query_clause(checked: &CheckedQuery<'_>) -> Value {
    let resource = &checked.query().resource;
    let mut clauses = Clauses::default();
    clauses.filter.push(term("search.group", &resource.group));
    clauses
        .filter
        .push(term("search.resource", &resource.plural));
    clauses.select(checked);
    for word in checked.query().words.words() {
        let side = if word.is_negated {
            &mut clauses.must_not
        } else {
            &mut clauses.filter
        };
        side.push(word.clause());
    }
    clauses.into_bool()
}

/// The body of the `_search` that finds relatives. The sort values ([`RELATIVE_KEYS`]) are all that it returns of each. The body asks for an exact count up to
/// one more than may be found, so that too many are noticed.
pub fn relatives_body(checked: CheckedRelatives<'_>) -> Value {
    let relatives = checked.relatives();
    let mut clauses = Clauses::default();
    clauses.one_of("cluster", texts(&relatives.clusters));
    if !relatives.namespaces.is_empty() {
        let inside = any_of("metadata.namespace", texts(&relatives.namespaces));
        let outside =
            json!({ "bool": { "must_not": [{ "exists": { "field": "metadata.namespace" } }] } });
        clauses
            .filter
            .push(json!({ "bool": { "should": [inside, outside], "minimum_should_match": 1 } }));
    }
    clauses.permission(&relatives.permitted);
    match &relatives.relation {
        Relation::Named { resource, names } => {
            if let Some(resource) = resource {
                clauses.filter.push(term("search.group", &resource.group));
                clauses
                    .filter
                    .push(term("search.resource", &resource.plural));
            }
            clauses.filter.push(any_of("metadata.name", names.clone()));
        }
        Relation::OwnedBy(owners) => clauses.owned(owners),
        Relation::DependsOn(terms) => {
            let terms = terms.iter().map(|term| field_term(DEPENDS_ON, term));
            clauses
                .filter
                .push(any_of("search.fields", terms.collect()));
        }
    }
    json!({
        "size": MAX_OWNERS,
        "track_total_hits": MAX_OWNERS + 1,
        "_source": false,
        "query": clauses.into_bool(),
        "sort": RELATIVE_KEYS.map(|key| json!({ key: { "order": "asc" } })),
    })
}

/// The sort keys of a search for relatives: cluster, UID, group, plural, and namespace where there is one.
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
    /// Requires everything that a query does, but for its resource and its words.
    fn select(&mut self, checked: &CheckedQuery<'_>) {
        let query = checked.query();
        self.one_of("cluster", texts(&query.clusters));
        self.one_of("metadata.namespace", texts(&query.namespaces));
        self.one_of("metadata.name", query.names.clone());
        self.permission(&query.permitted);
        self.created(query);
        if let Some(owners) = &query.owners {
            self.owned(owners);
        }
        for requirement in query.labels.requirements() {
            self.label(requirement);
        }
        for (requirement, field) in checked.fields() {
            self.field(&requirement.test, field);
        }
    }

    /// Requires one of some values; anything if there are none.
    fn one_of(&mut self, field: &str, values: Vec<String>) {
        if !values.is_empty() {
            self.filter.push(any_of(field, values));
        }
    }

    fn permission(&mut self, permitted: &Permitted) {
        let Permitted::Only(grants) = permitted else {
            return;
        };
        let mut alternatives = Vec::new();
        for grant in grants.iter().filter(|grant| !grant.is_empty()) {
            let parts = Self::of_grant(grant);
            if parts.filter.is_empty() {
                return;
            }
            alternatives.push(parts.filter);
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
    }

    fn of_grant(grant: &Grant) -> Self {
        let mut parts = Self::default();
        parts.one_of("cluster", texts(grant.clusters.iter().flatten()));
        parts.one_of(
            "metadata.namespace",
            texts(grant.namespaces.iter().flatten()),
        );
        parts
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

    fn owned(&mut self, owners: &Owners) {
        let mut alternatives = Vec::new();
        for (cluster, uids) in owners.by_cluster() {
            let mut parts = Self::default();
            parts.one_of("cluster", texts(cluster));
            parts.filter.push(any_of("search.owners", texts(uids)));
            alternatives.push(json!({ "bool": { "filter": parts.filter } }));
        }
        self.filter.push(if alternatives.is_empty() {
            json!({ "match_none": {} })
        } else {
            json!({ "bool": { "should": alternatives, "minimum_should_match": 1 } })
        });
    }

    fn label(&mut self, requirement: &LabelRequirement) {
        let key = requirement.key();
        let terms = |values: &BTreeSet<String>| {
            any_of(
                "search.labels",
                values.iter().map(|value| label_term(key, value)).collect(),
            )
        };
        match requirement.test() {
            LabelTest::In(values) => self.filter.push(terms(values)),
            LabelTest::NotIn(values) => self.must_not.push(terms(values)),
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
    }

    /// `field`: absent for one that always reads empty.
    fn field(&mut self, test: &FieldTest, field: Option<&StoredField>) {
        let Some(field) = field else {
            let everything_or_nothing = if test.accepts("") {
                "match_all"
            } else {
                "match_none"
            };
            self.filter.push(json!({ everything_or_nothing: {} }));
            return;
        };
        let tests_empty = field.tests_empty(test);
        let values = field.term_values(test);
        match (test, tests_empty, values.is_empty()) {
            (FieldTest::Compares(comparison, bound), ..) => {
                self.filter.push(field.compares(*comparison, *bound));
            }
            (FieldTest::In(_), false, _) => self.filter.push(field.reads_one_of(&values)),
            (FieldTest::NotIn(_), false, _) => self.must_not.push(field.reads_one_of(&values)),
            (FieldTest::In(_), true, true) => self.must_not.push(field.is_not_empty()),
            (FieldTest::In(_), true, false) => {
                let empty = json!({ "bool": { "must_not": [field.is_not_empty()] } });
                let either = json!({ "bool": { "should": [empty, field.reads_one_of(&values)], "minimum_should_match": 1 } });
                self.filter.push(either);
            }
            (FieldTest::NotIn(_), true, true) => self.filter.push(field.is_not_empty()),
            (FieldTest::NotIn(_), true, false) => {
                self.filter.push(field.is_not_empty());
                self.must_not.push(field.reads_one_of(&values));
            }
        }
    }

    fn into_bool(self) -> Value {
        let mut clauses = Map::new();
        clauses.insert("filter".to_owned(), self.filter.into());
        if !self.must_not.is_empty() {
            clauses.insert("must_not".to_owned(), self.must_not.into());
        }
        json!({ "bool": clauses })
    }
}

impl StoredField {
    fn reads_one_of(&self, values: &[&String]) -> Value {
        if self.is_mapped() {
            return any_of(self.path.as_str(), texts(values));
        }
        let terms = values
            .iter()
            .map(|value| field_term(self.path.as_str(), value));
        any_of("search.fields", terms.collect())
    }

    fn compares(&self, comparison: Comparison, bound: Quantity) -> Value {
        let bound = quantity::field_term(self.path.as_str(), bound);
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
        if self.is_mapped() {
            return json!({ "exists": { "field": self.path.as_str() } });
        }
        // '>' follows '=' in ASCII: what lies between these starts with "path=" and goes on.
        range(
            "search.fields",
            &json!({ "gt": format!("{}=", self.path), "lt": format!("{}>", self.path) }),
        )
    }
}

fn texts<T: ToString>(values: impl IntoIterator<Item = T>) -> Vec<String> {
    values.into_iter().map(|value| value.to_string()).collect()
}

fn term(field: &str, value: &str) -> Value {
    json!({ "term": { field: value } })
}

fn range(field: &str, bounds: &Value) -> Value {
    json!({ "range": { field: bounds } })
}

fn any_of(field: &str, mut values: Vec<String>) -> Value {
    match (values.pop(), values.is_empty()) {
        (Some(only), true) => term(field, &only),
        (last, _) => {
            values.extend(last);
            json!({ "terms": { field: values } })
        }
    }
}

/// The query's sort keys, followed by a tie-breaker, so that no page repeats or loses an object.
///
/// The tie-breaker is cluster, UID and version, which identify each document of a resource. OpenSearch 2 has no `_shard_doc`.
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
    // An object without a namespace sorts as if it were empty, one without a time as the oldest. `missing` is always set: with its
    // default, OpenSearch loses objects without a time between pages.
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

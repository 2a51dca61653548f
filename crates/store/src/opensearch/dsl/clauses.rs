//! The clauses of what a query selects.

use std::collections::BTreeSet;

use fleetdex_core::{
    model::{Quantity, index_fields, quantity},
    query::{
        CheckedQuery, Grant, Owners, Permitted, Query, ResourceName, StoredField, field_term,
        label_number_term, label_term,
    },
    selector::{Comparison, FieldTest, LabelRequirement, LabelTest},
};
use serde_json::{Map, Value, json};

use super::words::{either, word_clause};

/// The `query` part alone, for `_count` and `_delete_by_query`.
pub fn query_clause(checked: &CheckedQuery<'_>) -> Value {
    let mut clauses = Clauses::default();
    clauses
        .filter
        .extend(of_resource(&checked.query().resource));
    clauses.select(checked);
    for word in checked.query().words.words() {
        let side = if word.is_negated {
            &mut clauses.must_not
        } else {
            &mut clauses.filter
        };
        side.push(word_clause(word));
    }
    clauses.into_bool()
}

/// What must and what must not match.
#[derive(Default)]
pub(super) struct Clauses {
    pub(super) filter: Vec<Value>,
    pub(super) must_not: Vec<Value>,
}

impl Clauses {
    /// Requires everything that a query does, but for its resource and its words.
    pub(super) fn select(&mut self, checked: &CheckedQuery<'_>) {
        let query = checked.query();
        self.one_of(index_fields::CLUSTER, texts(&query.clusters));
        self.one_of(index_fields::NAMESPACE, texts(&query.namespaces));
        self.one_of(index_fields::NAME, query.names.clone());
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
    pub(super) fn one_of(&mut self, field: &str, values: Vec<String>) {
        if !values.is_empty() {
            self.filter.push(any_of(field, values));
        }
    }

    pub(super) fn permission(&mut self, permitted: &Permitted) {
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
                self.filter.push(either(should));
            }
        }
    }

    fn of_grant(grant: &Grant) -> Self {
        let mut parts = Self::default();
        parts.one_of(
            index_fields::CLUSTER,
            texts(grant.clusters.iter().flatten()),
        );
        parts.one_of(
            index_fields::NAMESPACE,
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
                .push(range(index_fields::CREATION_TIMESTAMP, &bounds.into()));
        }
    }

    pub(super) fn owned(&mut self, owners: &Owners) {
        let mut alternatives = Vec::new();
        for (cluster, uids) in owners.by_cluster() {
            let mut parts = Self::default();
            parts.one_of(index_fields::CLUSTER, texts(cluster));
            parts.filter.push(any_of(index_fields::OWNERS, texts(uids)));
            alternatives.push(json!({ "bool": { "filter": parts.filter } }));
        }
        self.filter.push(if alternatives.is_empty() {
            json!({ "match_none": {} })
        } else {
            either(alternatives)
        });
    }

    fn label(&mut self, requirement: &LabelRequirement) {
        let key = requirement.key();
        let terms = |values: &BTreeSet<String>| {
            any_of(
                index_fields::LABELS,
                values.iter().map(|value| label_term(key, value)).collect(),
            )
        };
        match requirement.test() {
            LabelTest::In(values) => self.filter.push(terms(values)),
            LabelTest::NotIn(values) => self.must_not.push(terms(values)),
            LabelTest::Exists => self.filter.push(term(index_fields::LABEL_KEYS, key)),
            LabelTest::DoesNotExist => self.must_not.push(term(index_fields::LABEL_KEYS, key)),
            LabelTest::GreaterThan(bound) => {
                let over = json!({ "gt": label_number_term(key, *bound), "lte": label_number_term(key, i64::MAX) });
                self.filter.push(range(index_fields::NUMBERS, &over));
            }
            LabelTest::LessThan(bound) => {
                let under = json!({ "gte": label_number_term(key, i64::MIN), "lt": label_number_term(key, *bound) });
                self.filter.push(range(index_fields::NUMBERS, &under));
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
                self.filter.push(compares(field, *comparison, *bound));
            }
            (FieldTest::In(_), false, _) => self.filter.push(reads_one_of(field, &values)),
            (FieldTest::NotIn(_), false, _) => self.must_not.push(reads_one_of(field, &values)),
            (FieldTest::In(_), true, true) => self.must_not.push(is_not_empty(field)),
            (FieldTest::In(_), true, false) => {
                let empty = json!({ "bool": { "must_not": [is_not_empty(field)] } });
                self.filter
                    .push(either([empty, reads_one_of(field, &values)]));
            }
            (FieldTest::NotIn(_), true, true) => self.filter.push(is_not_empty(field)),
            (FieldTest::NotIn(_), true, false) => {
                self.filter.push(is_not_empty(field));
                self.must_not.push(reads_one_of(field, &values));
            }
        }
    }

    pub(super) fn into_bool(self) -> Value {
        let mut clauses = Map::new();
        clauses.insert("filter".to_owned(), self.filter.into());
        if !self.must_not.is_empty() {
            clauses.insert("must_not".to_owned(), self.must_not.into());
        }
        json!({ "bool": clauses })
    }
}

fn reads_one_of(field: &StoredField, values: &[&String]) -> Value {
    if field.is_mapped() {
        return any_of(field.path.as_str(), texts(values));
    }
    let terms = values
        .iter()
        .map(|value| field_term(field.path.as_str(), value));
    any_of(index_fields::FIELDS, terms.collect())
}

fn compares(field: &StoredField, comparison: Comparison, bound: Quantity) -> Value {
    let bound = quantity::field_term(field.path.as_str(), bound);
    // '>' follows '=' in ASCII: all numbers of the field lie between these.
    let (least, beyond) = (format!("{}=", field.path), format!("{}>", field.path));
    let bounds = match comparison {
        Comparison::Above => json!({ "gt": bound, "lt": beyond }),
        Comparison::From => json!({ "gte": bound, "lt": beyond }),
        Comparison::Below => json!({ "gt": least, "lt": bound }),
        Comparison::UpTo => json!({ "gt": least, "lte": bound }),
    };
    range(index_fields::NUMBERS, &bounds)
}

fn is_not_empty(field: &StoredField) -> Value {
    if field.is_mapped() {
        return json!({ "exists": { "field": field.path.as_str() } });
    }
    // '>' follows '=' in ASCII: what lies between these starts with "path=" and goes on.
    range(
        index_fields::FIELDS,
        &json!({ "gt": format!("{}=", field.path), "lt": format!("{}>", field.path) }),
    )
}

pub(super) fn texts<T: ToString>(values: impl IntoIterator<Item = T>) -> Vec<String> {
    values.into_iter().map(|value| value.to_string()).collect()
}

pub(super) fn term(field: &str, value: &str) -> Value {
    json!({ "term": { field: value } })
}

/// The clauses of the documents of a resource.
pub(crate) fn of_resource(resource: &ResourceName) -> [Value; 2] {
    let ResourceName { group, plural } = resource;
    [
        term(index_fields::GROUP, group),
        term(index_fields::RESOURCE, plural),
    ]
}

pub(super) fn range(field: &str, bounds: &Value) -> Value {
    json!({ "range": { field: bounds } })
}

pub(super) fn any_of(field: &str, mut values: Vec<String>) -> Value {
    match (values.pop(), values.is_empty()) {
        (Some(only), true) => term(field, &only),
        (last, _) => {
            values.extend(last);
            json!({ "terms": { field: values } })
        }
    }
}

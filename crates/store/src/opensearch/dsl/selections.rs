//! What several resources' queries select, as one query.

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_core::{
    model::index_fields,
    query::{CheckedQuery, QueryError, ResourceName, WordSelector, check_clauses},
};
use serde_json::{Value, json};

use super::{
    clauses::{Clauses, term},
    words::{either, scored_clause, word_clause},
};

/// The clause of the documents of some resources.
pub fn resources_clause(resources: &BTreeSet<ResourceName>) -> Value {
    // Without clauses the query below would match everything.
    if resources.is_empty() {
        return json!({ "match_none": {} });
    }
    let mut by_group: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for resource in resources {
        by_group
            .entry(&resource.group)
            .or_default()
            .push(&resource.plural);
    }
    let of_group = |(group, plurals): (&str, Vec<&str>)| json!({ "bool": { "filter": [term(index_fields::GROUP, group), { "terms": { index_fields::RESOURCE: plurals } }] } });
    either(by_group.into_iter().map(of_group).collect::<Vec<Value>>())
}

/// Resources of which the same is selected, by the clauses of the selection.
#[derive(Default)]
struct Selections(BTreeMap<String, (Clauses, BTreeSet<ResourceName>)>);

impl Selections {
    fn add(&mut self, checked: &CheckedQuery<'_>) {
        let mut clauses = Clauses::default();
        clauses.select(checked);
        let key = format!("{:?} {:?}", clauses.filter, clauses.must_not);
        let (_, resources) = self
            .0
            .entry(key)
            .or_insert_with(|| (clauses, BTreeSet::new()));
        resources.insert(checked.query().resource.clone());
    }

    fn into_clause(self) -> Value {
        let alternatives = self.0.into_values().map(|(mut clauses, resources)| {
            clauses.filter.push(resources_clause(&resources));
            clauses.into_bool()
        });
        let alternatives: Vec<Value> = alternatives.collect();
        if alternatives.is_empty() {
            return json!({ "match_none": {} });
        }
        either(alternatives)
    }
}

/// The query of the documents that one of some queries selects; they all have the same words.
pub(super) fn selected(checked: &[CheckedQuery<'_>]) -> Result<Value, QueryError> {
    let mut selections = Selections::default();
    let mut clauses = 0;
    for query in checked {
        let known = selections.0.len();
        selections.add(query);
        if selections.0.len() > known {
            clauses += query.clauses_without_words();
        }
    }
    let words = checked.first().map(|first| &first.query().words);
    clauses += words.map_or(0, WordSelector::clauses);
    check_clauses(clauses)?;
    let words = words.into_iter().flat_map(WordSelector::words);
    let (refused, wanted): (Vec<_>, Vec<_>) = words.partition(|word| word.is_negated);
    let wanted: Vec<Value> = wanted.iter().map(|word| scored_clause(word)).collect();
    let refused: Vec<Value> = refused.iter().map(|word| word_clause(word)).collect();
    Ok(json!({ "bool": {
        "filter": [selections.into_clause()],
        "must": wanted,
        "must_not": refused,
    } }))
}

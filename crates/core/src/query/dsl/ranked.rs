//! The `_search` of several resources.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::{Clauses, term};
use crate::query::{
    CheckedQuery, Facet, QueryError, RankPosition, RankedQuery, ResourceName, ValuePrefix,
    ValuesQuery, WordSelector,
    checked::{MAX_CLAUSES, at_most},
    values::{MAX_EXACT_VALUES, MAX_VALUES},
};

/// Values of a facet that a store returns: enough for the largest of several stores together.
const FACET_VALUES: usize = 1_000;
/// Values that each shard returns, so that counts are exact up to so many.
const SHARD_VALUES: usize = 10_000;

/// What is fetched of each document: what identifies its object, and how it is.
const SOURCE: [&str; 11] = [
    "apiVersion",
    "kind",
    "cluster",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "metadata.resourceVersion",
    "metadata.creationTimestamp",
    "search.health*",
    "search.interpretedBy",
    "search.rejected",
];

/// The body of the `_search` for one page over several resources. It asks for one object more than the page holds, which shows whether another page
/// follows, and for an exact count.
pub fn ranked_body(ranked: &RankedQuery) -> Result<Value, QueryError> {
    let checked = ranked.checked()?;
    let mut body = json!({
        "size": ranked.limit + 1,
        "track_total_hits": true,
        "_source": SOURCE,
        "query": query(&checked)?,
        "sort": [
            { "_score": { "order": "desc" } },
            { "metadata.creationTimestamp": { "order": "desc", "missing": "_last" } },
            { "cluster": { "order": "asc" } },
            { "metadata.uid": { "order": "asc" } },
            { "apiVersion": { "order": "asc" } },
            { "kind": { "order": "asc" } },
        ],
    });
    if let Some(position) = &ranked.after {
        body["search_after"] = search_after(position);
    }
    if !ranked.facets.is_empty() {
        body["aggs"] = ranked
            .facets
            .iter()
            .copied()
            .map(facet)
            .collect::<Map<_, _>>()
            .into();
    }
    Ok(body)
}

/// The body of the `_search` for values of several resources' objects. It asks for no object; its aggregations are named by the positions of the
/// prefixes.
pub fn values_body(values: &ValuesQuery) -> Result<Value, QueryError> {
    let prefixes = values.prefixes.iter().enumerate();
    let counts: Map<String, Value> = prefixes
        .map(|(position, prefix)| (position.to_string(), frequent_terms(prefix)))
        .collect();
    Ok(json!({
        "size": 0,
        "track_total_hits": false,
        "query": query(&values.checked()?)?,
        "aggs": counts,
    }))
}

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
    let of_group = |(group, plurals): (&str, Vec<&str>)| json!({ "bool": { "filter": [term("search.group", group), { "terms": { "search.resource": plurals } }] } });
    json!({ "bool": { "should": by_group.into_iter().map(of_group).collect::<Vec<Value>>(), "minimum_should_match": 1 } })
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
        json!({ "bool": { "should": alternatives, "minimum_should_match": 1 } })
    }
}

fn query(checked: &[CheckedQuery<'_>]) -> Result<Value, QueryError> {
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
    at_most(MAX_CLAUSES, "clauses", clauses)?;
    let words = words.into_iter().flat_map(WordSelector::words);
    let (refused, wanted): (Vec<_>, Vec<_>) = words.partition(|word| word.is_negated);
    let wanted: Vec<Value> = wanted.iter().map(|word| word.scored_clause()).collect();
    let refused: Vec<Value> = refused.iter().map(|word| word.clause()).collect();
    Ok(json!({ "bool": {
        "filter": [selections.into_clause()],
        "must": wanted,
        "must_not": refused,
    } }))
}

fn search_after(position: &RankPosition) -> Value {
    let RankPosition {
        score,
        created,
        cluster,
        uid,
        api_version,
        kind,
    } = position;
    // OpenSearch sends and reads a missing time as the least one.
    let created = created.0.unwrap_or(i64::MIN);
    json!([score.0, created, cluster, uid, api_version, kind])
}

fn frequent_terms(prefix: &ValuePrefix) -> Value {
    let mut terms = json!({
        "field": prefix.field.field(),
        "size": MAX_VALUES,
        "shard_size": MAX_EXACT_VALUES,
        "order": [{ "_count": "desc" }, { "_key": "asc" }],
    });
    if let Some(expression) = prefix.regular_expression() {
        terms["include"] = expression.into();
    }
    json!({ "terms": terms })
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

//! Rights as a query over documents: document-level security (DLS).

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_core::model::index_fields;
use serde_json::{Value, json};

use super::{
    rights::SubjectRights,
    rules::{ListedResources, QueryRights, RuleNames},
};

/// The most alternatives of a query: OpenSearch refuses a `bool` with more than 1,024 clauses.
const MAX_ALTERNATIVES: usize = 1_000;

/// The rights cannot be written as a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its rules list {0} different sets of resources, more than OpenSearch accepts in a query")]
pub(super) struct TooManyAlternatives(usize);

/// The query that finds exactly the documents that someone with these rights can list; `None` if
/// that is nothing.
///
/// It compares only keywords whole, so that no document matches by a part of a word.
pub(super) fn document_filter(
    rights: &SubjectRights,
) -> Result<Option<Value>, TooManyAlternatives> {
    if rights.query.is_empty() || !rights.can_list() {
        return Ok(None);
    }
    let mut filter = query_filter(&rights.query);
    let mut alternatives = alternatives(rights);
    if alternatives.len() > MAX_ALTERNATIVES {
        return Err(TooManyAlternatives(alternatives.len()));
    }
    let lists_everything = alternatives.iter().any(Vec::is_empty);
    if !lists_everything {
        match alternatives.pop() {
            Some(only) if alternatives.is_empty() => filter.extend(only),
            last => {
                let all = alternatives.into_iter().chain(last);
                let should: Vec<Value> = all.map(all_of).collect();
                filter.push(json!({ "bool": { "should": should, "minimum_should_match": 1 } }));
            }
        }
    }
    Ok(Some(all_of(filter)))
}

fn query_filter(rights: &QueryRights) -> Vec<Value> {
    let groups = terms(index_fields::GROUP, &rights.groups);
    groups
        .into_iter()
        .chain(terms(index_fields::CLUSTER, &rights.clusters))
        .collect()
}

/// One for each set of resources, the namespaces of those that are listed in the same ones
/// together. An empty one matches everything.
fn alternatives(rights: &SubjectRights) -> Vec<Vec<Value>> {
    let mut all: Vec<Vec<Value>> = rights.everywhere.iter().map(resources_filter).collect();
    let mut in_namespaces: BTreeMap<&ListedResources, &BTreeSet<String>> =
        rights.in_namespaces.iter().collect();
    in_namespaces.retain(|resources, _| !rights.everywhere.contains(resources));
    for (resources, namespaces) in in_namespaces {
        let mut filter = resources_filter(resources);
        filter.push(json!({ "terms": { (index_fields::NAMESPACE): namespaces } }));
        all.push(filter);
    }
    all
}

fn resources_filter(resources: &ListedResources) -> Vec<Value> {
    let groups = terms(index_fields::GROUP, &resources.groups);
    groups
        .into_iter()
        .chain(terms(index_fields::RESOURCE, &resources.plurals))
        .collect()
}

fn terms(field: &str, names: &RuleNames) -> Option<Value> {
    match names {
        RuleNames::Any => None,
        RuleNames::Only(names) => Some(json!({ "terms": { field: names } })),
    }
}

fn all_of(mut filter: Vec<Value>) -> Value {
    match filter.pop() {
        // A role without a query would not lift the limits of the user's other roles.
        None => json!({ "match_all": {} }),
        Some(only) if filter.is_empty() => only,
        Some(last) => {
            filter.push(last);
            json!({ "bool": { "filter": filter } })
        }
    }
}

//! What objects use: their owners, the objects that they name, and those that they select.

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_core::{query::ResourceName, selector::LabelSelector};
use fleetdex_query_api::{answer::Direction, question::ListRequest};
use futures::FutureExt;

use super::{
    found_relation::FoundRelation,
    node::{LabelSelection, NamedReference, RelationKey, RelationNode},
    search::{RelationSearch, distinct, namespaces},
};
use crate::{
    api_error::ApiError,
    read::{
        across_kinds::{AcrossKinds, FoundHits, concurrently},
        query_plan::{PAGE, truncated},
    },
};

/// Selectors of the objects of one step that are followed, each with a query.
const MAX_SELECTIONS: usize = 200;

/// A named object that an object uses.
struct NamedUse<'n> {
    user: &'n RelationNode,
    reference: &'n NamedReference,
}

/// Named objects of one resource and namespace.
type NamedUses<'n> = BTreeMap<RelationKey, NamedUse<'n>>;

/// Adds what the objects use. Returns the objects that are new.
pub(super) async fn uses(
    search: &mut RelationSearch<'_, '_>,
    of: &[RelationNode],
    depth: usize,
) -> Result<Vec<RelationNode>, ApiError> {
    let mut new = named(search, of, depth).await?;
    new.extend(selected(search, of, depth).await?);
    Ok(new)
}

/// Adds the objects that objects name.
async fn named(
    search: &mut RelationSearch<'_, '_>,
    of: &[RelationNode],
    depth: usize,
) -> Result<Vec<RelationNode>, ApiError> {
    let kinds = search.kinds;
    let mut queries = Vec::new();
    for ((resource, _), wanted) in named_uses(search, of) {
        let chunks = chunks(wanted).into_iter();
        queries.extend(chunks.map(|chunk| (resource.clone(), chunk)));
    }
    let searches = queries
        .iter()
        .map(|(resource, wanted)| find_named(kinds, resource, wanted).boxed());
    let results = concurrently(searches.collect()).await?;
    let mut new = Vec::new();
    for ((_, wanted), mut result) in queries.iter().zip(results) {
        add_missing(search, wanted, &result, depth);
        // No reason to say that the answer is cut: a chunk fits a page, unless more than a thousand
        // clusters have the name.
        result.has_more = false;
        new.extend(search.add_all(result, Direction::Uses, depth, |node| {
            let found = wanted.get(&node.key)?;
            Some((found.user, found.reference.relation.clone()))
        }));
    }
    Ok(new)
}

/// The named objects that objects use, by resource and namespace.
fn named_uses<'n>(
    search: &mut RelationSearch<'_, '_>,
    of: &'n [RelationNode],
) -> BTreeMap<(ResourceName, String), NamedUses<'n>> {
    let mut all: BTreeMap<(ResourceName, String), NamedUses<'n>> = BTreeMap::new();
    for user in of {
        for reference in &user.references {
            let kind = &reference.kind;
            let Some(resource) = search.kinds.resource_of(&kind.group, &kind.kind) else {
                search.warnings.insert(truncated(format!(
                    "{} {} is referred to, and no ResourceRegistry selects it",
                    kind.api_version(),
                    kind.kind
                )));
                continue;
            };
            let namespace = if resource.namespaced {
                reference.namespace.clone()
            } else {
                String::new()
            };
            let key = RelationKey {
                cluster: user.key.cluster.clone(),
                resource: resource.name.clone(),
                namespace: namespace.clone(),
                name: reference.name.clone(),
            };
            if search.has_seen(&key) {
                continue;
            }
            let wanted = all.entry((resource.name.clone(), namespace)).or_default();
            wanted.entry(key).or_insert(NamedUse { user, reference });
        }
    }
    all
}

/// Parts that one page of objects answers, whichever of the clusters have an object of each name.
fn chunks(wanted: NamedUses<'_>) -> Vec<NamedUses<'_>> {
    let clusters = distinct(wanted.keys().map(|key| &key.cluster)).len();
    let names = (PAGE / clusters.max(1)).max(1);
    let mut by_name: BTreeMap<String, NamedUses<'_>> = BTreeMap::new();
    for (key, found) in wanted {
        let of_name = by_name.entry(key.name.clone()).or_default();
        of_name.insert(key, found);
    }
    let mut chunks = Vec::new();
    let mut of_names = by_name.into_values().peekable();
    while of_names.peek().is_some() {
        chunks.push(of_names.by_ref().take(names).flatten().collect());
    }
    chunks
}

async fn find_named(
    kinds: &AcrossKinds<'_>,
    resource: &ResourceName,
    wanted: &NamedUses<'_>,
) -> Result<FoundHits<RelationNode>, ApiError> {
    let request = ListRequest {
        clusters: distinct(wanted.keys().map(|key| &key.cluster)),
        namespaces: namespaces(wanted.keys().map(|key| key.namespace.as_str())),
        names: distinct(wanted.keys().map(|key| &key.name)),
        ..ListRequest::default()
    };
    kinds.objects_of(resource, &request, PAGE).await
}

/// Adds the named objects that do not exist, as far as the result shows.
fn add_missing(
    search: &mut RelationSearch<'_, '_>,
    wanted: &NamedUses<'_>,
    result: &FoundHits<RelationNode>,
    depth: usize,
) {
    let existing: BTreeSet<&RelationKey> = result.objects.iter().map(|node| &node.key).collect();
    let missing = wanted.iter().filter(|(key, _)| !existing.contains(key));
    for (key, NamedUse { user, reference }) in missing {
        let kinds = search.kinds;
        if kinds.shows_all_of(result, &key.cluster, &key.namespace) {
            let missing = FoundRelation::missing(key, user, reference, depth);
            search.add(key.clone(), missing);
        }
    }
}

/// Adds the objects that objects select.
async fn selected(
    search: &mut RelationSearch<'_, '_>,
    of: &[RelationNode],
    depth: usize,
) -> Result<Vec<RelationNode>, ApiError> {
    let selections = of.iter().flat_map(|node| {
        let selection = node.selection.iter();
        selection.flat_map(move |selection| {
            let namespaces = selection.namespaces.iter();
            namespaces.map(move |namespace| (node, selection, namespace.as_str()))
        })
    });
    let mut selections: Vec<(&RelationNode, &LabelSelection, &str)> =
        selections.take(MAX_SELECTIONS + 1).collect();
    if selections.len() > MAX_SELECTIONS {
        selections.truncate(MAX_SELECTIONS);
        search.warnings.insert(format!(
            "of more than {MAX_SELECTIONS} label selectors the first ones are followed"
        ));
    }
    let (kinds, limit) = (search.kinds, search.limit);
    let searches = selections.iter().map(|(node, selection, namespace)| {
        find_selected(kinds, node, selection, namespace, limit).boxed()
    });
    let results = concurrently(searches.collect()).await?;
    let mut new = Vec::new();
    for ((user, selection, _), result) in selections.iter().zip(results) {
        let nearer = |_: &RelationNode| Some((*user, selection.relation.clone()));
        new.extend(search.add_all(result, Direction::Uses, depth, nearer));
    }
    Ok(new)
}

async fn find_selected(
    kinds: &AcrossKinds<'_>,
    node: &RelationNode,
    selection: &LabelSelection,
    namespace: &str,
    limit: usize,
) -> Result<FoundHits<RelationNode>, ApiError> {
    let Some(resource) = kinds.resource_of(&selection.group, &selection.kind) else {
        return Ok(FoundHits::default());
    };
    let request = ListRequest {
        clusters: vec![node.key.cluster.clone()],
        namespaces: namespaces([namespace].into_iter()),
        labels: LabelSelector::clone(&selection.labels),
        ..ListRequest::default()
    };
    kinds.objects_of(&resource.name, &request, limit + 1).await
}

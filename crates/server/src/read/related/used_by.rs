//! What uses objects: their dependants, the objects that name them, and those that select them.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
};

use fleetdex_core::{
    model::ClusterName,
    query::{Owners, Relation, ResourceName},
};
use fleetdex_query_api::{answer::Direction, question::ListRequest};
use futures::{FutureExt, TryStreamExt, future::BoxFuture};

use super::{
    node::{LabelSelection, OWNED_BY, RelationNode},
    search::{RelationSearch, distinct, namespaces},
};
use crate::{
    api_error::ApiError,
    read::{
        across_kinds::{FoundHits, concurrently, in_order},
        query_plan::PAGE,
    },
};

/// Group and kind of the objects that select others by their labels, the plural of the others, and
/// whether these may be in other namespaces.
const SELECTING_KINDS: [(&str, &str, &str, bool); 5] = [
    ("", "Service", "pods", false),
    ("policy", "PodDisruptionBudget", "pods", false),
    ("networking.k8s.io", "NetworkPolicy", "pods", false),
    ("monitoring.coreos.com", "PodMonitor", "pods", true),
    ("monitoring.coreos.com", "ServiceMonitor", "services", true),
];

/// Comparisons of an object with a selection, or of its labels with one requirement, in one step of
/// a search. A thousand Pods with labels of their own and a thousand selections of a few
/// requirements each need fewer.
const MAX_COMPARISONS: usize = 4_000_000;

/// Adds what uses the objects. Returns the objects that are new.
pub(super) async fn used_by(
    search: &mut RelationSearch<'_, '_>,
    of: &[RelationNode],
    depth: usize,
) -> Result<Vec<RelationNode>, ApiError> {
    let mut new = dependants(search, of, depth).await?;
    new.extend(naming(search, of, depth).await?);
    new.extend(selecting(search, of, depth).await?);
    Ok(new)
}

/// Adds the objects that objects own.
async fn dependants(
    search: &mut RelationSearch<'_, '_>,
    of: &[RelationNode],
    depth: usize,
) -> Result<Vec<RelationNode>, ApiError> {
    let mut owners = Owners::default();
    let mut by_uid: BTreeMap<(&ClusterName, &str), &RelationNode> = BTreeMap::new();
    let is_identified = |node: &&RelationNode| !node.summary.metadata.uid.is_empty();
    for node in of.iter().filter(is_identified) {
        let uid = node.summary.metadata.uid.as_str();
        owners.insert(Some(node.key.cluster.clone()), uid);
        by_uid.insert((&node.key.cluster, uid), node);
    }
    if owners.is_empty() {
        return Ok(Vec::new());
    }
    let (kinds, limit, clusters) = (search.kinds, search.limit, clusters(of));
    let relation = Relation::OwnedBy(owners.clone());
    let resources = kinds.related_resources(&clusters, relation).await?;
    let searches = resources.iter().map(|resource| {
        let found = kinds.owned_objects(resource, &clusters, limit + 1, &owners);
        found.boxed()
    });
    add_found(search, searches.collect(), depth, |node| {
        let mut uids = node.owners.iter();
        let owner = uids.find_map(|uid| by_uid.get(&(&node.key.cluster, uid.as_str())))?;
        Some((*owner, OWNED_BY.to_owned()))
    })
    .await
}

/// Adds the objects that name objects, as their documents say.
async fn naming(
    search: &mut RelationSearch<'_, '_>,
    of: &[RelationNode],
    depth: usize,
) -> Result<Vec<RelationNode>, ApiError> {
    let (kinds, limit, clusters) = (search.kinds, search.limit, clusters(of));
    let mut by_term: BTreeMap<(&ClusterName, String), &RelationNode> = BTreeMap::new();
    for node in of {
        let key = &node.key;
        for term in kinds.terms_of(&key.resource, &key.namespace, &key.name) {
            by_term.insert((&key.cluster, term), node);
        }
    }
    let terms: BTreeSet<String> = by_term.keys().map(|(_, term)| term.clone()).collect();
    if terms.is_empty() {
        return Ok(Vec::new());
    }
    let relation = Relation::DependsOn(terms.clone());
    let resources = kinds.related_resources(&clusters, relation).await?;
    let searches = resources.iter().map(|resource| {
        let found = kinds.depending_objects(resource, &clusters, limit + 1, &terms);
        found.boxed()
    });
    add_found(search, searches.collect(), depth, |node| {
        let mut terms = node.dependencies.iter();
        terms.find_map(|term| {
            let used = by_term.get(&(&node.key.cluster, term.clone()))?;
            Some((*used, node.relation_to(term).to_owned()))
        })
    })
    .await
}

/// Adds the objects that select objects: one query for each kind that can.
async fn selecting(
    search: &mut RelationSearch<'_, '_>,
    of: &[RelationNode],
    depth: usize,
) -> Result<Vec<RelationNode>, ApiError> {
    let kinds = search.kinds;
    let mut queries: Vec<(ResourceName, ListRequest)> = Vec::new();
    for (group, kind, selected, crosses_namespaces) in SELECTING_KINDS {
        let is_selectable = |node: &&RelationNode| {
            let resource = &node.key.resource;
            resource.group.is_empty() && *resource.plural == *selected
        };
        let selectable: Vec<&RelationNode> = of.iter().filter(is_selectable).collect();
        let resource = kinds.resource_of(group, kind);
        let Some(resource) = resource.filter(|_| !selectable.is_empty()) else {
            continue;
        };

        let names = selectable.iter().map(|node| node.key.namespace.as_str());
        let request = ListRequest {
            clusters: distinct(selectable.iter().map(|node| &node.key.cluster)),
            namespaces: if crosses_namespaces {
                Vec::new()
            } else {
                namespaces(names)
            },
            ..ListRequest::default()
        };
        queries.push((resource.name.clone(), request));
    }
    let searches = queries
        .iter()
        .map(|(resource, request)| kinds.objects_of(resource, request, PAGE).boxed());
    let mut results: Vec<FoundHits<RelationNode>> = concurrently(searches.collect()).await?;
    for (result, (resource, _)) in results.iter_mut().zip(&queries) {
        // The page has objects that select others, too: the result itself may have room.
        if std::mem::take(&mut result.has_more) {
            search.warnings.insert(format!(
                "of more than {PAGE} {} the first ones are compared",
                resource.plural
            ));
        }
    }
    let selectable = SelectableObjects::of(of);
    let used = |node: &RelationNode| {
        let selection = node.selection.as_ref()?;
        let selected = selectable.selected_by(&node.key.cluster, selection)?;
        Some((selected, selection.relation.clone()))
    };
    let mut new = Vec::new();
    for result in results {
        new.extend(search.add_all(result, Direction::UsedBy, depth, used));
    }
    if selectable.comparisons.get() == 0 {
        search.has_more = true;
        search.warnings.insert(format!(
            "after {MAX_COMPARISONS} comparisons of labels with selectors the search ended; ask for less depth, or name a cluster"
        ));
    }
    Ok(new)
}

/// Objects that others may select: of those of one cluster, kind and namespace with the same labels
/// only the first one. The pods of most owners have the same labels.
struct SelectableObjects<'n> {
    by_cluster: BTreeMap<&'n ClusterName, Vec<&'n RelationNode>>,
    /// Comparisons that are left.
    comparisons: Cell<usize>,
}

impl<'n> SelectableObjects<'n> {
    fn of(nodes: &'n [RelationNode]) -> Self {
        let mut seen = BTreeSet::new();
        let mut by_cluster: BTreeMap<&ClusterName, Vec<&RelationNode>> = BTreeMap::new();
        for node in nodes {
            let key = &node.key;
            if seen.insert((&key.cluster, &key.resource, &key.namespace, &node.labels)) {
                by_cluster.entry(&key.cluster).or_default().push(node);
            }
        }
        Self {
            by_cluster,
            comparisons: Cell::new(MAX_COMPARISONS),
        }
    }

    /// The first object of a cluster that a selection selects; `None` also when no comparisons are
    /// left.
    fn selected_by(
        &self,
        cluster: &ClusterName,
        selection: &LabelSelection,
    ) -> Option<&'n RelationNode> {
        let compared = || {
            self.comparisons
                .set(self.comparisons.get().saturating_sub(1));
        };
        let mut candidates = self.by_cluster.get(cluster)?.iter();
        let selected = candidates.find(|candidate| {
            compared();
            self.comparisons.get() == 0
                || (selection.is_for(candidate) && selection.matches(&candidate.labels, compared))
        });
        selected.copied().filter(|_| self.comparisons.get() > 0)
    }
}

/// Adds what searches find, one after another until the result is full, so that not all of it is in
/// memory. `used`: see [`RelationSearch::add_all`].
async fn add_found<'n>(
    search: &mut RelationSearch<'_, '_>,
    searches: Vec<BoxFuture<'_, Result<FoundHits<RelationNode>, ApiError>>>,
    depth: usize,
    mut used: impl FnMut(&RelationNode) -> Option<(&'n RelationNode, String)>,
) -> Result<Vec<RelationNode>, ApiError> {
    let mut found = in_order(searches);
    let mut new = Vec::new();
    while let Some(result) = found.try_next().await? {
        new.extend(search.add_all(result, Direction::UsedBy, depth, &mut used));
        if search.has_more {
            break;
        }
    }
    Ok(new)
}

/// The clusters of some objects.
fn clusters(of: &[RelationNode]) -> Vec<ClusterName> {
    distinct(of.iter().map(|node| &node.key.cluster))
}

#[cfg(test)]
mod tests;

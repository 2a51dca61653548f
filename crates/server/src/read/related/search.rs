//! What a search for relations has found so far, in one direction.

use std::collections::BTreeSet;

use fleetdex_core::model::Namespace;
use fleetdex_query_api::answer::Direction;

use super::{
    found_relation::FoundRelation,
    node::{RelationKey, RelationNode},
};
use crate::read::across_kinds::{AcrossKinds, FoundHits};

/// What is known of the relations in one direction so far.
pub(super) struct RelationSearch<'k, 's> {
    pub(super) kinds: &'k AcrossKinds<'s>,
    /// How many objects the result has at most.
    pub(super) limit: usize,
    pub(super) found: Vec<FoundRelation>,
    /// Whether there are more.
    pub(super) has_more: bool,
    pub(super) warnings: BTreeSet<String>,
    seen: BTreeSet<RelationKey>,
}

impl<'k, 's> RelationSearch<'k, 's> {
    /// A search that begins with some objects, which are not part of its result.
    pub(super) fn from(roots: &[RelationNode], kinds: &'k AcrossKinds<'s>, limit: usize) -> Self {
        Self {
            kinds,
            limit,
            found: Vec::new(),
            has_more: false,
            warnings: BTreeSet::new(),
            seen: roots.iter().map(|node| node.key.clone()).collect(),
        }
    }

    /// Whether an object was found before.
    pub(super) fn has_seen(&self, key: &RelationKey) -> bool {
        self.seen.contains(key)
    }

    /// Adds an object unless it was found before, or the result is full; whether it was added.
    pub(super) fn add(&mut self, key: RelationKey, related: FoundRelation) -> bool {
        if self.seen.contains(&key) {
            return false;
        }
        if self.found.len() >= self.limit {
            self.has_more = true;
            return false;
        }
        self.seen.insert(key);
        self.found.push(related);
        true
    }
}

impl RelationSearch<'_, '_> {
    /// Adds the found objects that are related to a nearer one; `nearer` returns that one and the
    /// relation. Returns those that are new.
    pub(super) fn add_all<'n>(
        &mut self,
        result: FoundHits<RelationNode>,
        direction: Direction,
        depth: usize,
        mut nearer: impl FnMut(&RelationNode) -> Option<(&'n RelationNode, String)>,
    ) -> Vec<RelationNode> {
        self.has_more |= result.has_more;
        self.warnings.extend(result.warnings);
        let mut new = Vec::new();
        for node in result.objects {
            let Some((nearer, relation)) = nearer(&node) else {
                continue;
            };
            let related = FoundRelation::existing(&node, nearer, direction, &relation, depth);
            if self.add(node.key.clone(), related) {
                new.push(node);
            }
        }
        new
    }
}

/// Values without repetitions, sorted.
pub(super) fn distinct<'v, T: Ord + Clone + 'v>(values: impl Iterator<Item = &'v T>) -> Vec<T> {
    let distinct: BTreeSet<&T> = values.collect();
    distinct.into_iter().cloned().collect()
}

/// The namespaces of some objects; none if any of them has none.
pub(super) fn namespaces<'v>(names: impl Iterator<Item = &'v str>) -> Vec<Namespace> {
    let distinct: BTreeSet<&str> = names.collect();
    if distinct.contains("") {
        return Vec::new();
    }
    let names = distinct.into_iter();
    names.filter_map(|name| name.parse().ok()).collect()
}

//! The edges of known kinds: where an object of a kind names another object, and of which kind that
//! is.

use std::sync::LazyLock;

use ahash::AHashMap;
use fleetdex_core::model::JsonTree;

use super::{
    found::Found,
    paths::{self, without_brackets},
    reference::{ObjectReference, Referrer, Target, read},
};
use crate::{
    pod_template::is_custom,
    value::{group, text},
};
use edge::{Edge, EdgePlace};

mod custom;
mod edge;
mod kubernetes;

/// Adds what the edges of the object's kind lead to.
pub(super) fn add(referrer: &Referrer<'_>, found: &mut Found<'_>) {
    let group = group(referrer.object);
    if is_custom(referrer.object) {
        custom::RULES
            .iter()
            .filter(|rule| rule.covers(group, referrer.kind))
            .flat_map(|rule| rule.edges)
            .for_each(|edge| follow(referrer, edge, found));
    } else {
        for edge in edges_of_kind(group, referrer.kind) {
            follow(referrer, edge, found);
        }
    }
}

/// The edges of a kind of Kubernetes.
fn edges_of_kind(group: &str, kind: &str) -> &'static [&'static Edge] {
    type EdgesByKind = AHashMap<&'static str, Vec<&'static Edge>>;
    static EDGES: LazyLock<AHashMap<&str, EdgesByKind>> = LazyLock::new(|| {
        let mut by_group: AHashMap<&str, EdgesByKind> = AHashMap::new();
        for rule in kubernetes::RULES {
            for group in rule.groups {
                let by_kind = by_group.entry(group).or_default();
                for kind in rule.kinds {
                    by_kind.entry(kind).or_default().extend(rule.edges);
                }
            }
        }
        by_group
    });
    let by_kind = EDGES.get(group);
    by_kind
        .and_then(|by_kind| by_kind.get(kind))
        .map_or(&[], Vec::as_slice)
}

/// The members that the edges of a kind of Kubernetes begin at.
pub(crate) fn paths_of_kind(group: &str, kind: &str) -> impl Iterator<Item = Vec<&'static str>> {
    edges_of_kind(group, kind)
        .iter()
        .filter_map(|edge| match edge.place {
            EdgePlace::Path(path) | EdgePlace::PathOrName(path) => {
                Some(path.split('.').map(without_brackets).collect())
            }
            EdgePlace::Label(key) => Some(vec!["metadata", "labels", key]),
            EdgePlace::Annotation(key) => Some(vec!["metadata", "annotations", key]),
            EdgePlace::Name => None,
        })
}

fn follow(referrer: &Referrer<'_>, edge: &Edge, found: &mut Found<'_>) {
    let object = referrer.object;
    match edge.place {
        EdgePlace::Path(path) => paths::values(object, path, &mut |value| {
            if !found.is_full() {
                found.add(read(referrer, value, &edge.target));
            }
        }),
        EdgePlace::PathOrName(path) => {
            let mut name = "";
            paths::values(object, path, &mut |value| {
                name = value.as_str().unwrap_or_default();
            });
            let name = if name.is_empty() { referrer.name } else { name };
            found.add(named(referrer, name, &edge.target));
        }
        EdgePlace::Name => found.add(named(referrer, referrer.name, &edge.target)),
        EdgePlace::Label(key) => {
            let name = text(object, &["metadata", "labels", key]);
            found.add(named(referrer, name, &edge.target));
        }
        EdgePlace::Annotation(key) => {
            let name = text(object, &["metadata", "annotations", key]);
            found.add(named(referrer, name, &edge.target));
        }
    }
}

fn named(referrer: &Referrer<'_>, name: &str, target: &Target) -> Option<ObjectReference> {
    read(referrer, &JsonTree::from(name), target)
}

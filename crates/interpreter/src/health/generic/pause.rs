//! Finds whether an object is paused by its spec or an annotation.

use fleetdex_core::model::JsonTree;

use crate::value::{Tree, TreeObject, map};

const FIELDS: [&str; 4] = ["suspend", "suspended", "paused", "pause"];

/// Fields of the spec with these in their names hold a rollout's settings, a pause among them.
const ROLLOUT_FIELDS: [&str; 3] = ["strategy", "update", "rollout"];

/// Levels of a rollout's settings that are read.
const MAX_DEPTH: usize = 3;

const ANNOTATIONS: [&str; 6] = [
    "paused",
    "pause",
    "pause-reconciliation",
    "suspend",
    "suspended",
    "hibernation",
];
const ANNOTATION_VALUES: [&str; 4] = ["true", "on", "yes", ""];

/// The field or annotation that pauses the object.
pub(super) fn find(object: Tree<'_>) -> Option<&str> {
    in_spec(object).or_else(|| in_annotations(object))
}

fn in_spec(object: Tree<'_>) -> Option<&str> {
    let spec = map(object, &["spec"])?;
    in_map(spec).or_else(|| {
        spec.iter()
            .filter(|(name, _)| is_rollout_field(name))
            .find_map(|(_, settings)| below(settings, MAX_DEPTH))
    })
}

fn in_map(map: TreeObject<'_>) -> Option<&str> {
    FIELDS
        .into_iter()
        .find(|field| map.get(field) == Some(&JsonTree::Bool(true)))
}

fn below(settings: Tree<'_>, depth: usize) -> Option<&str> {
    let map = settings.as_object().filter(|_| depth > 0)?;
    in_map(map).or_else(|| map.values().find_map(|value| below(value, depth - 1)))
}

fn is_rollout_field(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ROLLOUT_FIELDS.iter().any(|part| name.contains(part))
}

fn in_annotations(object: Tree<'_>) -> Option<&str> {
    let is_pause = |name: &str, value: Tree<'_>| {
        let name = name.rsplit_once('/').map_or(name, |(_, name)| name);
        ANNOTATIONS.contains(&name)
            && value.as_str().is_some_and(|value| {
                ANNOTATION_VALUES
                    .iter()
                    .any(|word| word.eq_ignore_ascii_case(value))
            })
    };
    map(object, &["metadata", "annotations"])?
        .iter()
        .find(|(name, value)| is_pause(name, value))
        .map(|(name, _)| name)
}

//! How a rollout changes the objects of a set.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::Value;

use super::held_names::{VersionlessName, identity};
use crate::{sets::ObjectSet, template_name::NamedTemplate};

/// How a rollout changes an object: clusters that are reached have it as it is in the set.
#[derive(Clone, Copy)]
pub(super) struct SetObjectChange<'a> {
    /// The clusters that are reached.
    pub(super) reached: &'a BTreeSet<String>,
    /// What the others have.
    pub(super) before: BeforeChange<'a>,
}

/// What clusters have of an object that a rollout has not reached.
#[derive(Clone, Copy)]
pub(super) enum BeforeChange<'a> {
    /// Another object of its name.
    Other(&'a Arc<Value>),
    /// Nothing is written.
    Absent,
    /// The object itself, and those that are reached have none.
    Same,
}

/// The objects of a set, and those that are only where a rollout has not come to. An object that is
/// in another version of its kind now is no other object, and is not written before it is reached.
pub(super) fn changed_objects(
    set: &ObjectSet,
) -> Vec<(&NamedTemplate, Option<SetObjectChange<'_>>)> {
    let Some(unreached) = &set.unreached else {
        return set.objects().iter().map(|one| (one, None)).collect();
    };
    let change = |before| SetObjectChange {
        reached: &unreached.reached,
        before,
    };
    let stable = unreached.objects.iter();
    let stable: BTreeMap<VersionlessName<'_>, &NamedTemplate> =
        stable.map(|one| (identity(&one.name), one)).collect();
    let mut found = Vec::new();
    let mut known = BTreeSet::new();
    for template in set.objects() {
        let key = identity(&template.name);
        known.insert(key);
        let before = stable.get(&key).filter(|one| one.name == template.name);
        let change = match before {
            Some(before) if before.object == template.object => None,
            Some(before) => Some(change(BeforeChange::Other(&before.object))),
            None => Some(change(BeforeChange::Absent)),
        };
        found.push((template, change));
    }
    let removed = unreached.objects.iter();
    let removed = removed.filter(|one| !known.contains(&identity(&one.name)));
    found.extend(removed.map(|one| (one, Some(change(BeforeChange::Same)))));
    found
}

//! The messages of conditions and of eviction tasks.

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_interpreter::value::{condition, flag, text};
use serde::Serialize;
use serde_json::Value;

/// The status and the message of a condition; both empty if there is none.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BindingCondition<'b> {
    pub(super) status: &'b str,
    pub(super) message: &'b str,
}

impl<'b> BindingCondition<'b> {
    pub(super) fn of(binding: &'b Value, kind: &str) -> Self {
        let found = condition(binding, kind).map(|found| Self {
            status: text(found, &["status"]),
            message: text(found, &["message"]),
        });
        found.unwrap_or_default()
    }
}

/// Clusters that are not chosen, for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NotChosenClusters {
    /// The clusters.
    pub clusters: Vec<String>,
    /// Why.
    pub reason: String,
}

impl NotChosenClusters {
    pub(super) fn size(&self) -> usize {
        let names = self.clusters.iter();
        let names: usize = names.map(|name| size_of::<String>() + name.len()).sum();
        size_of::<Self>() + names + self.reason.len()
    }
}

/// What stands before the clusters that are not chosen, where others are.
const NOT_CHOSEN: &str = "not chosen: ";
/// What follows a message that was too long.
const CUT: &str = " bytes in all)";

/// Whether the end of a message is missing.
pub(super) fn is_cut(message: &str) -> bool {
    message.ends_with(CUT)
}

/// The clusters that are not chosen, in the message of a condition `Scheduled` that is true.
pub(super) fn split_with_choice(message: &str) -> Vec<NotChosenClusters> {
    let others = message.strip_prefix(NOT_CHOSEN);
    others.map(not_chosen).unwrap_or_default()
}

/// Why an object could not be placed, and the clusters that are not chosen, in the message of a
/// condition `Scheduled` that is false: `WHY. CLUSTERS`.
pub(super) fn split_unschedulable(message: &str) -> (String, Vec<NotChosenClusters>) {
    for (end, separator) in message.match_indices(". ") {
        let others = &message[end + separator.len()..];
        if named(others).is_some() {
            return (message[..end].to_owned(), not_chosen(others));
        }
    }
    let why = message.trim_end().trim_end_matches('.');
    (why.to_owned(), Vec::new())
}

/// Reads `m1, m2: why; m3: why`. A reason may have semicolons.
fn not_chosen(text: &str) -> Vec<NotChosenClusters> {
    let mut groups: Vec<NotChosenClusters> = Vec::new();
    for part in text.split("; ") {
        match (named(part), groups.last_mut()) {
            (Some((clusters, reason)), _) => groups.push(NotChosenClusters {
                clusters: clusters.split(", ").map(str::to_owned).collect(),
                reason: reason.to_owned(),
            }),
            (None, Some(group)) => {
                group.reason.push_str("; ");
                group.reason.push_str(part);
            }
            (None, None) => {}
        }
    }
    groups
}

/// The names of clusters that a text begins with, and what follows. They have no blanks, unlike
/// the beginnings of reasons.
fn named(text: &str) -> Option<(&str, &str)> {
    let (names, rest) = text.split_once(": ")?;
    let is_name = |name: &str| !name.is_empty() && !name.contains(char::is_whitespace);
    names.split(", ").all(is_name).then_some((names, rest))
}

/// What the message of `FullyApplied` says of these clusters: `m1: why; m2: why`. A reason may have
/// semicolons.
pub(super) fn failures<'m>(
    message: &'m str,
    clusters: &BTreeSet<&str>,
) -> BTreeMap<&'m str, String> {
    let mut failures: BTreeMap<&str, String> = BTreeMap::new();
    let mut last: Option<&str> = None;
    for part in message.split("; ") {
        let begun = part.split_once(": ");
        match begun.filter(|(name, _)| clusters.contains(name)) {
            Some((name, why)) => {
                failures.insert(name, why.to_owned());
                last = Some(name);
            }
            None => {
                if let Some(why) = last.and_then(|name| failures.get_mut(name)) {
                    why.push_str("; ");
                    why.push_str(part);
                }
            }
        }
    }
    failures
}

/// Why an object leaves a cluster, and what its copy there waits for.
pub(super) fn of_leaving(task: &Value, is_held: bool) -> String {
    let (reason, message) = (text(task, &["reason"]), text(task, &["message"]));
    let mut parts = vec![match (reason, message) {
        ("", message) => message.to_owned(),
        (reason, "") => reason.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }];
    parts.retain(|part| !part.is_empty());
    if flag(task, &["suppressDeletion"]) {
        parts.push("its copy stays until a user decides".to_owned());
    } else if text(task, &["purgeMode"]) == "Gracefully" {
        parts.push("its copy stays until the object is healthy elsewhere".to_owned());
    }
    if is_held {
        parts.push("deletions of this object are held: DeletionHeld says where".to_owned());
    }
    parts.join("; ")
}

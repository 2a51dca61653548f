//! How many replicas an object declares, and how many are ready.

use crate::{
    pod_template::is_custom,
    value::{Tree, condition, group, integer, map, text},
};

/// The ready replicas of kinds of which nothing is known, the first that is there.
const READY: &[&str] = &["readyReplicas", "availableReplicas", "numberReady"];

/// The replicas that an object declares, `None` if its kind has none, and those that are ready,
/// `None` if the object does not say. A count below zero is zero.
pub(super) fn of(object: Tree<'_>) -> (Option<i64>, Option<i64>) {
    let (desired, ready) = match (group(object), text(object, &["kind"])) {
        ("apps" | "extensions", "Deployment" | "StatefulSet" | "ReplicaSet")
        | ("", "ReplicationController") => (
            Some(integer(object, &["spec", "replicas"]).unwrap_or(1)),
            ready(object, "readyReplicas"),
        ),
        ("apps" | "extensions", "DaemonSet") => (
            integer(object, &["status", "desiredNumberScheduled"]),
            ready(object, "numberReady"),
        ),
        ("batch", "Job") => (Some(parallelism(object)), ready(object, "ready")),
        ("", "Pod") => (Some(1), pod_ready(object)),
        _ if is_custom(object) => {
            let desired = integer(object, &["spec", "replicas"]);
            (desired, custom_ready(object, desired))
        }
        _ => (None, None),
    };
    let not_negative = |count: Option<i64>| count.map(|count| count.max(0));
    (not_negative(desired), not_negative(ready))
}

/// A count of the status. API servers leave it out when it is zero.
fn ready(object: Tree<'_>, key: &str) -> Option<i64> {
    map(object, &["status"])?;
    Some(integer(object, &["status", key]).unwrap_or(0))
}

/// The pods of a job that run at the same time: not more than it has to complete.
fn parallelism(object: Tree<'_>) -> i64 {
    let parallelism = integer(object, &["spec", "parallelism"]).unwrap_or(1);
    integer(object, &["spec", "completions"])
        .map_or(parallelism, |completions| completions.min(parallelism))
}

fn pod_ready(object: Tree<'_>) -> Option<i64> {
    map(object, &["status"])?;
    let is_ready =
        condition(object, "Ready").is_some_and(|ready| text(ready, &["status"]) == "True");
    Some(i64::from(is_ready))
}

/// The ready replicas of a custom kind. Without a count they are zero if the status is one that
/// counts replicas, as an empty one may be; of one that has conditions only, nothing is known.
fn custom_ready(object: Tree<'_>, desired: Option<i64>) -> Option<i64> {
    let status = map(object, &["status"])?;
    let counted = READY
        .iter()
        .find_map(|key| integer(object, &["status", key]));
    let counts_replicas = || {
        status.is_empty()
            || status
                .keys()
                .any(|key| key == "replicas" || key.ends_with("Replicas"))
    };
    counted.or_else(|| (desired.is_some() && counts_replicas()).then_some(0))
}

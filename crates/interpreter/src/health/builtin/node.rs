//! Nodes.

use super::condition::{self, first_true, has_status};
use crate::{
    health::{Assessment, Health},
    value::{Tree, condition as condition_of, flag, list, text},
};

const TROUBLES: &[&str] = &[
    "MemoryPressure",
    "DiskPressure",
    "PIDPressure",
    "NetworkUnavailable",
];

/// A node that is in trouble is Degraded even if it is cordoned.
pub fn node(object: Tree<'_>) -> Assessment {
    if list(object, &["status", "conditions"]).is_empty() {
        let message = "the kubelet has not reported a status yet";
        return Assessment::progressing("NoStatus", message);
    }
    if let Some(unready) = unready(object) {
        return unready;
    }
    if let Some(trouble) = first_true(object, TROUBLES) {
        let kind = text(trouble, &["type"]);
        return Assessment::degraded(kind, text(trouble, &["message"]));
    }
    if flag(object, &["spec", "unschedulable"]) {
        return Assessment::new(Health::Suspended, "Unschedulable", "the node is cordoned");
    }
    Assessment::plain(Health::Healthy)
}

fn unready(object: Tree<'_>) -> Option<Assessment> {
    let Some(ready) = condition_of(object, "Ready") else {
        let message = "the node has no Ready condition";
        return Some(Assessment::degraded("NodeStatusUnknown", message));
    };
    if has_status(ready, "True") {
        return None;
    }
    let message = match (text(ready, &["message"]), text(ready, &["status"])) {
        ("", "Unknown") => "the kubelet is silent",
        (message, _) => message,
    };
    Some(Assessment::degraded(&condition::reason(ready), message))
}

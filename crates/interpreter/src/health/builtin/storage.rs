//! Persistent volumes and their claims.

use super::condition::{self, first_true, no_phase, unknown_phase};
use crate::{
    health::{Assessment, Health},
    value::{Tree, map, text, text_or},
};

/// A released volume that is retained waits for an administrator.
pub fn persistent_volume(object: Tree<'_>) -> Assessment {
    let message = text(object, &["status", "message"]);
    match text(object, &["status", "phase"]) {
        "Available" | "Bound" => Assessment::new(Health::Healthy, "", message),
        "Pending" => Assessment::progressing("Pending", message),
        "Released" => released(object),
        "Failed" => {
            let reason = text_or(object, &["status", "reason"], "VolumeFailed");
            Assessment::degraded(reason, message)
        }
        "" => no_phase(),
        other => unknown_phase(other),
    }
}

fn released(object: Tree<'_>) -> Assessment {
    if text(object, &["spec", "persistentVolumeReclaimPolicy"]) == "Retain" {
        let message =
            "the claim is gone; the volume is retained until an administrator reclaims it";
        return Assessment::new(Health::Suspended, "Released", message);
    }
    let message = "the claim is gone; the volume is about to be reclaimed";
    Assessment::progressing("Released", message)
}

const RESIZE_ERRORS: &[&str] = &[
    "ControllerResizeError",
    "NodeResizeError",
    "ModifyVolumeError",
];
const RESIZING: &[&str] = &["Resizing", "FileSystemResizePending"];

/// A claim that is bound may still be growing, or fail to.
pub fn persistent_volume_claim(object: Tree<'_>) -> Assessment {
    let phase = text(object, &["status", "phase"]);
    if phase == "Lost" {
        let message = "the volume of the claim does not exist any more";
        return Assessment::degraded("Lost", message);
    }
    if let Some(error) = first_true(object, RESIZE_ERRORS) {
        return condition::assess(Health::Degraded, error);
    }
    if let Some((resource, status)) = infeasible(object) {
        let message = format!("{resource} cannot be changed to what the claim requests");
        return Assessment::degraded(status, &message);
    }
    match phase {
        "Bound" => first_true(object, RESIZING).map_or_else(
            || Assessment::plain(Health::Healthy),
            |resizing| condition::assess(Health::Progressing, resizing),
        ),
        "Pending" => {
            let message = "the claim waits for a volume or for its first consumer";
            Assessment::progressing("Pending", message)
        }
        "" => no_phase(),
        other => unknown_phase(other),
    }
}

fn infeasible(object: Tree<'_>) -> Option<(&str, &str)> {
    map(object, &["status", "allocatedResourceStatuses"])?
        .iter()
        .filter_map(|(resource, status)| Some((resource, status.as_str()?)))
        .find(|(_, status)| status.ends_with("Infeasible"))
}

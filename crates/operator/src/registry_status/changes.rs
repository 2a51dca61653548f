//! When a status has changed enough to be written.

use fleetdex_crds::registry::{RegistryClusterStatus, ResourceRegistryStatus};
use k8s_openapi::jiff::SignedDuration;

/// How often the times of audits are written while nothing else changes: a fleet has audits all the
/// time, and every write of a status with many clusters is a large one.
const AUDIT_TIMES_INTERVAL: SignedDuration = SignedDuration::from_mins(10);

/// Whether a status has changed enough to be written.
pub fn needs_write(new: &ResourceRegistryStatus, before: &ResourceRegistryStatus) -> bool {
    if new == before {
        return false;
    }
    if without_audit_times(new) != without_audit_times(before) {
        return true;
    }
    let newest = |status: &ResourceRegistryStatus| {
        let clusters = status.clusters.iter();
        let audits = clusters.filter_map(|cluster| cluster.last_audit_time.as_ref());
        audits.map(|time| time.0).max()
    };
    match (newest(new), newest(before)) {
        (Some(new), Some(before)) => new.duration_since(before) >= AUDIT_TIMES_INTERVAL,
        (new, _) => new.is_some(),
    }
}

/// Whether a condition holds that did not, or for another reason: it is written without delay. The
/// messages of conditions name clusters, and change with each of them.
pub fn has_new_conditions(new: &ResourceRegistryStatus, before: &ResourceRegistryStatus) -> bool {
    let decisions = |status: &ResourceRegistryStatus| -> Vec<(String, String, String)> {
        let conditions = status.conditions.iter().cloned();
        conditions
            .map(|condition| (condition.type_, condition.status, condition.reason))
            .collect()
    };
    decisions(new) != decisions(before)
}

fn without_audit_times(status: &ResourceRegistryStatus) -> ResourceRegistryStatus {
    let without = |cluster: &RegistryClusterStatus| RegistryClusterStatus {
        last_audit_time: None,
        ..cluster.clone()
    };
    ResourceRegistryStatus {
        clusters: status.clusters.iter().map(without).collect(),
        ..status.clone()
    }
}

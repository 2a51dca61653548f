//! Kinds of Cluster API. Those of control planes and infrastructure have other groups and no rule
//! here.
//!
//! Source: Argo CD, `resource_customizations/cluster.x-k8s.io`.

use super::condition::{self, count, generation_lag, no_phase, with_status};
use crate::{
    health::{Assessment, Health},
    value::{Tree, condition as condition_of, flag, integer, map, text, version},
};

/// The health of an object of Cluster API; `None` for kinds without a rule, and for clusters of the
/// newer contract whose conditions the generic rule reads.
pub fn assess(kind: &str, object: Tree<'_>) -> Option<Assessment> {
    let judge = match kind {
        "Cluster" => return cluster(object),
        "Machine" => machine,
        "MachineDeployment" => machine_deployment,
        "MachinePool" => machine_pool,
        "MachineHealthCheck" => machine_health_check,
        _ => return None,
    };
    let assessment = paused(object)
        .or_else(|| generation_lag(object))
        .or_else(|| failure(object))
        .unwrap_or_else(|| judge(object));
    Some(assessment)
}

const PAUSED_ANNOTATION: &str = "cluster.x-k8s.io/paused";

/// The annotation counts whatever its value.
fn paused(object: Tree<'_>) -> Option<Assessment> {
    let has_annotation = map(object, &["metadata", "annotations"])
        .is_some_and(|annotations| annotations.contains_key(PAUSED_ANNOTATION));
    (has_annotation || flag(object, &["spec", "paused"]))
        .then(|| Assessment::new(Health::Suspended, "Paused", "reconciliation is paused"))
}

fn failure(object: Tree<'_>) -> Option<Assessment> {
    let reason = text(object, &["status", "failureReason"]);
    let message = text(object, &["status", "failureMessage"]);
    match (reason, message) {
        ("", "") => None,
        ("", message) => Some(Assessment::degraded("Failed", message)),
        (reason, message) => Some(Assessment::degraded(reason, message)),
    }
}

fn cluster(object: Tree<'_>) -> Option<Assessment> {
    if let Some(paused) = paused(object) {
        return Some(paused);
    }
    if version(object) == "v1beta2" || condition_of(object, "Available").is_some() {
        return cluster_v1beta2(object);
    }
    let unready =
        with_status(object, "Ready", "False").filter(|ready| text(*ready, &["severity"]) != "Info");
    if let Some(unready) = unready {
        return Some(condition::assess(Health::Degraded, unready));
    }
    let failure = failure(object).filter(|_| text(object, &["status", "phase"]) == "Failed");
    Some(failure.unwrap_or_else(|| by_phase(object, &["Provisioned"], &[])))
}

/// The newer contract has conditions without a severity.
fn cluster_v1beta2(object: Tree<'_>) -> Option<Assessment> {
    if with_status(object, "Available", "True").is_some() {
        return Some(Assessment::plain(Health::Healthy));
    }
    let deleting = with_status(object, "Deleting", "True");
    if let Some(deleting) = deleting {
        return Some(condition::assess(Health::Progressing, deleting));
    }
    (text(object, &["status", "phase"]) == "Deleting").then(|| by_phase(object, &[], &[]))
}

fn machine(object: Tree<'_>) -> Assessment {
    by_phase(object, &["Running"], &[])
}

fn machine_pool(object: Tree<'_>) -> Assessment {
    by_phase(object, &["Running", "Scaling"], &["Unknown"])
}

/// A deployment is not healthy before all its machines are new and ready.
fn machine_deployment(object: Tree<'_>) -> Assessment {
    let by_phase = by_phase(object, &["Running"], &[]);
    let [replicas, new, ready] =
        ["replicas", "upToDateReplicas", "readyReplicas"].map(|field| count(object, field));
    let updated = integer(object, &["status", "updatedReplicas"]).unwrap_or(new);
    if by_phase.health != Health::Healthy || (updated >= replicas && ready >= replicas) {
        return by_phase;
    }
    let message = format!("{updated} of {replicas} machines are updated, {ready} ready");
    Assessment::progressing("RolloutInProgress", &message)
}

fn machine_health_check(object: Tree<'_>) -> Assessment {
    let Some(current) = integer(object, &["status", "currentHealthy"]) else {
        let message = "no status is reported yet";
        return Assessment::progressing("NoStatus", message);
    };
    let expected = count(object, "expectedMachines");
    if current == expected {
        return Assessment::plain(Health::Healthy);
    }
    let message = format!("{current} of {expected} machines are healthy");
    Assessment::degraded("UnhealthyMachines", &message)
}

fn by_phase(object: Tree<'_>, healthy: &[&str], degraded: &[&str]) -> Assessment {
    let phase = text(object, &["status", "phase"]);
    if phase.is_empty() {
        return no_phase();
    }
    if healthy.contains(&phase) {
        return Assessment::plain(Health::Healthy);
    }
    let health = if phase == "Failed" || degraded.contains(&phase) {
        Health::Degraded
    } else {
        Health::Progressing
    };
    let unready = with_status(object, "Ready", "False");
    let message = match unready.map_or("", |ready| text(ready, &["message"])) {
        "" => format!("the phase is {phase}"),
        message => message.to_owned(),
    };
    Assessment::new(health, phase, &message)
}

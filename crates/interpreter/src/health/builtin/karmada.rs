//! The booleans of Karmada's native rules.
//!
//! Source:
//! <https://github.com/karmada-io/karmada/blob/master/pkg/resourceinterpreter/default/native/healthy.go>.

use super::{condition::count, network::has_address};
use crate::value::{Tree, condition, integer, text};

/// The boolean of Karmada's native rule for the object's kind; `None` for kinds without one.
/// Versions are exact.
///
/// Mended: `OnDelete`, and a partition of a `StatefulSet`, keep old pods on purpose.
pub fn karmada_healthy(object: Tree<'_>) -> Option<bool> {
    let kind = text(object, &["kind"]);
    Some(match (text(object, &["apiVersion"]), kind) {
        ("apps/v1", "Deployment") => is_observed(object) && is_rolled_out(object),
        ("apps/v1", "StatefulSet") => is_observed(object) && is_stateful_set_up(object),
        ("apps/v1", "ReplicaSet") => {
            is_observed(object) && at_least_desired(count(object, "availableReplicas"), object)
        }
        ("apps/v1", "DaemonSet") => is_observed(object) && is_daemon_set_up(object),
        ("v1", "Service") => {
            text(object, &["spec", "type"]) != "LoadBalancer" || has_address(object)
        }
        ("networking.k8s.io/v1", "Ingress") => has_address(object),
        ("v1", "PersistentVolumeClaim") => text(object, &["status", "phase"]) == "Bound",
        ("v1", "Pod") => is_pod_up(object),
        ("policy/v1", "PodDisruptionBudget") => {
            count(object, "currentHealthy") >= count(object, "desiredHealthy")
        }
        _ => return None,
    })
}

fn is_observed(object: Tree<'_>) -> bool {
    let generation = integer(object, &["metadata", "generation"]).unwrap_or(0);
    count(object, "observedGeneration") == generation
}

fn is_rolled_out(object: Tree<'_>) -> bool {
    let updated = count(object, "updatedReplicas");
    at_least_desired(updated, object) && count(object, "availableReplicas") >= updated
}

fn is_stateful_set_up(object: Tree<'_>) -> bool {
    let available = count(object, "availableReplicas");
    let strategy = &["spec", "updateStrategy", "type"];
    if text(object, strategy) == "OnDelete" {
        return at_least_desired(available, object);
    }
    let partition = &["spec", "updateStrategy", "rollingUpdate", "partition"];
    let held = integer(object, partition).unwrap_or(0);
    let updated = count(object, "updatedReplicas");
    at_least_desired(updated.saturating_add(held), object)
        && at_least_desired(available, object)
        && available >= updated
}

fn is_daemon_set_up(object: Tree<'_>) -> bool {
    let (desired, available) = (
        count(object, "desiredNumberScheduled"),
        count(object, "numberAvailable"),
    );
    if text(object, &["spec", "updateStrategy", "type"]) == "OnDelete" {
        return available >= desired;
    }
    let updated = count(object, "updatedNumberScheduled");
    updated >= desired && available >= updated
}

fn is_pod_up(object: Tree<'_>) -> bool {
    match text(object, &["status", "phase"]) {
        "Succeeded" => true,
        "Running" => {
            condition(object, "Ready").is_some_and(|ready| text(ready, &["status"]) == "True")
        }
        _ => false,
    }
}

/// Whether a count reaches `spec.replicas`, if that is set.
fn at_least_desired(count: i64, object: Tree<'_>) -> bool {
    integer(object, &["spec", "replicas"]).is_none_or(|desired| count >= desired)
}

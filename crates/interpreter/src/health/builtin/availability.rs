//! Horizontal pod autoscalers and pod disruption budgets.

use fleetdex_core::model::JsonTree;
use serde_json::Value;

use super::condition::{self, count, find, generation_lag, has_status};
use crate::{
    health::{Assessment, Health},
    value::{Tree, Trees, at, list, text, version},
};

/// Version 1 has its conditions in an annotation.
pub fn horizontal_pod_autoscaler(object: Tree<'_>) -> Assessment {
    match version(object) {
        "v1" => autoscaler_v1(object),
        version if version == "v2" || version.starts_with("v2beta") => {
            by_autoscaler_conditions(list(object, &["status", "conditions"]))
        }
        version => Assessment::new(
            Health::Unknown,
            "UnknownVersion",
            &format!("version {version:?} of HorizontalPodAutoscaler is not known"),
        ),
    }
}

const CONDITIONS_ANNOTATION: &str = "autoscaling.alpha.kubernetes.io/conditions";

fn autoscaler_v1(object: Tree<'_>) -> Assessment {
    let annotation = text(object, &["metadata", "annotations", CONDITIONS_ANNOTATION]);
    if annotation.is_empty() {
        return by_autoscaler_conditions(&[]);
    }
    match serde_json::from_str::<Vec<Value>>(annotation) {
        Ok(conditions) => {
            let conditions: Vec<JsonTree<'_>> = conditions.iter().map(JsonTree::from).collect();
            by_autoscaler_conditions(&conditions)
        }
        Err(error) => Assessment::new(
            Health::Unknown,
            "InvalidConditions",
            &format!("annotation {CONDITIONS_ANNOTATION} is not a list of conditions: {error}"),
        ),
    }
}

fn by_autoscaler_conditions(conditions: Trees<'_>) -> Assessment {
    let of = |kind, status| find(conditions, kind).filter(|found| has_status(found, status));
    let inactive = of("ScalingActive", "False");
    if let Some(failed) = of("AbleToScale", "False").or(inactive.filter(|found| has_failed(found)))
    {
        return condition::assess(Health::Degraded, failed);
    }
    if let Some(disabled) = inactive.filter(|found| text(*found, &["reason"]) == "ScalingDisabled")
    {
        return condition::assess(Health::Suspended, disabled);
    }
    let limited = of("ScalingLimited", "True");
    let at_maximum = limited.filter(|found| text(*found, &["reason"]) == "TooManyReplicas");
    if let Some(found) = at_maximum {
        return condition::assess(Health::Healthy, found);
    }
    match of("AbleToScale", "True").or(limited) {
        Some(found) => Assessment::new(Health::Healthy, "", text(found, &["message"])),
        None => Assessment::progressing("WaitingToAutoscale", "waiting to autoscale"),
    }
}

/// `FailedGet…Metric`, `FailedComputeMetricsReplicas`, `InvalidSelector`,
/// `InvalidMetricSourceType`.
fn has_failed(inactive: Tree<'_>) -> bool {
    let reason = text(inactive, &["reason"]);
    reason.starts_with("Failed") || reason.starts_with("Invalid")
}

/// A budget that allows no disruption works as declared.
pub fn pod_disruption_budget(object: Tree<'_>) -> Assessment {
    if let Some(lag) = generation_lag(object) {
        return lag;
    }
    if !at(object, &["status"]).is_object() {
        return Assessment::progressing("NoStatus", "no status is reported yet");
    }
    let failed = list(object, &["status", "conditions"])
        .iter()
        .find(|found| has_status(found, "False") && text(*found, &["reason"]) == "SyncFailed");
    if let Some(failed) = failed {
        return condition::assess(Health::Degraded, failed);
    }
    let [current, desired, allowed] = ["currentHealthy", "desiredHealthy", "disruptionsAllowed"]
        .map(|field| count(object, field));
    if current < desired {
        let message = format!("{current} pods are healthy, {desired} are required");
        return Assessment::degraded("InsufficientPods", &message);
    }
    let message = if allowed == 0 {
        "no disruption allowed now"
    } else {
        ""
    };
    Assessment::new(Health::Healthy, "", message)
}

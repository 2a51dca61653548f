//! Kinds whose status is a phase: one phase of all members.

use serde_json::{Map, Value, json};

use super::report::{reported, status_of, with_status};
use crate::{
    request::AggregatedStatusItem,
    value::{at, flag, list, text},
};

/// A Pod's phases; the first one that a member has is that of all.
const POD_PHASES: [&str; 4] = ["Failed", "Pending", "Running", "Succeeded"];
/// A volume's phases; the first one that a member has is that of all.
const VOLUME_PHASES: [&str; 5] = ["Failed", "Pending", "Available", "Bound", "Released"];

/// The phase, and of the containers whether they are ready, and their state.
pub fn pod(object: &Value, items: &[AggregatedStatusItem]) -> Value {
    if items.is_empty() {
        return object.clone();
    }
    let mut status = first_phase(&POD_PHASES, items);
    for field in ["containerStatuses", "initContainerStatuses"] {
        let containers: Vec<Value> = reported(items)
            .flat_map(|(_, status)| list(status, &[field]))
            .map(container_status)
            .collect();
        if !containers.is_empty() {
            status.insert(field.to_owned(), Value::Array(containers));
        }
    }
    with_status(object, Value::Object(status))
}

fn container_status(container: &Value) -> Value {
    let state = match at(container, &["state"]) {
        state @ Value::Object(_) => state.clone(),
        _ => json!({}),
    };
    json!({"ready": flag(container, &["ready"]), "state": state})
}

/// The phase.
pub fn persistent_volume(object: &Value, items: &[AggregatedStatusItem]) -> Value {
    let status = first_phase(&VOLUME_PHASES, items);
    if status.is_empty() && at(object, &["status"]).is_null() {
        return object.clone();
    }
    with_status(object, Value::Object(status))
}

/// Lost if a member lost its volume, else the last phase that is not Bound, else Bound.
///
/// Karmada says Bound even if no member reports anything. Here such a claim is left as it is.
pub fn persistent_volume_claim(object: &Value, items: &[AggregatedStatusItem]) -> Value {
    let phases: Vec<&str> = reported(items)
        .map(|(_, status)| text(status, &["phase"]))
        .collect();
    if phases.is_empty() {
        return object.clone();
    }
    let unbound = phases.iter().rfind(|phase| **phase != "Bound");
    let phase = if phases.contains(&"Lost") {
        "Lost"
    } else {
        unbound.copied().unwrap_or("Bound")
    };
    with_status(object, Value::Object(phase_status(phase)))
}

/// A member without a status counts as Pending.
fn first_phase(order: &[&str], items: &[AggregatedStatusItem]) -> Map<String, Value> {
    let phase_of = |item| status_of(item).map_or("Pending", |status| text(status, &["phase"]));
    let rank = items
        .iter()
        .filter_map(|item| order.iter().position(|phase| *phase == phase_of(item)))
        .min();
    let phase = rank.and_then(|rank| order.get(rank)).copied();
    phase_status(phase.unwrap_or_default())
}

fn phase_status(phase: &str) -> Map<String, Value> {
    let mut status = Map::new();
    if !phase.is_empty() {
        status.insert("phase".to_owned(), phase.into());
    }
    status
}

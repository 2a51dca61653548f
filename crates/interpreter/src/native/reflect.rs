//! The part of a status that is reported (`InterpretStatus`).
//!
//! Source: `reflectstatus.go` of Karmada's native interpreter.

use serde_json::{Map, Value, json};

use super::{
    counters::{self, GENERATION, OBSERVED_GENERATION, RESOURCE_TEMPLATE_GENERATION},
    kind::NativeKind,
};
use crate::{
    InterpretError,
    value::{at, integer, text},
};

/// The annotation with the generation of the template that an object in a member was made of.
pub const TEMPLATE_GENERATION_ANNOTATION: &str = "resourcetemplate.karmada.io/generation";

/// The reported status of an object of any kind; null: nothing to report.
///
/// An error if `.status` is neither absent nor a map, or the generation in the annotation is no
/// number.
pub fn status(kind: Option<NativeKind>, object: &Value) -> Result<Value, InterpretError> {
    if kind == Some(NativeKind::Service) && text(object, &["spec", "type"]) != "LoadBalancer" {
        return Ok(Value::Null);
    }
    let status = match at(object, &["status"]) {
        Value::Null => return Ok(Value::Null),
        status @ Value::Object(_) => status,
        other => return Err(not_a_map(other)),
    };
    let Some(kind) = kind else {
        return Ok(status.clone());
    };
    match kind {
        NativeKind::Deployment
        | NativeKind::ReplicaSet
        | NativeKind::StatefulSet
        | NativeKind::DaemonSet => workload(kind, object, status),
        NativeKind::Job => Ok(job(status)),
        NativeKind::Service => Ok(json!({ "loadBalancer": load_balancer(status) })),
        NativeKind::PodDisruptionBudget => Ok(pod_disruption_budget(status)),
        NativeKind::HorizontalPodAutoscaler => Ok(Value::Object(counted(kind, status))),
        _ => Ok(status.clone()),
    }
}

/// Karmada leaves out `observedGeneration` of a `StatefulSet`, so that no one can tell whether its
/// counters are those of the last change. Here it is reported as for the other workloads.
fn workload(kind: NativeKind, object: &Value, status: &Value) -> Result<Value, InterpretError> {
    let mut reported = Map::new();
    let generation = integer(object, &["metadata", "generation"]).unwrap_or_default();
    GENERATION.write(&mut reported, generation);
    RESOURCE_TEMPLATE_GENERATION.write(&mut reported, template_generation(object)?);
    OBSERVED_GENERATION.write(&mut reported, OBSERVED_GENERATION.read(status));
    let zeros = reported.is_empty() && counters::of(kind).all(|counter| counter.read(status) == 0);
    if zeros && matches!(kind, NativeKind::Deployment | NativeKind::ReplicaSet) {
        return Ok(Value::Null);
    }
    reported.extend(counted(kind, status));
    Ok(Value::Object(reported))
}

/// The generation in the annotation; zero if there is none.
///
/// Karmada fails without it. Objects that Karmada did not bring into a member have none, and their
/// status counts all the same.
fn template_generation(object: &Value) -> Result<i64, InterpretError> {
    let path = ["metadata", "annotations", TEMPLATE_GENERATION_ANNOTATION];
    match at(object, &path).as_str() {
        None => Ok(0),
        Some(generation) => generation.parse().map_err(|_| {
            InterpretError(format!(
                "annotation {TEMPLATE_GENERATION_ANNOTATION} is no integer"
            ))
        }),
    }
}

fn job(status: &Value) -> Value {
    let mut reported = counted(NativeKind::Job, status);
    for name in ["conditions", "startTime", "completionTime"] {
        let member = at(status, &[name]);
        let is_empty = match member {
            Value::Array(items) => items.is_empty(),
            Value::String(time) => time.is_empty(),
            _ => true,
        };
        if !is_empty {
            reported.insert(name.to_owned(), member.clone());
        }
    }
    Value::Object(reported)
}

fn load_balancer(status: &Value) -> Value {
    match at(status, &["loadBalancer"]) {
        balancer @ Value::Object(_) => balancer.clone(),
        _ => json!({}),
    }
}

fn pod_disruption_budget(status: &Value) -> Value {
    let mut reported = counted(NativeKind::PodDisruptionBudget, status);
    let disrupted = at(status, &["disruptedPods"]);
    if disrupted.as_object().is_some_and(|pods| !pods.is_empty()) {
        reported.insert("disruptedPods".to_owned(), disrupted.clone());
    }
    Value::Object(reported)
}

/// The counters of a kind, with its zeros as its type writes them.
fn counted(kind: NativeKind, status: &Value) -> Map<String, Value> {
    let mut reported = Map::new();
    for counter in counters::of(kind) {
        counter.write(&mut reported, counter.read(status));
    }
    reported
}

fn not_a_map(status: &Value) -> InterpretError {
    let found = match status {
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        _ => "a list",
    };
    InterpretError(format!("status is {found}, expected a map"))
}

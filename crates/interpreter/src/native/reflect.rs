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
    value::{at, integer, list, map, text},
};

/// The annotation with the generation of the template that an object in a member was made of.
pub const TEMPLATE_GENERATION_ANNOTATION: &str = "resourcetemplate.karmada.io/generation";

/// What objects of Flux say of what they have fetched and applied: texts that are equal in all
/// members which have the same. Sources: `HelmReleaseStatus`, `KustomizationStatus`,
/// `HelmChartStatus`.
pub const FLUX_REVISIONS: [&str; 9] = [
    "helmChart",
    "lastAppliedOriginRevision",
    "lastAppliedRevision",
    "lastAttemptedConfigDigest",
    "lastAttemptedReleaseAction",
    "lastAttemptedRevision",
    "lastAttemptedValuesChecksum",
    "observedChartName",
    "observedSourceArtifactRevision",
];

/// Bytes of the message of a condition that are reported, at most. Those of Flux have up to 20,000,
/// in several conditions.
const LONGEST_MESSAGE: usize = 1024;

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
        NativeKind::Flux => flux(object, status),
        _ => Ok(status.clone()),
    }
}

/// Karmada leaves out `observedGeneration` of a `StatefulSet`, so that no one can tell whether its
/// counters are those of the last change. Here it is reported as for the other workloads.
fn workload(kind: NativeKind, object: &Value, status: &Value) -> Result<Value, InterpretError> {
    let mut reported = generations(object, status)?;
    let zeros = reported.is_empty() && counters::of(kind).all(|counter| counter.read(status) == 0);
    if zeros && matches!(kind, NativeKind::Deployment | NativeKind::ReplicaSet) {
        return Ok(Value::Null);
    }
    reported.extend(counted(kind, status));
    Ok(Value::Object(reported))
}

/// Of which change of the object, and of its template, the status is.
fn generations(object: &Value, status: &Value) -> Result<Map<String, Value>, InterpretError> {
    let mut reported = Map::new();
    let generation = integer(object, &["metadata", "generation"]).unwrap_or_default();
    GENERATION.write(&mut reported, generation);
    RESOURCE_TEMPLATE_GENERATION.write(&mut reported, template_generation(object)?);
    OBSERVED_GENERATION.write(&mut reported, OBSERVED_GENERATION.read(status));
    Ok(reported)
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

/// Without what grows with the chart: inventory and history.
fn flux(object: &Value, status: &Value) -> Result<Value, InterpretError> {
    let mut reported = generations(object, status)?;
    reported.extend(counted(NativeKind::Flux, status));
    for name in FLUX_REVISIONS {
        let revision = text(status, &[name]);
        if !revision.is_empty() {
            reported.insert(name.to_owned(), revision.into());
        }
    }
    if let Some(artifact) = map(status, &["artifact"]) {
        let mut artifact = artifact.clone();
        // Annotations of a registry, which may be long.
        artifact.shift_remove("metadata");
        reported.insert("artifact".to_owned(), Value::Object(artifact));
    }
    let conditions = list(status, &["conditions"]);
    if !conditions.is_empty() {
        let conditions = conditions.iter().map(with_short_message).collect();
        reported.insert("conditions".to_owned(), Value::Array(conditions));
    }
    Ok(Value::Object(reported))
}

fn with_short_message(condition: &Value) -> Value {
    let mut short = condition.clone();
    let message = text(condition, &["message"]);
    if message.len() > LONGEST_MESSAGE {
        short["message"] = message[..message.floor_char_boundary(LONGEST_MESSAGE)].into();
    }
    short
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

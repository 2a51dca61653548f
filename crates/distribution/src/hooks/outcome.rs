//! What has become of a hook, by its object in a cluster.

use fleetdex_interpreter::value::{group, list, text};
use serde_json::Value;

/// Bytes of a message, at most.
const LONGEST_MESSAGE: usize = 256;

/// What has become of a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookOutcome {
    /// It has not ended: what it waits for.
    Waits(String),
    /// It has ended well.
    Succeeded,
    /// It has failed, and why.
    Failed(String),
}

/// What a cluster says of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookReport {
    /// The [key](super::HookTask::key) of the task.
    pub key: String,
    /// What has become of it.
    pub outcome: HookOutcome,
}

impl HookOutcome {
    /// By an object of a cluster. As in helm, a Job and a Pod have to end, and a definition has to
    /// be established; anything else is enough when it is there.
    pub fn of(object: &Value) -> Self {
        match (group(object), text(object, &["kind"])) {
            ("batch", "Job") => of_job(object),
            ("", "Pod") => of_pod(object),
            ("apiextensions.k8s.io", "CustomResourceDefinition") => of_definition(object),
            _ => Self::Succeeded,
        }
    }

    /// It waits, for a reason that may be of a cluster.
    pub fn waits(reason: &str) -> Self {
        Self::Waits(bounded(reason))
    }

    /// It has failed, for a reason that may be of a cluster.
    pub fn failed(reason: &str) -> Self {
        Self::Failed(bounded(reason))
    }
}

fn of_job(job: &Value) -> HookOutcome {
    if let Some(failed) = condition(job, "Failed") {
        return HookOutcome::failed(&reason(failed, "the Job has failed"));
    }
    match condition(job, "Complete") {
        Some(_) => HookOutcome::Succeeded,
        None => HookOutcome::waits("the Job has not ended"),
    }
}

fn of_pod(pod: &Value) -> HookOutcome {
    let status = pod.get("status").unwrap_or(&Value::Null);
    match text(status, &["phase"]) {
        "Succeeded" => HookOutcome::Succeeded,
        "Failed" => HookOutcome::failed(&reason(status, "the Pod has failed")),
        _ => HookOutcome::waits("the Pod has not ended"),
    }
}

fn of_definition(definition: &Value) -> HookOutcome {
    match condition(definition, "Established") {
        Some(_) => HookOutcome::Succeeded,
        None => HookOutcome::waits("the definition is not established"),
    }
}

/// A condition that holds.
fn condition<'o>(object: &'o Value, kind: &str) -> Option<&'o Value> {
    let mut conditions = list(object, &["status", "conditions"]).iter();
    conditions.find(|one| text(*one, &["type"]) == kind && text(*one, &["status"]) == "True")
}

fn reason(value: &Value, default: &str) -> String {
    let (reason, message) = (text(value, &["reason"]), text(value, &["message"]));
    match (reason, message) {
        ("", "") => default.to_owned(),
        (text, "") | ("", text) => text.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

/// The beginning of a text.
fn bounded(text: &str) -> String {
    let end = text.floor_char_boundary(LONGEST_MESSAGE);
    text.get(..end).unwrap_or_default().to_owned()
}

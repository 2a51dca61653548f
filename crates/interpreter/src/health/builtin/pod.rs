//! Pods.

use super::condition::{self, no_phase, unknown_phase, with_status};
use crate::{
    health::{Assessment, Health},
    value::{Tree, Trees, at, integer, list, text, text_or},
};

/// How many containers a message names.
const MAX_CONTAINERS: usize = 4;

/// The restart policy does not matter, but a pod of a Job is Progressing until it ends.
pub fn pod(object: Tree<'_>) -> Assessment {
    match text(object, &["status", "phase"]) {
        "Failed" => return failed(object),
        "Succeeded" => return with_message(object, Health::Healthy, ""),
        _ => {}
    }
    blocked(object)
        .or_else(|| unscheduled(object))
        .unwrap_or_else(|| by_phase(object))
}

fn by_phase(object: Tree<'_>) -> Assessment {
    match text(object, &["status", "phase"]) {
        "Running" => running(object),
        "Pending" => starting(object, "Pending"),
        "" => no_phase(),
        "Unknown" => {
            let message = "the node of the pod cannot be reached";
            with_message(object, Health::Unknown, message)
        }
        other => unknown_phase(other),
    }
}

fn running(object: Tree<'_>) -> Assessment {
    if with_status(object, "Ready", "True").is_some() {
        return if is_of_job(object) {
            Assessment::progressing("JobRunning", "the job is running")
        } else {
            with_message(object, Health::Healthy, "")
        };
    }
    crashed(object).unwrap_or_else(|| starting(object, "ContainersNotReady"))
}

fn is_of_job(object: Tree<'_>) -> bool {
    list(object, &["metadata", "ownerReferences"])
        .iter()
        .any(|owner| {
            text(owner, &["kind"]) == "Job" && text(owner, &["apiVersion"]).starts_with("batch/")
        })
}

/// Degraded, if a container waits for something that does not come by itself.
fn blocked(object: Tree<'_>) -> Option<Assessment> {
    let blocked: Vec<Tree<'_>> = all_containers(object)
        .filter(|container| is_trouble(waiting_reason(container)))
        .take(MAX_CONTAINERS)
        .collect();
    let reason = waiting_reason(blocked.first()?);
    let messages: Vec<String> = blocked.into_iter().map(waiting_message).collect();
    Some(Assessment::degraded(reason, &messages.join("; ")))
}

/// Source: Argo CD, `health_pod.go`; an invalid image name is no better than one that cannot be
/// pulled.
fn is_trouble(reason: &str) -> bool {
    reason.starts_with("Err")
        || reason.ends_with("Error")
        || reason.ends_with("BackOff")
        || reason == "InvalidImageName"
}

fn waiting_reason(container: Tree<'_>) -> &str {
    text(container, &["state", "waiting", "reason"])
}

fn waiting_message(container: Tree<'_>) -> String {
    let name = text(container, &["name"]);
    let reason = waiting_reason(container);
    let message = text_or(container, &["state", "waiting", "message"], reason);
    match last_failure(container) {
        Some(failure) => format!("container {name:?}: {message}, {}", exit(failure)),
        None => format!("container {name:?}: {message}"),
    }
}

fn unscheduled(object: Tree<'_>) -> Option<Assessment> {
    let condition = with_status(object, "PodScheduled", "False")?;
    let message = text(condition, &["message"]);
    match text(condition, &["reason"]) {
        "SchedulingGated" => Some(condition::assess(Health::Suspended, condition)),
        // The reason of the scheduler's event, which is the word that users know.
        "Unschedulable" => Some(Assessment::degraded("FailedScheduling", message)),
        "" => None,
        _ => Some(condition::assess(Health::Progressing, condition)),
    }
}

fn crashed(object: Tree<'_>) -> Option<Assessment> {
    let (container, failure) = containers(object)
        .iter()
        .chain(sidecars(object))
        .filter(|container| restarts(container) > 0)
        .find_map(|container| Some((container, last_failure(container)?)))?;
    let name = text(container, &["name"]);
    let message = format!(
        "container {name:?} was restarted {} times, {}",
        restarts(container),
        exit(failure)
    );
    Some(Assessment::degraded(exit_reason(failure), &message))
}

fn restarts(container: Tree<'_>) -> i64 {
    integer(container, &["restartCount"]).unwrap_or(0)
}

fn failed(object: Tree<'_>) -> Assessment {
    let container = all_containers(object)
        .find_map(|container| Some((container, failure(at(container, TERMINATED))?)));
    let reason = match (text(object, &["status", "reason"]), container) {
        ("", Some((_, failure))) => exit_reason(failure),
        ("", None) => "PodFailed",
        (reason, _) => reason,
    };
    let message = match (text(object, &["status", "message"]), container) {
        ("", Some((container, failure))) => failure_message(container, failure),
        (message, _) => message.to_owned(),
    };
    Assessment::degraded(reason, &message)
}

fn failure_message(container: Tree<'_>, failure: Tree<'_>) -> String {
    let name = text(container, &["name"]);
    match text(failure, &["message"]) {
        "" => format!("container {name:?}: {}", exit(failure)),
        message => message.to_owned(),
    }
}

const TERMINATED: &[&str] = &["state", "terminated"];

fn last_failure(container: Tree<'_>) -> Option<Tree<'_>> {
    failure(at(container, &["lastState", "terminated"]))
        .or_else(|| failure(at(container, TERMINATED)))
}

/// A termination, if it is a failure.
fn failure(terminated: Tree<'_>) -> Option<Tree<'_>> {
    let code = integer(terminated, &["exitCode"]).unwrap_or(0);
    (code != 0 || text(terminated, &["reason"]) == "OOMKilled").then_some(terminated)
}

fn exit(failure: Tree<'_>) -> String {
    let code = integer(failure, &["exitCode"]).unwrap_or(0);
    format!("last exit code {code} ({})", exit_reason(failure))
}

fn exit_reason(failure: Tree<'_>) -> &str {
    text_or(failure, &["reason"], "Error")
}

fn starting(object: Tree<'_>, fallback: &str) -> Assessment {
    let waiting = all_containers(object).find(|container| !waiting_reason(container).is_empty());
    if let Some(container) = waiting {
        let message = waiting_message(container);
        return Assessment::progressing(waiting_reason(container), &message);
    }
    let message = text(object, &["status", "message"]);
    let reason = text(object, &["status", "reason"]);
    match with_status(object, "Ready", "False") {
        Some(condition) if reason.is_empty() => condition::assess(Health::Progressing, condition),
        Some(condition) if message.is_empty() => {
            Assessment::progressing(reason, text(condition, &["message"]))
        }
        _ if reason.is_empty() => Assessment::progressing(fallback, message),
        // Such as NodeLost.
        _ => Assessment::progressing(reason, message),
    }
}

fn with_message(object: Tree<'_>, health: Health, fallback: &'static str) -> Assessment {
    let message = text_or(object, &["status", "message"], fallback);
    Assessment::new(health, text(object, &["status", "reason"]), message)
}

fn containers(object: Tree<'_>) -> Trees<'_> {
    list(object, &["status", "containerStatuses"])
}

fn all_containers(object: Tree<'_>) -> impl Iterator<Item = Tree<'_>> {
    init_containers(object).iter().chain(containers(object))
}

fn init_containers(object: Tree<'_>) -> Trees<'_> {
    list(object, &["status", "initContainerStatuses"])
}

/// Init containers that still run. One that has ended well may have failed before.
fn sidecars(object: Tree<'_>) -> impl Iterator<Item = Tree<'_>> {
    init_containers(object)
        .iter()
        .filter(|container| at(*container, TERMINATED).is_null())
}

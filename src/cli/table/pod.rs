//! Columns of pods. The status is the one word that kubectl condenses phase, init containers and containers into.

use serde_json::Value;

use super::{AGE, Column, NONE, Object, column, wide};

pub(super) const COLUMNS: &[Column] = &[
    column("READY", |object| {
        let statuses = object.list("/status/containerStatuses").iter().chain(sidecars(object));
        let ready = statuses.filter(|status| status["ready"] == true).count();
        let init_containers = object.list("/spec/initContainers").iter();
        let total = object.list("/spec/containers").len() + init_containers.filter(|init| is_sidecar(init)).count();
        format!("{ready}/{total}")
    }),
    column("STATUS", status),
    column("RESTARTS", |object| {
        let statuses = object.list("/status/containerStatuses").iter().chain(sidecars(object));
        statuses.filter_map(|status| status["restartCount"].as_i64()).sum::<i64>().to_string()
    }),
    AGE,
    wide("IP", |object| object.text_or_none("/status/podIP")),
    wide("NODE", |object| object.text_or_none("/spec/nodeName")),
    wide("NOMINATED NODE", |object| object.text_or_none("/status/nominatedNodeName")),
    wide("READINESS GATES", |object| {
        let gates = object.list("/spec/readinessGates");
        let passed = gates.iter().filter(|gate| condition_is_true(object, &gate["conditionType"])).count();
        if gates.is_empty() { NONE.to_owned() } else { format!("{passed}/{}", gates.len()) }
    }),
];

fn condition_is_true(object: &Object<'_>, name: &Value) -> bool {
    object.list("/status/conditions").iter().any(|condition| condition["type"] == *name && condition["status"] == "True")
}

fn is_sidecar(init_container: &Value) -> bool {
    init_container["restartPolicy"] == "Always"
}

/// Statuses of the init containers that keep running beside the others.
fn sidecars<'o>(object: &Object<'o>) -> impl Iterator<Item = &'o Value> {
    let containers = object.list("/spec/initContainers");
    let statuses = object.list("/status/initContainerStatuses").iter();
    statuses.filter(move |status| containers.iter().any(|init| init["name"] == status["name"] && is_sidecar(init)))
}

fn status(object: &Object<'_>) -> String {
    let reason = object.text("/status/reason").or(object.text("/status/phase")).unwrap_or("Unknown");
    if object.text("/metadata/deletionTimestamp").is_some() && !matches!(reason, "Succeeded" | "Failed" | "Completed") {
        return if reason == "NodeLost" { "Unknown" } else { "Terminating" }.to_owned();
    }
    if let Some(waiting_for) = initialising(object) {
        return waiting_for;
    }
    let containers = object.list("/status/containerStatuses");
    let told = containers.iter().filter_map(container_reason).next_back();
    let is_running = containers.iter().any(|container| container["ready"] == true && container["state"].get("running").is_some());
    match told {
        // A finished container beside a running one is no news.
        Some(word) if word == "Completed" && is_running => {
            if condition_is_true(object, &Value::from("Ready")) { "Running" } else { "NotReady" }.to_owned()
        }
        Some(word) => word,
        None => reason.to_owned(),
    }
}

/// `Init:…` while an init container is not done.
fn initialising(object: &Object<'_>) -> Option<String> {
    let total = object.list("/spec/initContainers").len();
    let statuses = object.list("/status/initContainerStatuses").iter();
    let is_done = |status: &Value| {
        let has_started = status["started"] == true && sidecars(object).any(|sidecar| sidecar["name"] == status["name"]);
        status.pointer("/state/terminated/exitCode").and_then(Value::as_i64) == Some(0) || has_started
    };
    let (position, blocking) = statuses.enumerate().find(|(_, status)| !is_done(status))?;
    let reason = container_reason(blocking).filter(|word| word != "PodInitializing");
    Some(reason.map_or_else(|| format!("Init:{position}/{total}"), |word| format!("Init:{word}")))
}

/// Why a container does not run.
fn container_reason(status: &Value) -> Option<String> {
    let waiting = status.pointer("/state/waiting/reason").and_then(Value::as_str);
    let Some(terminated) = status.pointer("/state/terminated") else { return waiting.map(str::to_owned) };
    let reason = waiting.or(terminated["reason"].as_str()).filter(|word| !word.is_empty());
    if let Some(word) = reason {
        return Some(word.to_owned());
    }
    let signal = terminated["signal"].as_i64().filter(|number| *number != 0);
    let exit_code = terminated["exitCode"].as_i64().unwrap_or_default();
    Some(signal.map_or_else(|| format!("ExitCode:{exit_code}"), |number| format!("Signal:{number}")))
}

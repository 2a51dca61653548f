//! Columns of the kinds that run pods.

use serde_json::Value;

use super::{AGE, Column, NONE, Object, column, human_duration, labels, wide};

pub(super) const DEPLOYMENT: &[Column] = &[
    column("READY", |object| of_desired(object, "/status/readyReplicas")),
    column("UP-TO-DATE", |object| object.number("/status/updatedReplicas").to_string()),
    column("AVAILABLE", |object| object.number("/status/availableReplicas").to_string()),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub(super) const STATEFUL_SET: &[Column] =
    &[column("READY", |object| of_desired(object, "/status/readyReplicas")), AGE, CONTAINERS, IMAGES];

pub(super) const REPLICA_SET: &[Column] = &[
    column("DESIRED", |object| object.number("/spec/replicas").to_string()),
    column("CURRENT", |object| object.number("/status/replicas").to_string()),
    column("READY", |object| object.number("/status/readyReplicas").to_string()),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub(super) const DAEMON_SET: &[Column] = &[
    column("DESIRED", |object| object.number("/status/desiredNumberScheduled").to_string()),
    column("CURRENT", |object| object.number("/status/currentNumberScheduled").to_string()),
    column("READY", |object| object.number("/status/numberReady").to_string()),
    column("UP-TO-DATE", |object| object.number("/status/updatedNumberScheduled").to_string()),
    column("AVAILABLE", |object| object.number("/status/numberAvailable").to_string()),
    column("NODE SELECTOR", |object| labels(object, "/spec/template/spec/nodeSelector")),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub(super) const JOB: &[Column] = &[
    column("STATUS", |object| {
        let holds = |name: &str| {
            let conditions = object.list("/status/conditions");
            conditions.iter().any(|condition| condition["type"] == name && condition["status"] == "True")
        };
        let known = ["Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"];
        let found = known.into_iter().find(|name| holds(name));
        found.unwrap_or("Running").to_owned()
    }),
    column("COMPLETIONS", |object| {
        let desired = object.value.pointer("/spec/completions").and_then(Value::as_i64);
        format!("{}/{}", object.number("/status/succeeded"), desired.unwrap_or(1))
    }),
    column("DURATION", |object| {
        let moment = |pointer| object.text(pointer)?.parse::<jiff::Timestamp>().ok();
        let Some(start) = moment("/status/startTime") else { return String::new() };
        let end = moment("/status/completionTime").unwrap_or(object.now);
        human_duration(end.as_second() - start.as_second())
    }),
    AGE,
    CONTAINERS,
    IMAGES,
];

pub(super) const CRON_JOB: &[Column] = &[
    column("SCHEDULE", |object| object.text_or_none("/spec/schedule")),
    column("TIMEZONE", |object| object.text_or_none("/spec/timeZone")),
    column("SUSPEND", |object| {
        let suspended = object.value.pointer("/spec/suspend").and_then(Value::as_bool).unwrap_or_default();
        if suspended { "True" } else { "False" }.to_owned()
    }),
    column("ACTIVE", |object| object.list("/status/active").len().to_string()),
    column("LAST SCHEDULE", |object| object.since("/status/lastScheduleTime").unwrap_or_else(|| NONE.to_owned())),
    AGE,
];

const CONTAINERS: Column = wide("CONTAINERS", |object| container_fields(object, "name"));
const IMAGES: Column = wide("IMAGES", |object| container_fields(object, "image"));
const SELECTOR: Column = wide("SELECTOR", |object| labels(object, "/spec/selector/matchLabels"));

fn of_desired(object: &Object<'_>, ready: &str) -> String {
    format!("{}/{}", object.number(ready), object.number("/spec/replicas"))
}

fn container_fields(object: &Object<'_>, field: &str) -> String {
    let containers = object.list("/spec/template/spec/containers").iter();
    containers.filter_map(|container| container[field].as_str()).collect::<Vec<_>>().join(",")
}

//! Jobs: the sums of their pods, and whether all members are through.

use serde_json::{Value, json};

use super::report::{MAX_NAMED_CLUSTERS, latest_time, reported, sums, times, with_status};
use crate::{
    native::{counters, kind::NativeKind},
    request::AggregatedStatusItem,
    value::{at, list, text},
};

/// A Job with the status of all members. A finished Job is left as it is.
pub fn aggregated(object: &Value, items: &[AggregatedStatusItem]) -> Value {
    let old = at(object, &["status"]);
    if finished(old).is_some() {
        return object.clone();
    }
    let mut status = sums(counters::of(NativeKind::Job), items);
    let conditions = conditions(items);
    if !conditions.is_empty() {
        status.insert("conditions".to_owned(), Value::Array(conditions));
    }
    let start = Some(text(old, &["startTime"]))
        .filter(|time| !time.is_empty())
        .or_else(|| of_all(items, "startTime")?.into_iter().min());
    let completion = of_all(items, "completionTime").and_then(|times| times.into_iter().max());
    for (name, time) in [("startTime", start), ("completionTime", completion)] {
        if let Some(time) = time {
            status.insert(name.to_owned(), time.into());
        }
    }
    if status.is_empty() && old.is_null() {
        return object.clone();
    }
    with_status(object, Value::Object(status))
}

/// The times of a name, if every member has one.
fn of_all<'i>(items: &'i [AggregatedStatusItem], name: &str) -> Option<Vec<&'i str>> {
    let times: Vec<&str> = times(reported(items).map(|(_, status)| status), name).collect();
    (times.len() == items.len()).then_some(times)
}

/// The conditions of the whole Job: Failed as soon as one member's has failed, Complete once all
/// are.
fn conditions(items: &[AggregatedStatusItem]) -> Vec<Value> {
    let in_state = |kind| move |status: &Value| finished(status) == Some(kind);
    let failed: Vec<(&str, &Value)> = reported(items)
        .filter(|(_, status)| in_state("Failed")(status))
        .collect();
    if !failed.is_empty() {
        let clusters: Vec<&str> = failed.iter().map(|(cluster, _)| *cluster).collect();
        let message = format!("Job failed in clusters {}", named(&clusters));
        return vec![condition(items, "Failed", "JobFailed", &message)];
    }
    let all = |test: &dyn Fn(&Value) -> bool| {
        !items.is_empty()
            && reported(items).filter(|(_, status)| test(status)).count() == items.len()
    };
    let mut conditions = Vec::new();
    if all(&in_state("Complete")) {
        let message = "Job completed in all clusters";
        conditions.push(condition(items, "Complete", "Completed", message));
        if all(&|status| true_condition(status, "SuccessCriteriaMet").is_some()) {
            let message = "success criteria met in all clusters";
            let kind = "SuccessCriteriaMet";
            conditions.push(condition(items, kind, "CompletionsReached", message));
        }
    }
    conditions
}

/// The type of the condition that says how a Job has ended.
fn finished(status: &Value) -> Option<&str> {
    list(status, &["conditions"])
        .iter()
        .filter(|condition| text(*condition, &["status"]) == "True")
        .map(|condition| text(condition, &["type"]))
        .find(|kind| matches!(*kind, "Complete" | "Failed"))
}

fn true_condition<'v>(status: &'v Value, kind: &str) -> Option<&'v Value> {
    list(status, &["conditions"]).iter().find(|condition| {
        text(*condition, &["type"]) == kind && text(*condition, &["status"]) == "True"
    })
}

/// A true condition since the last member has it. Karmada writes the present time, and so another
/// status each time.
fn condition(items: &[AggregatedStatusItem], kind: &str, reason: &str, message: &str) -> Value {
    let of_members = reported(items).filter_map(|(_, status)| true_condition(status, kind));
    let mut condition = json!({
        "type": kind,
        "status": "True",
        "reason": reason,
        "message": message,
    });
    if let Some(time) = latest_time(of_members, "lastTransitionTime") {
        condition["lastProbeTime"] = time.into();
        condition["lastTransitionTime"] = time.into();
    }
    condition
}

/// The names of clusters; of many, the first ones and how many more there are.
fn named(clusters: &[&str]) -> String {
    let shown = &clusters[..clusters.len().min(MAX_NAMED_CLUSTERS)];
    let more = clusters.len() - shown.len();
    if more == 0 {
        shown.join(",")
    } else {
        format!("{} and {more} more", shown.join(","))
    }
}

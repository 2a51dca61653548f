//! The status of a binding.

use std::collections::BTreeMap;

use fleetdex_distribution::failover::BlockedEviction;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::status_board::{BindingReport, CopyReport};

/// Bytes of a binding's `aggregatedStatus`, at most. The whole binding stays below 100 kB with a
/// thousand clusters.
const LARGEST_STATUS: usize = 32 << 10;
/// Bytes of a condition's message, at most.
const LARGEST_MESSAGE: usize = 8 << 10;

/// What a status is made from.
pub struct ReportedBinding<'r> {
    /// What is known.
    pub report: &'r BindingReport,
    /// The clusters in which a deletion is held.
    pub held: &'r [String],
    /// The status before.
    pub before: &'r Value,
    /// The time.
    pub now: Timestamp,
}

/// The status of a binding.
pub fn binding_status(reported: &ReportedBinding<'_>) -> Value {
    let planned = &reported.report.planned;
    let mut status = json!({
        "lastScheduledTime": reported.report.placed_at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        "aggregatedStatus": aggregated(reported.report, &earlier(reported)),
    });
    if let Some(name) = &planned.affinity_name {
        status["schedulerObservingAffinityName"] = name.as_str().into();
    }
    let mut conditions = vec![scheduled(reported), applied(reported)];
    conditions.extend(blocked_condition(&planned.blocked));
    conditions.extend(held_condition(reported.held));
    status["conditions"] = conditions
        .into_iter()
        .map(|condition| dated(condition, reported.before, reported.now))
        .collect();
    status
}

/// Adds the condition of held deletions to a status.
pub fn set_held(status: &mut Value, held: &[String], now: Timestamp) {
    let before = status.clone();
    let others = before["conditions"].as_array().into_iter().flatten();
    let others = others.filter(|one| one["type"] != HELD).cloned();
    let held = held_condition(held).map(|condition| dated(condition, &before, now));
    status["conditions"] = others.chain(held).collect();
}

const HELD: &str = "DeletionHeld";

fn held_condition(held: &[String]) -> Option<Value> {
    if held.is_empty() {
        return None;
    }
    Some(json!({
        "type": HELD, "status": "True", "reason": "TooManyAtOnce",
        "message": bounded(&format!(
            "too much would be deleted at once in {}; set the annotation {}=true on this binding \
             if that is meant",
            held.join(", "), fleetdex_distribution::binding::ALLOW_DELETION,
        )),
    }))
}

fn blocked_condition(blocked: &[BlockedEviction]) -> Option<Value> {
    if blocked.is_empty() {
        return None;
    }
    let clusters = blocked.iter();
    let clusters = clusters.map(|one| format!("{}: {}", one.cluster, one.reason));
    let clusters: Vec<String> = clusters.collect();
    Some(json!({
        "type": "FailoverBlocked", "status": "True", "reason": "NoOtherCluster",
        "message": bounded(&format!(
            "the object would leave its cluster, and no other one takes over; {}",
            clusters.join("; "),
        )),
    }))
}

fn scheduled(reported: &ReportedBinding<'_>) -> Value {
    let planned = &reported.report.planned;
    let mut clusters_by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for one in &planned.not_chosen {
        let clusters = clusters_by_reason.entry(&one.reason).or_default();
        clusters.push(&one.cluster);
    }
    let others = clusters_by_reason.iter();
    let others = others.map(|(reason, clusters)| format!("{}: {reason}", clusters.join(", ")));
    let others: Vec<String> = others.collect();
    let others = others.join("; ");
    let (status, reason, message) = match &planned.unschedulable {
        Some(why) => ("False", "Unschedulable", format!("{why}. {others}")),
        None if others.is_empty() => ("True", "Success", "all clusters are chosen".to_owned()),
        None => ("True", "Success", format!("not chosen: {others}")),
    };
    json!({
        "type": "Scheduled", "status": status, "reason": reason, "message": bounded(&message),
    })
}

fn applied(reported: &ReportedBinding<'_>) -> Value {
    let planned = &reported.report.planned;
    let reports = &reported.report.clusters;
    let missing: Vec<String> = planned
        .clusters
        .iter()
        .filter_map(|target| match reports.get(&target.name) {
            _ if planned.suspended.contains(&target.name) => {
                Some(format!("{}: suspended", target.name))
            }
            _ if planned.awaiting.contains(&target.name) => {
                Some(format!("{}: waits for its wave", target.name))
            }
            Some(report) if report.is_applied => None,
            Some(report) => Some(format!("{}: {}", target.name, report.message)),
            None => Some(format!("{}: not written yet", target.name)),
        })
        .collect();
    let (status, reason, message) = if missing.is_empty() {
        let message = "all clusters have the object as it shall be".to_owned();
        ("True", "FullyAppliedSuccess", message)
    } else {
        ("False", "FullyAppliedFailed", missing.join("; "))
    };
    json!({
        "type": "FullyApplied", "status": status, "reason": reason, "message": bounded(&message),
    })
}

/// A condition with the time since which it has its status.
fn dated(mut condition: Value, before: &Value, now: Timestamp) -> Value {
    let known = before["conditions"].as_array().into_iter().flatten();
    let mut known = known.filter(|one| one["type"] == condition["type"]);
    let since = known
        .find(|one| one["status"] == condition["status"])
        .map(|one| one["lastTransitionTime"].clone())
        .filter(Value::is_string);
    condition["lastTransitionTime"] =
        since.unwrap_or_else(|| now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into());
    condition
}

/// What clusters have reported to an earlier process, where nothing is written now.
fn earlier(reported: &ReportedBinding<'_>) -> BTreeMap<String, CopyReport> {
    let planned = &reported.report.planned;
    let items = reported.before["aggregatedStatus"].as_array();
    let reports = items.into_iter().flatten().map(|item| {
        let health = match item["health"].as_str() {
            Some("Healthy") => "Healthy",
            Some("Unhealthy") => "Unhealthy",
            _ => "Unknown",
        };
        let text = |member: &str| item[member].as_str().unwrap_or_default().to_owned();
        let report = CopyReport {
            is_applied: item["applied"] == true,
            message: text("appliedMessage"),
            status: item.get("status").cloned(),
            health,
            ..CopyReport::default()
        };
        (text("clusterName"), report)
    });
    let is_suspended = |(name, _): &(String, _)| planned.suspended.contains(name);
    reports.filter(is_suspended).collect()
}

/// Of a cluster that is well, or not: whether its status is kept; `None`: nothing of it.
type KeepsStatus = fn(bool) -> Option<bool>;

/// What each cluster reports. Where that is too much, statuses are left out, first those of
/// clusters that are well; then clusters that are well.
fn aggregated(report: &BindingReport, earlier: &BTreeMap<String, CopyReport>) -> Value {
    let item = |name: &str, one: &CopyReport, has_status: bool| {
        let mut item = json!({
            "clusterName": name, "applied": one.is_applied, "health": one.health,
        });
        if !one.message.is_empty() {
            item["appliedMessage"] = bounded(&one.message).into();
        }
        if let Some(status) = one.status.as_ref().filter(|_| has_status) {
            item["status"] = status.clone();
        }
        item
    };
    let is_well = |one: &CopyReport| one.is_applied && one.health != "Unhealthy";
    let targets: Vec<(&str, &CopyReport)> = report
        .planned
        .clusters
        .iter()
        .filter_map(|target| {
            let name = &target.name;
            let report = report.clusters.get(name).or_else(|| earlier.get(name))?;
            Some((name.as_str(), report))
        })
        .collect();
    let levels: [KeepsStatus; 4] = [
        |_| Some(true),
        |is_well| Some(!is_well),
        |_| Some(false),
        |is_well| (!is_well).then_some(false),
    ];
    let mut items = Vec::new();
    for level in levels {
        let kept = targets.iter().filter_map(|(name, one)| {
            let has_status = level(is_well(one))?;
            Some(item(name, one, has_status))
        });
        items = kept.collect();
        let size: usize = items.iter().map(|item| item.to_string().len()).sum();
        if size <= LARGEST_STATUS {
            return items.into();
        }
    }
    let mut size = 0;
    items.retain(|item| {
        size += item.to_string().len();
        size <= LARGEST_STATUS
    });
    items.into()
}

fn bounded(text: &str) -> String {
    if text.len() <= LARGEST_MESSAGE {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(LARGEST_MESSAGE);
    format!("{} … ({} bytes in all)", &text[..end], text.len())
}

#[cfg(test)]
mod tests;

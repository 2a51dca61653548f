//! The status of all members in one (`AggregateStatus`).
//!
//! Source: `aggregatestatus.go` of Karmada's native interpreter. What a rule does not mention is
//! kept for workloads, and dropped for the other kinds. A result that equals the object's status
//! leaves the object as it is.

use serde_json::{Map, Value};

use super::{
    counters::{self, GENERATION, OBSERVED_GENERATION, RESOURCE_TEMPLATE_GENERATION},
    kind::NativeKind,
};
use crate::{
    request::AggregatedStatusItem,
    value::{at, integer, list, map},
};

mod job;
mod load_balancer;
mod phase;
mod report;

use report::{latest_time, reported, sum, sums, with_status};

/// The object with the status that follows from what the members report; `None` if its kind has no
/// rule.
pub fn with_aggregated_status(
    kind: NativeKind,
    object: &Value,
    items: &[AggregatedStatusItem],
) -> Option<Value> {
    Some(match kind {
        NativeKind::Deployment
        | NativeKind::ReplicaSet
        | NativeKind::StatefulSet
        | NativeKind::DaemonSet => workload(kind, object, items),
        NativeKind::Service => load_balancer::service(object, items),
        NativeKind::Ingress => load_balancer::ingress(object, items),
        NativeKind::Job => job::aggregated(object, items),
        NativeKind::CronJob => cron_job(object, items),
        NativeKind::Pod => phase::pod(object, items),
        NativeKind::PersistentVolume => phase::persistent_volume(object, items),
        NativeKind::PersistentVolumeClaim => phase::persistent_volume_claim(object, items),
        NativeKind::PodDisruptionBudget => pod_disruption_budget(object, items),
        NativeKind::HorizontalPodAutoscaler => horizontal_pod_autoscaler(object, items),
        NativeKind::ServiceAccount | NativeKind::Secret | NativeKind::ServiceImport => return None,
    })
}

/// The sums of the counters. The template's generation counts as observed when every member has
/// observed it.
fn workload(kind: NativeKind, object: &Value, items: &[AggregatedStatusItem]) -> Value {
    let old = at(object, &["status"]);
    let generation = integer(object, &["metadata", "generation"]).unwrap_or_default();
    let observed = if items.iter().all(|item| has_observed(item, generation)) {
        generation
    } else {
        OBSERVED_GENERATION.read(old)
    };
    let mut status = old.as_object().cloned().unwrap_or_default();
    let mut is_new = OBSERVED_GENERATION.read(old) != observed;
    OBSERVED_GENERATION.write(&mut status, observed);
    for counter in counters::of(kind) {
        let sum = sum(counter, items);
        is_new |= counter.read(old) != sum;
        counter.write(&mut status, sum);
    }
    if is_new {
        with_status(object, Value::Object(status))
    } else {
        object.clone()
    }
}

/// Whether a member's controller has seen the member's object, and the object was made of the
/// template's present generation.
///
/// Karmada compares other numbers for a `StatefulSet`, which never agree; here it has the rule of
/// the other workloads.
fn has_observed(item: &AggregatedStatusItem, template_generation: i64) -> bool {
    report::status_of(item).is_some_and(|status| {
        OBSERVED_GENERATION.read(status) >= GENERATION.read(status)
            && RESOURCE_TEMPLATE_GENERATION.read(status) >= template_generation
    })
}

fn pod_disruption_budget(object: &Value, items: &[AggregatedStatusItem]) -> Value {
    let mut status = sums(counters::of(NativeKind::PodDisruptionBudget), items);
    let mut disrupted = Map::new();
    for (cluster, reported) in reported(items) {
        for (pod, time) in map(reported, &["disruptedPods"]).into_iter().flatten() {
            disrupted.insert(format!("{cluster}/{pod}"), time.clone());
        }
    }
    if !disrupted.is_empty() {
        status.insert("disruptedPods".to_owned(), Value::Object(disrupted));
    }
    with_status(object, Value::Object(status))
}

fn horizontal_pod_autoscaler(object: &Value, items: &[AggregatedStatusItem]) -> Value {
    let status = sums(counters::of(NativeKind::HorizontalPodAutoscaler), items);
    let is_zero = status.values().all(|number| number == 0);
    if is_zero && at(object, &["status"]).is_null() {
        return object.clone();
    }
    with_status(object, Value::Object(status))
}

fn cron_job(object: &Value, items: &[AggregatedStatusItem]) -> Value {
    let active: Vec<Value> = reported(items)
        .flat_map(|(_, status)| list(status, &["active"]))
        .cloned()
        .collect();
    let old = map(object, &["status"]);
    let mut status = old.cloned().unwrap_or_default();
    status.shift_remove("active");
    if !active.is_empty() {
        status.insert("active".to_owned(), Value::Array(active));
    }
    for name in ["lastScheduleTime", "lastSuccessfulTime"] {
        status.shift_remove(name);
        if let Some(time) = latest_time(reported(items).map(|(_, status)| status), name) {
            status.insert(name.to_owned(), time.into());
        }
    }
    if old.is_none() && status.is_empty() {
        return object.clone();
    }
    with_status(object, Value::Object(status))
}

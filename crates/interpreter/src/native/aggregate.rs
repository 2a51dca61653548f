//! The status of all members in one (`AggregateStatus`).
//!
//! Source: `aggregatestatus.go` of Karmada's native interpreter. What a rule does not mention is
//! kept for workloads, and dropped for the other kinds. A result that equals the object's status
//! leaves the object as it is.

use serde_json::{Map, Value};

use super::{
    counters::{self, OBSERVED_GENERATION},
    kind::NativeKind,
};
use crate::{
    request::AggregatedStatusItem,
    value::{at, list, map},
};

mod flux;
mod job;
mod load_balancer;
mod phase;
mod report;

use report::{latest_time, observed_generation, reported, sum, sums, with_status};

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
        NativeKind::Flux => flux::aggregated(object, items),
        NativeKind::ServiceAccount | NativeKind::Secret | NativeKind::ServiceImport => return None,
    })
}

/// The sums of the counters.
fn workload(kind: NativeKind, object: &Value, items: &[AggregatedStatusItem]) -> Value {
    let old = at(object, &["status"]);
    let observed = observed_generation(object, items);
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

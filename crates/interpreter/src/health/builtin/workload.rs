//! Deployments, stateful sets, daemon sets, replica sets and replication controllers.

use super::condition::{self, count, generation_lag, with_status};
use crate::{
    health::{Assessment, Health},
    value::{Tree, at, condition as condition_of, flag, integer, text},
};

/// A paused rollout is Suspended. A rollout is in progress until all replicas are new and
/// available; once it is complete, a lack of replicas is an outage.
pub fn deployment(object: Tree<'_>) -> Assessment {
    if flag(object, &["spec", "paused"]) {
        return Assessment::new(Health::Suspended, "Paused", "the deployment is paused");
    }
    generation_lag(object)
        .or_else(|| failed_deployment(object))
        .or_else(|| rollout(object))
        .unwrap_or_else(|| Assessment::plain(Health::Healthy))
}

fn failed_deployment(object: Tree<'_>) -> Option<Assessment> {
    let progressing = condition_of(object, "Progressing");
    let progress = progressing.map_or("", |found| text(found, &["reason"]));
    let cause = progressing
        .filter(|_| progress == "ProgressDeadlineExceeded")
        .or_else(|| with_status(object, "ReplicaFailure", "True"))
        .or_else(|| {
            with_status(object, "Available", "False").filter(|_| {
                progress == "NewReplicaSetAvailable" && replicas_to_update(object).is_none()
            })
        })?;
    let message = format!("{} ({})", text(cause, &["message"]), counts(object));
    Some(Assessment::degraded(
        &condition::reason(cause),
        message.trim_start(),
    ))
}

fn rollout(object: Tree<'_>) -> Option<Assessment> {
    replicas_to_update(object).or_else(|| {
        let updated = count(object, "updatedReplicas");
        (count(object, "availableReplicas") < updated).then(|| {
            let is_rolled_out = condition_of(object, "Progressing")
                .is_some_and(|found| text(found, &["reason"]) == "NewReplicaSetAvailable");
            let reason = match with_status(object, "Available", "False") {
                Some(unavailable) => condition::reason(unavailable),
                None if is_rolled_out => "ReplicasUnavailable".into(),
                None => "RolloutInProgress".into(),
            };
            Assessment::progressing(&reason, &counts(object))
        })
    })
}

fn replicas_to_update(object: Tree<'_>) -> Option<Assessment> {
    let updated = count(object, "updatedReplicas");
    let is_missing = desired(object).is_some_and(|desired| updated < desired);
    let old = count(object, "replicas").saturating_sub(updated);
    let message = if is_missing {
        counts(object)
    } else if old > 0 {
        format!("old replicas that are pending termination: {old}")
    } else {
        return None;
    };
    Some(Assessment::progressing("RolloutInProgress", &message))
}

/// A partition and `OnDelete` leave pods at the old revision on purpose. Other old pods are an
/// update in progress.
pub fn stateful_set(object: Tree<'_>) -> Assessment {
    if count(object, "observedGeneration") == 0 {
        return Assessment::progressing("GenerationNotObserved", "no generation is observed yet");
    }
    generation_lag(object)
        .or_else(|| unready_stateful_set(object))
        .unwrap_or_else(|| updating_stateful_set(object))
}

fn unready_stateful_set(object: Tree<'_>) -> Option<Assessment> {
    let waits = integer(object, &["spec", "minReadySeconds"]).is_some_and(|seconds| seconds > 0);
    let (field, word) = if waits {
        ("availableReplicas", "available")
    } else {
        ("readyReplicas", "ready")
    };
    let up = count(object, field);
    let desired = desired(object).filter(|desired| up < *desired)?;
    Some(Assessment::progressing(
        "ReplicasNotReady",
        &format!("{up} of {desired} replicas are {word}"),
    ))
}

fn updating_stateful_set(object: Tree<'_>) -> Assessment {
    let updated = count(object, "updatedReplicas");
    let old = desired(object).unwrap_or(0).saturating_sub(updated).max(0);
    let is_rolled = revision(object, "updateRevision") == revision(object, "currentRevision");
    if text(object, &["spec", "updateStrategy", "type"]) == "OnDelete" {
        let message = format!("{old} pods run the old revision");
        let message = if is_rolled || old == 0 { "" } else { &message };
        return Assessment::new(Health::Healthy, "", message);
    }
    let rolling_update = at(object, &["spec", "updateStrategy", "rollingUpdate"]);
    if old > integer(rolling_update, &["partition"]).unwrap_or(0) {
        let message = format!("{updated} replicas are updated, {old} run the old revision");
        return Assessment::progressing("RolloutInProgress", &message);
    }
    if !rolling_update.is_object() && !is_rolled {
        let message = "the new revision is not the current one yet";
        return Assessment::progressing("RolloutInProgress", message);
    }
    Assessment::plain(Health::Healthy)
}

fn revision<'v>(object: Tree<'v>, field: &str) -> &'v str {
    text(object, &["status", field])
}

/// `OnDelete` leaves old pods, but each node still needs an available one.
pub fn daemon_set(object: Tree<'_>) -> Assessment {
    if let Some(lag) = generation_lag(object) {
        return lag;
    }
    let desired = count(object, "desiredNumberScheduled");
    let updated = count(object, "updatedNumberScheduled");
    let available = count(object, "numberAvailable");
    let on_delete = text(object, &["spec", "updateStrategy", "type"]) == "OnDelete";
    let misscheduled = count(object, "numberMisscheduled");
    let (health, reason) = if updated < desired && !on_delete {
        (Health::Progressing, "RolloutInProgress")
    } else if available < desired {
        (Health::Progressing, "PodsUnavailable")
    } else if misscheduled > 0 {
        (Health::Healthy, "")
    } else {
        return Assessment::plain(Health::Healthy);
    };
    let message = format!(
        "of {desired} pods, {updated} are updated and {available} available; \
         {misscheduled} run on a wrong node"
    );
    Assessment::new(health, reason, &message)
}

/// Also of replication controllers, which have the same status.
pub fn replica_set(object: Tree<'_>) -> Assessment {
    if let Some(lag) = generation_lag(object) {
        return lag;
    }
    if let Some(failure) = with_status(object, "ReplicaFailure", "True") {
        return condition::assess(Health::Degraded, failure);
    }
    let available = count(object, "availableReplicas");
    match desired(object).filter(|desired| available < *desired) {
        Some(desired) => Assessment::progressing(
            "ReplicasUnavailable",
            &format!("{available} of {desired} replicas are available"),
        ),
        None => Assessment::plain(Health::Healthy),
    }
}

fn desired(object: Tree<'_>) -> Option<i64> {
    integer(object, &["spec", "replicas"])
}

fn counts(object: Tree<'_>) -> String {
    let updated = count(object, "updatedReplicas");
    let desired = desired(object).unwrap_or_else(|| count(object, "replicas"));
    let available = count(object, "availableReplicas");
    format!("{updated} of {desired} replicas are updated, {available} available")
}

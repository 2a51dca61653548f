//! Jobs, cron jobs and Argo's workflows.

use fleetdex_core::model::TreeMembers;

use super::condition::{self, count, first_true, unknown_phase};
use crate::{
    health::{Assessment, Health},
    value::{Tree, flag, list, map, text},
};

/// The statuses of its conditions count: a job that was resumed has `Suspended=False`.
pub fn job(object: Tree<'_>) -> Assessment {
    if let Some(failed) = first_true(object, &["Failed", "FailureTarget"]) {
        return condition::assess(Health::Degraded, failed);
    }
    if let Some(complete) = first_true(object, &["Complete", "SuccessCriteriaMet"]) {
        return Assessment::new(Health::Healthy, "", text(complete, &["message"]));
    }
    if let Some(suspended) = first_true(object, &["Suspended"]) {
        return condition::assess(Health::Suspended, suspended);
    }
    if flag(object, &["spec", "suspend"]) {
        return Assessment::new(Health::Suspended, "JobSuspended", "the job is suspended");
    }
    let [active, succeeded, failed] =
        ["active", "succeeded", "failed"].map(|field| count(object, field));
    let message = format!("pods: {active} active, {succeeded} succeeded, {failed} failed");
    Assessment::progressing("JobRunning", &message)
}

/// Degraded, if the last run is known to have failed. The status cannot tell whether a job that has
/// never succeeded has failed or not ended yet. Times are RFC 3339 in UTC and compare as texts.
pub fn cron_job(object: Tree<'_>) -> Assessment {
    if flag(object, &["spec", "suspend"]) {
        return Assessment::new(Health::Suspended, "Suspended", "the cron job is suspended");
    }
    if map(object, &["status"]).is_none_or(TreeMembers::is_empty) {
        return Assessment::new(Health::Healthy, "", "not scheduled yet");
    }
    if !list(object, &["status", "active"]).is_empty() {
        return Assessment::new(Health::Healthy, "", "running");
    }
    let scheduled = text(object, &["status", "lastScheduleTime"]);
    match text(object, &["status", "lastSuccessfulTime"]) {
        _ if scheduled.is_empty() => Assessment::new(Health::Healthy, "", "not scheduled yet"),
        "" => Assessment::new(Health::Healthy, "", "has not succeeded yet"),
        succeeded if succeeded < scheduled => Assessment::degraded(
            "LastRunFailed",
            &format!("the run of {scheduled} did not succeed; the last success was at {succeeded}"),
        ),
        _ => Assessment::plain(Health::Healthy),
    }
}

/// Source: Argo CD, `health_argo.go`.
pub fn workflow(object: Tree<'_>) -> Assessment {
    let message = text(object, &["status", "message"]);
    match text(object, &["status", "phase"]) {
        "" => Assessment::progressing("NoStatus", message),
        phase @ ("Pending" | "Running") => Assessment::progressing(phase, message),
        "Succeeded" => Assessment::new(Health::Healthy, "", message),
        phase @ ("Failed" | "Error") => Assessment::degraded(phase, message),
        other => unknown_phase(other),
    }
}

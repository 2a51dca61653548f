use super::{
    Health::{Degraded, Healthy, Progressing, Suspended, Unknown},
    check,
};

#[test]
fn jobs_are_judged() {
    check(
        "batch/v1",
        "Job",
        &[
            (
                "complete",
                "{status: {conditions: [{type: Complete, status: 'True'}]}}",
                Healthy,
                "",
                "",
            ),
            (
                "success criteria met",
                "{status: {conditions: [{type: SuccessCriteriaMet, status: 'True', message: Reached expected number}]}}",
                Healthy,
                "",
                "Reached",
            ),
            (
                "failed",
                "{status: {failed: 7, conditions: [{type: Failed, status: 'True', reason: BackoffLimitExceeded, message: Job has reached the specified backoff limit}]}}",
                Degraded,
                "BackoffLimitExceeded",
                "backoff limit",
            ),
            (
                "about to fail",
                "{status: {conditions: [{type: FailureTarget, status: 'True', reason: DeadlineExceeded}]}}",
                Degraded,
                "DeadlineExceeded",
                "",
            ),
            (
                "not failed",
                "{status: {active: 1, failed: 2, conditions: [{type: Failed, status: 'False'}]}}",
                Progressing,
                "JobRunning",
                "pods: 1 active, 0 succeeded, 2 failed",
            ),
            (
                "not complete",
                "{status: {conditions: [{type: Complete, status: 'False'}]}}",
                Progressing,
                "JobRunning",
                "",
            ),
            (
                "suspended",
                "{status: {conditions: [{type: Suspended, status: 'True', reason: JobSuspended, message: Job suspended}]}}",
                Suspended,
                "JobSuspended",
                "Job suspended",
            ),
            (
                "to be suspended",
                "{spec: {suspend: true}}",
                Suspended,
                "JobSuspended",
                "",
            ),
            (
                "failed while suspended",
                "{spec: {suspend: true}, status: {conditions: [{type: Suspended, status: 'True'}, {type: Failed, status: 'True', reason: DeadlineExceeded}]}}",
                Degraded,
                "DeadlineExceeded",
                "",
            ),
            (
                "resumed",
                "{spec: {suspend: false}, status: {active: 1, conditions: [{type: Suspended, status: 'False', reason: JobResumed}]}}",
                Progressing,
                "JobRunning",
                "",
            ),
            ("no status", "{}", Progressing, "JobRunning", "0 active"),
            (
                "conditions of an odd type",
                "{status: {conditions: {type: Failed, status: 'True'}}}",
                Progressing,
                "JobRunning",
                "",
            ),
        ],
    );
}

#[test]
fn cron_jobs_are_judged() {
    check(
        "batch/v1",
        "CronJob",
        &[
            (
                "suspended",
                "{spec: {suspend: true}, status: {lastScheduleTime: '2026-01-02T00:00:00Z', lastSuccessfulTime: '2026-01-01T00:00:00Z'}}",
                Suspended,
                "Suspended",
                "",
            ),
            ("no status", "{}", Healthy, "", "not scheduled yet"),
            (
                "empty status",
                "{status: {}}",
                Healthy,
                "",
                "not scheduled yet",
            ),
            (
                "running",
                "{status: {active: [{name: a}], lastScheduleTime: '2026-01-02T00:00:00Z', lastSuccessfulTime: '2026-01-01T00:00:00Z'}}",
                Healthy,
                "",
                "running",
            ),
            (
                "never succeeded",
                "{status: {lastScheduleTime: '2026-01-02T00:00:00Z'}}",
                Healthy,
                "",
                "not succeeded yet",
            ),
            (
                "last run failed",
                "{status: {lastScheduleTime: '2026-01-02T00:00:00Z', lastSuccessfulTime: '2026-01-01T00:00:05Z'}}",
                Degraded,
                "LastRunFailed",
                "2026-01-02T00:00:00Z",
            ),
            (
                "last run succeeded",
                "{status: {lastScheduleTime: '2026-01-02T00:00:00Z', lastSuccessfulTime: '2026-01-02T00:00:05Z'}}",
                Healthy,
                "",
                "",
            ),
            (
                "times of odd types",
                "{status: {active: 1, lastScheduleTime: 2, lastSuccessfulTime: 1}}",
                Healthy,
                "",
                "not scheduled yet",
            ),
        ],
    );
}

#[test]
fn workflows_are_judged() {
    check(
        "argoproj.io/v1alpha1",
        "Workflow",
        &[
            ("new", "{}", Progressing, "NoStatus", ""),
            (
                "pending",
                "{status: {phase: Pending}}",
                Progressing,
                "Pending",
                "",
            ),
            (
                "running",
                "{status: {phase: Running, message: step 2}}",
                Progressing,
                "Running",
                "step 2",
            ),
            ("succeeded", "{status: {phase: Succeeded}}", Healthy, "", ""),
            (
                "failed",
                "{status: {phase: Failed, message: child failed}}",
                Degraded,
                "Failed",
                "child failed",
            ),
            ("error", "{status: {phase: Error}}", Degraded, "Error", ""),
            (
                "unheard-of phase",
                "{status: {phase: Omitted}}",
                Unknown,
                "UnknownPhase",
                "",
            ),
        ],
    );
}

use super::check;

#[test]
fn jobs_are_judged() {
    let cases = r"
        complete | Healthy | | | {status: {conditions: [{type: Complete, status: 'True'}]}}
        success criteria met | Healthy | | Reached | {status: {conditions: [{type:
            SuccessCriteriaMet, status: 'True', message: Reached expected number}]}}
        failed | Degraded | BackoffLimitExceeded | backoff limit | {status: {failed: 7,
            conditions: [{type: Failed, status: 'True', reason: BackoffLimitExceeded,
            message: Job has reached the specified backoff limit}]}}
        about to fail | Degraded | DeadlineExceeded | | {status: {conditions: [{type: FailureTarget,
            status: 'True', reason: DeadlineExceeded}]}}
        not failed | Progressing | JobRunning | pods: 1 active, 0 succeeded, 2 failed
            | {status: {active: 1, failed: 2, conditions: [{type: Failed, status: 'False'}]}}
        not complete | Progressing | JobRunning |
            | {status: {conditions: [{type: Complete, status: 'False'}]}}
        suspended | Suspended | JobSuspended | Job suspended | {status: {conditions: [{type:
            Suspended, status: 'True', reason: JobSuspended, message: Job suspended}]}}
        to be suspended | Suspended | JobSuspended | | {spec: {suspend: true}}
        failed while suspended | Degraded | DeadlineExceeded | | {spec: {suspend: true},
            status: {conditions: [{type: Suspended, status: 'True'}, {type: Failed,
            status: 'True', reason: DeadlineExceeded}]}}
        resumed | Progressing | JobRunning | | {spec: {suspend: false}, status: {active: 1,
            conditions: [{type: Suspended, status: 'False', reason: JobResumed}]}}
        no status | Progressing | JobRunning | 0 active | {}
        conditions of an odd type | Progressing | JobRunning |
            | {status: {conditions: {type: Failed, status: 'True'}}}
    ";
    check("batch/v1", "Job", cases);
}

#[test]
fn cron_jobs_are_judged() {
    let cases = r"
        suspended | Suspended | Suspended | | {spec: {suspend: true}, status: {lastScheduleTime:
            '2026-01-02T00:00:00Z', lastSuccessfulTime: '2026-01-01T00:00:00Z'}}
        no status | Healthy | | not scheduled yet | {}
        empty status | Healthy | | not scheduled yet | {status: {}}
        running | Healthy | | running | {status: {active: [{name: a}], lastScheduleTime:
            '2026-01-02T00:00:00Z', lastSuccessfulTime: '2026-01-01T00:00:00Z'}}
        never succeeded | Healthy | | not succeeded yet
            | {status: {lastScheduleTime: '2026-01-02T00:00:00Z'}}
        last run failed | Degraded | LastRunFailed | 2026-01-02T00:00:00Z | {status:
            {lastScheduleTime: '2026-01-02T00:00:00Z', lastSuccessfulTime: '2026-01-01T00:00:05Z'}}
        last run succeeded | Healthy | | | {status: {lastScheduleTime: '2026-01-02T00:00:00Z',
            lastSuccessfulTime: '2026-01-02T00:00:05Z'}}
        times of odd types | Healthy | | not scheduled yet
            | {status: {active: 1, lastScheduleTime: 2, lastSuccessfulTime: 1}}
    ";
    check("batch/v1", "CronJob", cases);
}

#[test]
fn workflows_are_judged() {
    let cases = r"
        new | Progressing | NoStatus | | {}
        pending | Progressing | Pending | | {status: {phase: Pending}}
        running | Progressing | Running | step 2 | {status: {phase: Running, message: step 2}}
        succeeded | Healthy | | | {status: {phase: Succeeded}}
        failed | Degraded | Failed | child failed | {status: {phase: Failed, message: child failed}}
        error | Degraded | Error | | {status: {phase: Error}}
        unheard-of phase | Unknown | UnknownPhase | | {status: {phase: Omitted}}
    ";
    check("argoproj.io/v1alpha1", "Workflow", cases);
}

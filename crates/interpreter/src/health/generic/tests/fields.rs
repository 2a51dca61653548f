use super::*;

#[test]
fn status_words_are_judged_by_the_name_of_their_field() {
    expect_statuses(&[
        ("{phase: Running}", Health::Healthy),
        ("{PostgresClusterStatus: Creating}", Health::Progressing),
        ("{lifecycleStage: Failed}", Health::Degraded),
        ("{compliant: NonCompliant}", Health::Degraded),
        ("{health: yellow}", Health::Progressing),
        ("{state: Stopped}", Health::Suspended),
        ("{state: NotFound}", Health::Degraded),
        ("{applicationState: {state: FAILED}}", Health::Degraded),
        ("{health: {status: Progressing}}", Health::Progressing),
        ("{applicationState: {colour: FAILED}}", Health::Healthy),
        ("{colour: Failed}", Health::Healthy),
        ("{phase: [Failed]}", Health::Healthy),
        ("{phase: ' ', ready: true}", Health::Healthy),
    ]);
}

#[test]
fn running_is_progress_for_kinds_that_run_once() {
    for (kind, expected) in [
        ("BuildJob", Health::Progressing),
        ("PipelineRun", Health::Progressing),
        ("Server", Health::Healthy),
    ] {
        let object = json!({"kind": kind, "status": {"phase": "Running"}});
        assert_eq!(health(&object), expected, "{kind}");
    }
}

#[test]
fn booleans_are_judged_by_their_names() {
    expect_statuses(&[
        ("{ready: true}", Health::Healthy),
        ("{ready: false}", Health::Progressing),
        ("{readyToUse: false}", Health::Progressing),
        ("{healthy: false}", Health::Degraded),
        ("{hasFailed: true}", Health::Degraded),
        ("{hasFailed: false}", Health::Healthy),
        ("{notInstalled: true}", Health::Degraded),
        ("{ready: 'false'}", Health::Healthy),
        ("{failed: 3}", Health::Healthy),
    ]);
}

#[test]
fn errors_that_are_not_empty_are_trouble() {
    expect_statuses(&[
        ("{error: it burns}", Health::Degraded),
        ("{errors: [it burns]}", Health::Degraded),
        ("{errors: 3}", Health::Degraded),
        ("{lastError: {code: 5}}", Health::Degraded),
        ("{failureReason: Purple}", Health::Degraded),
        ("{attachError: {message: no such disk}}", Health::Degraded),
        (
            "{attached: true, detachError: {message: busy}}",
            Health::Degraded,
        ),
        (
            "{error: '', errors: [], lastError: {}, address: a}",
            Health::Healthy,
        ),
        ("{errors: 0, failureMessage: null}", Health::Healthy),
    ]);
}

#[test]
fn counters_are_compared_with_what_they_should_reach() {
    for (spec, status, expected) in [
        ("{replicas: 3}", "{readyReplicas: 2}", Health::Progressing),
        ("{replicas: 3}", "{readyReplicas: 3}", Health::Healthy),
        (
            "{replicas: 0}",
            "{readyReplicas: 0, replicas: 5}",
            Health::Healthy,
        ),
        (
            "{}",
            "{availableNodes: 1, expectedNodes: 2}",
            Health::Progressing,
        ),
        (
            "{}",
            "{updatedNodes: 1, desiredNodes: 2, nodes: 1}",
            Health::Progressing,
        ),
        ("{}", "{readyMembers: 1, members: 3}", Health::Progressing),
        ("{}", "{readyMembers: 1, members: [a, b]}", Health::Healthy),
        (
            "{}",
            "{numberReady: 1, desiredNumberScheduled: 2}",
            Health::Progressing,
        ),
        (
            "{}",
            "{updatedNumberScheduled: 2, desiredNumberScheduled: 2}",
            Health::Healthy,
        ),
        ("{}", "{ready: 1/3}", Health::Progressing),
        ("{}", "{statusReplicas: 3/3}", Health::Healthy),
        ("{}", "{ready: a/3}", Health::Healthy),
        ("{replicas: '3'}", "{readyReplicas: 2}", Health::Healthy),
        ("{replicas: 3}", "{readyReplicas: '2'}", Health::Healthy),
    ] {
        let object = json!({"spec": self::object(spec), "status": self::object(status)});
        assert_eq!(health(&object), expected, "{spec} {status}");
    }
}

#[test]
fn evidence_below_the_status_decides_if_there_is_none_in_it() {
    expect_statuses(&[
        (
            "{members: [{phase: Ready}, {phase: Creating}]}",
            Health::Progressing,
        ),
        (
            "{racks: {a: {members: 3, readyMembers: 1}}}",
            Health::Progressing,
        ),
        ("{a: {b: {c: {d: {phase: Failed}}}}}", Health::Degraded),
        ("{a: {b: {c: {d: {e: {phase: Failed}}}}}}", Health::Healthy),
        (
            "{parents: [{conditions: [{type: Accepted, status: 'False'}]}]}",
            Health::Degraded,
        ),
        ("{part: {error: it burns}}", Health::Healthy),
    ]);
}

#[test]
fn below_evidence_in_the_status_only_failures_count() {
    expect_statuses(&[
        (
            "{phase: Ready, members: [{phase: Creating}]}",
            Health::Healthy,
        ),
        (
            "{phase: Ready, members: [{phase: Paused}]}",
            Health::Healthy,
        ),
        (
            "{phase: Ready, members: [{phase: Failed}]}",
            Health::Degraded,
        ),
        (
            "{phase: Creating, members: [{phase: Failed}]}",
            Health::Degraded,
        ),
        (
            "{phase: Ready, members: [{phase: Failed}, {phase: Paused}]}",
            Health::Degraded,
        ),
        (
            "{phase: Paused, members: [{phase: Failed}]}",
            Health::Suspended,
        ),
    ]);
}

#[test]
fn what_lies_in_the_past_does_not_count() {
    expect_statuses(&[
        (
            "{phase: Ready, history: [{state: Failed}]}",
            Health::Healthy,
        ),
        (
            "{phase: Ready, historyOfRuns: [{state: Failed}]}",
            Health::Healthy,
        ),
        (
            "{phase: Ready, previousRun: {state: Failed}}",
            Health::Healthy,
        ),
        (
            "{phase: Ready, pastRuns: [{state: Failed}]}",
            Health::Healthy,
        ),
        (
            "{pods: [{lastState: {terminated: {exitCode: 1}}}]}",
            Health::Healthy,
        ),
    ]);
}

#[test]
fn states_of_containers_are_understood() {
    expect_statuses(&[
        (
            "{pods: [{state: {waiting: {reason: CrashLoopBackOff}}}]}",
            Health::Degraded,
        ),
        (
            "{pods: [{state: {waiting: {reason: PodCreation}}}]}",
            Health::Progressing,
        ),
        (
            "{pods: [{state: {terminated: {exitCode: 137}}}]}",
            Health::Degraded,
        ),
        (
            "{pods: [{state: {terminated: {exitCode: 0}}}]}",
            Health::Healthy,
        ),
        (
            "{pods: [{state: {running: {startedAt: now}}}]}",
            Health::Healthy,
        ),
        ("{pods: [{waiting: 3, terminated: true}]}", Health::Healthy),
    ]);
}

#[test]
fn nested_conditions_of_an_earlier_generation_count_only_alone() {
    let stale = "{conditions: [{type: Accepted, status: 'True', observedGeneration: 1}]}";
    let fresh = "{conditions: [{type: Accepted, status: 'True', observedGeneration: 3}]}";
    expect_statuses(&[
        (&format!("{{parents: [{stale}]}}"), Health::Progressing),
        (&format!("{{parents: [{stale}, {fresh}]}}"), Health::Healthy),
        (
            &format!("{{phase: Ready, parents: [{stale}]}}"),
            Health::Healthy,
        ),
        (
            "{phase: Ready, parents: [{conditions: [{type: Stalled, status: 'True'}, \
             {type: Ready, status: 'True', observedGeneration: 1}]}]}",
            Health::Degraded,
        ),
    ]);
}

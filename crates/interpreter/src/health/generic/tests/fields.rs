use super::*;

#[test]
fn status_words_are_judged_by_the_name_of_their_field() {
    let cases = r"
        Healthy | {phase: Running}
        Progressing | {PostgresClusterStatus: Creating}
        Degraded | {lifecycleStage: Failed}
        Degraded | {compliant: NonCompliant}
        Progressing | {health: yellow}
        Suspended | {state: Stopped}
        Degraded | {state: NotFound}
        Degraded | {applicationState: {state: FAILED}}
        Progressing | {health: {status: Progressing}}
        Healthy | {applicationState: {colour: FAILED}}
        Healthy | {colour: Failed}
        Healthy | {phase: [Failed]}
        Healthy | {phase: ' ', ready: true}
    ";
    expect_statuses(cases);
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
    let cases = r"
        Healthy | {ready: true}
        Progressing | {ready: false}
        Progressing | {readyToUse: false}
        Degraded | {healthy: false}
        Degraded | {hasFailed: true}
        Healthy | {hasFailed: false}
        Degraded | {notInstalled: true}
        Healthy | {ready: 'false'}
        Healthy | {failed: 3}
    ";
    expect_statuses(cases);
}

#[test]
fn errors_that_are_not_empty_are_trouble() {
    let cases = r"
        Degraded | {error: it burns}
        Degraded | {errors: [it burns]}
        Degraded | {errors: 3}
        Degraded | {lastError: {code: 5}}
        Degraded | {failureReason: Purple}
        Degraded | {attachError: {message: no such disk}}
        Degraded | {attached: true, detachError: {message: busy}}
        Healthy | {error: '', errors: [], lastError: {}, address: a}
        Healthy | {errors: 0, failureMessage: null}
    ";
    expect_statuses(cases);
}

#[test]
fn counters_are_compared_with_what_they_should_reach() {
    let cases = r"
        Progressing | {replicas: 3} | {readyReplicas: 2}
        Healthy | {replicas: 3} | {readyReplicas: 3}
        Healthy | {replicas: 0} | {readyReplicas: 0, replicas: 5}
        Progressing | {} | {availableNodes: 1, expectedNodes: 2}
        Progressing | {} | {updatedNodes: 1, desiredNodes: 2, nodes: 1}
        Progressing | {} | {readyMembers: 1, members: 3}
        Healthy | {} | {readyMembers: 1, members: [a, b]}
        Progressing | {} | {numberReady: 1, desiredNumberScheduled: 2}
        Healthy | {} | {updatedNumberScheduled: 2, desiredNumberScheduled: 2}
        Progressing | {} | {ready: 1/3}
        Healthy | {} | {statusReplicas: 3/3}
        Healthy | {} | {ready: a/3}
        Healthy | {replicas: '3'} | {readyReplicas: 2}
        Healthy | {replicas: 3} | {readyReplicas: '2'}
    ";
    for [health, spec, status] in rows(cases) {
        let object = json!({"spec": self::object(spec), "status": self::object(status)});
        let found = format!("{:?}", self::health(&object));
        assert_eq!(found, health, "{spec} {status}");
    }
}

#[test]
fn evidence_below_the_status_decides_if_there_is_none_in_it() {
    let cases = r"
        Progressing | {members: [{phase: Ready}, {phase: Creating}]}
        Progressing | {racks: {a: {members: 3, readyMembers: 1}}}
        Degraded | {a: {b: {c: {d: {phase: Failed}}}}}
        Healthy | {a: {b: {c: {d: {e: {phase: Failed}}}}}}
        Degraded | {parents: [{conditions: [{type: Accepted, status: 'False'}]}]}
        Healthy | {part: {error: it burns}}
    ";
    expect_statuses(cases);
}

#[test]
fn below_evidence_in_the_status_only_failures_count() {
    let cases = r"
        Healthy | {phase: Ready, members: [{phase: Creating}]}
        Healthy | {phase: Ready, members: [{phase: Paused}]}
        Degraded | {phase: Ready, members: [{phase: Failed}]}
        Degraded | {phase: Creating, members: [{phase: Failed}]}
        Degraded | {phase: Ready, members: [{phase: Failed}, {phase: Paused}]}
        Suspended | {phase: Paused, members: [{phase: Failed}]}
    ";
    expect_statuses(cases);
}

#[test]
fn what_lies_in_the_past_does_not_count() {
    let cases = r"
        Healthy | {phase: Ready, history: [{state: Failed}]}
        Healthy | {phase: Ready, historyOfRuns: [{state: Failed}]}
        Healthy | {phase: Ready, previousRun: {state: Failed}}
        Healthy | {phase: Ready, pastRuns: [{state: Failed}]}
        Healthy | {pods: [{lastState: {terminated: {exitCode: 1}}}]}
    ";
    expect_statuses(cases);
}

#[test]
fn states_of_containers_are_understood() {
    let cases = r"
        Degraded | {pods: [{state: {waiting: {reason: CrashLoopBackOff}}}]}
        Progressing | {pods: [{state: {waiting: {reason: PodCreation}}}]}
        Degraded | {pods: [{state: {terminated: {exitCode: 137}}}]}
        Healthy | {pods: [{state: {terminated: {exitCode: 0}}}]}
        Healthy | {pods: [{state: {running: {startedAt: now}}}]}
        Healthy | {pods: [{waiting: 3, terminated: true}]}
    ";
    expect_statuses(cases);
}

#[test]
fn nested_conditions_of_an_earlier_generation_count_only_alone() {
    let cases = r"
        Progressing | {parents: [{conditions: [{type: Accepted, status: 'True',
            observedGeneration: 1}]}]}
        Healthy | {parents: [{conditions: [{type: Accepted, status: 'True',
            observedGeneration: 1}]}, {conditions: [{type: Accepted, status: 'True',
            observedGeneration: 3}]}]}
        Healthy | {phase: Ready, parents: [{conditions: [{type: Accepted, status: 'True',
            observedGeneration: 1}]}]}
        Degraded | {phase: Ready, parents: [{conditions: [{type: Stalled, status: 'True'},
            {type: Ready, status: 'True', observedGeneration: 1}]}]}
    ";
    expect_statuses(cases);
}

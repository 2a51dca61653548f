use super::*;

/// A case is the health of an object of generation 3, and its conditions.
#[track_caller]
fn expect(cases: &str) {
    for [health, conditions] in rows(cases) {
        let found = of_status(&format!("{{address: a, conditions: [{conditions}]}}"));
        assert_eq!(format!("{found:?}"), health, "{conditions}");
    }
}

#[test]
fn a_paused_condition_suspends() {
    let cases = r"
        Suspended | {type: Paused, status: 'True'}
        Suspended | {type: example.com/WorkSuspended, status: 'True'}
        Healthy | {type: Paused, status: 'False'}
        Healthy | {type: Paused, status: Unknown}
        Suspended | {type: Ready, status: 'True'}, {type: Paused, status: 'True'}
    ";
    expect(cases);
}

#[test]
fn a_problem_is_trouble_when_it_is_true() {
    let cases = r"
        Degraded | {type: Stalled, status: 'True'}
        Degraded | {type: Denied, status: 'True'}
        Healthy | {type: Denied, status: 'False'}
        Degraded | {type: DiskPressure, status: 'True'}
        Healthy | {type: DiskPressure, status: 'False'}
        Progressing | {type: NotReady, status: 'True', reason: Creating}
        Degraded | {type: NotReady, status: 'True', reason: CreatingFailed}
        Degraded | {type: NotReady, status: 'True', reason: NodeNotFound}
        Healthy | {type: ReplicaFailure, status: Unknown}
    ";
    expect(cases);
}

#[test]
fn an_activity_is_progress_until_its_reason_says_it_is_over() {
    let cases = r"
        Progressing | {type: Reconciling, status: 'True'}
        Progressing | {type: Running, status: 'True'}
        Progressing | {type: InProgress, status: 'True'}
        Healthy | {type: Progressing, status: 'True', reason: NewReplicaSetAvailable}
        Degraded | {type: Progressing, status: 'False', reason: ProgressDeadlineExceeded}
        Degraded | {type: Progressing, status: 'True', reason: SyncError}
        Healthy | {type: Progressing, status: 'False', reason: Idle}
        Healthy | {type: Issuing, status: Unknown}
        Progressing | {type: Issuing, status: Unknown, message: still waiting}
    ";
    expect(cases);
}

#[test]
fn a_summary_that_is_true_is_healthy_unless_its_reason_is_bad() {
    let cases = r"
        Healthy | {type: Ready, status: 'True'}
        Healthy | {type: Ready, status: 'true'}
        Healthy | {type: Ready, status: true}
        Healthy | {type: ResolvedRefs, status: 'True'}
        Degraded | {type: Ready, status: 'True', reason: RefreshFailed}
        Healthy | {type: Ready, status: 'True', message: it failed once}
    ";
    expect(cases);
}

#[test]
fn a_summary_that_is_unknown_is_progressing_unless_its_reason_says_more() {
    let cases = r"
        Progressing | {type: Ready, status: Unknown}
        Suspended | {type: Ready, status: Unknown, reason: UserPaused}
        Degraded | {type: Ready, status: Unknown, reason: NodeLost}
    ";
    expect(cases);
}

#[test]
fn a_summary_that_is_false_is_judged_by_its_texts() {
    let cases = r"
        Suspended | {type: Ready, status: 'False', reason: Suspended}
        Degraded | {type: Ready, status: 'False', reason: AuthError}
        Degraded | {type: Ready, status: 'False', message: it failed}
        Degraded | {type: Ready, status: 'False', severity: Error}
        Degraded | {type: Ready, status: 'False', reason: SecretNotFound}
        Progressing | {type: Ready, status: 'False', reason: Creating}
        Progressing | {type: Ready, status: 'False', severity: Info, reason: Odd}
        Progressing | {type: Ready, status: 'False', reason: PodsNotReady}
        Degraded | {type: Ready, status: 'False', reason: Odd}
        Progressing | {type: Ready, status: 'False'}
    ";
    expect(cases);
}

#[test]
fn a_verdict_that_is_false_is_final_unless_something_is_under_way() {
    let cases = r"
        Degraded | {type: Accepted, status: 'False'}
        Degraded | {type: Accepted, status: 'False', reason: NotAccepted}
        Progressing | {type: Accepted, status: 'False', reason: Pending}
        Degraded | {type: Valid, status: 'False', reason: Odd}
    ";
    expect(cases);
}

#[test]
fn what_is_absent_may_still_be_made() {
    let cases = r"
        Degraded | {type: Ready, status: 'False', reason: DoesNotExist}
        Progressing | {type: Ready, status: 'False', reason: DoesNotExist}, {type: Issuing,
            status: 'True'}
        Progressing | {type: Issuing, status: 'True'}, {type: Ready, status: 'False',
            reason: DoesNotExist}
        Degraded | {type: Ready, status: 'False', reason: DoesNotExist}, {type: Issuing,
            status: 'False'}
        Degraded | {type: Ready, status: 'False', reason: DoesNotExist}, {type: NotSynced,
            status: 'True', reason: Creating}
    ";
    expect(cases);
}

#[test]
fn other_conditions_count_only_without_a_summary_or_as_its_cause() {
    let cases = r"
        Degraded | {type: DatabaseReady, status: 'False', reason: LoginFailed,
            message: wrong password}
        Healthy | {type: Ready, status: 'True'}, {type: DatabaseReady, status: 'False',
            reason: LoginFailed, message: wrong password}
        Degraded | {type: Ready, status: 'False'}, {type: DatabaseReady, status: 'False',
            reason: LoginFailed, message: wrong password}
        Progressing | {type: Ready, status: 'False'}, {type: DatabaseReady, status: 'False',
            reason: Odd}
    ";
    expect(cases);
    let status = "{conditions: [{type: Ready, status: 'False', reason: Odd}, {type: DatabaseReady, status: 'False', reason: LoginFailed, message: wrong password}]}";
    assert_eq!(
        assess(&(&with_status(status)).into(), KnownStatus::Unknown).message,
        "wrong password"
    );
}

#[test]
fn a_type_without_a_good_word_is_unfamiliar() {
    let cases = r"
        Healthy | {type: DatabaseReady, status: 'True'}
        Healthy | {type: Signed, status: 'True'}
        Progressing | {type: ArtifactInStorage, status: 'True'}
        Progressing | {type: Warning, status: 'True', reason: Deprecation}
        Healthy | {type: Warning, status: 'True'}, {type: Ready, status: 'True'}
    ";
    expect(cases);
}

#[test]
fn conditions_of_an_earlier_generation_are_dropped() {
    let cases = r"
        Progressing | {type: Ready, status: 'True', observedGeneration: 2}
        Healthy | {type: Ready, status: 'True', observedGeneration: 3}
        Healthy | {type: Failed, status: 'True', observedGeneration: 2}, {type: Ready,
            status: 'True'}
        Degraded | {type: Ready, status: 'True', observedGeneration: 2}, {type: Stalled,
            status: 'True'}
    ";
    expect(cases);
}

#[test]
fn odd_conditions_are_no_evidence() {
    let cases = r"
        Healthy | Ready
        Healthy | {type: Ready}
        Healthy | {status: 'False', reason: Failed}
        Healthy | {type: Ready, status: Maybe, reason: Failed}
        Healthy | {type: Ready, status: 0, reason: Failed}
        Healthy | {type: [Ready], status: 'False', reason: Failed}
        Healthy | {type: Ready, status: 'True', reason: [Failed]}
    ";
    expect(cases);
}

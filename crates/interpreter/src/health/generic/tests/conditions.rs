use super::*;

/// The health of an object of generation 3 with these conditions.
#[track_caller]
fn expect(cases: &[(&str, Health)]) {
    for (conditions, expected) in cases {
        let status = format!("{{address: a, conditions: [{conditions}]}}");
        assert_eq!(of_status(&status), *expected, "{conditions}");
    }
}

#[test]
fn a_paused_condition_suspends() {
    expect(&[
        ("{type: Paused, status: 'True'}", Health::Suspended),
        (
            "{type: example.com/WorkSuspended, status: 'True'}",
            Health::Suspended,
        ),
        ("{type: Paused, status: 'False'}", Health::Healthy),
        ("{type: Paused, status: Unknown}", Health::Healthy),
        (
            "{type: Ready, status: 'True'}, {type: Paused, status: 'True'}",
            Health::Suspended,
        ),
    ]);
}

#[test]
fn a_problem_is_trouble_when_it_is_true() {
    expect(&[
        ("{type: Stalled, status: 'True'}", Health::Degraded),
        ("{type: Denied, status: 'True'}", Health::Degraded),
        ("{type: Denied, status: 'False'}", Health::Healthy),
        ("{type: DiskPressure, status: 'True'}", Health::Degraded),
        ("{type: DiskPressure, status: 'False'}", Health::Healthy),
        (
            "{type: NotReady, status: 'True', reason: Creating}",
            Health::Progressing,
        ),
        (
            "{type: NotReady, status: 'True', reason: CreatingFailed}",
            Health::Degraded,
        ),
        (
            "{type: NotReady, status: 'True', reason: NodeNotFound}",
            Health::Degraded,
        ),
        ("{type: ReplicaFailure, status: Unknown}", Health::Healthy),
    ]);
}

#[test]
fn an_activity_is_progress_until_its_reason_says_it_is_over() {
    expect(&[
        ("{type: Reconciling, status: 'True'}", Health::Progressing),
        ("{type: Running, status: 'True'}", Health::Progressing),
        ("{type: InProgress, status: 'True'}", Health::Progressing),
        (
            "{type: Progressing, status: 'True', reason: NewReplicaSetAvailable}",
            Health::Healthy,
        ),
        (
            "{type: Progressing, status: 'False', reason: ProgressDeadlineExceeded}",
            Health::Degraded,
        ),
        (
            "{type: Progressing, status: 'True', reason: SyncError}",
            Health::Degraded,
        ),
        (
            "{type: Progressing, status: 'False', reason: Idle}",
            Health::Healthy,
        ),
        ("{type: Issuing, status: Unknown}", Health::Healthy),
        (
            "{type: Issuing, status: Unknown, message: still waiting}",
            Health::Progressing,
        ),
    ]);
}

#[test]
fn a_summary_that_is_true_is_healthy_unless_its_reason_is_bad() {
    expect(&[
        ("{type: Ready, status: 'True'}", Health::Healthy),
        ("{type: Ready, status: 'true'}", Health::Healthy),
        ("{type: Ready, status: true}", Health::Healthy),
        ("{type: ResolvedRefs, status: 'True'}", Health::Healthy),
        (
            "{type: Ready, status: 'True', reason: RefreshFailed}",
            Health::Degraded,
        ),
        (
            "{type: Ready, status: 'True', message: it failed once}",
            Health::Healthy,
        ),
    ]);
}

#[test]
fn a_summary_that_is_unknown_is_progressing_unless_its_reason_says_more() {
    expect(&[
        ("{type: Ready, status: Unknown}", Health::Progressing),
        (
            "{type: Ready, status: Unknown, reason: UserPaused}",
            Health::Suspended,
        ),
        (
            "{type: Ready, status: Unknown, reason: NodeLost}",
            Health::Degraded,
        ),
    ]);
}

#[test]
fn a_summary_that_is_false_is_judged_by_its_texts() {
    expect(&[
        (
            "{type: Ready, status: 'False', reason: Suspended}",
            Health::Suspended,
        ),
        (
            "{type: Ready, status: 'False', reason: AuthError}",
            Health::Degraded,
        ),
        (
            "{type: Ready, status: 'False', message: it failed}",
            Health::Degraded,
        ),
        (
            "{type: Ready, status: 'False', severity: Error}",
            Health::Degraded,
        ),
        (
            "{type: Ready, status: 'False', reason: SecretNotFound}",
            Health::Degraded,
        ),
        (
            "{type: Ready, status: 'False', reason: Creating}",
            Health::Progressing,
        ),
        (
            "{type: Ready, status: 'False', severity: Info, reason: Odd}",
            Health::Progressing,
        ),
        (
            "{type: Ready, status: 'False', reason: PodsNotReady}",
            Health::Progressing,
        ),
        (
            "{type: Ready, status: 'False', reason: Odd}",
            Health::Degraded,
        ),
        ("{type: Ready, status: 'False'}", Health::Progressing),
    ]);
}

#[test]
fn a_verdict_that_is_false_is_final_unless_something_is_under_way() {
    expect(&[
        ("{type: Accepted, status: 'False'}", Health::Degraded),
        (
            "{type: Accepted, status: 'False', reason: NotAccepted}",
            Health::Degraded,
        ),
        (
            "{type: Accepted, status: 'False', reason: Pending}",
            Health::Progressing,
        ),
        (
            "{type: Valid, status: 'False', reason: Odd}",
            Health::Degraded,
        ),
    ]);
}

#[test]
fn what_is_absent_may_still_be_made() {
    let missing = "{type: Ready, status: 'False', reason: DoesNotExist}";
    expect(&[
        (missing, Health::Degraded),
        (
            &format!("{missing}, {{type: Issuing, status: 'True'}}"),
            Health::Progressing,
        ),
        (
            &format!("{{type: Issuing, status: 'True'}}, {missing}"),
            Health::Progressing,
        ),
        (
            &format!("{missing}, {{type: Issuing, status: 'False'}}"),
            Health::Degraded,
        ),
        (
            &format!("{missing}, {{type: NotSynced, status: 'True', reason: Creating}}"),
            Health::Degraded,
        ),
    ]);
}

#[test]
fn other_conditions_count_only_without_a_summary_or_as_its_cause() {
    let other =
        "{type: DatabaseReady, status: 'False', reason: LoginFailed, message: wrong password}";
    expect(&[
        (other, Health::Degraded),
        (
            &format!("{{type: Ready, status: 'True'}}, {other}"),
            Health::Healthy,
        ),
        (
            &format!("{{type: Ready, status: 'False'}}, {other}"),
            Health::Degraded,
        ),
        (
            "{type: Ready, status: 'False'}, {type: DatabaseReady, status: 'False', reason: Odd}",
            Health::Progressing,
        ),
    ]);
    let status =
        format!("{{conditions: [{{type: Ready, status: 'False', reason: Odd}}, {other}]}}");
    assert_eq!(
        assess(&(&with_status(&status)).into(), KnownStatus::Unknown).message,
        "wrong password"
    );
}

#[test]
fn a_type_without_a_good_word_is_unfamiliar() {
    expect(&[
        ("{type: DatabaseReady, status: 'True'}", Health::Healthy),
        ("{type: Signed, status: 'True'}", Health::Healthy),
        (
            "{type: ArtifactInStorage, status: 'True'}",
            Health::Progressing,
        ),
        (
            "{type: Warning, status: 'True', reason: Deprecation}",
            Health::Progressing,
        ),
        (
            "{type: Warning, status: 'True'}, {type: Ready, status: 'True'}",
            Health::Healthy,
        ),
    ]);
}

#[test]
fn conditions_of_an_earlier_generation_are_dropped() {
    expect(&[
        (
            "{type: Ready, status: 'True', observedGeneration: 2}",
            Health::Progressing,
        ),
        (
            "{type: Ready, status: 'True', observedGeneration: 3}",
            Health::Healthy,
        ),
        (
            "{type: Failed, status: 'True', observedGeneration: 2}, {type: Ready, status: 'True'}",
            Health::Healthy,
        ),
        (
            "{type: Ready, status: 'True', observedGeneration: 2}, {type: Stalled, status: 'True'}",
            Health::Degraded,
        ),
    ]);
}

#[test]
fn odd_conditions_are_no_evidence() {
    expect(&[
        ("Ready", Health::Healthy),
        ("{type: Ready}", Health::Healthy),
        ("{status: 'False', reason: Failed}", Health::Healthy),
        (
            "{type: Ready, status: Maybe, reason: Failed}",
            Health::Healthy,
        ),
        ("{type: Ready, status: 0, reason: Failed}", Health::Healthy),
        (
            "{type: [Ready], status: 'False', reason: Failed}",
            Health::Healthy,
        ),
        (
            "{type: Ready, status: 'True', reason: [Failed]}",
            Health::Healthy,
        ),
    ]);
}

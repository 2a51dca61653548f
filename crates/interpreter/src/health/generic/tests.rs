use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{Health, KnownStatus, MAX_MESSAGE_BYTES, MAX_REASON_BYTES};
use super::assess;
use crate::test_rows::rows;

mod conditions;
mod fields;
mod kinds;
mod text;

/// The object in a YAML text.
fn object(yaml: &str) -> Value {
    serde_saphyr::from_str(yaml).expect(yaml)
}

fn health(object: &Value) -> Health {
    assess(&object.into(), KnownStatus::Unknown).health
}

/// The health of a Widget with this status.
fn of_status(yaml: &str) -> Health {
    health(&with_status(yaml))
}

fn with_status(yaml: &str) -> Value {
    json!({"kind": "Widget", "metadata": {"generation": 3}, "status": object(yaml)})
}

/// A case is the health of a Widget, and its status.
#[track_caller]
fn expect_statuses(cases: &str) {
    for [health, status] in rows(cases) {
        assert_eq!(format!("{:?}", of_status(status)), health, "{status}");
    }
}

const READY: &str = "{conditions: [{type: Ready, status: 'True'}]}";

#[test]
fn an_object_that_is_deleted_is_progressing_whatever_else_it_says() {
    let deleted = json!({
        "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"paused": true},
        "status": {"phase": "Failed"},
    });
    assert_eq!(health(&deleted), Health::Progressing);
    let odd = json!({"metadata": {"deletionTimestamp": null}, "status": {"phase": "Failed"}});
    assert_eq!(health(&odd), Health::Degraded);
}

#[test]
fn an_object_whose_spec_pauses_it_is_suspended() {
    for spec in [
        "{suspend: true}",
        "{suspended: true}",
        "{paused: true}",
        "{pause: true}",
        "{updateStrategy: {paused: true}}",
        "{updateStrategy: {rollingUpdate: {paused: true}}}",
        "{strategy: {pause: true}}",
        "{rolloutPlan: {paused: true}}",
    ] {
        let paused = json!({"spec": object(spec), "status": object(READY)});
        assert_eq!(health(&paused), Health::Suspended, "{spec}");
    }
}

#[test]
fn a_pause_that_is_false_or_no_boolean_or_belongs_to_something_else_does_not_suspend() {
    for spec in [
        "{suspend: false}",
        "{paused: 'true'}",
        "{paused: 1}",
        "{template: {paused: true}}",
        "{strategy: [{paused: true}]}",
        "{updateStrategy: {a: {b: {c: {d: {paused: true}}}}}}",
        "[paused]",
    ] {
        let running = json!({"spec": object(spec), "status": object(READY)});
        assert_eq!(health(&running), Health::Healthy, "{spec}");
    }
}

#[test]
fn an_annotation_may_pause_an_object() {
    for (annotations, expected) in [
        ("{cnpg.io/hibernation: 'on'}", Health::Suspended),
        ("{cnpg.io/hibernation: 'off'}", Health::Healthy),
        ("{cluster.x-k8s.io/paused: ''}", Health::Suspended),
        (
            "{strimzi.io/pause-reconciliation: 'true'}",
            Health::Suspended,
        ),
        ("{suspend: 'Yes'}", Health::Suspended),
        ("{example.com/paused-by: 'true'}", Health::Healthy),
        ("{example.com/paused: true}", Health::Healthy),
        ("[paused]", Health::Healthy),
    ] {
        let annotated =
            json!({"metadata": {"annotations": object(annotations)}, "status": object(READY)});
        assert_eq!(health(&annotated), expected, "{annotations}");
    }
}

#[test]
fn a_missing_status_is_progressing_unless_the_kind_has_none() {
    use KnownStatus::{Absent, NeverWritten, Unknown, Written};
    let healthy = (Health::Healthy, "");
    let progressing = (Health::Progressing, "NoStatus");
    let without_controller = (Health::Healthy, "NoController");
    for (kind, of_kind, expected) in [
        ("Widget", Unknown, progressing),
        ("Widget", Written, progressing),
        ("Widget", Absent, healthy),
        ("Widget", NeverWritten, without_controller),
        ("ConfigMap", Unknown, healthy),
        ("ConfigMap", Written, progressing),
        ("configmap", Unknown, progressing),
        ("ResourceSlice", Unknown, healthy),
        ("PriorityLevelConfiguration", Written, healthy),
    ] {
        for status in [
            json!(null),
            json!({}),
            json!({"conditions": []}),
            json!({"phase": "", "nodes": null, "members": {}}),
            json!("Failed"),
        ] {
            let object = json!({"kind": kind, "status": status});
            let assessment = assess(&(&object).into(), of_kind);
            let found = (assessment.health, assessment.reason.as_str());
            assert_eq!(found, expected, "{kind} {of_kind:?} {status}");
        }
    }
}

#[test]
fn a_status_of_an_earlier_generation_is_progressing() {
    for (generation, observed, expected) in [
        (json!(2), json!(1), Health::Progressing),
        (json!(2), json!(2), Health::Healthy),
        (json!(2), json!(3), Health::Healthy),
        (json!(2), json!("1"), Health::Healthy),
        (json!(null), json!(1), Health::Healthy),
    ] {
        let object = json!({
            "metadata": {"generation": generation},
            "status": {"observedGeneration": observed, "phase": "Ready"},
        });
        assert_eq!(health(&object), expected, "{object}");
    }
    for (observed, expected) in [
        ("1", Health::Progressing),
        ("2", Health::Healthy),
        ("5d4f8c", Health::Healthy),
    ] {
        let rollout = json!({
            "kind": "Rollout",
            "metadata": {"generation": 2},
            "status": {"observedGeneration": observed, "phase": "Healthy"},
        });
        assert_eq!(health(&rollout), expected, "{rollout}");
    }
}

#[test]
fn of_several_pieces_of_evidence_the_worst_wins() {
    let cases = r"
        Progressing | {phase: Ready, ready: false}
        Degraded | {phase: Ready, ready: false, error: no disk}
        Suspended | {phase: Paused, ready: false, error: no disk}
        Progressing | {phase: Updating, conditions: [{type: Ready, status: 'False', reason: Odd}]}
        Degraded | {phase: Ready, conditions: [{type: Ready, status: 'False', reason: Odd}]}
    ";
    expect_statuses(cases);
}

#[test]
fn texts_of_the_status_count_only_without_evidence() {
    let cases = r"
        Degraded | {message: the quota is exceeded}
        Progressing | {reason: Waiting, count: 1}
        Degraded | {reason: Waiting, description: it failed}
        Healthy | {message: all is well}
        Healthy | {message: it failed once, phase: Ready}
        Unknown | {message: it failed once, phase: Purple}
    ";
    expect_statuses(cases);
}

#[test]
fn a_word_that_is_not_understood_is_unknown_and_named() {
    let assessment = assess(
        &(&with_status("{phase: Purple}")).into(),
        KnownStatus::Unknown,
    );
    assert_eq!(assessment.health, Health::Unknown);
    assert_eq!(assessment.reason, "Purple");
    assert!(assessment.message.contains("Purple"), "{assessment:?}");
    assert_eq!(of_status("{phase: Purple, ready: true}"), Health::Healthy);
}

#[test]
fn without_any_evidence_an_empty_list_of_conditions_is_progressing() {
    let cases = r"
        Progressing | {address: a, conditions: []}
        Progressing | {gateway: {address: a, conditions: []}}
        Healthy | {address: a}
        Healthy | {address: a, conditions: none}
    ";
    expect_statuses(cases);
}

#[test]
fn reason_and_message_name_what_decided() {
    let cases = r"
        {conditions: [{type: Ready, status: 'False', reason: AuthFailed, message: bad token}]}
            | AuthFailed | bad token
        {conditions: [{type: Ready, status: 'False'}]} | NotReady | Ready is False
        {phase: Failed} | Failed | phase is Failed
        {state: failed to start} | state | failed to start
        {ready: false} | ready | ready is false
        {conditions: [{type: Ready, status: 'True', observedGeneration: 2, message: all is well}]}
            | observedGeneration | Ready is about an earlier generation
        {reason: QuotaExceeded} | QuotaExceeded | reason is QuotaExceeded
        {message: the disk failed} | message | the disk failed
        {phase: light purple} | phase | light purple
        {error: {message: no disk}} | error | no disk
        {errors: [no disk, no net]} | errors | no disk
        {phase: Failed, failureMessage: no disk} | failureMessage | no disk
        {readyReplicas: 1, replicas: 3} | readyReplicas | readyReplicas is 1 of 3
    ";
    for [status, reason, message] in rows(cases) {
        let assessment = assess(&(&with_status(status)).into(), KnownStatus::Unknown);
        assert_eq!(assessment.reason, reason, "{status}");
        assert_eq!(assessment.message, message, "{status}");
    }
}

#[test]
fn long_texts_are_read_in_part_and_cut() {
    let long = "é".repeat(5_000);
    let status = json!({"conditions": [
        {"type": "Ready", "status": "False", "reason": long, "message": format!("{long} failed")},
    ]});
    let assessment = assess(&(&json!({"status": status})).into(), KnownStatus::Unknown);
    assert_eq!(
        assessment.health,
        Health::Degraded,
        "a reason that is not understood"
    );
    assert!(assessment.reason.len() <= MAX_REASON_BYTES);
    assert!(assessment.message.len() <= MAX_MESSAGE_BYTES);
    let wordy = json!({"status": {"message": format!("{} failed", "a ".repeat(300))}});
    assert_eq!(health(&wordy), Health::Healthy, "the end is not read");
}

#[test]
fn wide_and_deep_objects_are_read_in_part() {
    let many: Vec<Value> = (0..10_000).map(|_| json!({"phase": "Ready"})).collect();
    let mut wide = many.clone();
    wide.push(json!({"phase": "Failed"}));
    assert_eq!(
        health(&json!({"status": {"members": wide}})),
        Health::Healthy
    );
    let mut deep = json!({"phase": "Failed"});
    for _ in 0..120 {
        deep = json!({"part": deep});
    }
    assert_eq!(health(&json!({"status": deep})), Health::Healthy);
}

/// Any JSON, made of the names and words that the rule looks for as well as of others.
fn any_json() -> impl Strategy<Value = Value> {
    let name = prop_oneof![
        prop::sample::select(vec![
            "status",
            "conditions",
            "type",
            "reason",
            "message",
            "phase",
            "state",
            "health",
            "ready",
            "readyReplicas",
            "replicas",
            "desiredReplicas",
            "observedGeneration",
            "error",
            "errors",
            "paused",
            "spec",
            "metadata",
            "generation",
            "annotations",
            "waiting",
            "terminated",
            "exitCode",
            "deletionTimestamp",
            "updateStrategy",
            "kind",
            "severity",
            "history",
        ])
        .prop_map(str::to_owned),
        any::<String>(),
    ];
    let word = prop_oneof![
        prop::sample::select(vec![
            "True",
            "False",
            "Unknown",
            "Ready",
            "Progressing",
            "NotReady",
            "Failed",
            "Paused",
            "1/3",
            "Running",
            "crash loop back-off",
            "does not exist",
            "ValidJob",
        ])
        .prop_map(str::to_owned),
        any::<String>(),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word.prop_map(Value::from),
    ];
    leaf.prop_recursive(7, 96, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((name.clone(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn of_kinds() -> impl Strategy<Value = KnownStatus> {
    use KnownStatus::{Absent, NeverWritten, Unknown, Written};
    prop::sample::select(vec![Unknown, Absent, Written, NeverWritten])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_json_has_a_health_and_always_the_same(
        metadata in any_json(), spec in any_json(), status in any_json(), of_kind in of_kinds(),
    ) {
        let object = json!({"kind": "BuildJob", "metadata": metadata, "spec": spec, "status": status});
        let assessment = assess(&(&object).into(), of_kind);
        prop_assert_ne!(assessment.health, Health::Missing);
        prop_assert!(assessment.reason.len() <= MAX_REASON_BYTES);
        prop_assert!(assessment.message.len() <= MAX_MESSAGE_BYTES);
        prop_assert_eq!(&assessment, &assess(&(&object.clone()).into(), of_kind));
        assess(&(&status).into(), of_kind);
    }
}

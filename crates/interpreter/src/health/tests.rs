use serde_json::{Value, json};

use super::*;

fn widget(generation: &Value, observed: &Value) -> Value {
    json!({
        "apiVersion": "example.org/v1", "kind": "Widget",
        "metadata": {"generation": generation}, "status": {"observedGeneration": observed},
    })
}

#[test]
fn a_kind_with_a_boolean_of_karmada_is_healthy_by_it() {
    let paused = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"generation": 1}, "spec": {"paused": true}});
    let assessment = assess(&(&paused).into(), KnownStatus::Unknown);
    assert_eq!(assessment.health, Health::Suspended);
    assert!(!healthy(&(&paused).into(), &assessment));
}

#[test]
fn another_kind_is_healthy_by_its_word() {
    let object = widget(&json!(1), &json!(1));
    for health in Health::ALL {
        let expected = matches!(health, Health::Healthy | Health::Suspended);
        assert_eq!(
            healthy(&(&object).into(), &Assessment::plain(health)),
            expected
        );
    }
}

#[test]
fn a_false_is_progressing_while_the_generation_lags() {
    let of = |generation: Value, observed: Value| {
        from_boolean(&widget(&generation, &observed), false).health
    };
    assert_eq!(of(json!(2), json!(1)), Health::Progressing);
    assert_eq!(of(json!(2), json!(2)), Health::Degraded);
    assert_eq!(of(json!(1), json!(2)), Health::Degraded);
    assert_eq!(of(json!(2), json!(null)), Health::Degraded);
    assert_eq!(of(json!(null), json!(1)), Health::Degraded);
    assert_eq!(of(json!("2"), json!(1)), Health::Degraded);
    let plain = Assessment::plain(Health::Healthy);
    assert_eq!(from_boolean(&widget(&json!(2), &json!(1)), true), plain);
}

#[test]
fn a_false_has_the_cause_that_the_object_names() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Failed", "reason": "Evicted", "message": "low on memory"}});
    let expected = Assessment::new(Health::Degraded, "Evicted", "low on memory");
    assert_eq!(from_boolean(&pod, false), expected);
    let ready = json!({"apiVersion": "v1", "kind": "Service"});
    let expected = Assessment::new(Health::Degraded, "Unhealthy", "");
    assert_eq!(from_boolean(&ready, false), expected);
}

#[test]
fn a_pending_deletion_precedes_a_boolean() {
    let mut object = widget(&json!(1), &json!(1));
    object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    for answer in [true, false] {
        let found = from_boolean(&object, answer);
        assert_eq!(
            (found.health, found.reason.as_str()),
            (Health::Progressing, "Deleting")
        );
    }
}

#[test]
fn long_texts_are_cut_between_characters() {
    let cut = Assessment::new(Health::Degraded, &"é".repeat(100), &"x".repeat(2000));
    assert_eq!(
        (cut.reason.len(), cut.message.len()),
        (MAX_REASON_BYTES, MAX_MESSAGE_BYTES)
    );
    assert_eq!(
        Assessment::new(Health::Degraded, &"日".repeat(100), "")
            .reason
            .len(),
        126
    );
}

#[test]
fn a_hook_that_is_being_deleted_has_the_health_of_its_rule() {
    let pod = |finalizer: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b", finalizer]},
            "status": {"phase": "Succeeded"},
        })
    };
    for (finalizer, health) in [
        ("argocd.argoproj.io/hook-finalizer", Health::Healthy),
        (
            "resources-finalizer.argocd.argoproj.io",
            Health::Progressing,
        ),
    ] {
        assert_eq!(
            assess(&(&pod(finalizer)).into(), KnownStatus::Unknown).health,
            health
        );
    }
}

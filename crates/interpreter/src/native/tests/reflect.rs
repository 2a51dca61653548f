//! `InterpretStatus`.

use serde_json::{Value, json};

use super::{object, status_of};
use crate::test_rows::typed;

/// An object with a generation in itself and, if given, of its template.
fn workload(kind: &str, template_generation: Option<&str>, status: &Value) -> Value {
    let mut workload = object("apps/v1", kind, json!({"status": status}));
    workload["metadata"]["generation"] = 5.into();
    if let Some(generation) = template_generation {
        workload["metadata"]["annotations"] =
            json!({"resourcetemplate.karmada.io/generation": generation});
    }
    workload
}

#[test]
fn workloads_report_their_counters_and_generations() {
    let cases = r#"
        Deployment | {"replicas": 3, "updatedReplicas": 2, "readyReplicas": 1,
            "availableReplicas": 1, "unavailableReplicas": 2, "observedGeneration": 4,
            "collisionCount": 1, "conditions": [{}]} | {"replicas": 3, "updatedReplicas": 2,
            "readyReplicas": 1, "availableReplicas": 1, "unavailableReplicas": 2,
            "observedGeneration": 4}
        Deployment | {"replicas": 0, "readyReplicas": "1"} | {}
        ReplicaSet | {"replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": 1,
            "availableReplicas": 1, "observedGeneration": 4}
            | {"replicas": 3, "readyReplicas": 1, "availableReplicas": 1, "observedGeneration": 4}
        ReplicaSet | {} | {"replicas": 0}
        StatefulSet | {"replicas": 3, "readyReplicas": 2, "currentReplicas": 1,
            "updatedReplicas": 3, "availableReplicas": 2, "observedGeneration": 4,
            "currentRevision": "x"} | {"replicas": 3, "readyReplicas": 2, "currentReplicas": 1,
            "updatedReplicas": 3, "availableReplicas": 2, "observedGeneration": 4}
        StatefulSet | {} | {"replicas": 0, "availableReplicas": 0}
        DaemonSet | {"currentNumberScheduled": 1, "desiredNumberScheduled": 2,
            "numberAvailable": 3, "numberMisscheduled": 4, "numberReady": 5,
            "updatedNumberScheduled": 6, "numberUnavailable": 7, "observedGeneration": 4,
            "collisionCount": 2} | {"currentNumberScheduled": 1, "desiredNumberScheduled": 2,
            "numberAvailable": 3, "numberMisscheduled": 4, "numberReady": 5,
            "updatedNumberScheduled": 6, "numberUnavailable": 7, "observedGeneration": 4}
        DaemonSet | {} | {"currentNumberScheduled": 0, "desiredNumberScheduled": 0,
            "numberMisscheduled": 0, "numberReady": 0}
    "#;
    for (kind, status, expected) in typed::<(&str, Value, Value)>(cases) {
        let mut with_generations = expected.clone();
        with_generations["generation"] = 5.into();
        let unmanaged = workload(kind, None, &status);
        assert_eq!(
            status_of(&unmanaged),
            Ok(with_generations.clone()),
            "{kind}"
        );
        with_generations["resourceTemplateGeneration"] = 2.into();
        let managed = workload(kind, Some("2"), &status);
        assert_eq!(status_of(&managed), Ok(with_generations), "{kind}");
        let wrong = workload(kind, Some("two"), &status);
        assert!(status_of(&wrong).is_err(), "{kind}");
    }
}

#[test]
fn an_empty_status_without_generations_is_none_for_two_kinds() {
    for (kind, expected) in [
        ("Deployment", Value::Null),
        ("ReplicaSet", Value::Null),
        (
            "StatefulSet",
            json!({"replicas": 0, "availableReplicas": 0}),
        ),
    ] {
        let object = object("apps/v1", kind, json!({"status": {"collisionCount": 1}}));
        assert_eq!(status_of(&object), Ok(expected), "{kind}");
    }
}

#[test]
fn jobs_report_counters_and_services_load_balancers() {
    let cases = r#"
        batch/v1 | Job | {} | {"active": 1, "succeeded": 0, "failed": 2, "ready": 1,
            "conditions": [{"type": "Suspended"}], "startTime": "2026-01-01T00:00:00Z",
            "completionTime": "2026-01-02T00:00:00Z", "uncountedTerminatedPods": {}}
            | {"active": 1, "failed": 2, "conditions": [{"type": "Suspended"}],
            "startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-02T00:00:00Z"}
        batch/v1 | Job | {} | {"conditions": [], "startTime": null} | {}
        v1 | Service | {"type": "LoadBalancer"}
            | {"loadBalancer": {"ingress": [{"ip": "1.1.1.1"}]}, "conditions": []}
            | {"loadBalancer": {"ingress": [{"ip": "1.1.1.1"}]}}
        v1 | Service | {"type": "LoadBalancer"} | {} | {"loadBalancer": {}}
        v1 | Service | {"type": "ClusterIP"} | {"loadBalancer": {}} | null
        v1 | Service | {} | {"loadBalancer": {}} | null
    "#;
    for (api_version, kind, spec, status, expected) in
        typed::<(&str, &str, Value, Value, Value)>(cases)
    {
        let object = object(api_version, kind, json!({"spec": spec, "status": status}));
        assert_eq!(status_of(&object), Ok(expected), "{object}");
    }
}

#[test]
fn budgets_and_autoscalers_report_counters_and_other_kinds_everything() {
    let cases = r#"
        policy/v1 | PodDisruptionBudget | {"disruptionsAllowed": 1, "expectedPods": 4,
            "desiredHealthy": 3, "currentHealthy": 2, "observedGeneration": 1,
            "disruptedPods": {"p": "2026-01-01T00:00:00Z"}, "conditions": []}
            | {"disruptionsAllowed": 1, "expectedPods": 4, "desiredHealthy": 3,
            "currentHealthy": 2, "disruptedPods": {"p": "2026-01-01T00:00:00Z"}}
        policy/v1 | PodDisruptionBudget | {"disruptedPods": {}}
            | {"disruptionsAllowed": 0, "expectedPods": 0, "desiredHealthy": 0, "currentHealthy": 0}
        autoscaling/v2 | HorizontalPodAutoscaler
            | {"currentReplicas": 2, "desiredReplicas": 3, "currentMetrics": [], "conditions": []}
            | {"currentReplicas": 2, "desiredReplicas": 3}
        autoscaling/v2 | HorizontalPodAutoscaler | {} | {"desiredReplicas": 0}
        autoscaling/v1 | HorizontalPodAutoscaler | {"currentReplicas": 2, "x": 1.5}
            | {"currentReplicas": 2, "x": 1.5}
        networking.k8s.io/v1 | Ingress | {"a": {}} | {"a": {}}
        v1 | Pod | {"phase": "Running", "podIP": "1"} | {"phase": "Running", "podIP": "1"}
        example.io/v1 | Widget | {"a": [1, null]} | {"a": [1, null]}
    "#;
    for (api_version, kind, status, expected) in typed::<(&str, &str, Value, Value)>(cases) {
        let object = object(api_version, kind, json!({ "status": status }));
        assert_eq!(status_of(&object), Ok(expected), "{object}");
    }
}

#[test]
fn a_missing_status_is_none_and_one_that_is_no_map_is_an_error() {
    for (api_version, kind) in [
        ("apps/v1", "Deployment"),
        ("apps/v1", "DaemonSet"),
        ("batch/v1", "Job"),
        ("networking.k8s.io/v1", "Ingress"),
        ("example.io/v1", "Widget"),
    ] {
        for members in [json!({}), json!({"status": null})] {
            assert_eq!(
                status_of(&object(api_version, kind, members)),
                Ok(Value::Null),
                "{kind}"
            );
        }
        for status in [json!("ok"), json!([]), json!(1), json!(true)] {
            let object = object(api_version, kind, json!({"status": status}));
            assert!(status_of(&object).is_err(), "{object}");
        }
    }
}

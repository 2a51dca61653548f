//! `InterpretStatus`.

use serde_json::{Value, json};

use super::{object, status_of};

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
    for (kind, status, expected) in [
        (
            "Deployment",
            json!({"replicas": 3, "updatedReplicas": 2, "readyReplicas": 1, "availableReplicas": 1, "unavailableReplicas": 2, "observedGeneration": 4, "collisionCount": 1, "conditions": [{}]}),
            json!({"replicas": 3, "updatedReplicas": 2, "readyReplicas": 1, "availableReplicas": 1, "unavailableReplicas": 2, "observedGeneration": 4}),
        ),
        (
            "Deployment",
            json!({"replicas": 0, "readyReplicas": "1"}),
            json!({}),
        ),
        (
            "ReplicaSet",
            json!({"replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": 1, "availableReplicas": 1, "observedGeneration": 4}),
            json!({"replicas": 3, "readyReplicas": 1, "availableReplicas": 1, "observedGeneration": 4}),
        ),
        ("ReplicaSet", json!({}), json!({"replicas": 0})),
        (
            "StatefulSet",
            json!({"replicas": 3, "readyReplicas": 2, "currentReplicas": 1, "updatedReplicas": 3, "availableReplicas": 2, "observedGeneration": 4, "currentRevision": "x"}),
            json!({"replicas": 3, "readyReplicas": 2, "currentReplicas": 1, "updatedReplicas": 3, "availableReplicas": 2, "observedGeneration": 4}),
        ),
        (
            "StatefulSet",
            json!({}),
            json!({"replicas": 0, "availableReplicas": 0}),
        ),
        (
            "DaemonSet",
            json!({"currentNumberScheduled": 1, "desiredNumberScheduled": 2, "numberAvailable": 3, "numberMisscheduled": 4, "numberReady": 5, "updatedNumberScheduled": 6, "numberUnavailable": 7, "observedGeneration": 4, "collisionCount": 2}),
            json!({"currentNumberScheduled": 1, "desiredNumberScheduled": 2, "numberAvailable": 3, "numberMisscheduled": 4, "numberReady": 5, "updatedNumberScheduled": 6, "numberUnavailable": 7, "observedGeneration": 4}),
        ),
        (
            "DaemonSet",
            json!({}),
            json!({"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0}),
        ),
    ] {
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
    for (api_version, kind, spec, status, expected) in [
        (
            "batch/v1",
            "Job",
            json!({}),
            json!({"active": 1, "succeeded": 0, "failed": 2, "ready": 1, "conditions": [{"type": "Suspended"}], "startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-02T00:00:00Z", "uncountedTerminatedPods": {}}),
            json!({"active": 1, "failed": 2, "conditions": [{"type": "Suspended"}], "startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-02T00:00:00Z"}),
        ),
        (
            "batch/v1",
            "Job",
            json!({}),
            json!({"conditions": [], "startTime": null}),
            json!({}),
        ),
        (
            "v1",
            "Service",
            json!({"type": "LoadBalancer"}),
            json!({"loadBalancer": {"ingress": [{"ip": "1.1.1.1"}]}, "conditions": []}),
            json!({"loadBalancer": {"ingress": [{"ip": "1.1.1.1"}]}}),
        ),
        (
            "v1",
            "Service",
            json!({"type": "LoadBalancer"}),
            json!({}),
            json!({"loadBalancer": {}}),
        ),
        (
            "v1",
            "Service",
            json!({"type": "ClusterIP"}),
            json!({"loadBalancer": {}}),
            Value::Null,
        ),
        (
            "v1",
            "Service",
            json!({}),
            json!({"loadBalancer": {}}),
            Value::Null,
        ),
    ] {
        let object = object(api_version, kind, json!({"spec": spec, "status": status}));
        assert_eq!(status_of(&object), Ok(expected), "{object}");
    }
}

#[test]
fn budgets_and_autoscalers_report_counters_and_other_kinds_everything() {
    for (api_version, kind, status, expected) in [
        (
            "policy/v1",
            "PodDisruptionBudget",
            json!({"disruptionsAllowed": 1, "expectedPods": 4, "desiredHealthy": 3, "currentHealthy": 2, "observedGeneration": 1, "disruptedPods": {"p": "2026-01-01T00:00:00Z"}, "conditions": []}),
            json!({"disruptionsAllowed": 1, "expectedPods": 4, "desiredHealthy": 3, "currentHealthy": 2, "disruptedPods": {"p": "2026-01-01T00:00:00Z"}}),
        ),
        (
            "policy/v1",
            "PodDisruptionBudget",
            json!({"disruptedPods": {}}),
            json!({"disruptionsAllowed": 0, "expectedPods": 0, "desiredHealthy": 0, "currentHealthy": 0}),
        ),
        (
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            json!({"currentReplicas": 2, "desiredReplicas": 3, "currentMetrics": [], "conditions": []}),
            json!({"currentReplicas": 2, "desiredReplicas": 3}),
        ),
        (
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            json!({}),
            json!({"desiredReplicas": 0}),
        ),
        (
            "autoscaling/v1",
            "HorizontalPodAutoscaler",
            json!({"currentReplicas": 2, "x": 1.5}),
            json!({"currentReplicas": 2, "x": 1.5}),
        ),
        (
            "networking.k8s.io/v1",
            "Ingress",
            json!({"a": {}}),
            json!({"a": {}}),
        ),
        (
            "v1",
            "Pod",
            json!({"phase": "Running", "podIP": "1"}),
            json!({"phase": "Running", "podIP": "1"}),
        ),
        (
            "example.io/v1",
            "Widget",
            json!({"a": [1, null]}),
            json!({"a": [1, null]}),
        ),
    ] {
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

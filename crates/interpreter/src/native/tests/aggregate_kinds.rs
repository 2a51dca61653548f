//! `AggregateStatus` of the kinds that are no workloads.

use serde_json::{Value, json};

use super::{aggregated, aggregated_status, object};
use crate::test_rows::typed;

/// Statuses before, reports of members, statuses after; null before: no status.
fn check(api_version: &str, kind: &str, spec: &Value, cases: &str) {
    for (before, reports, expected) in typed::<(Value, Vec<Value>, Value)>(cases) {
        let mut object = object(api_version, kind, json!({ "spec": spec }));
        if !before.is_null() {
            object["status"] = before;
        }
        assert_eq!(
            aggregated_status(&object, &reports),
            expected,
            "{object} {reports:?}"
        );
    }
}

#[expect(clippy::needless_pass_by_value, reason = "tables write it in place")]
fn balancers(entries: Value) -> Value {
    json!({"loadBalancer": {"ingress": entries}})
}

#[test]
fn a_service_has_the_load_balancers_of_all_members() {
    let cases = r#"
        {"conditions": []} | [{"loadBalancer": {"ingress": [{"ip": "9.9.9.9"},
            {"hostname": "b"}, {"ip": "1.1.1.1", "ipMode": "VIP"}]}}, null,
            {"loadBalancer": {"ingress": [{"hostname": "a", "ip": "2.2.2.2"},
            {"ip": "1.1.1.1"}, {"ip": "1.1.1.1", "ipMode": "Proxy"}]}}] | {"loadBalancer":
            {"ingress": [{"hostname": "a", "ip": "2.2.2.2"}, {"hostname": "b"},
            {"ip": "1.1.1.1", "ipMode": "Proxy"}, {"ip": "1.1.1.1", "ipMode": "VIP"},
            {"ip": "1.1.1.1"}, {"ip": "9.9.9.9"}]}}
        null | [{"loadBalancer": {"ingress": [{"ip": "1.1.1.1", "ports": [{"port": 443,
            "protocol": "TCP"}, {"port": 80, "protocol": "UDP"}]}]}}, {"loadBalancer": {"ingress":
            [{"ip": "1.1.1.1", "ports": [{"port": 80, "protocol": "TCP", "error": "e"},
            {"port": 443, "protocol": "TCP"}, {"port": 80, "protocol": "TCP"}]}]}}]
            | {"loadBalancer": {"ingress": [{"ip": "1.1.1.1", "ports": [{"port": 80,
            "protocol": "TCP"}, {"port": 80, "protocol": "TCP", "error": "e"},
            {"port": 80, "protocol": "UDP"}, {"port": 443, "protocol": "TCP"}]}]}}
        {"loadBalancer": {"ingress": [{"ip": "1.1.1.1"}]}} | [{}] | {"loadBalancer": {}}
        null | [{}, null] | null
        {} | [] | {}
        {"conditions": [1]} | [{"loadBalancer": {"ingress": "odd"}}] | {"loadBalancer": {}}
    "#;
    check("v1", "Service", &json!({"type": "LoadBalancer"}), cases);
}

#[test]
fn a_service_of_another_type_is_left_as_it_is() {
    for kind in [json!("ClusterIP"), json!(null), json!(1)] {
        let service = object(
            "v1",
            "Service",
            json!({"spec": {"type": kind}, "status": {"a": 1}}),
        );
        let report = balancers(json!([{"ip": "1.1.1.1"}]));
        assert_eq!(aggregated(&service, &[report]), service);
    }
}

#[test]
fn an_ingress_has_the_load_balancers_of_all_members() {
    let cases = r#"
        null | [{"loadBalancer": {"ingress": [{"ip": "1.1.1.1", "ipMode": "VIP"},
            {"hostname": "z"}]}}, {"loadBalancer": {"ingress": [{"ip": "1.1.1.1",
            "ports": [{"port": 80, "protocol": "TCP"}]}, 7]}}] | {"loadBalancer": {"ingress":
            [{"hostname": "z"}, {"ip": "1.1.1.1", "ports": [{"port": 80, "protocol": "TCP"}]}]}}
    "#;
    check("networking.k8s.io/v1", "Ingress", &json!({}), cases);
}

fn done(kind: &str, time: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": "x", "lastTransitionTime": time})
}

/// The status without its messages, which are for people; each has to contain a text.
fn without_messages(mut status: Value, contained: &str) -> Value {
    for condition in status["conditions"].as_array_mut().unwrap() {
        let message = condition
            .as_object_mut()
            .unwrap()
            .remove("message")
            .unwrap();
        assert!(message.as_str().unwrap().contains(contained), "{message}");
    }
    status
}

#[test]
fn a_job_is_complete_when_it_is_in_all_members() {
    let job = object("batch/v1", "Job", json!({}));
    let first = json!({
        "succeeded": 2,
        "startTime": "2026-01-01T00:00:00Z",
        "completionTime": "2026-01-01T01:00:00Z",
        "conditions": [done("SuccessCriteriaMet", "2026-01-01T01:00:00Z"), done("Complete", "2026-01-01T01:00:00Z")],
    });
    let second = json!({
        "succeeded": 3,
        "failed": 1,
        "startTime": "2026-01-01T00:30:00Z",
        "completionTime": "2026-01-01T02:00:00Z",
        "conditions": [done("Complete", "2026-01-01T02:00:00Z")],
    });
    let transition = |kind: &str, reason: &str, time: &str| json!({"type": kind, "status": "True", "reason": reason, "lastProbeTime": time, "lastTransitionTime": time});
    assert_eq!(
        without_messages(
            aggregated_status(&job, &[first.clone(), second.clone()]),
            "all clusters"
        ),
        json!({
            "succeeded": 5,
            "failed": 1,
            "conditions": [transition("Complete", "Completed", "2026-01-01T02:00:00Z")],
            "startTime": "2026-01-01T00:00:00Z",
            "completionTime": "2026-01-01T02:00:00Z",
        })
    );
    let status = aggregated_status(&job, std::slice::from_ref(&first));
    assert_eq!(
        without_messages(status, "all clusters")["conditions"],
        json!([
            transition("Complete", "Completed", "2026-01-01T01:00:00Z"),
            transition(
                "SuccessCriteriaMet",
                "CompletionsReached",
                "2026-01-01T01:00:00Z"
            ),
        ])
    );
    for other in [Value::Null, json!({"active": 1})] {
        let status = aggregated_status(&job, &[first.clone(), other]);
        assert_eq!(status.get("conditions"), None);
        assert_eq!(status.get("startTime"), None);
        assert_eq!(status.get("completionTime"), None);
        assert_eq!(status["succeeded"], 2);
    }
}

#[test]
fn a_job_has_failed_when_it_has_in_one_member() {
    let job = object("batch/v1", "Job", json!({}));
    let failed =
        json!({"failed": 2, "conditions": [done("FailureTarget", ""), done("Failed", "")]});
    let running = json!({"active": 1, "conditions": [{"type": "Failed", "status": "False"}]});
    let status = aggregated_status(&job, &[failed.clone(), running, failed]);
    assert_eq!(
        without_messages(status, "m1,m3"),
        json!({
            "active": 1,
            "failed": 4,
            "conditions": [{"type": "Failed", "status": "True", "reason": "JobFailed"}],
        })
    );
    let many: Vec<Value> = (0..1000)
        .map(|_| json!({"conditions": [done("Failed", "")]}))
        .collect();
    let status = aggregated_status(&job, &many);
    let message = status["conditions"][0]["message"].as_str().unwrap();
    assert!(
        message.len() < 200 && message.contains("980 more"),
        "{message}"
    );
}

#[test]
fn a_finished_job_is_left_as_it_is_and_a_started_one_keeps_its_start() {
    for kind in ["Complete", "Failed"] {
        let status = json!({"succeeded": 1, "conditions": [done(kind, "")]});
        let job = object("batch/v1", "Job", json!({"status": status}));
        assert_eq!(aggregated(&job, &[json!({"succeeded": 7})]), job);
    }
    let cases = r#"
        {"startTime": "2020-01-01T00:00:00Z", "completionTime": "2020-01-01T00:00:00Z",
            "ready": 1, "active": 9} | [{"active": 2, "startTime": "2026-01-01T00:00:00Z"}]
            | {"active": 2, "startTime": "2020-01-01T00:00:00Z"}
        null | [] | null
        {"active": 3} | [] | {}
    "#;
    check("batch/v1", "Job", &json!({}), cases);
}

#[test]
fn a_cron_job_has_all_active_jobs_and_the_latest_times() {
    let cases = r#"
        {"active": [{"name": "old"}], "lastScheduleTime": "2020-01-01T00:00:00Z",
            "lastSuccessfulTime": "2020-01-01T00:00:00Z"} | [{"active": [{"name": "a"}],
            "lastScheduleTime": "2026-01-02T00:00:00Z"}, {"active": [{"name": "b"},
            {"name": "c"}], "lastScheduleTime": "2026-01-01T00:00:00Z"}, {"active": "odd",
            "lastScheduleTime": 7}, null] | {"active": [{"name": "a"}, {"name": "b"},
            {"name": "c"}], "lastScheduleTime": "2026-01-02T00:00:00Z"}
        null | [{}] | null
    "#;
    check("batch/v1", "CronJob", &json!({}), cases);
}

#[test]
fn a_pod_has_the_worst_phase_and_all_containers() {
    let cases = r#"
        null | [{"phase": "Running", "podIP": "1.1.1.1"}, {"phase": "Failed",
            "podIP": "1.1.1.1"}, {"phase": "Pending", "podIP": "1.1.1.1"}] | {"phase": "Failed"}
        null | [{"phase": "Running", "podIP": "1.1.1.1"}, {"phase": "Pending", "podIP": "1.1.1.1"}]
            | {"phase": "Pending"}
        null | [{"phase": "Running", "podIP": "1.1.1.1"}, null] | {"phase": "Pending"}
        null | [{"phase": "Succeeded", "podIP": "1.1.1.1"}, {"phase": "Running",
            "podIP": "1.1.1.1"}] | {"phase": "Running"}
        {"phase": "Pending", "podIP": "x"} | [{"phase": "Succeeded", "podIP": "1.1.1.1"}]
            | {"phase": "Succeeded"}
        {"phase": "Pending"} | [{"phase": "Strange", "podIP": "1.1.1.1"}] | {}
        {"phase": "Running", "podIP": "x"} | [] | {"phase": "Running", "podIP": "x"}
        null | [{"phase": "Running", "containerStatuses": [{"name": "a", "ready": true,
            "state": {"running": {}}, "image": "x"}], "initContainerStatuses": [{"ready": true,
            "state": {"terminated": {"exitCode": 0}}}]}, {"phase": "Running",
            "containerStatuses": [{"name": "a"}, 1]}] | {"phase": "Running",
            "containerStatuses": [{"ready": true, "state": {"running": {}}},
            {"ready": false, "state": {}}, {"ready": false, "state": {}}],
            "initContainerStatuses": [{"ready": true, "state": {"terminated": {"exitCode": 0}}}]}
    "#;
    check("v1", "Pod", &json!({}), cases);
}

#[test]
fn volumes_and_claims_have_one_phase() {
    let persistent_volume = r#"
        null | [{"phase": "Bound", "capacity": {}}, {"phase": "Failed", "capacity": {}}]
            | {"phase": "Failed"}
        null | [{"phase": "Bound", "capacity": {}}, null] | {"phase": "Pending"}
        null | [{"phase": "Bound", "capacity": {}}, {"phase": "Available", "capacity": {}}]
            | {"phase": "Available"}
        {"reason": "x"} | [{"phase": "Released", "capacity": {}}, {"phase": "Bound",
            "capacity": {}}] | {"phase": "Bound"}
        null | [{"phase": "Released", "capacity": {}}] | {"phase": "Released"}
        null | [] | null
    "#;
    check("v1", "PersistentVolume", &json!({}), persistent_volume);
    let persistent_volume_claim = r#"
        null | [{"phase": "Bound", "capacity": {}}, {"phase": "Bound", "capacity": {}}]
            | {"phase": "Bound"}
        null | [{"phase": "Bound", "capacity": {}}, null] | {"phase": "Bound"}
        null | [{"phase": "Pending", "capacity": {}}, {"phase": "Bound", "capacity": {}}]
            | {"phase": "Pending"}
        null | [{"phase": "Pending", "capacity": {}}, {"phase": "Strange",
            "capacity": {}}, {"phase": "Bound", "capacity": {}}] | {"phase": "Strange"}
        null | [{"phase": "Lost", "capacity": {}}, {"phase": "Pending", "capacity": {}}]
            | {"phase": "Lost"}
        null | [{"phase": "Pending", "capacity": {}}, {"phase": "Lost", "capacity": {}},
            {"phase": "Bound", "capacity": {}}] | {"phase": "Lost"}
        null | [] | null
        {"phase": "Pending"} | [null] | {"phase": "Pending"}
    "#;
    check(
        "v1",
        "PersistentVolumeClaim",
        &json!({}),
        persistent_volume_claim,
    );
}

#[test]
fn budgets_and_autoscalers_add_up() {
    let pod_disruption_budget = r#"
        {"observedGeneration": 3, "disruptedPods": {"old": "2026-01-01T00:00:00Z"}}
            | [{"currentHealthy": 1, "desiredHealthy": 2, "expectedPods": 3,
            "disruptionsAllowed": 4, "disruptedPods": {"p": "2026-01-01T00:00:00Z"}},
            null, {"currentHealthy": 1, "desiredHealthy": 2, "expectedPods": 3,
            "disruptionsAllowed": 4, "disruptedPods": {"p": "2026-01-01T00:00:00Z"}}]
            | {"currentHealthy": 2, "desiredHealthy": 4, "expectedPods": 6,
            "disruptionsAllowed": 8, "disruptedPods": {"m1/p": "2026-01-01T00:00:00Z",
            "m3/p": "2026-01-01T00:00:00Z"}}
        null | [] | {"currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0,
            "disruptionsAllowed": 0}
    "#;
    check(
        "policy/v1",
        "PodDisruptionBudget",
        &json!({}),
        pod_disruption_budget,
    );
    let horizontal_pod_autoscaler = r#"
        {"conditions": []} | [{"currentReplicas": 1, "desiredReplicas": 2},
            {"currentReplicas": 3, "desiredReplicas": 4}]
            | {"currentReplicas": 4, "desiredReplicas": 6}
        {"currentReplicas": 3} | [{}] | {"desiredReplicas": 0}
        null | [] | null
    "#;
    check(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        &json!({}),
        horizontal_pod_autoscaler,
    );
}

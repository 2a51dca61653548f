//! `Retain`.

use serde_json::{Value, json};

use super::{answer, object};
use crate::{Request, Response, native::interpret, test_rows::typed};

fn retained(desired: &Value, observed: &Value) -> Value {
    match answer(Request::Retain { desired, observed }) {
        Some(Response::Retained(object)) => object,
        other => panic!("not retained: {other:?}"),
    }
}

/// Objects of a kind with the desired, observed and expected members.
fn check(api_version: &str, kind: &str, cases: &str) {
    for (desired, observed, expected) in typed::<(Value, Value, Value)>(cases) {
        let of = |members: &Value| object(api_version, kind, members.clone());
        assert_eq!(
            retained(&of(&desired), &of(&observed)),
            of(&expected),
            "{desired} {observed}"
        );
    }
}

#[test]
fn a_deployment_keeps_its_replicas_if_its_label_says_so() {
    let desired = |label: Value| {
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"labels": {"resourcetemplate.karmada.io/retain-replicas": label}},
            "spec": {"replicas": 2, "paused": true},
        })
    };
    let observed = object("apps/v1", "Deployment", json!({"spec": {"replicas": 4}}));
    let mut kept = desired(json!("true"));
    kept["spec"]["replicas"] = 4.into();
    assert_eq!(retained(&desired(json!("true")), &observed), kept);
    for label in [json!("false"), json!("yes"), json!(true), json!(null)] {
        assert_eq!(retained(&desired(label.clone()), &observed), desired(label));
    }
    let bare = object("apps/v1", "Deployment", json!({}));
    let desired = desired(json!("true"));
    let request = Request::Retain {
        desired: &desired,
        observed: &bare,
    };
    assert!(interpret(&request).is_err());
}

#[test]
fn a_pod_keeps_what_its_member_filled_in() {
    let cases = r#"
        {"spec": {"priority": 1, "containers": [{"name": "a", "image": "x"},
            {"name": "new"}], "initContainers": [{"name": "i"}]}} | {"spec": {"nodeName": "n1",
            "serviceAccountName": "default", "volumes": [{"name": "token"}],
            "containers": [{"name": "a", "image": "y", "volumeMounts": [{"name": "token",
            "mountPath": "/token"}]}, {"name": "gone"}], "initContainers": [{"name": "i",
            "volumeMounts": [{"name": "token", "mountPath": "/token"}]}]}}
            | {"spec": {"priority": 1, "containers": [{"name": "a", "image": "x",
            "volumeMounts": [{"name": "token", "mountPath": "/token"}]}, {"name": "new"}],
            "initContainers": [{"name": "i", "volumeMounts": [{"name": "token",
            "mountPath": "/token"}]}], "nodeName": "n1", "serviceAccountName": "default",
            "volumes": [{"name": "token"}]}}
        {"spec": {"nodeName": "n1", "containers": [{"name": "a", "volumeMounts": [{"name": "token",
            "mountPath": "/token"}]}]}} | {"spec": {"containers": [{"name": "a"}]}}
            | {"spec": {"containers": [{"name": "a"}]}}
        {"spec": {"containers": "odd"}} | {"spec": {"containers": [{"name": "a"}]}}
            | {"spec": {"containers": "odd"}}
    "#;
    check("v1", "Pod", cases);
}

#[test]
fn a_service_keeps_its_health_check_port_and_cluster_ip() {
    let cases = r#"
        {"spec": {"type": "LoadBalancer"}}
            | {"spec": {"clusterIP": "10.0.0.1", "healthCheckNodePort": 30000}}
            | {"spec": {"type": "LoadBalancer", "healthCheckNodePort": 30000,
            "clusterIP": "10.0.0.1"}}
        {"spec": {"clusterIP": "1.1.1.1", "healthCheckNodePort": 1}}
            | {"spec": {"clusterIP": "", "healthCheckNodePort": 0}}
            | {"spec": {"clusterIP": "1.1.1.1", "healthCheckNodePort": 1}}
        {} | {"spec": {"clusterIP": "None"}} | {"spec": {"clusterIP": "None"}}
        {} | {"spec": {"clusterIP": 1, "healthCheckNodePort": "1"}} | {}
    "#;
    check("v1", "Service", cases);
}

#[test]
fn a_service_account_has_the_secrets_of_both_and_the_desired_ones_first() {
    let cases = r#"
        {"secrets": [{"name": "b"}], "imagePullSecrets": [{"name": "p"}]} | {"secrets": [{"name":
            "a"}, {"name": "b", "kind": "x"}, {"name": "a"}], "imagePullSecrets": [{"name": "q"}]}
            | {"secrets": [{"name": "b"}, {"name": "a"}], "imagePullSecrets": [{"name": "p"},
            {"name": "q"}]}
        {} | {"secrets": [{"name": "a"}]} | {"secrets": [{"name": "a"}]}
        {} | {"secrets": []} | {}
        {} | {"secrets": [{}, 1]} | {}
        {"secrets": [{}]} | {"secrets": [{}, 1, {"name": "a"}]} | {"secrets": [{}, {"name": "a"}]}
    "#;
    check("v1", "ServiceAccount", cases);
}

#[test]
fn volumes_and_claims_keep_their_binding() {
    let persistent_volume_claim = r#"
        {"spec": {"storageClassName": "fast"}}
            | {"spec": {"volumeName": "pv1", "storageClassName": "slow"}}
            | {"spec": {"storageClassName": "fast", "volumeName": "pv1"}}
        {"spec": {"volumeName": "pv2"}} | {"spec": {"volumeName": ""}}
            | {"spec": {"volumeName": "pv2"}}
    "#;
    check("v1", "PersistentVolumeClaim", persistent_volume_claim);
    let persistent_volume = r#"
        {"spec": {"capacity": {}}} | {"spec": {"claimRef": {"name": "data"}}}
            | {"spec": {"capacity": {}, "claimRef": {"name": "data"}}}
        {"spec": {"claimRef": {"name": "mine"}}} | {"spec": {}}
            | {"spec": {"claimRef": {"name": "mine"}}}
    "#;
    check("v1", "PersistentVolume", persistent_volume);
}

#[test]
fn a_job_keeps_its_generated_selector_and_labels() {
    let cases = r#"
        {"spec": {"template": {"metadata": {"labels": {"app": "x"}}}}} | {"spec": {"selector":
            {"matchLabels": {"controller-uid": "u"}}, "template": {"metadata": {"labels": {"app":
            "x", "controller-uid": "u"}}}}} | {"spec": {"template": {"metadata": {"labels": {"app":
            "x", "controller-uid": "u"}}}, "selector": {"matchLabels": {"controller-uid": "u"}}}}
        {"spec": {"parallelism": 1}} | {"spec": {}} | {"spec": {"parallelism": 1}}
    "#;
    check("batch/v1", "Job", cases);
}

#[test]
fn only_a_token_secret_keeps_its_data() {
    let cases = r#"
        {"type": "kubernetes.io/service-account-token", "data": {"token": "old"}}
            | {"type": "kubernetes.io/service-account-token", "data": {"token": "new"}}
            | {"type": "kubernetes.io/service-account-token", "data": {"token": "new"}}
        {"type": "kubernetes.io/service-account-token", "data": {"token": "old"}}
            | {"type": "kubernetes.io/service-account-token"}
            | {"type": "kubernetes.io/service-account-token", "data": {"token": "old"}}
        {"type": "Opaque", "data": {"a": "old"}} | {"type": "Opaque", "data": {"a": "new"}}
            | {"type": "Opaque", "data": {"a": "old"}}
        {"data": {"a": "old"}} | {"type": "kubernetes.io/service-account-token",
            "data": {"a": "new"}} | {"data": {"a": "old"}}
    "#;
    check("v1", "Secret", cases);
}

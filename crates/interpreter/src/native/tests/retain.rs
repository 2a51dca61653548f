//! `Retain`.

use serde_json::{Value, json};

use super::{answer, object};
use crate::{Request, Response, native::interpret};

fn retained(desired: &Value, observed: &Value) -> Value {
    match answer(Request::Retain { desired, observed }) {
        Some(Response::Retained(object)) => object,
        other => panic!("not retained: {other:?}"),
    }
}

/// Objects of a kind with the desired, observed and expected members.
fn check(api_version: &str, kind: &str, table: &[(Value, Value, Value)]) {
    for (desired, observed, expected) in table {
        let of = |members: &Value| object(api_version, kind, members.clone());
        assert_eq!(
            retained(&of(desired), &of(observed)),
            of(expected),
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
    let mounts = json!([{"name": "token", "mountPath": "/token"}]);
    check(
        "v1",
        "Pod",
        &[
            (
                json!({"spec": {
                    "priority": 1,
                    "containers": [{"name": "a", "image": "x"}, {"name": "new"}],
                    "initContainers": [{"name": "i"}],
                }}),
                json!({"spec": {
                    "nodeName": "n1",
                    "serviceAccountName": "default",
                    "volumes": [{"name": "token"}],
                    "containers": [{"name": "a", "image": "y", "volumeMounts": mounts}, {"name": "gone"}],
                    "initContainers": [{"name": "i", "volumeMounts": mounts}],
                }}),
                json!({"spec": {
                    "priority": 1,
                    "containers": [{"name": "a", "image": "x", "volumeMounts": mounts}, {"name": "new"}],
                    "initContainers": [{"name": "i", "volumeMounts": mounts}],
                    "nodeName": "n1",
                    "serviceAccountName": "default",
                    "volumes": [{"name": "token"}],
                }}),
            ),
            (
                json!({"spec": {"nodeName": "n1", "containers": [{"name": "a", "volumeMounts": mounts}]}}),
                json!({"spec": {"containers": [{"name": "a"}]}}),
                json!({"spec": {"containers": [{"name": "a"}]}}),
            ),
            (
                json!({"spec": {"containers": "odd"}}),
                json!({"spec": {"containers": [{"name": "a"}]}}),
                json!({"spec": {"containers": "odd"}}),
            ),
        ],
    );
}

#[test]
fn a_service_keeps_its_health_check_port_and_cluster_ip() {
    check(
        "v1",
        "Service",
        &[
            (
                json!({"spec": {"type": "LoadBalancer"}}),
                json!({"spec": {"clusterIP": "10.0.0.1", "healthCheckNodePort": 30000}}),
                json!({"spec": {"type": "LoadBalancer", "healthCheckNodePort": 30000, "clusterIP": "10.0.0.1"}}),
            ),
            (
                json!({"spec": {"clusterIP": "1.1.1.1", "healthCheckNodePort": 1}}),
                json!({"spec": {"clusterIP": "", "healthCheckNodePort": 0}}),
                json!({"spec": {"clusterIP": "1.1.1.1", "healthCheckNodePort": 1}}),
            ),
            (
                json!({}),
                json!({"spec": {"clusterIP": "None"}}),
                json!({"spec": {"clusterIP": "None"}}),
            ),
            (
                json!({}),
                json!({"spec": {"clusterIP": 1, "healthCheckNodePort": "1"}}),
                json!({}),
            ),
        ],
    );
}

#[test]
fn a_service_account_has_the_secrets_of_both_and_the_desired_ones_first() {
    check(
        "v1",
        "ServiceAccount",
        &[
            (
                json!({"secrets": [{"name": "b"}], "imagePullSecrets": [{"name": "p"}]}),
                json!({"secrets": [{"name": "a"}, {"name": "b", "kind": "x"}, {"name": "a"}], "imagePullSecrets": [{"name": "q"}]}),
                json!({"secrets": [{"name": "b"}, {"name": "a"}], "imagePullSecrets": [{"name": "p"}, {"name": "q"}]}),
            ),
            (
                json!({}),
                json!({"secrets": [{"name": "a"}]}),
                json!({"secrets": [{"name": "a"}]}),
            ),
            (json!({}), json!({"secrets": []}), json!({})),
            (json!({}), json!({"secrets": [{}, 1]}), json!({})),
            (
                json!({"secrets": [{}]}),
                json!({"secrets": [{}, 1, {"name": "a"}]}),
                json!({"secrets": [{}, {"name": "a"}]}),
            ),
        ],
    );
}

#[test]
fn volumes_and_claims_keep_their_binding() {
    check(
        "v1",
        "PersistentVolumeClaim",
        &[
            (
                json!({"spec": {"storageClassName": "fast"}}),
                json!({"spec": {"volumeName": "pv1", "storageClassName": "slow"}}),
                json!({"spec": {"storageClassName": "fast", "volumeName": "pv1"}}),
            ),
            (
                json!({"spec": {"volumeName": "pv2"}}),
                json!({"spec": {"volumeName": ""}}),
                json!({"spec": {"volumeName": "pv2"}}),
            ),
        ],
    );
    check(
        "v1",
        "PersistentVolume",
        &[
            (
                json!({"spec": {"capacity": {}}}),
                json!({"spec": {"claimRef": {"name": "data"}}}),
                json!({"spec": {"capacity": {}, "claimRef": {"name": "data"}}}),
            ),
            (
                json!({"spec": {"claimRef": {"name": "mine"}}}),
                json!({"spec": {}}),
                json!({"spec": {"claimRef": {"name": "mine"}}}),
            ),
        ],
    );
}

#[test]
fn a_job_keeps_its_generated_selector_and_labels() {
    check(
        "batch/v1",
        "Job",
        &[
            (
                json!({"spec": {"template": {"metadata": {"labels": {"app": "x"}}}}}),
                json!({"spec": {
                    "selector": {"matchLabels": {"controller-uid": "u"}},
                    "template": {"metadata": {"labels": {"app": "x", "controller-uid": "u"}}},
                }}),
                json!({"spec": {
                    "template": {"metadata": {"labels": {"app": "x", "controller-uid": "u"}}},
                    "selector": {"matchLabels": {"controller-uid": "u"}},
                }}),
            ),
            (
                json!({"spec": {"parallelism": 1}}),
                json!({"spec": {}}),
                json!({"spec": {"parallelism": 1}}),
            ),
        ],
    );
}

#[test]
fn only_a_token_secret_keeps_its_data() {
    let token = "kubernetes.io/service-account-token";
    check(
        "v1",
        "Secret",
        &[
            (
                json!({"type": token, "data": {"token": "old"}}),
                json!({"type": token, "data": {"token": "new"}}),
                json!({"type": token, "data": {"token": "new"}}),
            ),
            (
                json!({"type": token, "data": {"token": "old"}}),
                json!({"type": token}),
                json!({"type": token, "data": {"token": "old"}}),
            ),
            (
                json!({"type": "Opaque", "data": {"a": "old"}}),
                json!({"type": "Opaque", "data": {"a": "new"}}),
                json!({"type": "Opaque", "data": {"a": "old"}}),
            ),
            (
                json!({"data": {"a": "old"}}),
                json!({"type": token, "data": {"a": "new"}}),
                json!({"data": {"a": "old"}}),
            ),
        ],
    );
}

//! `Prune`.

use serde_json::{Value, json};

use super::answer;
use crate::{Request, Response};

fn pruned(object: &Value) -> Value {
    match answer(Request::Prune { object }) {
        Some(Response::Pruned(object)) => object,
        other => panic!("not pruned: {other:?}"),
    }
}

fn check(api_version: &str, kind: &str, before: &Value, after: &Value) {
    let of = |members: &Value| {
        let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {}});
        object
            .as_object_mut()
            .unwrap()
            .extend(members.as_object().unwrap().clone());
        object
    };
    assert_eq!(pruned(&of(before)), of(after));
}

#[test]
fn objects_of_all_kinds_lose_what_their_cluster_filled_in() {
    let before = json!({
        "metadata": {
            "name": "a",
            "namespace": "b",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "deletionGracePeriodSeconds": 30,
            "generation": 3,
            "managedFields": [{}],
            "resourceVersion": "1",
            "selfLink": "/x",
            "uid": "u",
            "ownerReferences": [{}],
            "finalizers": ["x"],
            "labels": {"deployment.kubernetes.io/revision": "1"},
            "annotations": {"deployment.kubernetes.io/revision": "1"},
        },
        "spec": {"status": 1, "clusterIP": "1.1.1.1", "uid": "u"},
        "status": {"ready": true},
        "secrets": [{"name": "a-token-1"}],
    });
    let after = json!({
        "metadata": {
            "name": "a",
            "namespace": "b",
            "labels": {"deployment.kubernetes.io/revision": "1"},
            "annotations": {"deployment.kubernetes.io/revision": "1"},
        },
        "spec": {"status": 1, "clusterIP": "1.1.1.1", "uid": "u"},
        "secrets": [{"name": "a-token-1"}],
    });
    check("example.io/v1", "Widget", &before, &after);
    check("example.io/v1", "Service", &before, &after);
}

#[test]
fn a_deployment_loses_its_revision() {
    let revisions = json!({
        "deployment.kubernetes.io/revision": "1",
        "deployment.kubernetes.io/revision-history": "1,2",
        "mine": "x",
    });
    check(
        "apps/v1",
        "Deployment",
        &json!({"metadata": {"annotations": revisions}}),
        &json!({"metadata": {"annotations": {"mine": "x"}}}),
    );
    let odd = json!({"metadata": {"annotations": "odd"}});
    check("apps/v1", "Deployment", &odd, &odd);
}

#[test]
fn a_job_loses_its_generated_selector_unless_it_is_manual() {
    let spec = |manual: Value| {
        json!({"spec": {
            "manualSelector": manual,
            "selector": {"matchLabels": {"controller-uid": "u", "batch.kubernetes.io/controller-uid": "u", "a": "b"}},
            "template": {"metadata": {"labels": {
                "controller-uid": "u",
                "batch.kubernetes.io/controller-uid": "u",
                "job-name": "j",
                "batch.kubernetes.io/job-name": "j",
                "a": "b",
            }}},
            "ttlSecondsAfterFinished": 5,
        }})
    };
    check("batch/v1", "Job", &spec(json!(true)), &spec(json!(true)));
    let after = json!({"spec": {
        "manualSelector": false,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}},
        "ttlSecondsAfterFinished": 5,
    }});
    check("batch/v1", "Job", &spec(json!(false)), &after);
}

#[test]
fn a_service_loses_its_addresses_unless_it_is_headless() {
    let with = |ip: &str| json!({"spec": {"clusterIP": ip, "clusterIPs": [ip], "ports": []}});
    check(
        "v1",
        "Service",
        &with("10.0.0.1"),
        &json!({"spec": {"ports": []}}),
    );
    check("v1", "Service", &with("None"), &with("None"));
    let odd = json!({"spec": {"clusterIPs": ["None"]}});
    check("v1", "Service", &odd, &odd);
}

#[test]
fn a_service_account_loses_all_its_token_secrets() {
    let named = |names: &[&str]| {
        let secrets: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        json!({"metadata": {"name": "web"}, "secrets": secrets})
    };
    check(
        "v1",
        "ServiceAccount",
        &named(&[
            "web-token-a",
            "web-token-b",
            "web-token-c",
            "mine",
            "other-token-a",
        ]),
        &named(&["mine", "other-token-a"]),
    );
    let odd = json!({"metadata": {"name": "web"}, "secrets": [1, {}, {"name": 2}]});
    check("v1", "ServiceAccount", &odd, &odd);
}

#[test]
fn a_token_secret_loses_its_data_and_uid() {
    let members = |kind: &str| {
        json!({
            "type": kind,
            "data": {"token": "x"},
            "metadata": {"annotations": {
                "kubernetes.io/service-account.uid": "u",
                "kubernetes.io/service-account.name": "n",
            }},
        })
    };
    let token = "kubernetes.io/service-account-token";
    let after = json!({
        "type": token,
        "metadata": {"annotations": {"kubernetes.io/service-account.name": "n"}},
    });
    check("v1", "Secret", &members(token), &after);
    check("v1", "Secret", &members("Opaque"), &members("Opaque"));
}

#[test]
fn a_claim_loses_its_selected_node() {
    check(
        "v1",
        "PersistentVolumeClaim",
        &json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n", "a": "b"}}}),
        &json!({"metadata": {"annotations": {"a": "b"}}}),
    );
}

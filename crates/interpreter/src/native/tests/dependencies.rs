//! `InterpretDependency`.

use serde_json::{Value, json};

use super::{dependencies_of, object};
use crate::test_rows::typed;
use crate::{Request, native::interpret, request::DependentObject};

fn names(needed: &[DependentObject]) -> Vec<String> {
    needed
        .iter()
        .map(|object| {
            format!(
                "{}/{}/{}/{}",
                object.api_version, object.kind, object.namespace, object.name
            )
        })
        .collect()
}

/// What the spec of a pod needs, without `v1` and the namespace.
fn needed_by(spec: &Value) -> Vec<String> {
    let pod = object("v1", "Pod", json!({ "spec": spec }));
    names(&dependencies_of(&pod).unwrap())
        .iter()
        .map(|name| name.replace("v1/", "").replace("/shop/", "/"))
        .collect()
}

#[test]
fn a_pod_needs_what_its_spec_names() {
    let cases = r#"
        {} |
        null |
        {"imagePullSecrets": [{"name": "b"}, {"name": "a"}, {"name": "a"}, {"name": ""}, {}, 1]}
            | Secret/a, Secret/b
        {"initContainers": [{"envFrom": [{"configMapRef": {"name": "c1"}},
            {"secretRef": {"name": "s1"}}]}], "containers": [{"env": [{"name": "A",
            "value": "x"}, {"valueFrom": {"configMapKeyRef": {"name": "c2",
            "optional": true}}}, {"valueFrom": {"secretKeyRef": {"name": "s2"}}},
            {"valueFrom": {"fieldRef": {"fieldPath": "x"}}}]}], "ephemeralContainers": [{"envFrom":
            [{"configMapRef": {"name": "c3"}}]}]}
            | ConfigMap/c1, ConfigMap/c2, ConfigMap/c3, Secret/s1, Secret/s2
        {"serviceAccountName": "robot"} | ServiceAccount/robot
        {"serviceAccountName": "default"} |
        {"serviceAccountName": ""} |
        {"volumes": [{"configMap": {"name": "c"}}, {"secret": {"secretName": "s"}},
            {"persistentVolumeClaim": {"claimName": "p"}}, {"projected": {"sources": [{"configMap":
            {"name": "c9"}}, {"secret": {"name": "s9"}}]}}, {"ephemeral": {"volumeClaimTemplate":
            {"metadata": {"name": "no"}}}}, {"emptyDir": {}}]}
            | ConfigMap/c, ConfigMap/c9, Secret/s, Secret/s9, PersistentVolumeClaim/p
        {"volumes": [{"azureFile": {"secretName": "a"}}, {"cephfs": {"secretRef": {"name": "b"}}},
            {"cinder": {"secretRef": {"name": "c"}}}, {"flexVolume": {"secretRef": {"name": "d"}}},
            {"rbd": {"secretRef": {"name": "e"}}}, {"scaleIO": {"secretRef": {"name": "f"}}},
            {"iscsi": {"secretRef": {"name": "g"}}}, {"storageos": {"secretRef": {"name": "h"}}},
            {"csi": {"nodePublishSecretRef": {"name": "i"}}}, {"glusterfs": {"endpoints": "no"}}]}
            | Secret/a, Secret/b, Secret/c, Secret/d, Secret/e, Secret/f, Secret/g,
            Secret/h, Secret/i
        {"volumes": {}, "containers": "x", "imagePullSecrets": null} |
    "#;
    for (spec, expected) in typed::<(Value, Vec<&str>)>(cases) {
        assert_eq!(needed_by(&spec), expected, "{spec}");
    }
}

#[test]
fn workloads_need_what_their_template_names() {
    let template = json!({"spec": {"serviceAccountName": "robot"}});
    let spec = json!({"template": template});
    for (api_version, kind, spec) in [
        ("apps/v1", "Deployment", spec.clone()),
        ("apps/v1", "ReplicaSet", spec.clone()),
        ("apps/v1", "StatefulSet", spec.clone()),
        ("apps/v1", "DaemonSet", spec.clone()),
        ("batch/v1", "Job", spec.clone()),
        (
            "batch/v1",
            "CronJob",
            json!({"jobTemplate": {"spec": spec}}),
        ),
    ] {
        let object = object(api_version, kind, json!({"spec": spec}));
        let needed = dependencies_of(&object).unwrap();
        assert_eq!(names(&needed), ["v1/ServiceAccount/shop/robot"], "{kind}");
    }
}

#[test]
fn a_stateful_set_makes_the_claims_of_its_templates_itself() {
    let claim = |name: &str| json!({"persistentVolumeClaim": {"claimName": name}});
    let spec = json!({
        "volumeClaimTemplates": [{"metadata": {"name": "data"}}, {}],
        "template": {"spec": {"volumes": [claim("data"), claim("other"), {"secret": {"secretName": "data"}}]}},
    });
    let stateful = object("apps/v1", "StatefulSet", json!({"spec": spec}));
    assert_eq!(
        names(&dependencies_of(&stateful).unwrap()),
        ["v1/Secret/shop/data", "v1/PersistentVolumeClaim/shop/other"]
    );
    let deployment = object("apps/v1", "Deployment", json!({"spec": spec}));
    assert_eq!(dependencies_of(&deployment).unwrap().len(), 3);
}

#[test]
fn an_ingress_needs_its_tls_secrets() {
    let ingress = |tls: Value| {
        object(
            "networking.k8s.io/v1",
            "Ingress",
            json!({"spec": {"tls": tls}}),
        )
    };
    let two = ingress(json!([{"secretName": "b"}, {"secretName": "a"}, {"secretName": "b"}]));
    assert_eq!(
        names(&dependencies_of(&two).unwrap()),
        ["v1/Secret/shop/a", "v1/Secret/shop/b"]
    );
    assert_eq!(dependencies_of(&ingress(json!(null))), Some(vec![]));
    for tls in [
        json!([{"secretName": "a"}, {}]),
        json!([{"secretName": ""}]),
    ] {
        let object = ingress(tls);
        assert!(interpret(&Request::Dependency { object: &object }).is_err());
    }
}

#[test]
fn a_service_import_needs_its_derived_service_and_endpoints() {
    let import = object("multicluster.x-k8s.io/v1alpha1", "ServiceImport", json!({}));
    assert_eq!(
        serde_json::to_value(dependencies_of(&import)).unwrap(),
        json!([
            {"apiVersion": "v1", "kind": "Service", "namespace": "shop", "name": "derived-web"},
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "namespace": "shop",
                "labelSelector": {"matchLabels": {"kubernetes.io/service-name": "derived-web"}},
            },
        ])
    );
}

use serde_json::json;

use super::*;

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}},
        "spec": {"replicas": 2, "template": {"spec": {
            "initContainers": [{"name": "init", "image": "busybox"}],
            "containers": [
                {"name": "web", "image": "docker.io/nginx:1.25", "args": ["-a", "-b", "-a"]},
                {"name": "side", "image": "perl:5.34.0"},
            ],
        }}},
    })
}

fn cluster() -> TargetCluster {
    TargetCluster {
        name: "m1".to_owned(),
        region: "eu".to_owned(),
        ..TargetCluster::default()
    }
}

fn policy(namespace: Option<&str>, name: &str, spec: Value) -> ObjectOverrides {
    ObjectOverrides {
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
        spec: Arc::new(serde_json::from_value(spec).unwrap()),
    }
}

fn changed_by(object: &Value, overriders: &Value) -> Result<Value, String> {
    let spec = json!({"overrideRules": [{"overriders": overriders}]});
    let policies = [policy(None, "all", spec)];
    let result = overridden(&policies, object, object.clone(), &cluster());
    result.map_err(|error| error.to_string())
}

#[test]
fn images_are_changed_by_their_parts() {
    for (image, component, operator, value, expected) in [
        (
            "docker.io/nginx:1.25",
            "Registry",
            "replace",
            "r.example",
            "r.example/nginx:1.25",
        ),
        (
            "docker.io/nginx:1.25",
            "Registry",
            "add",
            ".test",
            "docker.io.test/nginx:1.25",
        ),
        (
            "perl:5.34.0",
            "Registry",
            "add",
            "registry.k8s.io",
            "registry.k8s.io/perl:5.34.0",
        ),
        (
            "docker.io/nginx:1.25",
            "Registry",
            "remove",
            "",
            "nginx:1.25",
        ),
        (
            "docker.io/nginx:1.25",
            "Repository",
            "replace",
            "own/nginx",
            "docker.io/own/nginx:1.25",
        ),
        (
            "docker.io/nginx:1.25",
            "Repository",
            "add",
            "-slim",
            "docker.io/nginx-slim:1.25",
        ),
        ("nginx:1", "Tag", "add", ".2", "nginx:1.2"),
        ("nginx:1", "Tag", "add", "/x", "nginx:1"),
        ("nginx", "Tag", "replace", "1.2", "nginx:1.2"),
        ("nginx:1", "Tag", "remove", "", "nginx"),
        (
            "nginx:1",
            "Tag",
            "replace",
            "sha256:abc",
            "nginx@sha256:abc",
        ),
        (
            "localhost/a/b@sha256:abc",
            "Tag",
            "replace",
            "2",
            "localhost/a/b:2",
        ),
        ("host:5000/a", "Tag", "replace", "2", "host:5000/a:2"),
        (
            "nginx:1.25@sha256:abc",
            "Registry",
            "replace",
            "r.example",
            "r.example/nginx:1.25@sha256:abc",
        ),
        ("nginx:1.25@sha256:abc", "Tag", "add", ".2", "nginx:1.25.2"),
        (
            "library/nginx",
            "Registry",
            "replace",
            "r.example",
            "r.example/library/nginx",
        ),
    ] {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {},
                         "spec": {"containers": [{"name": "a", "image": image}]}});
        let overrider = json!({"imageOverrider": [
            {"component": component, "operator": operator, "value": value}]});
        let found = changed_by(&pod, &overrider).unwrap();
        let found = found.pointer("/spec/containers/0/image").unwrap();
        assert_eq!(found, expected, "{image} {component} {operator} {value}");
    }
}

#[test]
fn an_image_elsewhere_is_found_by_its_path() {
    let object = json!({"apiVersion": "example.com/v1", "kind": "App", "metadata": {}, "spec": {"image": "a:1"}});
    let change = json!([{"predicate": {"path": "/spec/image"}, "component": "Tag", "operator": "replace", "value": "2"}]);
    let found = changed_by(&object, &json!({"imageOverrider": change})).unwrap();
    assert_eq!(found["spec"]["image"], "a:2");
    let absent = json!([{"predicate": {"path": "/spec/images/7"}, "component": "Tag", "operator": "remove"}]);
    assert_eq!(
        changed_by(&object, &json!({"imageOverrider": absent})),
        Err("ClusterOverridePolicy all: imageOverrider[0]: there is no /spec/images/7".to_owned())
    );
    let none = json!([{"component": "Repository", "operator": "remove"}]);
    assert_eq!(
        changed_by(&deployment(), &json!({"imageOverrider": none})),
        Err(
            "ClusterOverridePolicy all: imageOverrider[0]: the image \"docker.io/nginx:1.25\" \
             would have no repository"
                .to_owned()
        )
    );
}

#[test]
fn every_kind_of_change_is_made() {
    let containers = "/spec/template/spec/containers";
    for (overriders, pointer, expected) in [
        (
            json!({"commandOverrider": [{"containerName": "web", "operator": "add", "value": ["sh"]}]}),
            format!("{containers}/0/command"),
            json!(["sh"]),
        ),
        (
            json!({"argsOverrider": [{"containerName": "web", "operator": "remove", "value": ["-a"]}]}),
            format!("{containers}/0/args"),
            json!(["-b"]),
        ),
        (
            json!({"argsOverrider": [{"containerName": "init", "operator": "add", "value": ["x"]}]}),
            "/spec/template/spec/initContainers/0/args".to_owned(),
            Value::Null,
        ),
        (
            json!({"labelsOverrider": [
                {"operator": "add", "value": {"a": "1"}},
                {"operator": "replace", "value": {"app": "shop", "none": "x"}},
                {"operator": "remove", "value": {"gone": ""}},
            ]}),
            "/metadata/labels".to_owned(),
            json!({"app": "shop", "a": "1"}),
        ),
        (
            json!({"annotationsOverrider": [{"operator": "add", "value": {"a.example/b": "1"}}]}),
            "/metadata/annotations".to_owned(),
            json!({"a.example/b": "1"}),
        ),
        (
            json!({"plaintext": [
                {"path": "/spec/replicas", "operator": "replace", "value": 5},
                {"path": "/spec/paused", "operator": "add", "value": true},
                {"path": "/spec/template/spec/containers/1", "operator": "remove"},
            ]}),
            "/spec/replicas".to_owned(),
            json!(5),
        ),
    ] {
        let found = changed_by(&deployment(), &overriders).unwrap();
        let found = found.pointer(&pointer).cloned().unwrap_or_default();
        assert_eq!(found, expected, "{overriders}");
    }
}

#[test]
fn texts_within_fields_are_changed() {
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"},
        "data": {"a.json": "{\"port\": 1, \"old\": 2}", "b.yaml": "port: 1\nhosts:\n- a\n"}});
    let field = |path: &str, kind: &str, changes: Value| json!({"fieldOverrider": [{"fieldPath": path, kind: changes}]});
    let changes = json!([
        {"subPath": "/port", "operator": "replace", "value": 8080}, {"subPath": "/old", "operator": "remove"},
    ]);
    let found = changed_by(&config, &field("/data/a.json", "json", changes)).unwrap();
    assert_eq!(found["data"]["a.json"], "{\"port\":8080}");
    let changes = json!([{"subPath": "/hosts/-", "operator": "add", "value": "b"}]);
    let found = changed_by(&config, &field("/data/b.yaml", "yaml", changes)).unwrap();
    assert_eq!(found["data"]["b.yaml"], "port: 1\nhosts:\n- a\n- b\n");
    let changes = json!([{"subPath": "/x", "operator": "remove"}]);
    assert_eq!(
        changed_by(&config, &field("/data/none", "yaml", changes)),
        Err("ClusterOverridePolicy all: fieldOverrider[0]: there is no /data/none".to_owned())
    );
}

#[test]
fn a_change_that_cannot_be_made_is_an_error() {
    let change =
        json!({"plaintext": [{"path": "/spec/none/deeper", "operator": "add", "value": 1}]});
    let error = changed_by(&deployment(), &change).unwrap_err();
    assert!(
        error.starts_with("ClusterOverridePolicy all: plaintext[0]: add /spec/none/deeper: "),
        "{error}"
    );
    let change = json!({"plaintext": [{"path": "/spec", "operator": "move"}]});
    assert_eq!(
        changed_by(&deployment(), &change).unwrap_err(),
        "ClusterOverridePolicy all: plaintext[0]: operator \"move\" is not add, replace or remove"
    );
}

#[test]
fn the_most_exact_policy_of_the_namespace_has_the_last_word() {
    let label = |value: &str, selector: Option<Value>| {
        let mut spec = json!({"overrideRules": [{"overriders": {
            "argsOverrider": [{"containerName": "side", "operator": "add", "value": [value]}],
            "labelsOverrider": [{"operator": "add", "value": {"by": value}}]}}]});
        if let Some(selector) = selector {
            spec["resourceSelectors"] = json!([selector]);
        }
        spec
    };
    let kind = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
    let named = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let policies = [
        policy(Some("shop"), "b-kind", label("b-kind", Some(kind.clone()))),
        policy(Some("shop"), "a-name", label("a-name", Some(named.clone()))),
        policy(Some("other"), "z", label("z", Some(named.clone()))),
        policy(None, "z-cluster", label("z-cluster", Some(named))),
        policy(None, "all", label("all", None)),
    ];
    let template = deployment();
    let object = overridden(&policies, &template, template.clone(), &cluster()).unwrap();
    assert_eq!(object["metadata"]["labels"]["by"], "a-name");
    // In this order, and no other policy.
    let args = object.pointer("/spec/template/spec/containers/1/args");
    assert_eq!(args, Some(&json!(["all", "z-cluster", "b-kind", "a-name"])));
}

#[test]
fn rules_are_for_the_clusters_that_they_name() {
    let overriders = json!({"labelsOverrider": [{"operator": "add", "value": {"here": "yes"}}]});
    for (target, is_changed) in [
        (json!({"clusterNames": ["m1"]}), true),
        (json!({"clusterNames": ["m2"]}), false),
        (
            json!({"fieldSelector": {"matchExpressions": [
            {"key": "region", "operator": "In", "values": ["eu"]}]}}),
            true,
        ),
    ] {
        for spec in [
            json!({"overrideRules": [{"targetCluster": target, "overriders": overriders}]}),
            json!({"targetCluster": target, "overriders": overriders}),
        ] {
            let policies = [policy(None, "some", spec)];
            let template = deployment();
            let object = overridden(&policies, &template, template.clone(), &cluster()).unwrap();
            assert_eq!(
                object["metadata"]["labels"].get("here").is_some(),
                is_changed,
                "{target}"
            );
            assert_eq!(object == template, !is_changed);
        }
    }
}

#[test]
fn changes_do_not_nest_without_bound() {
    let deep = (0..60).fold(json!(1), |value, _| json!({ "a": value }));
    let at = |levels: usize| format!("/spec{}", "/a".repeat(levels));
    let change = |path: String| json!({"path": path, "operator": "add", "value": deep});
    let error = changed_by(
        &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}),
        &json!({"plaintext": [change(at(0)), change(at(60)), change(at(120))]}),
    );
    assert!(
        error
            .unwrap_err()
            .ends_with("it is nested more than 128 levels deep")
    );
}

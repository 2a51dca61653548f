use serde_json::{Value, json};

use super::*;
use crate::reads;

/// The images of each pod.
fn found(object: &Value) -> Vec<Vec<String>> {
    reads::assert_sufficient(object);
    let tree = object.into();
    let specs = pod_specs(&tree).into_iter();
    specs
        .map(|spec| images(spec).map(str::to_owned).collect())
        .collect()
}

fn spec(image: &str) -> Value {
    json!({"containers": [{"name": "a", "image": image}]})
}

#[test]
fn each_kind_of_kubernetes_has_its_template_where_the_kind_has_it() {
    let below_spec = json!({"template": {"spec": spec("a")}});
    for (api_version, kind, member, content) in [
        ("v1", "Pod", "spec", spec("a")),
        ("v1", "PodTemplate", "template", json!({"spec": spec("a")})),
        ("v1", "ReplicationController", "spec", below_spec.clone()),
        ("apps/v1", "Deployment", "spec", below_spec.clone()),
        ("apps/v1beta2", "Deployment", "spec", below_spec.clone()),
        ("apps/v1", "StatefulSet", "spec", below_spec.clone()),
        ("apps/v1", "DaemonSet", "spec", below_spec.clone()),
        ("apps/v1", "ReplicaSet", "spec", below_spec.clone()),
        (
            "extensions/v1beta1",
            "DaemonSet",
            "spec",
            below_spec.clone(),
        ),
        ("batch/v1", "Job", "spec", below_spec.clone()),
        (
            "batch/v1",
            "CronJob",
            "spec",
            json!({"jobTemplate": {"spec": below_spec}}),
        ),
    ] {
        let object = json!({"apiVersion": api_version, "kind": kind, member: content});
        assert_eq!(found(&object), [["a"]], "{kind}");
        let odd = json!({"apiVersion": api_version, "kind": kind, member: [1]});
        assert!(found(&odd).is_empty(), "{kind} of odd type");
    }
}

#[test]
fn other_kinds_of_kubernetes_have_no_template() {
    for (api_version, kind) in [
        ("v1", "Service"),
        ("apps/v1", "ControllerRevision"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ] {
        let object = json!({"apiVersion": api_version, "kind": kind, "spec": {"template": {"spec": spec("a")}}});
        assert!(found(&object).is_empty(), "{kind}");
    }
}

#[test]
fn templates_and_specs_of_pods_are_found_anywhere_below_the_spec_of_custom_kinds() {
    for (content, expected) in [
        (spec("a"), vec!["a"]),
        (json!({"template": {"spec": spec("a")}}), vec!["a"]),
        (
            json!({"tasks": [{"template": {"spec": spec("a")}}, {"x": 1}, {"template": {"spec": spec("b")}}]}),
            vec!["a", "b"],
        ),
        (json!({"server": {"podSpec": spec("a")}}), vec!["a"]),
        (
            json!({"jobs": [{"template": {"spec": {"template": {"spec": {"containers": [{"image": "x"}]}}}}}]}),
            vec!["x"],
        ),
        (json!({"override": {"containers": [{"name": "a"}]}}), vec![]),
        (
            json!({"override": {"containers": [{"image": "a"}]}}),
            vec![],
        ),
        (json!({"containers": {"a": {"image": "a"}}}), vec![]),
        (json!({"containers": [{"name": "a"}]}), vec![]),
        (json!({"containers": "a"}), vec![]),
        (json!([{"spec": spec("a")}]), vec!["a"]),
        (json!(null), vec![]),
    ] {
        let object = json!({"apiVersion": "example.io/v1", "kind": "Workload", "spec": content});
        assert_eq!(found(&object).concat(), expected, "{object}");
    }
    let in_status = json!({"apiVersion": "example.io/v1", "kind": "A", "status": {"template": {"spec": spec("a")}}});
    assert!(found(&in_status).is_empty());
}

#[test]
fn images_are_those_of_all_containers_and_of_image_volumes() {
    let object = json!({"apiVersion": "v1", "kind": "Pod", "spec": {
        "ephemeralContainers": [{"image": "debug"}],
        "containers": [{"image": "app"}, {"image": 1}, {"image": ""}, "x", {"image": "app"}],
        "initContainers": [{"image": "init"}],
        "volumes": [{"image": {"reference": "data"}}, {"image": "x"}, {"emptyDir": {}}],
    }});
    assert_eq!(found(&object)[0], ["init", "app", "app", "debug", "data"]);
}

#[test]
fn the_number_of_templates_is_bounded() {
    let tasks = vec![json!({"template": {"spec": spec("a")}}); 1000];
    let object = json!({"apiVersion": "example.io/v1", "kind": "A", "spec": {"tasks": tasks}});
    assert_eq!(pod_specs(&(&object).into()).len(), MAX_TEMPLATES);
}

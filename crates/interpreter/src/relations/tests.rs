use serde_json::{Value, json};

use super::*;
use crate::test_rows::rows;

mod custom;
mod kubernetes;
mod pods;
mod selectors;

pub(super) fn object(yaml: &str) -> Value {
    let object = serde_saphyr::from_str(yaml).unwrap();
    crate::reads::assert_sufficient(&object);
    object
}

/// The references of an object, each as `relation term`.
pub(super) fn found(yaml: &str) -> Vec<String> {
    references(&(&object(yaml)).into())
        .iter()
        .map(|reference| format!("{} {}", reference.relation, reference.term()))
        .collect()
}

/// A case is an object, and its references.
pub(super) fn check(cases: &str) {
    for [yaml, expected] in rows(cases) {
        assert_eq!(found(yaml).join(", "), expected, "{yaml}");
    }
}

#[test]
fn a_term_has_two_slashes_around_the_namespace_of_a_cluster_scoped_object() {
    let pod = references(
        &(&object("{apiVersion: v1, kind: Pod, metadata: {namespace: web}, spec: {nodeName: n1}}"))
            .into(),
    );
    assert_eq!(pod[0].term(), "v1/Node//n1");
    assert_eq!(pod[0].namespace, "");
}

#[test]
fn texts_that_no_object_has_as_its_name_are_no_references() {
    for name in [
        "",
        " ",
        "a b",
        "a/b",
        "{{ .name }}",
        "${NAME}",
        "a\nb",
        &"a".repeat(254),
    ] {
        let service = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"namespace": "web"},
            "spec": {"serviceName": name}});
        assert_eq!(references(&(&service).into()), [], "{name}");
    }
    for (member, value) in [
        ("kind", "a/b"),
        ("kind", "{{ .kind }}"),
        ("apiVersion", "a/b/c"),
        ("apiVersion", "a/"),
        ("apiVersion", "{{ .version }}"),
        ("namespace", "a/b"),
    ] {
        let mut target =
            json!({"apiVersion": "example.io/v1", "kind": "A", "name": "a", "namespace": "b"});
        let autoscaler = |target: &Value| {
            json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
                "spec": {"scaleTargetRef": target}})
        };
        assert_eq!(references(&(&autoscaler(&target)).into()).len(), 1);
        target[member] = value.into();
        assert_eq!(
            references(&(&autoscaler(&target)).into()),
            [],
            "{member}: {value}"
        );
    }
}

#[test]
fn an_object_that_is_referred_to_twice_is_there_once_with_its_first_relation() {
    let cases = r"
        {apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {namespace: web,
            name: c}, spec: {secretName: tls, additional: {secretName: tls}}}
            | produces v1/Secret/web/tls
    ";
    check(cases);
}

#[test]
fn an_object_does_not_refer_to_itself() {
    let cases = r"
        {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, metadata: {namespace: a,
            name: b}, spec: {dependsOn: [{name: b}, {name: c}]}}
            | dependsOn kustomize.toolkit.fluxcd.io/v1/Kustomization/a/c
    ";
    check(cases);
}

#[test]
fn the_number_of_references_is_bounded() {
    let endpoints: Vec<Value> = (0..5000)
        .map(|number| json!({"targetRef": {"kind": "Pod", "namespace": "web", "name": format!("p{number}")}}))
        .collect();
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "endpoints": endpoints});
    assert_eq!(references(&(&slice).into()).len(), MAX_REFERENCES);
    let secrets: Vec<Value> = (0..5000)
        .map(|number| json!({"secretName": format!("s{number}")}))
        .collect();
    let custom = json!({"apiVersion": "example.io/v1", "kind": "A", "metadata": {"namespace": "web"}, "spec": secrets});
    assert_eq!(references(&(&custom).into()).len(), MAX_REFERENCES);
}

#[test]
fn dependencies_of_scripts_become_references_if_they_have_a_name() {
    let dependency = |name: &str| crate::request::DependentObject {
        api_version: "v1".to_owned(),
        kind: "Secret".to_owned(),
        namespace: "web".to_owned(),
        name: name.to_owned(),
        label_selector: Some(json!({"matchLabels": {"a": "b"}})),
    };
    let reference = ObjectReference::of_dependency(dependency("db"), "uses").unwrap();
    assert_eq!(reference.term(), "v1/Secret/web/db");
    assert_eq!(ObjectReference::of_dependency(dependency(""), "uses"), None);
}

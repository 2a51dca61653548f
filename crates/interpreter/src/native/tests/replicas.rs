//! `InterpretReplica` and `ReviseReplica`.

use serde_json::{Value, json};

use super::{answer, object};
use crate::test_rows::typed;
use crate::{Request, Response, native::interpret};

fn replicas(object: &Value) -> i64 {
    match answer(Request::Replica { object }) {
        Some(Response::Replica { replicas, .. }) => replicas,
        other => panic!("no replicas: {other:?}"),
    }
}

#[test]
fn workloads_have_the_replicas_of_their_spec() {
    for kind in ["Deployment", "ReplicaSet", "StatefulSet"] {
        for (spec, expected) in [
            (json!({"replicas": 3}), 3),
            (json!({"replicas": 0}), 0),
            (json!({}), 0),
            (json!({"replicas": null}), 0),
            (json!([]), 0),
        ] {
            let object = object("apps/v1", kind, json!({"spec": spec}));
            assert_eq!(replicas(&object), expected, "{object}");
        }
    }
}

#[test]
fn a_job_has_its_parallel_pods_but_no_more_than_completions() {
    for (spec, expected) in [
        (json!({"parallelism": 5}), 5),
        (json!({"parallelism": 5, "completions": 2}), 2),
        (json!({"parallelism": 2, "completions": 5}), 2),
        (json!({"parallelism": 2, "completions": 0}), 0),
        (json!({"completions": 5}), 0),
    ] {
        let object = object("batch/v1", "Job", json!({"spec": spec}));
        assert_eq!(replicas(&object), expected, "{object}");
    }
}

#[test]
fn a_number_of_pods_that_no_api_server_takes_is_an_error() {
    let cases = r#"
        Deployment | apps/v1 | {"replicas": "3"} | spec.replicas is "3", expected a 32-bit integer
        StatefulSet | apps/v1 | {"replicas": 99999999999}
            | spec.replicas is 99999999999, expected a 32-bit integer
        Job | batch/v1 | {"parallelism": 5, "completions": [2]}
            | spec.completions is [2], expected a 32-bit integer
    "#;
    for (kind, api_version, spec, expected) in typed::<(&str, &str, Value, &str)>(cases) {
        let object = object(api_version, kind, json!({"spec": spec}));
        let error = interpret(&Request::Replica { object: &object }).unwrap_err();
        assert_eq!(error.0, expected);
    }
}

#[test]
fn a_pod_is_one_replica_with_the_requirements_of_its_spec() {
    let container = json!({"resources": {"requests": {"cpu": "1"}}});
    let pod = object("v1", "Pod", json!({"spec": {"containers": [container]}}));
    let Some(Response::Replica {
        replicas,
        requirements,
    }) = answer(Request::Replica { object: &pod })
    else {
        panic!("a pod has a rule");
    };
    assert_eq!(replicas, 1);
    assert_eq!(
        serde_json::to_value(requirements).unwrap(),
        json!({"resourceRequest": {"cpu": "1"}})
    );
}

#[test]
fn requirements_come_from_the_template_of_a_workload() {
    let template = json!({"spec": {"nodeSelector": {"disk": "ssd"}, "priorityClassName": "high"}});
    for (api_version, kind) in [("apps/v1", "Deployment"), ("batch/v1", "Job")] {
        let object = object(api_version, kind, json!({"spec": {"template": template}}));
        let Some(Response::Replica { requirements, .. }) =
            answer(Request::Replica { object: &object })
        else {
            panic!("{kind} has a rule");
        };
        assert_eq!(
            serde_json::to_value(requirements).unwrap(),
            json!({"nodeClaim": {"nodeSelector": {"disk": "ssd"}}})
        );
    }
}

#[test]
fn a_request_that_is_no_quantity_is_an_error() {
    let container = json!({"resources": {"requests": {"cpu": "many"}}});
    let pod = object("v1", "Pod", json!({"spec": {"containers": [container]}}));
    let error = interpret(&Request::Replica { object: &pod }).unwrap_err();
    assert!(
        error.0.contains("cpu") && error.0.contains("many"),
        "{error}"
    );
}

fn revised(object: &Value, replicas: i64) -> Value {
    match answer(Request::Revise { object, replicas }) {
        Some(Response::Revised(object)) => object,
        other => panic!("not revised: {other:?}"),
    }
}

#[test]
fn revising_overwrites_an_integer_and_nothing_else() {
    for (api_version, kind, field) in [
        ("apps/v1", "Deployment", "replicas"),
        ("apps/v1", "ReplicaSet", "replicas"),
        ("apps/v1", "StatefulSet", "replicas"),
        ("batch/v1", "Job", "parallelism"),
    ] {
        let with = |value: Value| {
            let spec = json!({"paused": true, field: value, "completions": 9});
            object(api_version, kind, json!({"spec": spec}))
        };
        assert_eq!(revised(&with(json!(2)), 7), with(json!(7)));
        assert_eq!(revised(&with(json!(0)), 7), with(json!(7)));
        for odd in [json!("2"), json!(null), json!(1.5), json!({})] {
            assert_eq!(revised(&with(odd.clone()), 7), with(odd));
        }
        let without = object(api_version, kind, json!({"spec": {"paused": true}}));
        assert_eq!(revised(&without, 7), without);
        let bare = object(api_version, kind, json!({}));
        assert_eq!(revised(&bare, 7), bare);
    }
}

use proptest::prelude::*;

use super::*;
use crate::test_rows::typed;
use crate::{
    health,
    request::{Component, DependentObject, ReplicaRequirements},
    webhook::{decode, encode},
};

fn object() -> Value {
    json!({
        "apiVersion": "workload.example.io/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": "nginx", "namespace": "default"},
        "spec": {"replicas": 3, "list": [1, 2, 3]},
    })
}

fn changed() -> Value {
    let mut changed = object();
    changed["spec"] = json!({"replicas": 5, "list": [1, 3], "a/b": {"c": null}});
    changed
}

/// Every operation with a result that fits it.
fn exchanges<'a>(object: &'a Value, observed: &'a Value) -> Vec<(Request<'a>, Response)> {
    let dependency = |name: &str| DependentObject {
        api_version: "v1".to_owned(),
        kind: "Secret".to_owned(),
        namespace: "default".to_owned(),
        name: name.to_owned(),
        label_selector: name.is_empty().then(|| json!({"matchLabels": {"a": "b"}})),
    };
    let component = Component {
        name: "driver".to_owned(),
        replicas: 2,
        replica_requirements: Some(ReplicaRequirements::default()),
    };
    let items: &[AggregatedStatusItem] = &[];
    vec![
        (
            Request::Replica { object },
            Response::Replica {
                replicas: 3,
                requirements: Some(ReplicaRequirements::default()),
            },
        ),
        (
            Request::Component { object },
            Response::Components(vec![component]),
        ),
        (
            Request::Revise {
                object,
                replicas: 5,
            },
            Response::Revised(changed()),
        ),
        (
            Request::Retain {
                desired: object,
                observed,
            },
            Response::Retained(changed()),
        ),
        (
            Request::AggregateStatus { object, items },
            Response::AggregatedStatus(object.clone()),
        ),
        (
            Request::Status { object },
            Response::Status(json!({"ready": 1})),
        ),
        (
            Request::Health { object },
            Response::Health {
                assessment: health::from_boolean(object, false),
                healthy: false,
            },
        ),
        (
            Request::Dependency { object },
            Response::Dependencies(vec![dependency("db"), dependency("")]),
        ),
        (Request::Prune { object }, Response::Pruned(changed())),
    ]
}

#[test]
fn what_a_server_answers_is_what_the_client_reads() {
    let object = object();
    let observed = json!({"spec": {"paused": true}});
    let mut exchanged = 0;
    for dialect in Dialect::ALL {
        for (request, response) in exchanges(&object, &observed) {
            if dialect.operation_name(request.operation()).is_none() {
                continue;
            }
            let body = encode(dialect, "u-1", &request).unwrap();
            let received = ReviewRequest::decode(&body).unwrap();
            assert_eq!(received.dialect, dialect);
            assert_eq!(
                (&*received.name, &*received.namespace),
                ("nginx", "default")
            );
            assert_eq!(
                format!("{:?}", received.request().unwrap()),
                format!("{request:?}")
            );
            let answer = ReviewResponse::Answer(response.clone());
            let reply = answer.encode(&received).unwrap();
            assert_eq!(
                decode(dialect, "u-1", &request, &reply),
                Ok(response),
                "{}",
                String::from_utf8_lossy(&reply)
            );
            assert_eq!(answer.http_status(dialect), 200);
            exchanged += 1;
        }
    }
    assert_eq!(exchanged, 16);
}

#[test]
fn a_failure_reaches_the_client() {
    let object = object();
    let request = Request::Health { object: &object };
    let failure = ReviewResponse::Failure {
        code: 503,
        message: "no connection".to_owned(),
    };
    for (dialect, status) in [(Dialect::Released, 200), (Dialect::Proposal, 503)] {
        let body = encode(dialect, "u-1", &request).unwrap();
        let received = ReviewRequest::decode(&body).unwrap();
        let reply = failure.encode(&received).unwrap();
        let error = decode(dialect, "u-1", &request, &reply).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the webhook failed with code 503: no connection"
        );
        assert_eq!(failure.http_status(dialect), status);
    }
}

#[test]
fn a_refusal_reaches_clients_of_both_dialects() {
    let object = object();
    let request = Request::Health { object: &object };
    let reply = ReviewResponse::encode_refusal("u-1", 400, "no request").unwrap();
    let answer: Value = serde_json::from_slice(&reply).unwrap();
    assert_eq!(
        answer,
        json!({"response": {"uid": "u-1", "successful": false, "status": {"message": "no request", "code": 400}}})
    );
    for dialect in Dialect::ALL {
        let error = decode(dialect, "u-1", &request, &reply).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the webhook failed with code 400: no request"
        );
    }
}

#[test]
fn a_released_answer_has_the_members_of_karmadas_servers() {
    let request = json!({
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterContext",
        "request": {"uid": "u", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "name": "p", "operation": "ReviseReplica",
                    "object": object(), "replicas": 5},
    });
    let received = ReviewRequest::decode(request.to_string().as_bytes()).unwrap();
    let mut revised = object();
    revised["spec"]["replicas"] = json!(5);
    let answer = ReviewResponse::Answer(Response::Revised(revised));
    let reply: Value = serde_json::from_slice(&answer.encode(&received).unwrap()).unwrap();
    assert_eq!(
        reply,
        json!({
            "apiVersion": "config.karmada.io/v1alpha1",
            "kind": "ResourceInterpreterContext",
            "response": {
                "uid": "u",
                "successful": true,
                "status": {"code": 200},
                "patch": "W3sib3AiOiJyZXBsYWNlIiwicGF0aCI6Ii9zcGVjL3JlcGxpY2FzIiwidmFsdWUiOjV9XQ==",
                "patchType": "JSONPatch",
            },
        })
    );
}

#[test]
fn a_response_that_no_client_accepts_is_not_sent() {
    let object = object();
    let body = encode(
        Dialect::Released,
        "u-1",
        &Request::Replica { object: &object },
    )
    .unwrap();
    let received = ReviewRequest::decode(&body).unwrap();
    for (response, expected) in [
        (
            Response::Status(json!({})),
            "the response is the result of InterpretStatus, and the request is for InterpretReplica",
        ),
        (
            Response::Replica {
                replicas: -1,
                requirements: None,
            },
            "no client accepts this response: response.replicas is -1",
        ),
    ] {
        let error = ReviewResponse::Answer(response)
            .encode(&received)
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_body_that_is_no_request_says_why() {
    for (body, expected) in [
        (json!([]), "the request cannot be read"),
        (
            json!({"kind": "Pod", "apiVersion": "v1"}),
            "the body is \"v1 Pod\", neither",
        ),
        (
            json!({"kind": "ExploreReview", "apiVersion": "v1"}),
            "the body is \"v1 ExploreReview\", neither",
        ),
        (
            json!({}),
            "neither ResourceInterpreterContext nor ExploreReview",
        ),
        (json!({"kind": "ExploreReview"}), "request is absent"),
        (
            json!({"kind": "ExploreReview", "request": {"operation": "ExploreHealthy"}}),
            "request.uid is absent",
        ),
        (
            json!({"kind": "ExploreReview", "request": {"uid": "u", "operation": "InterpretHealth"}}),
            "request.operation \"InterpretHealth\" is not one of ExploreReplica, ",
        ),
        (
            json!({"kind": "ResourceInterpreterContext", "request": {"uid": "u", "operation": "Prune"}}),
            "request.operation \"Prune\"",
        ),
        (
            json!({"kind": "ExploreReview", "request": {"uid": "u", "operation": "ExploreHealthy", "replicas": "x"}}),
            "it has another shape",
        ),
    ] {
        let error = ReviewRequest::decode(body.to_string().as_bytes())
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{body} {error}");
    }
}

#[test]
fn without_a_kind_the_operation_tells_the_dialect() {
    for (operation, dialect) in [
        ("InterpretHealth", Dialect::Released),
        ("ExploreHealthy", Dialect::Proposal),
    ] {
        let body = json!({"request": {"uid": "u", "operation": operation, "object": {}}});
        let received = ReviewRequest::decode(body.to_string().as_bytes()).unwrap();
        assert_eq!(received.dialect, dialect);
        assert_eq!(received.operation, Operation::InterpretHealth);
    }
}

#[test]
fn a_request_without_what_its_operation_needs_can_still_be_answered() {
    let cases = r#"
        InterpretHealth | {} | request.object is absent
        InterpretHealth | {"object": [1]} | request.object is absent
        Retain | {"object": {}} | request.observedObject is absent
        ReviseReplica | {"object": {}} | request.replicas is absent
        ReviseReplica | {"object": {}, "replicas": -1} | request.replicas is negative
    "#;
    for (operation, members, expected) in typed::<(&str, Value, &str)>(cases) {
        let mut body = json!({"kind": "ResourceInterpreterContext", "request": members});
        body["request"]["uid"] = json!("u");
        body["request"]["operation"] = json!(operation);
        let received = ReviewRequest::decode(body.to_string().as_bytes()).unwrap();
        assert_eq!(received.request().unwrap_err().to_string(), expected);
        let failure = ReviewResponse::Failure {
            code: 400,
            message: expected.to_owned(),
        };
        assert!(failure.encode(&received).is_ok());
    }
}

fn any_object() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        (0..3_i64).prop_map(Value::from),
        "[ab/~]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[ab0/~]{0,2}", inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn a_patch_leads_from_one_object_to_the_other(before in any_object(), after in any_object()) {
        let mut object = object();
        object["spec"] = before;
        let mut result = object.clone();
        result["spec"] = after;
        let request = Request::Revise { object: &object, replicas: 1 };
        let received = ReviewRequest::decode(&encode(Dialect::Released, "u", &request).unwrap()).unwrap();
        let response = Response::Revised(result);
        let reply = ReviewResponse::Answer(response.clone()).encode(&received).unwrap();
        prop_assert_eq!(decode(Dialect::Released, "u", &request, &reply), Ok(response));
    }
}

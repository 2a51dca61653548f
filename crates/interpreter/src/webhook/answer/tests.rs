use base64::{Engine, engine::general_purpose::STANDARD};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::health::Health;
use crate::test_rows::{rows, typed};
use crate::{
    request::AggregatedStatusItem,
    webhook::{EncodeError, MAX_ADDED_BYTES, MAX_OPERATIONS, encode},
};

fn workload() -> Value {
    json!({
        "apiVersion": "workload.example.io/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": "nginx", "namespace": "default", "generation": 2},
        "spec": {"replicas": 3, "paused": false},
        "status": {"readyReplicas": 1},
    })
}

fn revise(object: &Value) -> Request<'_> {
    Request::Revise {
        object,
        replicas: 5,
    }
}

fn encoded(dialect: Dialect, request: &Request<'_>) -> Value {
    serde_json::from_slice(&encode(dialect, "u-1", request).unwrap()).unwrap()
}

/// The result of a released answer with these members.
fn released(request: &Request<'_>, members: &Value) -> Result<Response, AnswerError> {
    let mut response = json!({"uid": "u-1", "successful": true});
    response
        .as_object_mut()
        .unwrap()
        .extend(members.as_object().unwrap().clone());
    let body = json!({"response": response}).to_string();
    decode(Dialect::Released, "u-1", request, body.as_bytes())
}

fn proposed(request: &Request<'_>, response: &Value) -> Result<Response, AnswerError> {
    let body = json!({"response": response}).to_string();
    decode(Dialect::Proposal, "u-1", request, body.as_bytes())
}

fn patch(operations: &Value) -> Value {
    json!({"patchType": "JSONPatch", "patch": STANDARD.encode(operations.to_string())})
}

fn message(result: Result<Response, AnswerError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn a_released_request_has_the_members_that_karmada_sends() {
    let object = workload();
    let expected = json!({
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterContext",
        "request": {
            "uid": "u-1",
            "kind": {"group": "workload.example.io", "version": "v1alpha1", "kind": "Workload"},
            "name": "nginx",
            "namespace": "default",
            "operation": "InterpretHealth",
            "object": object,
            "replicas": 0,
        },
    });
    let request = Request::Health { object: &object };
    assert_eq!(encoded(Dialect::Released, &request), expected);
}

#[test]
fn a_proposed_request_has_the_members_of_the_proposal() {
    let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
    let expected = json!({
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ExploreReview",
        "request": {
            "uid": "u-1",
            "kind": {"group": "", "version": "v1", "kind": "Node"},
            "name": "n",
            "operation": "ExploreHealthy",
            "object": object,
        },
    });
    let request = Request::Health { object: &object };
    assert_eq!(encoded(Dialect::Proposal, &request), expected);
}

#[test]
fn each_operation_sends_what_it_needs() {
    let object = workload();
    let observed = json!({"spec": {"paused": true}});
    let items = [
        AggregatedStatusItem {
            cluster_name: "m1".to_owned(),
            status: Some(json!({"readyReplicas": 1})),
            applied: true,
            health: "Healthy".to_owned(),
            ..AggregatedStatusItem::default()
        },
        AggregatedStatusItem {
            cluster_name: "m2".to_owned(),
            applied_message: "refused".to_owned(),
            ..AggregatedStatusItem::default()
        },
    ];
    let revise = Request::Revise {
        object: &object,
        replicas: 7,
    };
    let retain = Request::Retain {
        desired: &object,
        observed: &observed,
    };
    let aggregate = Request::AggregateStatus {
        object: &object,
        items: &items,
    };
    for dialect in Dialect::ALL {
        assert_eq!(encoded(dialect, &revise)["request"]["replicas"], 7);
        assert_eq!(
            encoded(dialect, &retain)["request"]["observedObject"],
            observed
        );
        assert_eq!(
            encoded(dialect, &revise)["request"].get("observedObject"),
            None
        );
        assert_eq!(
            encoded(dialect, &revise)["request"].get("aggregatedStatus"),
            None
        );
    }
    let mut expected = json!([
        {"clusterName": "m1", "status": {"readyReplicas": 1}, "applied": true, "health": "Healthy"},
        {"clusterName": "m2", "appliedMessage": "refused"},
    ]);
    assert_eq!(
        encoded(Dialect::Released, &aggregate)["request"]["aggregatedStatus"],
        expected
    );
    expected[0].as_object_mut().unwrap().remove("health");
    assert_eq!(
        encoded(Dialect::Proposal, &aggregate)["request"]["aggregatedStatus"],
        expected
    );
}

#[test]
fn an_operation_that_a_dialect_does_not_have_is_not_sent() {
    let object = workload();
    for (dialect, request) in [
        (Dialect::Released, Request::Prune { object: &object }),
        (Dialect::Proposal, Request::Component { object: &object }),
    ] {
        assert!(matches!(
            encode(dialect, "u", &request),
            Err(EncodeError::Unsupported { .. })
        ));
    }
    for replicas in [-1, i64::from(i32::MAX) + 1] {
        let request = Request::Revise {
            object: &object,
            replicas,
        };
        assert!(matches!(
            encode(Dialect::Released, "u", &request),
            Err(EncodeError::Replicas(_))
        ));
    }
}

#[test]
fn an_answer_is_read_with_and_without_its_kind() {
    let object = workload();
    let request = Request::Health { object: &object };
    let response = json!({"uid": "u-1", "successful": true, "healthy": true});
    let cases = r#"
        true | {}
        true | {"apiVersion": null, "kind": ""}
        true | {"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterContext"}
        true | {"kind": "ResourceInterpreterContext"}
        false | {"apiVersion": "config.karmada.io/v1alpha1", "kind": "ExploreReview"}
        false | {"apiVersion": "config.karmada.io/v2", "kind": "ResourceInterpreterContext"}
        false | {"apiVersion": "v1", "kind": "Status"}
    "#;
    for (accepted, envelope) in typed::<(bool, Value)>(cases) {
        let mut body = envelope.clone();
        body["response"] = response.clone();
        let result = decode(
            Dialect::Released,
            "u-1",
            &request,
            body.to_string().as_bytes(),
        );
        assert_eq!(result.is_ok(), accepted, "{envelope} {result:?}");
    }
}

#[test]
fn an_answer_that_is_none_says_what_is_wrong() {
    let object = workload();
    let request = Request::Health { object: &object };
    let cases = r#"
        | the answer cannot be read: it is cut off at line 1 column 0
        {"response": {"uid" | the answer cannot be read: it is cut off
        <html> | the answer cannot be read: it is no JSON
        [] | the answer cannot be read: it has another shape
        {"response": ["u-1", true]} | it has another shape
        {"response": {}} x | the answer cannot be read: it is no JSON
        {"response": {"uid": 5}} | the answer cannot be read: it has another shape
        {"response": {"uid": "u-1", "successful": true, "healthy": "yes"}} | it has another shape
        {} | the answer has no response
        {"response": null} | the answer has no response
        {"response": {"successful": true, "healthy": true}} | response.uid is "", not "u-1"
        {"response": {"uid": "u-2", "successful": true, "healthy": true}}
            | response.uid is "u-2", not "u-1"
        {"response": {"uid": "u-1", "healthy": true}}
            | response.status, which has to say why, is absent
        {"response": {"uid": "u-1", "successful": false, "healthy": true}}
            | response.status, which has to say why, is absent
        {"response": {"uid": "u-1", "successful": false, "status": {"code": 403,
            "message": "no\u001b[0m"}}} | the webhook failed with code 403: no^[[0m
        {"response": {"uid": "u-1", "successful": false, "status": {}}}
            | the webhook failed with code 0: no reason given
        {"response": {"uid": "u-1", "successful": false, "status": "down"}}
            | response.status is not an object
        {"response": {"uid": "u-1", "successful": true}}
            | response.healthy is absent, and InterpretHealth needs it
        {"response": {"uid": "u-1", "successful": true, "healthy": null}}
            | response.healthy is absent
    "#;
    for [body, expected] in rows(cases) {
        let error = message(decode(Dialect::Released, "u-1", &request, body.as_bytes()));
        assert!(error.contains(expected), "{body}\n{error}");
    }
    let long = vec![b' '; MAX_ANSWER_BYTES + 1];
    assert_eq!(
        decode(Dialect::Released, "u-1", &request, &long),
        Err(AnswerError::TooLarge(long.len()))
    );
}

#[test]
fn quotes_of_answers_are_short() {
    let object = workload();
    let request = Request::Health { object: &object };
    let long = "x".repeat(5000);
    for response in [
        json!({"uid": long}),
        json!({"uid": "u-1", "status": {"message": long}}),
    ] {
        let body = json!({"response": response}).to_string();
        let error = message(decode(Dialect::Released, "u-1", &request, body.as_bytes()));
        assert!(error.len() < 400, "{error}");
    }
}

#[test]
fn replicas_are_needed_and_in_range() {
    let object = workload();
    let request = Request::Replica { object: &object };
    for (members, expected) in [
        (json!({"replicas": 0}), Ok(0)),
        (json!({"replicas": 2_147_483_647}), Ok(2_147_483_647)),
        (json!({}), Err("response.replicas is absent")),
        (
            json!({"replicas": -1}),
            Err("response.replicas is -1: it must be from 0 to 2147483647"),
        ),
        (
            json!({"replicas": 2_147_483_648_i64}),
            Err("response.replicas is 2147483648"),
        ),
        (json!({"replicas": 1.5}), Err("it has another shape")),
        (json!({"replicas": "3"}), Err("it has another shape")),
    ] {
        match (released(&request, &members), expected) {
            (Ok(Response::Replica { replicas, .. }), Ok(wanted)) => assert_eq!(replicas, wanted),
            (Err(error), Err(wanted)) => {
                assert!(error.to_string().contains(wanted), "{members} {error}");
            }
            (result, _) => panic!("{members} {result:?}"),
        }
    }
}

#[test]
fn requirements_have_the_types_of_the_api() {
    let object = workload();
    let request = Request::Replica { object: &object };
    let full = json!({
        "nodeClaim": {
            "hardNodeAffinity": {"nodeSelectorTerms": []},
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "a", "operator": "Exists"}],
        },
        "resourceRequest": {"cpu": "100m", "memory": "1Gi", "pods": 1},
        "namespace": "default",
        "priorityClassName": "high",
    });
    let Ok(Response::Replica {
        requirements: Some(requirements),
        ..
    }) = released(
        &request,
        &json!({"replicas": 1, "replicaRequirements": full}),
    )
    else {
        panic!("no requirements");
    };
    assert_eq!(serde_json::to_value(requirements).unwrap(), full);
    let cases = r#"
        {"resourceRequest": {"cpu": "much"}}
            | response.replicaRequirements.resourceRequest["cpu"] is not a quantity
        {"resourceRequest": {"cpu": {}}} | is not a quantity
        {"nodeClaim": {"hardNodeAffinity": []}}
            | response.replicaRequirements.nodeClaim.hardNodeAffinity is not a NodeSelector
        {"nodeClaim": {"nodeSelector": {"a": 1}}}
            | nodeClaim.nodeSelector has a value that is no text
        {"nodeClaim": {"tolerations": ["a"]}} | nodeClaim.tolerations has an item
        {"nodeClaim": 1} | it has another shape
    "#;
    for (requirements, expected) in typed::<(Value, &str)>(cases) {
        let members = json!({"replicas": 1, "replicaRequirements": requirements});
        let error = message(released(&request, &members));
        assert!(error.contains(expected), "{requirements} {error}");
    }
    assert!(
        released(
            &request,
            &json!({"replicas": 1, "replicaRequirements": null})
        )
        .is_ok()
    );
}

#[test]
fn components_are_optional_and_checked() {
    let object = workload();
    let request = Request::Component { object: &object };
    assert_eq!(
        released(&request, &json!({})),
        Ok(Response::Components(Vec::new()))
    );
    let components = json!([{"name": "driver", "replicas": 1}, {"name": "worker"}]);
    let Ok(Response::Components(found)) = released(&request, &json!({"components": components}))
    else {
        panic!("no components");
    };
    assert_eq!((&*found[0].name, found[0].replicas), ("driver", 1));
    assert_eq!((&*found[1].name, found[1].replicas), ("worker", 0));
    let cases = r#"
        [{"replicas": 1}] | response.components[0].name is absent or empty
        [{"name": "a"}, {"name": "b", "replicas": -4}] | response.components[1].replicas is -4
        [{"name": "a", "replicaRequirements": {"resourceRequest": {"cpu": ""}}}]
            | response.components[0].replicaRequirements.resourceRequest["cpu"]
    "#;
    for (components, expected) in typed::<(Value, &str)>(cases) {
        let error = message(released(&request, &json!({"components": components})));
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn dependencies_have_a_kind_and_a_name_or_a_selector() {
    let object = workload();
    let request = Request::Dependency { object: &object };
    assert_eq!(
        released(&request, &json!({})),
        Ok(Response::Dependencies(Vec::new()))
    );
    let good = json!([
        {"apiVersion": "v1", "kind": "Secret", "namespace": "default", "name": "db"},
        {"apiVersion": "v1", "kind": "Pod", "labelSelector": {"matchLabels": {"app": "x"}}},
        {"apiVersion": "v1", "kind": "Pod", "labelSelector": {}},
    ]);
    let Ok(Response::Dependencies(found)) = released(&request, &json!({"dependencies": good}))
    else {
        panic!("no dependencies");
    };
    assert_eq!(serde_json::to_value(found).unwrap(), good);
    let cases = r#"
        {"kind": "Secret", "name": "a"} | response.dependencies[0].apiVersion is absent or empty
        {"apiVersion": "v1", "kind": "", "name": "a"}
            | response.dependencies[0].kind is absent or empty
        {"apiVersion": "v1", "kind": "Secret"}
            | response.dependencies[0] has neither a name nor a labelSelector
        {"apiVersion": "v1", "kind": "Secret", "name": "a", "labelSelector": {"matchExpressions":
            [{"key": "a", "operator": "Is"}]}} | response.dependencies[0].labelSelector cannot work
        {"apiVersion": "v1", "kind": "Pod", "labelSelector": {"matchLabels": {"a": "b c"}}}
            | labelSelector cannot work
        {"apiVersion": "v1", "kind": "Pod", "labelSelector": "app=x"}
            | labelSelector is not a LabelSelector
    "#;
    for (dependency, expected) in typed::<(Value, &str)>(cases) {
        let error = message(released(&request, &json!({"dependencies": [dependency]})));
        assert!(error.contains(expected), "{dependency} {error}");
    }
}

#[test]
fn the_raw_status_is_any_value_but_null() {
    let object = workload();
    let request = Request::Status { object: &object };
    for status in [json!({"a": 1}), json!({}), json!("x"), json!([1])] {
        assert_eq!(
            released(&request, &json!({"rawStatus": status})),
            Ok(Response::Status(status))
        );
    }
    for members in [json!({}), json!({"rawStatus": null})] {
        assert!(message(released(&request, &members)).contains("response.rawStatus is absent"));
    }
}

#[test]
fn a_boolean_becomes_a_word() {
    for (healthy, observed, health) in [
        (true, Some(1), Health::Healthy),
        (false, None, Health::Degraded),
        (false, Some(2), Health::Degraded),
        (false, Some(1), Health::Progressing),
    ] {
        let mut object = workload();
        object["status"]["observedGeneration"] = json!(observed);
        let request = Request::Health { object: &object };
        let Ok(Response::Health {
            assessment,
            healthy: found,
        }) = released(&request, &json!({"healthy": healthy}))
        else {
            panic!("no health");
        };
        assert_eq!((assessment.health, found), (health, healthy));
    }
}

#[test]
fn patches_change_a_copy() {
    let object = workload();
    let items = [];
    let observed = json!({});
    let revised = json!([{"op": "replace", "path": "/spec/replicas", "value": 5}]);
    let mut expected = object.clone();
    expected["spec"]["replicas"] = json!(5);
    for (request, result) in [
        (
            Request::Revise {
                object: &object,
                replicas: 5,
            },
            Response::Revised(expected.clone()),
        ),
        (
            Request::Retain {
                desired: &object,
                observed: &observed,
            },
            Response::Retained(expected.clone()),
        ),
        (
            Request::AggregateStatus {
                object: &object,
                items: &items,
            },
            Response::AggregatedStatus(expected.clone()),
        ),
    ] {
        assert_eq!(released(&request, &patch(&revised)), Ok(result));
    }
    let prune = Request::Prune { object: &object };
    let mut response = patch(&revised);
    response["uid"] = json!("u-1");
    assert_eq!(proposed(&prune, &response), Ok(Response::Pruned(expected)));
}

#[test]
fn a_patch_and_its_type_go_together() {
    let object = workload();
    let request = revise(&object);
    let unchanged = [
        json!({}),
        json!({"patch": null, "patchType": null}),
        json!({"patch": ""}),
        json!({"patch": STANDARD.encode("[]"), "patchType": "JSONPatch"}),
    ];
    for members in unchanged {
        assert_eq!(
            released(&request, &members),
            Ok(Response::Revised(object.clone()))
        );
    }
    // Encoded: `[]`, `{}`, `[{"op":"turn","path":"/a"}]` and `[{"op":"add","path":"/a"}]`.
    let cases = r#"
        {"patch": "W10="} | response.patchType is absent
        {"patchType": "JSONPatch"} | response.patch is absent or empty
        {"patchType": "JSONPatch", "patch": ""} | response.patch is absent or empty
        {"patchType": "", "patch": "W10="} | response.patchType is ""
        {"patchType": "MergePatch", "patch": "W10="}
            | response.patchType is "MergePatch": it must be JSONPatch
        {"patchType": "JSONPatch", "patch": "[]"} | not base64
        {"patchType": "JSONPatch", "patch": "e30="} | not an RFC 6902 document
        {"patchType": "JSONPatch", "patch": "W3sib3AiOiJ0dXJuIiwicGF0aCI6Ii9hIn1d"}
            | not an RFC 6902 document
        {"patchType": "JSONPatch", "patch": "W3sib3AiOiJhZGQiLCJwYXRoIjoiL2EifV0="}
            | not an RFC 6902 document
    "#;
    for (members, expected) in typed::<(Value, &str)>(cases) {
        let error = message(released(&request, &members));
        assert!(error.contains(expected), "{members} {error}");
    }
}

#[test]
fn a_patch_that_cannot_be_applied_says_where() {
    let object = workload();
    let request = revise(&object);
    let cases = r#"
        [{"op": "test", "path": "/spec/replicas", "value": 3}, {"op": "remove",
            "path": "/spec/none"}]
            | operation 1 of response.patch fails at "/spec/none": path is invalid
        [{"op": "test", "path": "/spec/replicas", "value": 4}] | value did not match
        [{"op": "add", "path": "/a/b/c", "value": 1}] | path is invalid
        [{"op": "copy", "from": "/none", "path": "/a"}] | "from" path is invalid
        [{"op": "move", "from": "/spec", "path": "/spec/a"}] | cannot move the value inside itself
        [{"op": "replace", "path": "", "value": 5}] | replaces the object with something else
        [{"op": "replace", "path": "", "value": {}}] | changes apiVersion, which must stay
        [{"op": "replace", "path": "/kind", "value": "Pod"}] | changes kind, which must stay
        [{"op": "remove", "path": "/metadata/namespace"}] | changes metadata.namespace
        [{"op": "replace", "path": "/metadata/name", "value": 5}] | changes metadata.name
        [{"op": "remove", "path": "/metadata"}] | changes metadata.namespace
    "#;
    for (operations, expected) in typed::<(Value, &str)>(cases) {
        let error = message(released(&request, &patch(&operations)));
        assert!(error.contains(expected), "{operations} {error}");
    }
}

#[test]
fn a_patch_may_put_each_part_elsewhere() {
    let object = workload();
    let request = revise(&object);
    let operations = json!([
        {"op": "add", "path": "/spec/list", "value": [1, 3]},
        {"op": "add", "path": "/spec/list/1", "value": 2},
        {"op": "add", "path": "/spec/list/-", "value": 4},
        {"op": "copy", "from": "/spec/list", "path": "/spec/copy"},
        {"op": "move", "from": "/spec/replicas", "path": "/spec/count"},
        {"op": "add", "path": "/spec/a~1b~0c", "value": null},
        {"op": "remove", "path": "/status"},
    ]);
    let Ok(Response::Revised(result)) = released(&request, &patch(&operations)) else {
        panic!("no object");
    };
    assert_eq!(
        result["spec"],
        json!({"paused": false, "list": [1, 2, 3, 4], "copy": [1, 2, 3, 4], "count": 3, "a/b~c": null})
    );
    assert_eq!(result.get("status"), None);
}

#[test]
fn copies_of_copies_end_at_a_bound() {
    let object = workload();
    let request = revise(&object);
    let mut operations = vec![json!({"op": "add", "path": "/spec/a", "value": ["x".repeat(1000)]})];
    operations.extend((0..200).map(|_| json!({"op": "copy", "from": "/spec", "path": "/spec/b"})));
    let error = message(released(&request, &patch(&json!(operations))));
    assert!(
        error.contains("adds more to the object than") || error.contains("deeper than"),
        "{error}"
    );

    let mut wide = vec![json!({"op": "add", "path": "/spec/a", "value": ["x".repeat(1000)]})];
    for _ in 0..30 {
        wide.push(json!({"op": "copy", "from": "/spec/a", "path": "/spec/b"}));
        wide.push(json!({"op": "add", "path": "/spec/a", "value": []}));
        wide.push(json!({"op": "copy", "from": "/spec/b", "path": "/spec/a/-"}));
        wide.push(json!({"op": "copy", "from": "/spec/b", "path": "/spec/a/-"}));
    }
    let error = message(released(&request, &patch(&json!(wide))));
    assert!(error.contains(&MAX_ADDED_BYTES.to_string()), "{error}");
}

#[test]
fn moves_do_not_build_towers() {
    let object = workload();
    let request = revise(&object);
    let mut operations = vec![json!({"op": "add", "path": "/a", "value": {}})];
    for _ in 0..3000 {
        operations.push(json!({"op": "add", "path": "/b", "value": {}}));
        operations.push(json!({"op": "move", "from": "/a", "path": "/b/a"}));
        operations.push(json!({"op": "move", "from": "/b", "path": "/a"}));
    }
    let error = message(released(&request, &patch(&json!(operations))));
    assert!(error.contains("deeper than 128 levels"), "{error}");
}

#[test]
fn the_number_of_operations_is_bounded() {
    let object = workload();
    let request = revise(&object);
    let operation = json!({"op": "test", "path": "/kind", "value": "Workload"});
    let most = vec![operation.clone(); MAX_OPERATIONS];
    assert!(released(&request, &patch(&json!(most))).is_ok());
    let more = vec![operation; MAX_OPERATIONS + 1];
    let error = message(released(&request, &patch(&json!(more))));
    assert!(error.contains("has 10001 operations"), "{error}");
}

#[test]
fn a_patch_moves_no_more_items_than_a_bound() {
    let mut object = workload();
    object["spec"]["a"] = json!(vec![0; 100_000]);
    let request = revise(&object);
    let repeated = |operation: Value, times: usize| patch(&json!(vec![operation; times]));
    let first = json!({"op": "add", "path": "/spec/a/0", "value": 1});
    let last = json!({"op": "add", "path": "/spec/a/-", "value": 1});
    let removed = json!({"op": "remove", "path": "/spec/a/0"});
    let moved = json!({"op": "move", "from": "/spec/a/0", "path": "/spec/a/1"});
    assert!(released(&request, &repeated(last, MAX_OPERATIONS)).is_ok());
    assert!(released(&request, &repeated(first.clone(), 400)).is_ok());
    for (operation, index) in [(first, 498), (removed, 501), (moved, 250)] {
        let error = message(released(&request, &repeated(operation, MAX_OPERATIONS)));
        assert!(
            error.contains("moves more items of lists than the 50000000"),
            "{error}"
        );
        assert!(error.contains(&format!("operation {index} ")), "{error}");
    }
}

#[test]
fn an_answer_of_the_proposal_needs_no_word_of_success() {
    let object = workload();
    let health = Request::Health { object: &object };
    let status = Request::Status { object: &object };
    assert!(matches!(
        proposed(&health, &json!({"uid": "u-1", "healthy": true})),
        Ok(Response::Health { healthy: true, .. })
    ));
    assert_eq!(
        proposed(&status, &json!({"uid": "u-1", "status": {"ready": 2}})),
        Ok(Response::Status(json!({"ready": 2})))
    );
    let cases = r#"
        {"uid": "u-1"} | response.status is absent, and InterpretStatus needs it
        {"uid": "u-2", "status": {}} | response.uid is "u-2"
        {"uid": "u-1", "successful": false, "status": {"message": "gone", "code": 404}}
            | failed with code 404: gone
        {"uid": "u-1", "successful": true, "status": {"code": 200}} | response.rawStatus is absent
    "#;
    for (response, expected) in typed::<(Value, &str)>(cases) {
        let error = message(proposed(&status, &response));
        assert!(error.contains(expected), "{response} {error}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z/~-]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(
                (
                    prop::sample::select(vec!["apiVersion", "kind", "metadata", "name", "a", "b"]),
                    inner
                ),
                0..4
            )
            .prop_map(|members| Value::Object(
                members
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value))
                    .collect()
            )),
        ]
    })
}

fn any_operation() -> impl Strategy<Value = Value> {
    let path = prop::collection::vec(
        prop::sample::select(vec!["a", "b", "0", "-", "metadata", "spec"]),
        0..3,
    )
    .prop_map(|parts| {
        parts
            .iter()
            .fold(String::new(), |path, part| format!("{path}/{part}"))
    });
    let op = prop::sample::select(vec!["add", "remove", "replace", "move", "copy", "test"]);
    (op, path.clone(), path, any_json()).prop_map(
        |(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}),
    )
}

proptest! {
    #[test]
    fn no_answer_makes_decoding_panic(
        member in prop::sample::select(vec![
            "uid", "successful", "status", "patch", "patchType", "replicaRequirements", "replicas", "components", "dependencies", "rawStatus", "healthy",
        ]),
        value in any_json(),
        object in any_json(),
    ) {
        let observed = json!({});
        for request in [
            Request::Replica { object: &object },
            Request::Component { object: &object },
            Request::Revise { object: &object, replicas: 1 },
            Request::Retain { desired: &object, observed: &observed },
            Request::Status { object: &object },
            Request::Health { object: &object },
            Request::Dependency { object: &object },
        ] {
            let _ = encode(Dialect::Released, "u-1", &request);
            let _ = released(&request, &json!({member: value}));
        }
    }

    #[test]
    fn a_patch_never_makes_another_object(operations in prop::collection::vec(any_operation(), 0..6)) {
        let object = workload();
        let request = Request::Revise { object: &object, replicas: 1 };
        if let Ok(Response::Revised(result)) = released(&request, &patch(&json!(operations))) {
            for path in ["/apiVersion", "/kind", "/metadata/name", "/metadata/namespace"] {
                prop_assert_eq!(result.pointer(path), object.pointer(path));
            }
        }
    }
}

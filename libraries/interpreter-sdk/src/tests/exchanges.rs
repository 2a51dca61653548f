//! Every operation in both dialects.

use fleetdex_interpreter::{
    Request, Response,
    request::{AggregatedStatusItem, Component, DependentObject, ReplicaRequirements},
    webhook::{Dialect, decode},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{asked, post, workload};
use crate::{DeclaredReplicas, Interpreter, InterpreterFailure, InterpreterResult, router};

/// An interpreter whose type knows only some fields.
struct Partial;

#[derive(Deserialize, Serialize)]
struct PartialObject {
    spec: PartialSpec,
    #[serde(default)]
    status: PartialStatus,
}

#[derive(Deserialize, Serialize)]
struct PartialSpec {
    replicas: i32,
    #[serde(default)]
    paused: bool,
    #[serde(default)]
    ports: Vec<PartialPort>,
}

#[derive(Deserialize, Serialize)]
struct PartialPort {
    port: u16,
}

#[derive(Default, Deserialize, Serialize)]
struct PartialStatus {
    ready: i64,
}

fn requirements() -> ReplicaRequirements {
    ReplicaRequirements {
        resource_request: [("cpu".to_owned(), json!("100m"))].into_iter().collect(),
        ..ReplicaRequirements::default()
    }
}

fn component() -> Component {
    Component {
        name: "driver".to_owned(),
        replicas: 1,
        replica_requirements: Some(requirements()),
    }
}

fn secret() -> DependentObject {
    DependentObject {
        api_version: "v1".to_owned(),
        kind: "Secret".to_owned(),
        namespace: "default".to_owned(),
        name: "db".to_owned(),
        label_selector: None,
    }
}

impl Interpreter for Partial {
    type Object = PartialObject;

    async fn interpret_replica(
        &self,
        object: &PartialObject,
    ) -> InterpreterResult<DeclaredReplicas> {
        Ok(DeclaredReplicas {
            replicas: object.spec.replicas,
            requirements: Some(requirements()),
        })
    }

    async fn interpret_component(&self, _: &PartialObject) -> InterpreterResult<Vec<Component>> {
        Ok(vec![component()])
    }

    async fn revise_replica(
        &self,
        mut object: PartialObject,
        replicas: i32,
    ) -> InterpreterResult<PartialObject> {
        object.spec.replicas = replicas;
        object.spec.ports[0].port = 8080;
        Ok(object)
    }

    async fn retain(
        &self,
        mut desired: PartialObject,
        observed: PartialObject,
    ) -> InterpreterResult<PartialObject> {
        desired.spec.paused = observed.spec.paused;
        Ok(desired)
    }

    async fn aggregate_status(
        &self,
        mut object: PartialObject,
        items: Vec<AggregatedStatusItem>,
    ) -> InterpreterResult<PartialObject> {
        object.status.ready = 0;
        for status in items.into_iter().filter_map(|item| item.status) {
            object.status.ready += serde_json::from_value::<PartialStatus>(status)?.ready;
        }
        Ok(object)
    }

    async fn interpret_status(&self, object: &PartialObject) -> InterpreterResult<Value> {
        Ok(serde_json::to_value(&object.status)?)
    }

    async fn interpret_health(&self, object: &PartialObject) -> InterpreterResult<bool> {
        // As an interpreter that asks another server.
        tokio::task::yield_now().await;
        Ok(object.status.ready == i64::from(object.spec.replicas))
    }

    async fn interpret_dependency(
        &self,
        _: &PartialObject,
    ) -> InterpreterResult<Vec<DependentObject>> {
        Ok(vec![secret()])
    }

    async fn prune(&self, mut object: PartialObject) -> InterpreterResult<PartialObject> {
        object.spec.ports.clear();
        Ok(object)
    }
}

/// An interpreter that implements nothing.
struct Silent;

impl Interpreter for Silent {
    type Object = Value;
}

fn items() -> Vec<AggregatedStatusItem> {
    [Some(json!({"ready": 2})), None, Some(json!({"ready": 5}))]
        .into_iter()
        .map(|status| AggregatedStatusItem {
            cluster_name: "member".to_owned(),
            status,
            applied: true,
            ..AggregatedStatusItem::default()
        })
        .collect()
}

fn requests<'a>(
    object: &'a Value,
    observed: &'a Value,
    items: &'a [AggregatedStatusItem],
) -> [Request<'a>; 9] {
    let desired = object;
    [
        Request::Replica { object },
        Request::Component { object },
        Request::Revise {
            object,
            replicas: 7,
        },
        Request::Retain { desired, observed },
        Request::AggregateStatus { object, items },
        Request::Status { object },
        Request::Health { object },
        Request::Dependency { object },
        Request::Prune { object },
    ]
}

/// What [`Partial`] answers.
fn expected(request: &Request<'_>) -> Value {
    let mut object = request.object().clone();
    match request {
        Request::Replica { .. } => json!({"replicas": 3, "cpu": "100m"}),
        Request::Component { .. } => json!([component()]),
        Request::Revise { .. } => {
            object["spec"]["replicas"] = json!(7);
            object["spec"]["ports"][0]["port"] = json!(8080);
            object
        }
        Request::Retain { .. } => {
            object["spec"]["paused"] = json!(true);
            object
        }
        Request::AggregateStatus { .. } => {
            object["status"]["ready"] = json!(7);
            object
        }
        Request::Status { .. } => json!({"ready": 2}),
        Request::Health { .. } => json!(false),
        Request::Dependency { .. } => json!([secret()]),
        Request::Prune { .. } => {
            object["spec"]["ports"] = json!([]);
            object
        }
    }
}

fn as_json(response: Response) -> Value {
    match response {
        Response::Replica {
            replicas,
            requirements,
        } => json!({"replicas": replicas, "cpu": requirements.unwrap().resource_request["cpu"]}),
        Response::Components(components) => json!(components),
        Response::Dependencies(dependencies) => json!(dependencies),
        Response::Health { healthy, .. } => json!(healthy),
        Response::Status(value)
        | Response::Revised(value)
        | Response::Retained(value)
        | Response::AggregatedStatus(value)
        | Response::Pruned(value) => value,
    }
}

#[tokio::test]
async fn every_operation_is_answered_in_both_dialects() {
    let (object, items, router) = (workload(), items(), router(Partial));
    let mut observed = workload();
    observed["spec"]["paused"] = json!(true);
    let mut exchanged = 0;
    for dialect in Dialect::ALL {
        for request in requests(&object, &observed, &items) {
            if dialect.operation_name(request.operation()).is_none() {
                continue;
            }
            let (status, body) = post(&router, asked(dialect, &request)).await;
            let response = decode(dialect, "u-1", &request, &body).unwrap();
            assert_eq!(status, 200);
            assert_eq!(
                as_json(response),
                expected(&request),
                "{dialect:?} {request:?}"
            );
            exchanged += 1;
        }
    }
    assert_eq!(exchanged, 16);
}

#[tokio::test]
async fn operations_without_a_method_are_not_supported() {
    let (object, items, router) = (workload(), items(), router(Silent));
    for (dialect, http_status) in [(Dialect::Released, 200), (Dialect::Proposal, 501)] {
        for request in requests(&object, &object, &items) {
            let operation = request.operation();
            if dialect.operation_name(operation).is_none() {
                continue;
            }
            let (status, body) = post(&router, asked(dialect, &request)).await;
            let error = decode(dialect, "u-1", &request, &body).unwrap_err();
            let expected =
                format!("the webhook failed with code 501: operation not supported: {operation}");
            assert_eq!((status, error.to_string()), (http_status, expected));
        }
    }
}

/// An interpreter that answers with what it should not.
struct Faulty;

impl Interpreter for Faulty {
    type Object = Value;

    async fn interpret_replica(&self, _: &Value) -> InterpreterResult<DeclaredReplicas> {
        Ok(DeclaredReplicas {
            replicas: -1,
            requirements: None,
        })
    }

    async fn interpret_component(&self, _: &Value) -> InterpreterResult<Vec<Component>> {
        panic!("out of order")
    }

    async fn revise_replica(&self, _: Value, _: i32) -> InterpreterResult<Value> {
        Ok(json!({"kind": "Other"}))
    }

    async fn interpret_status(&self, _: &Value) -> InterpreterResult<Value> {
        Ok(Value::Null)
    }

    async fn interpret_health(&self, _: &Value) -> InterpreterResult<bool> {
        let never: Result<i32, _> = "x".parse::<i32>();
        Ok(never? > 0)
    }

    async fn prune(&self, _: Value) -> InterpreterResult<Value> {
        Err(InterpreterFailure::new(200, "no success"))
    }
}

#[tokio::test]
async fn what_no_client_accepts_is_a_failure_and_ends_nothing() {
    let (object, router) = (workload(), router(Faulty));
    let expectations: [(Request<'_>, &str); 6] = [
        (
            Request::Component { object: &object },
            "code 500: the interpreter panicked",
        ),
        (
            Request::Replica { object: &object },
            "code 500: no client accepts this response: response.replicas is -1",
        ),
        (
            Request::Revise {
                object: &object,
                replicas: 1,
            },
            "code 500: no client accepts this response: response.patch changes apiVersion",
        ),
        (
            Request::Status { object: &object },
            "code 500: no client accepts this response: response.rawStatus is absent",
        ),
        (
            Request::Health { object: &object },
            "code 500: invalid digit found in string",
        ),
        (Request::Prune { object: &object }, "code 400: no success"),
    ];
    for (request, expected) in expectations {
        for dialect in Dialect::ALL {
            if dialect.operation_name(request.operation()).is_none() {
                continue;
            }
            let (status, body) = post(&router, asked(dialect, &request)).await;
            let error = decode(dialect, "u-1", &request, &body)
                .unwrap_err()
                .to_string();
            assert!(error.contains(expected), "{error}");
            assert_eq!(status == 200, dialect == Dialect::Released);
        }
    }
}

#[tokio::test]
async fn an_object_of_another_shape_is_a_bad_request() {
    let router = router(Partial);
    let mut odd = workload();
    odd["spec"]["replicas"] = json!("three");
    let object = workload();
    for (request, expected) in [
        (
            Request::Health { object: &odd },
            "code 400: cannot read request.object: invalid type: string",
        ),
        (
            Request::Revise {
                object: &odd,
                replicas: 2,
            },
            "code 400: cannot read request.object: invalid type: string",
        ),
        (
            Request::Retain {
                desired: &object,
                observed: &odd,
            },
            "code 400: cannot read request.observedObject: invalid type: string",
        ),
    ] {
        let (status, body) = post(&router, asked(Dialect::Released, &request)).await;
        let error = decode(Dialect::Released, "u-1", &request, &body)
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(status, 200);
    }
}

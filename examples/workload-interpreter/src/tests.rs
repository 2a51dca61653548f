//! The example answers as its page says, and its manifests are accepted.

use std::{fs, path::Path};

use axum::{
    body::Body,
    http::{Request as HttpRequest, header::CONTENT_TYPE},
};
use fleetdex_interpreter::{
    Operation, Request, Response,
    request::AggregatedStatusItem,
    webhook::{
        Dialect,
        configuration::{
            WebhookConfiguration, guessed_resource, validate as validate_configuration,
        },
        decode, encode,
    },
};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::{WorkloadInterpreter, router};

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(root.join(path)).unwrap()
}

/// A manifest with values for its placeholders.
fn manifest(path: &str) -> Value {
    let text = read(path).replace("<ca.crt>", "LS0tLS1CRUdJTi4uLg==");
    serde_saphyr::from_str(&text).unwrap()
}

fn workload() -> Value {
    let mut workload = manifest("manifests/workload.yaml");
    workload["status"] = json!({"readyReplicas": 2, "phase": "Running"});
    workload
}

async fn answered(dialect: Dialect, request: &Request<'_>) -> Response {
    let body = encode(dialect, "u-1", request).unwrap();
    let request_over_http = HttpRequest::post("/interpret-workload")
        .header(CONTENT_TYPE, "application/json")
        .body(Body::from(body))
        .unwrap();
    let response = router(WorkloadInterpreter)
        .oneshot(request_over_http)
        .await
        .unwrap();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    decode(dialect, "u-1", request, &body).unwrap()
}

fn with(object: &Value, pointer: &str, value: Value) -> Value {
    let mut changed = object.clone();
    *changed.pointer_mut(pointer).unwrap() = value;
    changed
}

fn reported(status: Option<Value>) -> AggregatedStatusItem {
    AggregatedStatusItem {
        cluster_name: "member".to_owned(),
        status,
        applied: true,
        ..AggregatedStatusItem::default()
    }
}

#[tokio::test]
async fn replicas_and_their_requirements_are_declared() {
    for dialect in Dialect::ALL {
        let object = workload();
        let Response::Replica {
            replicas,
            requirements,
        } = answered(dialect, &Request::Replica { object: &object }).await
        else {
            panic!("another response");
        };
        let requests = Value::Object(requirements.unwrap().resource_request);
        assert_eq!(replicas, 3);
        assert_eq!(requests, json!({"cpu": "100m", "memory": "64Mi"}));
    }
    let mut object = workload();
    object["spec"] = json!({});
    assert_eq!(
        answered(Dialect::Released, &Request::Replica { object: &object }).await,
        Response::Replica {
            replicas: 1,
            requirements: None
        }
    );
}

#[tokio::test]
async fn changes_leave_all_other_fields_as_they_are() {
    let object = workload();
    let observed = with(&object, "/spec/paused", json!(true));
    let items = [
        reported(Some(json!({"readyReplicas": 1}))),
        reported(None),
        reported(Some(json!({"readyReplicas": 3, "more": "x"}))),
    ];
    for dialect in Dialect::ALL {
        let revise = Request::Revise {
            object: &object,
            replicas: 9,
        };
        let revised = with(&object, "/spec/replicas", json!(9));
        assert_eq!(answered(dialect, &revise).await, Response::Revised(revised));
        let retain = Request::Retain {
            desired: &object,
            observed: &observed,
        };
        let retained = Response::Retained(observed.clone());
        assert_eq!(answered(dialect, &retain).await, retained);
        let aggregate = Request::AggregateStatus {
            object: &object,
            items: &items,
        };
        let aggregated = with(&object, "/status/readyReplicas", json!(4));
        assert_eq!(
            answered(dialect, &aggregate).await,
            Response::AggregatedStatus(aggregated)
        );
    }
}

#[tokio::test]
async fn health_status_and_dependencies_are_those_of_the_workload() {
    let degraded = workload();
    let healthy = with(&degraded, "/status/readyReplicas", json!(3));
    for dialect in Dialect::ALL {
        for (object, expected) in [(&degraded, false), (&healthy, true)] {
            let response = answered(dialect, &Request::Health { object }).await;
            assert!(
                matches!(response, Response::Health { healthy, .. } if healthy == expected),
                "{response:?}"
            );
        }
        let status = Response::Status(json!({"readyReplicas": 2}));
        let object = &degraded;
        assert_eq!(answered(dialect, &Request::Status { object }).await, status);
        let Response::Dependencies(needed) =
            answered(dialect, &Request::Dependency { object }).await
        else {
            panic!("another response");
        };
        let needed: Vec<_> = needed
            .iter()
            .map(|object| format!("{}/{}/{}", object.kind, object.namespace, object.name))
            .collect();
        assert_eq!(
            needed,
            [
                "ConfigMap/default/nginx-settings",
                "Secret/default/nginx-certificate"
            ]
        );
    }
}

#[tokio::test]
async fn the_founding_workloads_are_answered_as_they_are() {
    for file in ["workload.yaml", "workload-paused.yaml"] {
        let object = manifest(&format!("../../tests/manifests/{file}"));
        for dialect in Dialect::ALL {
            let response = answered(dialect, &Request::Replica { object: &object }).await;
            assert!(
                matches!(response, Response::Replica { replicas: 3, .. }),
                "{response:?}"
            );
        }
    }
}

#[test]
fn both_configurations_are_valid_and_ask_for_the_sample() {
    let implemented = [
        Operation::InterpretReplica,
        Operation::ReviseReplica,
        Operation::Retain,
        Operation::AggregateStatus,
        Operation::InterpretStatus,
        Operation::InterpretHealth,
        Operation::InterpretDependency,
    ];
    let resource = guessed_resource(&workload());
    for file in ["webhook-released.yaml", "webhook-proposal.yaml"] {
        let object = manifest(&format!("manifests/{file}"));
        let problems = validate_configuration(&object);
        assert!(problems.is_empty(), "{file}: {problems:?}");
        let configuration = WebhookConfiguration::parse(&object).unwrap();
        let webhook = &configuration.webhooks[0];
        assert!(webhook.endpoint.is_ok(), "{:?}", webhook.endpoint);
        for operation in Operation::ALL {
            assert_eq!(
                webhook.matches(operation, &resource),
                implemented.contains(&operation),
                "{file} {operation}"
            );
        }
    }
}

#[test]
fn the_founding_configuration_is_valid() {
    let object = manifest("../../tests/manifests/resourceexploringwebhookconfiguration.yaml");
    let problems = validate_configuration(&object);
    assert!(problems.is_empty(), "{problems:?}");
}

#[test]
fn the_manifests_fit_each_other() {
    let text = read("manifests/interpreter.yaml");
    let objects: Vec<Value> = text
        .split("\n---\n")
        .map(|document| serde_saphyr::from_str(document).unwrap())
        .collect();
    let find = |kind: &str| {
        objects
            .iter()
            .find(|object| object["kind"] == kind)
            .unwrap()
    };
    let service = find("Service");
    let pods = &find("Deployment")["spec"]["template"];
    assert_eq!(service["spec"]["selector"], pods["metadata"]["labels"]);
    assert_eq!(
        pods["spec"]["volumes"][0]["secret"]["secretName"],
        find("Secret")["metadata"]["name"]
    );
    for file in ["webhook-released.yaml", "webhook-proposal.yaml"] {
        let configuration = manifest(&format!("manifests/{file}"));
        let called = &configuration["webhooks"][0]["clientConfig"]["service"];
        assert_eq!(called["name"], service["metadata"]["name"]);
        assert_eq!(called["namespace"], service["metadata"]["namespace"]);
    }
}

#[test]
fn the_page_shows_the_example_as_it_is() {
    let page = read("../../docs/write-an-interpreter.md");
    let source = read("src/main.rs");
    let (_, shown) = source.split_once("struct WorkloadInterpreter;").unwrap();
    assert!(
        page.contains(shown.trim_end()),
        "docs/write-an-interpreter.md does not show\n{shown}"
    );
    let types = read("src/workload.rs");
    let (_, types) = types.split_once("use serde_json::Value;\n").unwrap();
    assert!(
        page.contains(types.trim_end()),
        "docs/write-an-interpreter.md does not show\n{types}"
    );
}

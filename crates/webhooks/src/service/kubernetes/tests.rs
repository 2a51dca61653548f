use http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};
use tower_test::mock;

use super::*;

/// A reader whose API server answers each question like this, and the number of questions.
async fn resolve_times(
    times: usize,
    status: u16,
    service: Value,
) -> (Result<SocketTarget, ServiceError>, usize) {
    let (mock, mut handle) = mock::pair::<Request<Body>, Response<Body>>();
    let reader = ServiceReader::new(Client::new(mock, "default"));
    let asking = async {
        let mut last = reader.resolve("web", "hook", 8443).await;
        for _ in 1..times {
            last = reader.resolve("web", "hook", 8443).await;
        }
        drop(reader);
        last
    };
    let answering = async {
        let mut asked = 0;
        while let Some((request, respond)) = handle.next_request().await {
            assert_eq!(request.uri().path(), "/api/v1/namespaces/web/services/hook");
            asked += 1;
            let body = Body::from(serde_json::to_vec(&service).unwrap());
            respond.send_response(Response::builder().status(status).body(body).unwrap());
        }
        asked
    };
    tokio::join!(asking, answering)
}

fn service(spec: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hook", "namespace": "web"}, "spec": spec})
}

fn missing() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "message": "services \"hook\" not found", "code": 404})
}

#[tokio::test]
async fn a_service_is_reached_by_its_type_and_left_to_dns_without_an_object() {
    let ports = json!([{"port": 80}, {"name": "https", "port": 8443, "nodePort": 30443, "targetPort": 9443}]);
    for (spec, host) in [
        (
            json!({"type": "ClusterIP", "clusterIP": "10.0.0.7", "ports": ports}),
            "10.0.0.7",
        ),
        (json!({"clusterIP": "fd00::7", "ports": ports}), "fd00::7"),
        (
            json!({"type": "NodePort", "clusterIP": "10.0.0.7", "ports": ports}),
            "10.0.0.7",
        ),
        (
            json!({"type": "LoadBalancer", "clusterIP": "10.0.0.7", "ports": ports}),
            "10.0.0.7",
        ),
        (
            json!({"type": "ExternalName", "externalName": "hook.example.com"}),
            "hook.example.com",
        ),
    ] {
        let (target, _) = resolve_times(1, 200, service(&spec)).await;
        let expected = SocketTarget {
            host: host.to_owned(),
            port: 8443,
        };
        assert_eq!(target.unwrap(), expected, "{spec}");
    }
    let (target, _) = resolve_times(1, 404, missing()).await;
    assert_eq!(target.unwrap(), dns_target("web", "hook", 8443));
}

#[tokio::test]
async fn a_service_that_cannot_be_called_is_named_with_the_reason() {
    for (spec, reason) in [
        (
            json!({"clusterIP": "None", "ports": [{"port": 8443}]}),
            "Service web/hook is headless, and a webhook needs one with a clusterIP",
        ),
        (
            json!({"ports": [{"port": 8443}]}),
            "Service web/hook is headless, and a webhook needs one with a clusterIP",
        ),
        (
            json!({"clusterIP": "10.0.0.7", "ports": [{"port": 80}, {"port": 81}]}),
            "Service web/hook has no port 8443; it has 80, 81",
        ),
        (
            json!({"clusterIP": "10.0.0.7"}),
            "Service web/hook has no port 8443; it has none",
        ),
        (
            json!({"type": "Other", "clusterIP": "10.0.0.7"}),
            "Service web/hook is of the unknown type \"Other\"",
        ),
    ] {
        let (target, _) = resolve_times(1, 200, service(&spec)).await;
        assert_eq!(target.unwrap_err().to_string(), reason);
    }
    let forbidden = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "message": "no\nway", "code": 403});
    let (target, _) = resolve_times(1, 403, forbidden).await;
    let error = target.unwrap_err().to_string();
    assert!(
        error.starts_with("cannot read Service web/hook: ") && !error.contains('\n'),
        "{error}"
    );
}

#[tokio::test]
async fn what_was_read_is_kept_for_a_while_and_errors_are_not() {
    let spec = json!({"clusterIP": "10.0.0.7", "ports": [{"port": 8443}]});
    assert_eq!(resolve_times(5, 200, service(&spec)).await.1, 1);
    assert_eq!(resolve_times(5, 404, missing()).await.1, 1);
    let headless = json!({"clusterIP": "None"});
    assert_eq!(resolve_times(5, 200, service(&headless)).await.1, 5);
}

#[tokio::test]
async fn other_ways_to_resolve_ask_no_server() {
    use crate::service::{ClusterDns, FixedAddress};
    let target = ClusterDns.resolve("web", "hook", 8443).await.unwrap();
    assert_eq!(target, dns_target("web", "hook", 8443));
    let fixed = FixedAddress("[::1]:9443".parse().unwrap());
    let target = fixed.resolve("web", "hook", 8443).await.unwrap();
    assert_eq!((target.host.as_str(), target.port), ("::1", 9443));
}

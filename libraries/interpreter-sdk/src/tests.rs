//! The SDK against the messages of the clients' side.

mod exchanges;
mod refusals;
mod tls;

use axum::{
    Router,
    body::Body,
    http::{Request, header::CONTENT_TYPE},
};
use fleetdex_interpreter::webhook::{Dialect, encode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

fn workload() -> Value {
    json!({
        "apiVersion": "workload.example.io/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": "nginx", "namespace": "default", "labels": {"app": "nginx"}},
        "spec": {"replicas": 3, "ports": [{"port": 80, "name": "web"}]},
        "status": {"ready": 2},
    })
}

/// The body of a request for an operation.
fn asked(dialect: Dialect, request: &fleetdex_interpreter::Request<'_>) -> Vec<u8> {
    encode(dialect, "u-1", request).unwrap()
}

/// Sends a body as clients do; the status and the body of the answer.
async fn post(router: &Router, body: impl Into<Body>) -> (u16, Vec<u8>) {
    let request = Request::post("/any/path?timeout=3s")
        .header(CONTENT_TYPE, "application/json")
        .body(body.into())
        .unwrap();
    sent(router, request).await
}

async fn sent(router: &Router, request: Request<Body>) -> (u16, Vec<u8>) {
    let response = router.clone().oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    if status == 200 && response.headers().get(CONTENT_TYPE).is_some() {
        let content_type = &response.headers()[CONTENT_TYPE];
        assert!(content_type == "application/json" || content_type == "text/plain; charset=utf-8");
    }
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, body.to_vec())
}

//! Requests that are none.

use axum::{
    Router,
    body::Body,
    http::{Method, Request, header::CONTENT_TYPE},
};
use bytes::Bytes;
use fleetdex_interpreter::webhook::{Dialect, MAX_REQUEST_BYTES};
use serde_json::{Value, json};

use super::{asked, post, sent, workload};
use crate::{Interpreter, InterpreterResult, router};

struct Healthy;

impl Interpreter for Healthy {
    type Object = Value;

    async fn interpret_health(&self, _: &Value) -> InterpreterResult<bool> {
        Ok(true)
    }
}

fn health_request() -> Vec<u8> {
    let object = workload();
    asked(
        Dialect::Released,
        &fleetdex_interpreter::Request::Health { object: &object },
    )
}

/// The answer to a body that is no request: uid, code and message.
async fn refused(body: impl Into<Body>) -> (String, u64, String) {
    let (status, body) = post(&router(Healthy), body).await;
    let answer: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(status, 200);
    assert_eq!(answer["response"]["successful"], false);
    assert!(answer.get("kind").is_none());
    let status = &answer["response"]["status"];
    (
        answer["response"]["uid"].as_str().unwrap().to_owned(),
        status["code"].as_u64().unwrap(),
        status["message"].as_str().unwrap().to_owned(),
    )
}

#[tokio::test]
async fn only_the_exact_content_type_is_read() {
    let router = router(Healthy);
    for (content_type, expected) in [
        (Some("application/json"), Ok(())),
        (
            Some("application/json; charset=utf-8"),
            Err("\"application/json; charset=utf-8\""),
        ),
        (Some("Application/JSON"), Err("\"Application/JSON\"")),
        (Some("text/plain"), Err("\"text/plain\"")),
        (None, Err("the Content-Type is \"\", not application/json")),
    ] {
        let mut request = Request::post("/");
        if let Some(content_type) = content_type {
            request = request.header(CONTENT_TYPE, content_type);
        }
        let request = request.body(Body::from(health_request())).unwrap();
        let (status, body) = sent(&router, request).await;
        let answer: Value = serde_json::from_slice(&body).unwrap();
        let response = &answer["response"];
        assert_eq!(status, 200);
        match expected {
            Ok(()) => assert_eq!(response["healthy"], true, "{answer}"),
            Err(expected) => {
                let message = response["status"]["message"].as_str().unwrap();
                assert_eq!(response["status"]["code"], 400);
                assert!(message.contains(expected), "{message}");
            }
        }
    }
}

#[tokio::test]
async fn a_malformed_body_is_refused_with_the_reason() {
    let unknown = json!({
        "kind": "ResourceInterpreterContext",
        "request": {"uid": "u-7", "operation": "InterpretEverything"},
    });
    for (body, uid, expected) in [
        (String::new(), "", "the request cannot be read"),
        ("{\"request\":".to_owned(), "", "the request cannot be read"),
        ("[".repeat(1 << 16), "", "the request cannot be read"),
        ("\u{0}".to_owned(), "", "the request cannot be read"),
        ("null".to_owned(), "", "the request cannot be read"),
        (json!({"kind": "Pod"}).to_string(), "", "the body is"),
        (
            json!({"request": {"uid": 5}}).to_string(),
            "",
            "the request cannot be read",
        ),
        (
            unknown.to_string(),
            "u-7",
            "request.operation \"InterpretEverything\"",
        ),
    ] {
        let (found, code, message) = refused(body).await;
        assert_eq!((&*found, code), (uid, 400), "{message}");
        assert!(message.contains(expected), "{message}");
    }
}

#[tokio::test]
async fn a_body_over_the_limit_is_not_read() {
    let mut longest = health_request();
    longest.resize(MAX_REQUEST_BYTES, b' ');
    let (_, body) = post(&router(Healthy), longest.clone()).await;
    let answer: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(answer["response"]["healthy"], true);
    longest.push(b' ');
    let (_, code, message) = refused(longest).await;
    assert_eq!(
        (code, &*message),
        (413, "the request has more than 20971520 bytes")
    );
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_arrive_is_given_up() {
    let silence = futures::stream::pending::<Result<Bytes, std::io::Error>>();
    let (_, code, message) = refused(Body::from_stream(silence)).await;
    assert_eq!(
        (code, &*message),
        (408, "the request did not arrive within 10 s")
    );
    let broken = futures::stream::iter([Err::<Bytes, _>(std::io::Error::other("reset\n"))]);
    let (_, code, message) = refused(Body::from_stream(broken)).await;
    assert_eq!(code, 400);
    assert!(message.starts_with("the request ends early: "), "{message}");
    assert!(!message.contains('\n'));
}

#[tokio::test]
async fn the_health_path_answers_get_and_all_others_post() {
    let routes = Router::new()
        .nest("/a", router(Healthy))
        .nest("/b", router(Healthy));
    for (method, path, status) in [
        (Method::GET, "/a/healthz", 200),
        (Method::GET, "/b/healthz", 200),
        (Method::GET, "/a", 405),
        (Method::PUT, "/b/x", 405),
        (Method::POST, "/a", 200),
        (Method::POST, "/b/interpret-workload", 200),
        (Method::POST, "/c", 404),
    ] {
        let request = Request::builder()
            .method(method.clone())
            .uri(path)
            .header(CONTENT_TYPE, "application/json")
            .body(Body::from(health_request()))
            .unwrap();
        let (found, _) = sent(&routes, request).await;
        assert_eq!(found, status, "{method} {path}");
    }
}

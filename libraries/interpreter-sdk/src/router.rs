//! Answers requests over HTTP.
//!
//! As Karmada's servers: the content type must be exact, and a failure is the body of an answer
//! with status 200. Answers to the proposal's requests have no member for a failure, so that theirs
//! has the status of its code, too. Other than there, bodies may have 20 MiB instead of 1 MiB,
//! because a retention holds two objects.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use bytes::Bytes;
use fleetdex_core::model::{causes, quoted};
use fleetdex_interpreter::webhook::{
    MAX_REQUEST_BYTES, ReviewRequest, ReviewResponse, ReviewResponseError,
};
use futures::FutureExt as _;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde_json::Value;
use tokio::{sync::Semaphore, time::timeout};
use tracing::{debug, error, warn};

use crate::{
    dispatch::interpret,
    failure::{InterpreterFailure, InterpreterResult},
    interpreter::Interpreter,
};

/// Where `GET` answers `ok` as long as the server runs.
pub const HEALTH_PATH: &str = "/healthz";
/// Requests that are answered at a time; others wait. Those of the greatest size take 1.3 GB, usual
/// ones less than 1 MB in all.
pub const MAX_REQUESTS: usize = 64;
/// How long a body may take to arrive. No caller waits longer than 30 seconds for the whole answer.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// A router that answers `POST` at any path with an interpreter, and `GET` at [`HEALTH_PATH`].
///
/// For several interpreters in one server:
/// `Router::new().nest("/workloads", router(…)).nest("/jobs", router(…))`.
pub fn router<I: Interpreter>(interpreter: I) -> Router {
    let state = Arc::new(RouterState {
        interpreter,
        requests: Semaphore::new(MAX_REQUESTS),
    });
    Router::new()
        .route(HEALTH_PATH, get(|| async { "ok" }))
        .fallback(post(answer::<I>))
        .with_state(state)
}

struct RouterState<I> {
    interpreter: I,
    requests: Semaphore,
}

async fn answer<I: Interpreter>(
    State(state): State<Arc<RouterState<I>>>,
    request: Request,
) -> Response {
    // The semaphore is never closed.
    let _permit = state.requests.acquire().await;
    let body = match body(request).await {
        Ok(body) => body,
        Err(failure) => return refusal("", &failure),
    };
    match ReviewRequest::decode(&body) {
        Ok(received) => review(&state.interpreter, &received).await,
        Err(error) => {
            let failure = InterpreterFailure::bad_request(error.to_string());
            refusal(&uid(&body), &failure)
        }
    }
}

/// The body of a request that may be one for an interpreter.
async fn body(request: Request) -> InterpreterResult<Bytes> {
    let content_type = request.headers().get(CONTENT_TYPE);
    let content_type = content_type.map_or(&b""[..], |value| value.as_bytes());
    if content_type != b"application/json" {
        return Err(InterpreterFailure::bad_request(format!(
            "the Content-Type is \"{}\", not application/json",
            quoted(&String::from_utf8_lossy(content_type))
        )));
    }
    let body = Limited::new(request.into_body(), MAX_REQUEST_BYTES);
    match timeout(BODY_TIMEOUT, body.collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(InterpreterFailure::new(
            413,
            format!("the request has more than {MAX_REQUEST_BYTES} bytes"),
        )),
        Ok(Err(error)) => Err(InterpreterFailure::bad_request(format!(
            "the request ends early: {}",
            quoted(&causes(&*error))
        ))),
        Err(_) => Err(InterpreterFailure::new(
            408,
            format!(
                "the request did not arrive within {} s",
                BODY_TIMEOUT.as_secs()
            ),
        )),
    }
}

/// The uid of a body that is no valid request; empty if it has none.
fn uid(body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let uid = body.pointer("/request/uid").and_then(Value::as_str);
    uid.unwrap_or_default().to_owned()
}

async fn review<I: Interpreter>(interpreter: &I, received: &ReviewRequest) -> Response {
    let interpreted = AssertUnwindSafe(interpret(interpreter, received))
        .catch_unwind()
        .await
        .unwrap_or_else(|_| Err(InterpreterFailure::new(500, "the interpreter panicked")));
    let response = match interpreted {
        Ok(response) => ReviewResponse::Answer(response),
        Err(failure) => logged_failure(received, failure),
    };
    // The interpreter may have answered with what no client accepts.
    let (response, encoded) = match response.encode(received) {
        Ok(encoded) => (response, Ok(encoded)),
        Err(error) => {
            let failure = InterpreterFailure::new(500, causes(&error));
            let response = logged_failure(received, failure);
            let encoded = response.encode(received);
            (response, encoded)
        }
    };
    http_response(response.http_status(received.dialect), encoded)
}

fn logged_failure(received: &ReviewRequest, failure: InterpreterFailure) -> ReviewResponse {
    warn!(
        operation = %received.operation,
        kind = quoted(&received.gvk.to_string()),
        namespace = quoted(&received.namespace),
        name = quoted(&received.name),
        code = failure.code,
        reason = quoted(&failure.message),
        "no answer to a request"
    );
    ReviewResponse::Failure {
        code: failure.code,
        message: failure.message,
    }
}

/// The answer to a body that is no request.
fn refusal(uid: &str, failure: &InterpreterFailure) -> Response {
    debug!(code = failure.code, reason = %failure.message, "refusing what is no request");
    let encoded = ReviewResponse::encode_refusal(uid, failure.code, &failure.message);
    http_response(200, encoded)
}

fn http_response(status: u16, body: Result<Vec<u8>, ReviewResponseError>) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    match body {
        Ok(body) => (
            status,
            [(CONTENT_TYPE, "application/json")],
            Body::from(body),
        )
            .into_response(),
        Err(error) => {
            error!(error = causes(&error), "cannot write an answer");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

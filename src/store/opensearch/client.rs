//! Requests to OpenSearch and what their answers mean.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode, header::CONTENT_TYPE};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use tower::ServiceExt;

use super::transport::{OpenSearchService, Timeout};
use crate::store::StoreError;

/// One request: what it is for, how it is sent, how long it may take.
pub(super) struct Call<'c> {
    /// What is tried, for error messages.
    pub operation: &'c str,
    pub method: Method,
    /// Path and query string.
    pub path: String,
    pub body: Bytes,
    pub timeout: Duration,
}

/// Sends requests through the service.
#[derive(Clone)]
pub(super) struct Client {
    service: OpenSearchService,
    /// For error messages.
    address: String,
}

#[derive(Deserialize)]
struct Failure {
    error: Option<Value>,
}

impl Client {
    pub fn new(service: OpenSearchService, address: String) -> Self {
        Self { service, address }
    }

    /// The body of a successful answer.
    pub async fn call(&self, call: Call<'_>) -> Result<Bytes, StoreError> {
        let operation = call.operation.to_owned();
        match self.exchange(call).await? {
            (status, body) if status.is_success() => Ok(body),
            (status, body) => Err(self.failure(operation, status, &body)),
        }
    }

    /// The body of a successful answer, or nothing when the thing asked for does not exist.
    pub async fn call_optional(&self, call: Call<'_>) -> Result<Option<Bytes>, StoreError> {
        let operation = call.operation.to_owned();
        match self.exchange(call).await? {
            (StatusCode::NOT_FOUND, _) => Ok(None),
            (status, body) if status.is_success() => Ok(Some(body)),
            (status, body) => Err(self.failure(operation, status, &body)),
        }
    }

    async fn exchange(&self, call: Call<'_>) -> Result<(StatusCode, Bytes), StoreError> {
        let bytes = call.body.len();
        let content_type = if call.path.contains("_bulk") { "application/x-ndjson" } else { "application/json" };
        let request = Request::builder()
            .method(call.method)
            .uri(&call.path)
            .header(CONTENT_TYPE, content_type)
            .extension(Timeout(call.timeout))
            .body(call.body)
            .map_err(|error| StoreError::Invalid(format!("cannot ask OpenSearch for {}: {error}", call.path)))?;
        let response = self
            .service
            .clone()
            .oneshot(request)
            .await
            .map_err(|error| StoreError::Unreachable { address: error.address, reason: error.reason })?;
        if response.status() == StatusCode::PAYLOAD_TOO_LARGE {
            return Err(StoreError::TooLarge { bytes });
        }
        Ok((response.status(), response.into_body()))
    }

    fn failure(&self, operation: String, status: StatusCode, body: &[u8]) -> StoreError {
        let reason = reason(body);
        let status = status.as_u16();
        match status {
            401 => StoreError::Unauthorized { address: self.address.clone(), status, reason },
            403 if !reason.contains("cluster_block_exception") => {
                StoreError::Unauthorized { address: self.address.clone(), status, reason }
            }
            403 | 429 | 500..=599 => StoreError::Busy { status, reason },
            404 if reason.contains("search_context_missing") || reason.contains("No search context") => StoreError::Expired,
            _ => StoreError::Refused { operation, status, reason },
        }
    }
}

/// The reason in an error body: type and reason of the outermost error and its first root cause, else the text itself.
fn reason(body: &[u8]) -> String {
    let error = serde_json::from_slice::<Failure>(body).ok().and_then(|failure| failure.error);
    let Some(error) = error else { return String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned() };
    let describe = |value: &Value| {
        let part = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        format!("{}: {}", part("type"), part("reason"))
    };
    if let Some(text) = error.as_str() {
        return text.to_owned();
    }
    let outer = describe(&error);
    match error.get("root_cause").and_then(|causes| causes.get(0)).map(describe) {
        Some(root) if root != outer => format!("{outer} ({root})"),
        _ => outer,
    }
}

/// Reads an answer.
pub(super) fn parse<T: DeserializeOwned>(operation: &str, body: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(body)
        .map_err(|error| StoreError::Garbled { operation: operation.to_owned(), reason: error.to_string() })
}

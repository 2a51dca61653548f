//! Requests to OpenSearch, and the meaning of their responses.

use std::time::Duration;

use bytes::Bytes;
use fleetdex_core::model::{JsonLine, json_fault, quoted};
use fleetdex_limits::{
    computing::beside_serving_if_long,
    intake::{IntakeError, MemoryReservation},
    request::UserRequest,
};
use fleetdex_telemetry::traces::{self, Beginning, KeyValue, SpanKind, Trace};
use http::{Method, Request, StatusCode, header::CONTENT_TYPE};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::time::timeout;
use tower::ServiceExt;

use super::{
    aws_refusal::aws_refusal,
    query_slots::QuerySlots,
    responses::{Allowance, Purpose, ResponseBudget},
    role::with_remedy,
    transport::{OpenSearchService, StoreClosed, Timeout, TransportError},
};
use crate::{
    StoreError,
    bulk::{self, Verdict},
    error::{no_memory, no_memory_in_time},
};

/// A bulk request of 2 MiB takes tens of milliseconds; a node that collects garbage or merges may
/// take much longer.
pub(crate) const BULK_TIMEOUT: Duration = Duration::from_mins(1);

/// One request: its purpose, how it is sent, how long it may take.
pub(crate) struct Call<'c> {
    /// The operation, for error messages.
    pub operation: &'c str,
    pub method: Method,
    /// Path and query string.
    pub path: String,
    pub body: Bytes,
    pub timeout: Duration,
}

/// Sends requests through the service.
#[derive(Clone)]
pub(crate) struct Client {
    service: OpenSearchService,
    answers: ResponseBudget,
    purpose: Purpose,
    slots: QuerySlots,
    /// How many documents a request asks for.
    documents: u64,
    /// For error messages.
    address: String,
}

#[derive(Deserialize)]
struct Failure {
    error: Option<Value>,
    status: Option<u16>,
}

impl Client {
    /// A client of the operator itself.
    pub fn new(service: OpenSearchService, answers: ResponseBudget, address: String) -> Self {
        Self {
            service,
            answers,
            purpose: Purpose::Upkeep,
            slots: QuerySlots::default(),
            documents: 0,
            address,
        }
    }

    /// The same, whose queries of users share these slots.
    #[must_use]
    pub fn sharing(self, slots: QuerySlots) -> Self {
        Self { slots, ..self }
    }

    /// The same for another purpose.
    #[must_use]
    pub fn with(&self, purpose: Purpose) -> Self {
        Self {
            purpose,
            ..self.clone()
        }
    }

    /// The same for requests that ask for so many documents.
    #[must_use]
    pub fn asking_for(self, documents: u64) -> Self {
        Self { documents, ..self }
    }

    /// Sends a request, and parses the response within memory that is reserved for both. Returns
    /// what `parse` made of it, and the memory, which is as much as the response has bytes.
    pub async fn call_and_parse<T>(
        &self,
        call: Call<'_>,
        parse: impl FnOnce(&[u8]) -> Result<T, StoreError>,
    ) -> Result<(T, MemoryReservation), StoreError> {
        let (operation, limit) = (call.operation.to_owned(), call.timeout);
        let allowance = self.answers.allowance(self.purpose);
        let body = self.call_within(call, allowance.clone()).await?;
        let memory = timeout(limit, allowance.parsed(body.len())).await;
        let memory = memory
            .map_err(|_| no_memory_in_time())?
            .map_err(|error| no_memory(&operation, &error))?;
        let (bytes, parse) = (body.len(), || parse(&body));
        let parsed = match self.purpose {
            Purpose::Question => UserRequest::current().computing().run(bytes, parse).await,
            Purpose::Upkeep => Some(beside_serving_if_long(bytes, parse)),
        };
        let crowded =
            || StoreError::Crowded("other requests take all of the processors".to_owned());
        Ok((parsed.ok_or_else(crowded)??, memory))
    }

    /// Returns the body of a successful response.
    pub async fn call(&self, call: Call<'_>) -> Result<Bytes, StoreError> {
        let allowance = self.answers.allowance(self.purpose);
        self.call_within(call, allowance).await
    }

    async fn call_within(&self, call: Call<'_>, allowance: Allowance) -> Result<Bytes, StoreError> {
        let operation = call.operation.to_owned();
        match self.exchange(call, allowance).await? {
            (status, body) if status.is_success() => Ok(body),
            (status, body) => Err(self.failure(operation, status, &body)),
        }
    }

    /// Sends a bulk request and returns the outcome of each of its items.
    pub async fn bulk(
        &self,
        operation: &str,
        body: Bytes,
        items: usize,
    ) -> Result<Vec<Verdict>, StoreError> {
        let call = Call {
            operation,
            method: Method::POST,
            path: bulk::PATH.to_owned(),
            body,
            timeout: BULK_TIMEOUT,
        };
        let answer = self.call(call).await?;
        bulk::read_response(&answer, items).map_err(|error| StoreError::garbled(operation, error))
    }

    /// Sends a bulk request of which every item has to be done, or its index gone. Returns their
    /// outcomes.
    pub async fn bulk_of_all(
        &self,
        operation: &str,
        lines: &[JsonLine],
        items: usize,
    ) -> Result<Vec<Verdict>, StoreError> {
        let verdicts = self.bulk(operation, bulk::joined(lines), items).await?;
        match verdicts.iter().find_map(Verdict::refusal) {
            None => Ok(verdicts),
            Some(refusal) => Err(StoreError::busy(429, format!("{operation}: {refusal}"))),
        }
    }

    /// Returns the body of a successful response; `None` if the resource does not exist (404).
    pub async fn call_optional(&self, call: Call<'_>) -> Result<Option<Bytes>, StoreError> {
        let operation = call.operation.to_owned();
        let allowance = self.answers.allowance(self.purpose);
        match self.exchange(call, allowance).await? {
            (StatusCode::NOT_FOUND, _) => Ok(None),
            (status, body) if status.is_success() => Ok(Some(body)),
            (status, body) => Err(self.failure(operation, status, &body)),
        }
    }

    async fn exchange(
        &self,
        call: Call<'_>,
        allowance: Allowance,
    ) -> Result<(StatusCode, Bytes), StoreError> {
        let operation = call.operation;
        let bytes = call.body.len();
        let content_type = if call.path.contains("_bulk") {
            "application/x-ndjson"
        } else {
            "application/json"
        };
        let span = span(&call.method, &call.path, operation);
        let mut request = Request::builder()
            .method(call.method)
            .uri(&call.path)
            .header(CONTENT_TYPE, content_type)
            .extension(Timeout(call.timeout))
            .extension(allowance)
            .body(call.body)
            .map_err(|error| {
                StoreError::Invalid(format!("cannot ask OpenSearch for {}: {error}", call.path))
            })?;
        if let Some(span) = &span {
            span.propagate_to_opensearch(request.headers_mut());
        }
        let _slot = match self.purpose {
            Purpose::Question => {
                let request = UserRequest::current();
                self.slots.acquire(&request, self.documents).await?
            }
            Purpose::Upkeep => None,
        };
        let response = self
            .service
            .clone()
            .oneshot(request)
            .await
            .map_err(|error| {
                let error = unread(error, operation);
                if let Some(span) = &span {
                    span.fail(error.reason());
                }
                error
            })?;
        if let Some(span) = &span {
            span.set_status_code(response.status());
        }
        if response.status() == StatusCode::PAYLOAD_TOO_LARGE {
            return Err(StoreError::TooLarge { bytes });
        }
        Ok((response.status(), response.into_body()))
    }

    fn failure(&self, operation: String, status: StatusCode, body: &[u8]) -> StoreError {
        let reason = reason(status, body);
        let status = status.as_u16();
        match status {
            401 => StoreError::Unauthorized {
                address: self.address.clone(),
                status,
                reason,
            },
            403 if !reason.contains("cluster_block_exception") => StoreError::Unauthorized {
                address: self.address.clone(),
                status,
                reason: with_remedy(reason),
            },
            403 | 429 | 500..=599 => StoreError::Busy { status, reason },
            404 if reason.contains("search_context_missing")
                || reason.contains("No search context") =>
            {
                StoreError::Expired
            }
            _ => StoreError::Refused {
                operation,
                status,
                reason,
            },
        }
    }
}

/// The span of a request, within the current trace.
/// Source of the names: <https://opentelemetry.io/docs/specs/semconv/db/elasticsearch/>
fn span(method: &Method, path: &str, summary: &str) -> Option<Trace> {
    let name = operation_name(path);
    traces::child(Beginning::now(name, SpanKind::Client), || {
        vec![
            KeyValue::new("db.system.name", "opensearch"),
            KeyValue::new("db.operation.name", name),
            KeyValue::new("db.query.summary", summary.to_owned()),
            KeyValue::new("http.request.method", method.to_string()),
        ]
    })
}

/// The endpoint of a path, without what is different in each request.
fn operation_name(path: &str) -> &'static str {
    let path = path.split('?').next().unwrap_or_default();
    let endpoint = path.split('/').find(|segment| segment.starts_with('_'));
    match endpoint {
        Some("_bulk") => "bulk",
        Some("_count") => "count",
        Some("_doc") => "doc",
        Some("_mget") => "mget",
        Some("_msearch") => "msearch",
        Some("_refresh") => "refresh",
        Some("_search") if path.ends_with("/point_in_time") => "search.point_in_time",
        Some("_search") => "search",
        _ => "other",
    }
}

fn unread(error: TransportError, operation: &str) -> StoreError {
    match error {
        TransportError::NoAnswer { address, reason } => StoreError::Unreachable { address, reason },
        TransportError::TooLong { limit, .. } => StoreError::AnswerTooLarge {
            operation: operation.to_owned(),
            limit,
        },
        TransportError::Crowded(bytes) => no_memory(operation, &IntakeError::ShareExhausted(bytes)),
        TransportError::Unsigned { address, error } => StoreError::Unsigned {
            address,
            reason: error.to_string(),
        },
        TransportError::Closed(StoreClosed { reason, message }) => {
            StoreError::Closed { reason, message }
        }
    }
}

/// The reason in an error body: type and reason of the outermost error and its first root cause.
/// Nothing of a body is repeated unless it is an error of `OpenSearch`, or of its security plugin,
/// which answers with one word of plain text. Refusals of AWS have a meaning of their own.
fn reason(status: StatusCode, body: &[u8]) -> String {
    if let Some(known) = PLAIN_REFUSALS
        .iter()
        .find(|text| body.trim_ascii() == text.as_bytes())
    {
        return (*known).to_owned();
    }
    if let Some(meaning) = aws_refusal(body) {
        return meaning.to_owned();
    }
    let failure: Option<Failure> = serde_json::from_slice(body).ok();
    match failure {
        Some(Failure {
            error: Some(Value::String(text)),
            status: Some(code),
        }) if code == status.as_u16() => quoted(&text),
        Some(Failure {
            error: Some(error), ..
        }) => match described(&error) {
            Some(outer) => match error
                .get("root_cause")
                .and_then(|causes| causes.get(0))
                .and_then(described)
            {
                Some(root) if root != outer => quoted(&format!("{outer} ({root})")),
                _ => quoted(&outer),
            },
            None => NOT_OPENSEARCH.to_owned(),
        },
        _ => NOT_OPENSEARCH.to_owned(),
    }
}

/// Errors of the security plugin that are not JSON.
const PLAIN_REFUSALS: [&str; 3] = [
    "Unauthorized",
    "Authentication finally failed",
    "OpenSearch Security not initialized.",
];
/// Replaces the text of a response from anything else.
const NOT_OPENSEARCH: &str = "the answer is no error of OpenSearch; check the address";

/// Type and reason, if the type is one word as in `OpenSearch`'s errors.
fn described(error: &Value) -> Option<String> {
    let part = |name: &str| error.get(name).and_then(Value::as_str);
    let kind = part("type").filter(|kind| {
        !kind.is_empty()
            && kind
                .bytes()
                .all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
    })?;
    Some(format!("{kind}: {}", part("reason").unwrap_or_default()))
}

pub(crate) fn parse<T: DeserializeOwned>(operation: &str, body: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(body).map_err(unparsable(operation))
}

pub(crate) fn unparsable(operation: &str) -> impl Fn(serde_json::Error) -> StoreError {
    |error| StoreError::garbled(operation, json_fault(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_has_a_name_from_a_closed_set() {
        for (path, expected) in [
            ("/_bulk?require_alias=true", "bulk"),
            ("/fleetdex-a/_search?x=/_bulk", "search"),
            (
                "/fleetdex-a/_search/point_in_time?keep_alive=1m",
                "search.point_in_time",
            ),
            ("/fleetdex.state/_doc/a", "doc"),
            ("/fleetdex-a.g1", "other"),
        ] {
            assert_eq!(operation_name(path), expected, "{path}");
        }
    }

    #[test]
    fn nothing_is_repeated_but_errors_of_opensearch() {
        let said = |body: &str| reason(StatusCode::BAD_REQUEST, body.as_bytes());
        let error = r#"{"error":{"root_cause":[{"type":"parse_exception","reason":"b"}],"type":"search_phase_exception","reason":"a"},"status":400}"#;
        assert_eq!(
            said(error),
            "search_phase_exception: a (parse_exception: b)"
        );
        assert_eq!(
            said(r#"{"error":"Incorrect HTTP method","status":400}"#),
            "Incorrect HTTP method"
        );
        assert_eq!(said("Unauthorized"), "Unauthorized");
        let others = [
            "hunter2",
            r#"{"error":"hunter2"}"#,
            r#"{"error":{"type":"hunter2 is it","reason":"hunter2"}}"#,
            r#"{"token":"hunter2"}"#,
        ];
        for other in others {
            assert!(!said(other).contains("hunter2"), "{other}");
        }
        let garbled = parse::<u8>("search", br#""hunter2""#).unwrap_err();
        assert!(!garbled.to_string().contains("hunter2"), "{garbled}");
    }
}

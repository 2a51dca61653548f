//! A collector of traces in this process: it receives OTLP over HTTP, as the OpenTelemetry
//! Collector does, decodes it with the generated messages, and keeps the spans.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU16, Ordering},
};

use anyhow::{Context, Result};
use axum::{Router, body::Bytes, extract::State, http::StatusCode};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{AnyValue, any_value::Value},
};
use parking_lot::Mutex;
use prost::Message as _;
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use crate::hexadecimal::hexadecimal;

/// A span as it was received.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceivedSpan {
    /// The id of its trace, in hexadecimal digits.
    pub trace: String,
    /// Its id.
    pub id: String,
    /// The id of its parent; empty for the first span of a trace.
    pub parent: String,
    /// The name.
    pub name: String,
    /// The ids of the traces that it links to.
    pub links: Vec<String>,
    /// Its attributes, those of the process included.
    pub attributes: Vec<(String, String)>,
}

impl ReceivedSpan {
    /// An attribute.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        let mut attributes = self.attributes.iter();
        let found = attributes.find(|(found, _)| found == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// The collector; it stops when dropped.
#[derive(Debug)]
pub struct TraceCollector {
    url: String,
    received: Received,
    _server: AbortOnDropHandle<()>,
}

#[derive(Clone, Debug, Default)]
struct Received {
    spans: Arc<Mutex<Vec<ReceivedSpan>>>,
    /// The status of the next responses; 0: none comes.
    status: Arc<AtomicU16>,
    /// Whether spans are accepted unread.
    forgets: Arc<AtomicBool>,
}

impl TraceCollector {
    /// Starts one that accepts everything.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let received = Received::default();
        received.status.store(200, Ordering::Relaxed);
        let router = Router::new().fallback(receive).with_state(received.clone());
        let server = async move {
            if let Err(error) = axum::serve(listener, router).await {
                eprintln!("the collector of traces has ended: {error}");
            }
        };
        Ok(Self {
            url,
            received,
            _server: AbortOnDropHandle::new(tokio::spawn(server)),
        })
    }

    /// For `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Responds with this status from now on; 0: never.
    pub fn respond(&self, status: u16) {
        self.received.status.store(status, Ordering::Relaxed);
    }

    /// Accepts everything unread from now on: for measurements of what sends it.
    pub fn forget(&self) {
        self.received.forgets.store(true, Ordering::Relaxed);
    }

    /// The spans that were accepted so far.
    pub fn spans(&self) -> Vec<ReceivedSpan> {
        self.received.spans.lock().clone()
    }
}

async fn receive(State(received): State<Received>, body: Bytes) -> StatusCode {
    match received.status.load(Ordering::Relaxed) {
        0 => std::future::pending().await,
        200 if received.forgets.load(Ordering::Relaxed) => StatusCode::OK,
        200 => match decode(&body) {
            Ok(spans) => {
                received.spans.lock().extend(spans);
                StatusCode::OK
            }
            Err(error) => {
                eprintln!("the collector of traces was sent something else: {error:#}");
                StatusCode::BAD_REQUEST
            }
        },
        status => StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

fn decode(body: &[u8]) -> Result<Vec<ReceivedSpan>> {
    let request = ExportTraceServiceRequest::decode(body).context("decoding the request")?;
    let mut received = Vec::new();
    for of_resource in request.resource_spans {
        let process = of_resource.resource.unwrap_or_default().attributes;
        for span in of_resource
            .scope_spans
            .into_iter()
            .flat_map(|scope| scope.spans)
        {
            let attributes = span.attributes.into_iter().chain(process.iter().cloned());
            received.push(ReceivedSpan {
                trace: hexadecimal(&span.trace_id),
                id: hexadecimal(&span.span_id),
                parent: hexadecimal(&span.parent_span_id),
                name: span.name,
                links: span
                    .links
                    .iter()
                    .map(|link| hexadecimal(&link.trace_id))
                    .collect(),
                attributes: attributes
                    .map(|pair| (pair.key, text(pair.value)))
                    .collect(),
            });
        }
    }
    Ok(received)
}

fn text(value: Option<AnyValue>) -> String {
    match value.and_then(|value| value.value) {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::BoolValue(flag)) => flag.to_string(),
        other => format!("{other:?}"),
    }
}

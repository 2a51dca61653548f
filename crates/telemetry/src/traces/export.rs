//! Sends finished spans to a collector, apart from the work that they describe.
//!
//! Guarantees: to end a span never waits. At most [`QUEUE`] spans are held; what does not fit, or
//! is not accepted, is dropped and counted. At the end of the process the collector gets [`FLUSH`].

use std::{fs, path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use fleetdex_core::model::causes;
use http::{Request, Response};
use opentelemetry_http::{HttpClient, HttpError, ResponseBodyTooLarge};
use opentelemetry_otlp::{
    Compression, Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{Span, SpanData, SpanExporter as _, SpanProcessor},
};
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use reqwest::{Certificate, Client, redirect};
use tokio::sync::{mpsc, watch};

use super::settings::{TraceSettings, TraceSettingsError, invalid_certificate, invalid_endpoint};
use crate::metrics::SpanMetrics;

/// Finished spans that wait for the collector, at about 1 kB each. The default of OpenTelemetry's
/// batch processors.
const QUEUE: usize = 2_048;
/// Spans of one request. The same source.
const BATCH: usize = 512;
/// How long a batch may fill.
const LINGER: Duration = Duration::from_secs(1);
/// How long the process waits for the collector when it stops: its writes are stored by then.
const FLUSH: Duration = Duration::from_secs(3);
/// Bytes of a response of the collector that are read. A valid one has some tens.
const MAX_RESPONSE_BYTES: usize = 64 << 10;

/// Takes the spans that end.
#[derive(Debug)]
pub(super) struct SpanQueue {
    sender: mpsc::Sender<SpanData>,
    dropped: Counter,
}

impl SpanProcessor for SpanQueue {
    fn on_start(&self, _span: &mut Span, _context: &opentelemetry::Context) {}

    fn on_end(&self, span: SpanData) {
        if self.sender.try_send(span).is_err() {
            self.dropped.inc();
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// The task that sends spans. Without it they are dropped.
#[derive(Debug)]
pub struct SpanExport {
    receiver: mpsc::Receiver<SpanData>,
    exporter: SpanExporter,
    endpoint: String,
    failure: LastFailure,
    is_failing: bool,
    in_flight: usize,
    metrics: SpanMetrics,
}

/// Why the last request to the collector has no response; the exporter does not say.
type LastFailure = Arc<Mutex<Option<String>>>;

/// A queue, and the task that empties it.
pub(super) fn queue(
    settings: &TraceSettings,
    resource: &Resource,
    metrics: SpanMetrics,
) -> Result<(SpanQueue, SpanExport), TraceSettingsError> {
    let failure = LastFailure::default();
    let collector = CollectorClient {
        client: client(settings)?,
        failure: Arc::clone(&failure),
    };
    let endpoint = settings.endpoint.to_string();
    let mut builder = SpanExporter::builder()
        .with_http()
        .with_http_client(collector)
        .with_endpoint(&endpoint)
        .with_protocol(Protocol::HttpBinary)
        .with_timeout(settings.timeout)
        .with_headers(settings.headers.clone());
    if settings.gzip {
        builder = builder.with_compression(Compression::Gzip);
    }
    let mut exporter = builder
        .build()
        .map_err(|error| invalid_endpoint(error.to_string()))?;
    exporter.set_resource(resource);
    let (sender, receiver) = mpsc::channel(QUEUE);
    let queue = SpanQueue {
        sender,
        dropped: metrics.queue_full.clone(),
    };
    let export = SpanExport {
        receiver,
        exporter,
        endpoint,
        failure,
        is_failing: false,
        in_flight: 0,
        metrics,
    };
    Ok((queue, export))
}

impl SpanExport {
    /// Sends spans until `stop`, then what is left, within three seconds.
    pub async fn run(mut self, stop: impl Future<Output = ()>) {
        let (stopping, stopped) = watch::channel(false);
        let deadline = async {
            stop.await;
            stopping.send_replace(true);
            tokio::time::sleep(FLUSH).await;
        };
        let is_late = tokio::select! {
            () = deadline => true,
            () = self.send_all(stopped) => false,
        };
        let unsent = self.in_flight + self.receiver.len();
        if is_late && unsent > 0 {
            self.metrics.not_accepted.inc_by(unsent as u64);
            tracing::warn!(endpoint = %self.endpoint, spans = unsent, "stopped before the collector of traces accepted the last spans");
        }
    }

    /// Sends batches until stopped and empty.
    async fn send_all(&mut self, mut stopped: watch::Receiver<bool>) {
        let mut batch = Vec::new();
        loop {
            let is_stopping = *stopped.borrow_and_update();
            if is_stopping {
                while batch.len() < BATCH
                    && let Ok(span) = self.receiver.try_recv()
                {
                    batch.push(span);
                }
                if batch.is_empty() {
                    return;
                }
            } else {
                tokio::select! {
                    biased;
                    _ = stopped.changed() => continue,
                    () = fill(&mut self.receiver, &mut batch) => {}
                }
                // The queue is closed: its tracer is gone.
                if batch.is_empty() {
                    return;
                }
            }
            self.send(std::mem::take(&mut batch)).await;
        }
    }

    async fn send(&mut self, batch: Vec<SpanData>) {
        let spans = batch.len();
        self.in_flight = spans;
        let result = self.exporter.export(batch).await;
        self.in_flight = 0;
        match result {
            Ok(()) => {
                self.metrics.exported.inc_by(spans as u64);
                if std::mem::take(&mut self.is_failing) {
                    tracing::info!(endpoint = %self.endpoint, "the collector of traces accepts spans again");
                }
            }
            Err(error) => {
                self.metrics.not_accepted.inc_by(spans as u64);
                let error = self
                    .failure
                    .lock()
                    .take()
                    .unwrap_or_else(|| error.to_string());
                if std::mem::replace(&mut self.is_failing, true) {
                    tracing::debug!(endpoint = %self.endpoint, spans, error, "spans were dropped");
                } else {
                    tracing::warn!(endpoint = %self.endpoint, spans, error, "the collector of traces does not accept spans; they are dropped until it does");
                }
            }
        }
    }
}

/// Waits for a span, then for more of them. Without one, the queue is closed.
async fn fill(receiver: &mut mpsc::Receiver<SpanData>, batch: &mut Vec<SpanData>) {
    if receiver.recv_many(batch, BATCH).await == 0 {
        return;
    }
    let more = async {
        while batch.len() < BATCH && receiver.recv_many(batch, BATCH - batch.len()).await > 0 {}
    };
    let _is_full = tokio::time::timeout(LINGER, more).await;
}

/// Sends requests to the collector, and to nothing else: no redirect is followed and no proxy of
/// the environment is used, because the headers of the settings hold credentials.
#[derive(Debug)]
struct CollectorClient {
    client: Client,
    failure: LastFailure,
}

fn client(settings: &TraceSettings) -> Result<Client, TraceSettingsError> {
    let mut builder = Client::builder()
        .user_agent(concat!("fleetdex/", env!("CARGO_PKG_VERSION")))
        .timeout(settings.timeout)
        .no_proxy()
        .redirect(redirect::Policy::none());
    if let Some(path) = &settings.certificate {
        builder = builder.tls_certs_only(certificates(path)?);
    }
    builder
        .build()
        .map_err(|error| invalid_certificate(causes(&error)))
}

fn certificates(path: &Path) -> Result<Vec<Certificate>, TraceSettingsError> {
    let file = path.display();
    let pem = fs::read(path)
        .map_err(|error| invalid_certificate(format!("cannot read {file}: {error}")))?;
    let certificates = Certificate::from_pem_bundle(&pem)
        .map_err(|error| invalid_certificate(format!("{file}: {}", causes(&error))))?;
    if certificates.is_empty() {
        return Err(invalid_certificate(format!(
            "there is no -----BEGIN CERTIFICATE----- in {file}"
        )));
    }
    Ok(certificates)
}

#[async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let response = self.exchange(request).await;
        *self.failure.lock() = response.as_ref().err().map(|error| causes(&**error));
        response
    }
}

impl CollectorClient {
    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let request = reqwest::Request::try_from(request)?;
        let without_url = |error: reqwest::Error| error.without_url();
        let mut received = self.client.execute(request).await.map_err(without_url)?;
        let mut body = BytesMut::new();
        while let Some(chunk) = received.chunk().await.map_err(without_url)? {
            if body.len() + chunk.len() > MAX_RESPONSE_BYTES {
                return Err(ResponseBodyTooLarge::new().into());
            }
            body.extend_from_slice(&chunk);
        }
        let mut response = Response::new(body.freeze());
        *response.status_mut() = received.status();
        *response.headers_mut() = std::mem::take(received.headers_mut());
        Ok(response)
    }
}

//! Lists and watches a collection over a `kube::Client`, as raw bytes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use fleetdex_core::model::{Resource, Scope, Version};
use fleetdex_limits::intake::{Intake, IntakeError};
use fleetdex_telemetry::traces::{self, Beginning, KeyValue, SpanKind, Trace};
use http::{Request, Response, StatusCode, header};
use kube::client::Body;

use crate::{connect::LargeTransfer, request::transport_causes};

use super::{FaultKind, ListPage, StreamFault, event::status_fault, lines::WatchLines};

/// Timeout of a list page, for 500 large objects over a slow link; the API server itself gives up
/// after one minute.
const LIST_TIMEOUT: Duration = Duration::from_secs(65);
/// A first page of more bytes gets a connection of its own next time.
const LARGE_PAGE: usize = 1 << 20;
const OPEN_TIMEOUT: Duration = Duration::from_secs(30);
/// Range of the random lifetime of a watch, in seconds, so that the watches of a fleet do not end
/// together.
const WATCH_SECONDS: std::ops::Range<u32> = 240..290;
/// Time after its lifetime until a silent watch counts as dead.
const WATCH_GRACE: Duration = Duration::from_secs(10);
/// Requests lists without spec and status. Servers that do not support that, as some aggregated
/// ones, use the second type.
const ACCEPT_METADATA: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
const ACCEPT_JSON: &str = "application/json";
/// Objects per page, at most. Source: client-go's reflector.
const LARGEST_PAGE: u32 = 500;
/// A page that is too large is requested again with a quarter of its objects: from 500 to 1 in five
/// requests.
const SHRINKING: u32 = 4;

/// The objects that are listed and watched: a resource in a scope, restricted by selectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collection {
    /// The resource.
    pub resource: Resource,
    /// All namespaces or one.
    pub scope: Scope,
    /// `labelSelector` for the member.
    pub label_selector: Option<String>,
    /// `fieldSelector` for the member.
    pub field_selector: Option<String>,
}

impl Collection {
    fn uri(&self, parameters: &[(&str, String)]) -> String {
        let mut uri = self.resource.path(&self.scope);
        let selectors = [
            ("labelSelector", &self.label_selector),
            ("fieldSelector", &self.field_selector),
        ];
        let selectors = selectors
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.clone()?)));
        let mut separator = '?';
        for (name, value) in parameters.iter().cloned().chain(selectors) {
            uri.push(separator);
            uri.push_str(name);
            uri.push('=');
            uri.push_str(&percent_encode(&value));
            separator = '&';
        }
        uri
    }
}

/// Percent-encodes everything but unreserved characters (RFC 3986).
fn percent_encode(text: &str) -> String {
    use std::fmt::Write as _;
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else if write!(encoded, "%{byte:02X}").is_err() {
            return encoded;
        }
    }
    encoded
}

/// Lists and watches one collection of one member.
#[derive(Clone)]
pub struct ListerWatcher {
    client: kube::Client,
    collection: Collection,
    /// Number of objects whose page fits the size limit, as observed. Clones share it.
    page_size: Arc<AtomicU32>,
    /// Length of the page that was read last. Clones share it.
    page_bytes: Arc<AtomicUsize>,
    /// Whether the last first page was large, or did not arrive in time. Clones share it.
    is_large: Arc<AtomicBool>,
}

impl ListerWatcher {
    /// The client must not retry by itself.
    pub fn new(client: kube::Client, collection: Collection) -> Self {
        Self {
            client,
            collection,
            page_size: Arc::new(AtomicU32::new(LARGEST_PAGE)),
            page_bytes: Arc::default(),
            is_large: Arc::default(),
        }
    }

    /// The current version of the collection.
    pub async fn current_version(&self) -> Result<Version, StreamFault> {
        let body = self.list(None, Some(1)).await?;
        ListPage::parse(&body)
            .map(|page| page.version)
            .map_err(|error| StreamFault {
                kind: FaultKind::Garbled,
                message: error.to_string(),
            })
    }

    /// Returns the decompressed body of one list page. A page that exceeds the size limit is
    /// requested again with fewer objects. It fails if a single object is too large, or a list
    /// without `limit`.
    pub async fn list(
        &self,
        continue_token: Option<&str>,
        limit: Option<u32>,
    ) -> Result<Bytes, StreamFault> {
        self.page(continue_token, limit, ACCEPT_JSON).await
    }

    /// Like [`Self::list`], with only the metadata of each object if the member supports that.
    pub async fn list_metadata(
        &self,
        continue_token: Option<&str>,
        limit: Option<u32>,
    ) -> Result<Bytes, StreamFault> {
        self.page(continue_token, limit, ACCEPT_METADATA).await
    }

    async fn page(
        &self,
        continue_token: Option<&str>,
        limit: Option<u32>,
        accept: &'static str,
    ) -> Result<Bytes, StreamFault> {
        loop {
            let limit = limit.map(|limit| limit.min(self.page_size.load(Ordering::Relaxed)));
            let unread = match self.page_once(continue_token, limit, accept).await? {
                Ok(body) => return Ok(body),
                Err(unread) => unread,
            };
            let Some(limit) = limit.filter(|limit| *limit > 1) else {
                return Err(self.too_large(limit, &unread));
            };
            tracing::debug!(resource = %self.collection.resource.plural, limit, %unread, "requesting a page again with fewer objects");
            self.page_size
                .store((limit / SHRINKING).max(1), Ordering::Relaxed);
            self.page_bytes.store(0, Ordering::Relaxed);
        }
    }

    fn too_large(&self, limit: Option<u32>, unread: &IntakeError) -> StreamFault {
        let kind = if matches!(unread, IntakeError::TooLarge(_)) {
            FaultKind::TooLarge
        } else {
            FaultKind::Server
        };
        let what = if limit.is_some() {
            "a page of one object"
        } else {
            "a list without limit"
        };
        StreamFault {
            kind,
            message: format!(
                "{what} of {} was not read: {unread}",
                self.collection.resource.plural
            ),
        }
    }

    /// Requests a page. The inner error is why the page was not read, where requesting fewer
    /// objects may help.
    async fn page_once(
        &self,
        continue_token: Option<&str>,
        limit: Option<u32>,
        accept: &'static str,
    ) -> Result<Result<Bytes, IntakeError>, StreamFault> {
        let limits = limit.map(|limit| ("limit", limit.to_string()));
        let token = continue_token.map(|token| ("continue", token.to_owned()));
        let parameters: Vec<(&str, String)> = limits.into_iter().chain(token).collect();
        let mut request = request(&self.collection.uri(&parameters), accept, None)?;
        // The first page of a small collection shares the connection of the watches.
        let is_first = limit.is_some() && continue_token.is_none();
        if !is_first || self.is_large.load(Ordering::Relaxed) {
            request.extensions_mut().insert(LargeTransfer);
        }
        let span = request_span("list");
        let response = async {
            let response = self.send(request, span.as_ref()).await?;
            let intake = Intake::of(&response);
            let max_bytes = intake.limits().page;
            let previous = self.page_bytes.load(Ordering::Relaxed);
            let body = response.into_body();
            match intake.read_like(body, max_bytes, previous).await {
                Ok(body) => {
                    self.page_bytes.store(body.len(), Ordering::Relaxed);
                    if is_first {
                        let is_large = body.len() > LARGE_PAGE;
                        self.is_large.store(is_large, Ordering::Relaxed);
                    }
                    self.grow_pages(limit, body.len(), max_bytes);
                    Ok(Ok(body))
                }
                Err(IntakeError::Broken(error)) => {
                    Err(StreamFault::transport(transport_causes(&*error)))
                }
                Err(unread) => Ok(Err(unread)),
            }
        };
        let result = tokio::time::timeout(LIST_TIMEOUT, response)
            .await
            .unwrap_or_else(|_| {
                self.is_large.store(true, Ordering::Relaxed);
                Err(timed_out("list", LIST_TIMEOUT))
            });
        note_fault(span.as_ref(), &result);
        result
    }

    /// Sends a request; a response other than a success is a fault.
    async fn send(
        &self,
        request: Request<Body>,
        span: Option<&Trace>,
    ) -> Result<Response<Body>, StreamFault> {
        let sent = self.client.send(request).await;
        let response = sent.map_err(|error| StreamFault::transport(transport_causes(&error)))?;
        if let Some(span) = span {
            span.set_status_code(response.status());
        }
        if !response.status().is_success() {
            return Err(refused(response).await);
        }
        Ok(response)
    }

    /// Doubles the page size after a reduced page that was small.
    fn grow_pages(&self, limit: Option<u32>, length: usize, max_bytes: usize) {
        let Some(limit) = limit.filter(|limit| *limit < LARGEST_PAGE) else {
            return;
        };
        if limit == self.page_size.load(Ordering::Relaxed)
            && length.saturating_mul(2 * SHRINKING as usize) < max_bytes
        {
            self.page_size
                .store(limit.saturating_mul(2).min(LARGEST_PAGE), Ordering::Relaxed);
        }
    }

    /// Opens a watch from a version.
    pub async fn watch(&self, from: Version) -> Result<WatchLines, StreamFault> {
        let seconds = fastrand::u32(WATCH_SECONDS);
        let uri = self.collection.uri(&[
            ("watch", "true".to_owned()),
            ("allowWatchBookmarks", "true".to_owned()),
            ("resourceVersion", from.to_string()),
            ("timeoutSeconds", seconds.to_string()),
        ]);
        // A server may compress each event as a gzip member of its own, and decoders of a whole
        // body stop after the first one.
        let request = request(&uri, ACCEPT_JSON, Some("identity"))?;
        let span = request_span("watch");
        let response = tokio::time::timeout(OPEN_TIMEOUT, self.send(request, span.as_ref()))
            .await
            .unwrap_or_else(|_| Err(timed_out("watch", OPEN_TIMEOUT)));
        note_fault(span.as_ref(), &response);
        let response = response?;
        let intake = Intake::of(&response);
        let lifetime = Duration::from_secs(u64::from(seconds)) + WATCH_GRACE;
        Ok(WatchLines::new(
            response.into_body(),
            intake,
            tokio::time::Instant::now() + lifetime,
        ))
    }
}

/// The span of a request to the member, within the current trace.
fn request_span(name: &'static str) -> Option<Trace> {
    traces::child(Beginning::now(name, SpanKind::Client), || {
        vec![KeyValue::new("http.request.method", "GET")]
    })
}

fn note_fault<T>(span: Option<&Trace>, result: &Result<T, StreamFault>) {
    if let (Some(span), Err(fault)) = (span, result) {
        span.fail(fault.kind.reason());
    }
}

fn request(
    uri: &str,
    accept: &'static str,
    accept_encoding: Option<&'static str>,
) -> Result<Request<Body>, StreamFault> {
    let mut builder = Request::get(uri).header(header::ACCEPT, accept);
    if let Some(encoding) = accept_encoding {
        builder = builder.header(header::ACCEPT_ENCODING, encoding);
    }
    builder.body(Body::empty()).map_err(|error| StreamFault {
        kind: FaultKind::Invalid,
        message: error.to_string(),
    })
}

/// Converts an error response to a fault.
async fn refused(response: Response<Body>) -> StreamFault {
    let status: StatusCode = response.status();
    match Intake::of(&response)
        .read_refusal(response.into_body())
        .await
    {
        Ok(body) => status_fault(&body, Some(status.as_u16())),
        Err(error) => StreamFault::transport(transport_causes(&error)),
    }
}

fn timed_out(what: &str, after: Duration) -> StreamFault {
    StreamFault {
        kind: FaultKind::Transport,
        message: format!("no response to a {what} within {} s", after.as_secs()),
    }
}

#[cfg(test)]
mod tests;

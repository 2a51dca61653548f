//! Lists and watches over a `kube::Client`, as raw bytes.

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http::{Request, Response, header};
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use kube::client::Body;

use super::{Fault, FaultKind, ListPage, event::status_fault};
use crate::model::{Resource, Scope, Version, causes};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A page of 500 large objects over a slow link; the apiserver itself gives up after one minute.
const LIST_TIMEOUT: Duration = Duration::from_secs(65);
/// How long an apiserver may take to begin a watch.
const OPEN_TIMEOUT: Duration = Duration::from_secs(30);
/// A watch lasts a random time in this range (seconds), so that the watches of a fleet do not end together.
const WATCH_SECONDS: std::ops::Range<u32> = 240..290;
/// How long after its deadline a watch that says nothing is taken for dead.
const WATCH_GRACE: Duration = Duration::from_secs(10);
/// Asks for lists without spec and status. Servers that cannot leave them out, as some aggregated ones, take the second form.
const ACCEPT_METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
const ACCEPT_JSON: &str = "application/json";
/// The largest line: etcd limits objects to about 1.5 MiB, and JSON may escape some of it.
const MAX_LINE_BYTES: usize = 64 << 20;

/// What is listed and watched: a resource in a scope, narrowed by selectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collection {
    /// The resource.
    pub resource: Resource,
    /// The part of it.
    pub scope: Scope,
    /// `labelSelector` for the member.
    pub label_selector: Option<String>,
    /// `fieldSelector` for the member.
    pub field_selector: Option<String>,
}

impl Collection {
    fn uri(&self, parameters: &[(&str, String)]) -> String {
        let mut uri = self.resource.path(&self.scope);
        let selectors = [("labelSelector", &self.label_selector), ("fieldSelector", &self.field_selector)];
        let selectors = selectors.into_iter().filter_map(|(name, value)| Some((name, value.clone()?)));
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
pub struct Source {
    client: kube::Client,
    collection: Collection,
}

impl Source {
    /// A source over a client whose own retries are off.
    pub fn new(client: kube::Client, collection: Collection) -> Self {
        Self { client, collection }
    }

    /// The version that the collection is at now.
    pub async fn current_version(&self) -> Result<Version, Fault> {
        let body = self.list(None, Some(1)).await?;
        ListPage::parse(&body)
            .map(|page| page.version)
            .map_err(|error| Fault { kind: FaultKind::Garbled, message: error.to_string() })
    }

    /// The body of one list page, unpacked.
    pub async fn list(&self, continue_token: Option<&str>, limit: Option<u32>) -> Result<Bytes, Fault> {
        self.page(continue_token, limit, ACCEPT_JSON).await
    }

    /// The body of one list page with no more of each object than its metadata, if the member can leave out the rest.
    pub async fn list_metadata(&self, continue_token: Option<&str>, limit: Option<u32>) -> Result<Bytes, Fault> {
        self.page(continue_token, limit, ACCEPT_METADATA).await
    }

    async fn page(&self, continue_token: Option<&str>, limit: Option<u32>, accept: &'static str) -> Result<Bytes, Fault> {
        let mut parameters = Vec::new();
        if let Some(limit) = limit {
            parameters.push(("limit", limit.to_string()));
        }
        if let Some(token) = continue_token {
            parameters.push(("continue", token.to_owned()));
        }
        let request = request(&self.collection.uri(&parameters), accept, None)?;
        let answer = async {
            let response = self.client.send(request).await.map_err(|error| transport_fault(&error))?;
            let status = response.status();
            let body = read_body(response).await?;
            if status.is_success() { Ok(body) } else { Err(status_fault(&body, Some(status.as_u16()))) }
        };
        tokio::time::timeout(LIST_TIMEOUT, answer).await.unwrap_or_else(|_| Err(timed_out("list", LIST_TIMEOUT)))
    }

    /// Opens a watch from a version on.
    pub async fn watch(&self, from: Version) -> Result<Lines, Fault> {
        let seconds = fastrand::u32(WATCH_SECONDS);
        let uri = self.collection.uri(&[
            ("watch", "true".to_owned()),
            ("allowWatchBookmarks", "true".to_owned()),
            ("resourceVersion", from.to_string()),
            ("timeoutSeconds", seconds.to_string()),
        ]);
        // A watch may be gzipped event by event, which decoders of a whole body cut short.
        let request = request(&uri, ACCEPT_JSON, Some("identity"))?;
        let response = match tokio::time::timeout(OPEN_TIMEOUT, self.client.send(request)).await {
            Err(_) => return Err(timed_out("watch", OPEN_TIMEOUT)),
            Ok(answer) => answer.map_err(|error| transport_fault(&error))?,
        };
        let status = response.status();
        if !status.is_success() {
            let body = read_body(response).await?;
            return Err(status_fault(&body, Some(status.as_u16())));
        }
        let lifetime = Duration::from_secs(u64::from(seconds)) + WATCH_GRACE;
        Ok(Lines::new(response.into_body(), tokio::time::Instant::now() + lifetime))
    }
}

fn request(uri: &str, accept: &'static str, accept_encoding: Option<&'static str>) -> Result<Request<Body>, Fault> {
    let mut builder = Request::get(uri).header(header::ACCEPT, accept);
    if let Some(encoding) = accept_encoding {
        builder = builder.header(header::ACCEPT_ENCODING, encoding);
    }
    builder.body(Body::empty()).map_err(|error| Fault { kind: FaultKind::Invalid, message: error.to_string() })
}

async fn read_body(response: Response<Body>) -> Result<Bytes, Fault> {
    let mut body = response.into_body();
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| transport_fault(&error))?;
        if let Ok(data) = frame.into_data() {
            bytes.extend_from_slice(&data);
        }
    }
    Ok(bytes.freeze())
}

fn transport_fault(error: &dyn std::error::Error) -> Fault {
    Fault { kind: FaultKind::Transport, message: causes(error) }
}

fn timed_out(what: &str, after: Duration) -> Fault {
    Fault { kind: FaultKind::Transport, message: format!("no answer to a {what} within {} s", after.as_secs()) }
}

/// The lines of a watch.
pub struct Lines {
    body: UnsyncBoxBody<Bytes, BoxError>,
    buffer: BytesMut,
    /// How much of the buffer is known to hold no line end.
    searched: usize,
    deadline: tokio::time::Instant,
}

impl Lines {
    fn new<B>(body: B, deadline: tokio::time::Instant) -> Self
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self { body: body.map_err(Into::into).boxed_unsync(), buffer: BytesMut::new(), searched: 0, deadline }
    }

    /// The next line without its end; nothing when the stream has ended. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        loop {
            if let Some(line) = self.take_line() {
                if line.is_empty() {
                    continue;
                }
                return Ok(Some(line));
            }
            if self.buffer.len() > MAX_LINE_BYTES {
                return Err(Fault {
                    kind: FaultKind::Garbled,
                    message: format!("a watch line is longer than {MAX_LINE_BYTES} bytes"),
                });
            }
            let frame = tokio::time::timeout_at(self.deadline, self.body.frame()).await;
            match frame {
                Err(_) => {
                    return Err(Fault {
                        kind: FaultKind::Transport,
                        message: "the watch outlived its deadline in silence".to_owned(),
                    });
                }
                // A line cut off by the end of the stream was not received; the next watch sends it again.
                Ok(None) => return Ok(None),
                Ok(Some(Err(error))) => return Err(transport_fault(&*error)),
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
            }
        }
    }

    fn take_line(&mut self) -> Option<Bytes> {
        match memchr::memchr(b'\n', &self.buffer[self.searched..]) {
            Some(offset) => {
                let line = self.buffer.split_to(self.searched + offset).freeze();
                self.buffer.advance(1);
                self.searched = 0;
                Some(line)
            }
            None => {
                self.searched = self.buffer.len();
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Gvk;

    fn lines(chunks: &[&'static str]) -> Lines {
        let chunks: Vec<Result<Bytes, std::convert::Infallible>> =
            chunks.iter().map(|chunk| Ok(Bytes::from_static(chunk.as_bytes()))).collect();
        let stream = futures::stream::iter(chunks.into_iter().map(|chunk| chunk.map(http_body::Frame::data)));
        Lines::new(http_body_util::StreamBody::new(stream), tokio::time::Instant::now() + Duration::from_mins(1))
    }

    #[tokio::test]
    async fn lines_survive_any_chunking_and_a_cut_line_is_not_delivered() {
        let mut lines = lines(&["{\"a\":", "1}\n{\"b\"", ":2}\n\n{\"c\":3}\n{\"cut"]);
        let mut read = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            read.push(String::from_utf8(line.to_vec()).unwrap());
        }
        assert_eq!(read, [r#"{"a":1}"#, r#"{"b":2}"#, r#"{"c":3}"#]);
    }

    #[test]
    fn selectors_are_encoded_into_the_request() {
        let collection = Collection {
            resource: Resource { gvk: Gvk::new("", "v1", "Pod"), plural: "pods".into(), namespaced: true },
            scope: Scope::Namespace("web".parse().unwrap()),
            label_selector: Some("app in (a,b)".to_owned()),
            field_selector: None,
        };
        assert_eq!(
            collection.uri(&[("limit", "5".to_owned())]),
            "/api/v1/namespaces/web/pods?limit=5&labelSelector=app%20in%20%28a%2Cb%29"
        );
    }
}

//! Lists and watches over a `kube::Client`, as raw bytes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bytes::{Buf, Bytes, BytesMut};
use fleetdex_core::{
    model::{Resource, Scope, Version, causes},
    planted::{Bug, planted},
};
use fleetdex_limits::intake::{Hold, Intake, ReadError};
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use kube::client::Body;

use super::{Fault, FaultKind, ListPage, event::status_fault};

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
const ACCEPT_METADATA: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
const ACCEPT_JSON: &str = "application/json";
/// As many objects as are ever asked for in a page. Source: client-go's reflector.
const LARGEST_PAGE: u32 = 500;
/// A page that is too large is asked for again with a quarter of its objects: from 500 to 1 in five requests.
const SHRINKING: u32 = 4;

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
pub struct Source {
    client: kube::Client,
    collection: Collection,
    /// How many objects of a page fit into the limit of a page, as far as that has shown. Clones share it.
    page_size: Arc<AtomicU32>,
}

impl Source {
    /// A source over a client whose own retries are off.
    pub fn new(client: kube::Client, collection: Collection) -> Self {
        Self {
            client,
            collection,
            page_size: Arc::new(AtomicU32::new(LARGEST_PAGE)),
        }
    }

    /// The version that the collection is at now.
    pub async fn current_version(&self) -> Result<Version, Fault> {
        let body = self.list(None, Some(1)).await?;
        ListPage::parse(&body)
            .map(|page| page.version)
            .map_err(|error| Fault {
                kind: FaultKind::Garbled,
                message: error.to_string(),
            })
    }

    /// The body of one list page, unpacked. A page that is larger than pages may be is asked for again with fewer objects; it is an error when one
    /// alone is too large, or all of them where no limit is wanted.
    pub async fn list(
        &self,
        continue_token: Option<&str>,
        limit: Option<u32>,
    ) -> Result<Bytes, Fault> {
        self.page(continue_token, limit, ACCEPT_JSON).await
    }

    /// The body of one list page with no more of each object than its metadata, if the member can leave out the rest.
    pub async fn list_metadata(
        &self,
        continue_token: Option<&str>,
        limit: Option<u32>,
    ) -> Result<Bytes, Fault> {
        self.page(continue_token, limit, ACCEPT_METADATA).await
    }

    async fn page(
        &self,
        continue_token: Option<&str>,
        limit: Option<u32>,
        accept: &'static str,
    ) -> Result<Bytes, Fault> {
        loop {
            let limit = limit.map(|limit| limit.min(self.page_size.load(Ordering::Relaxed)));
            let unread = match self.page_once(continue_token, limit, accept).await? {
                Ok(body) => return Ok(body),
                Err(unread) => unread,
            };
            let Some(limit) = limit.filter(|limit| *limit > 1) else {
                return Err(self.too_large(limit, &unread));
            };
            tracing::debug!(resource = %self.collection.resource.plural, limit, %unread, "a page is asked for again with fewer objects");
            self.page_size
                .store((limit / SHRINKING).max(1), Ordering::Relaxed);
        }
    }

    fn too_large(&self, limit: Option<u32>, unread: &ReadError) -> Fault {
        let kind = if matches!(unread, ReadError::TooLarge(_)) {
            FaultKind::TooLarge
        } else {
            FaultKind::Server
        };
        let what = if limit.is_some() {
            "a page of one object"
        } else {
            "a list in one piece"
        };
        Fault {
            kind,
            message: format!(
                "{what} of {} was not read: {unread}",
                self.collection.resource.plural
            ),
        }
    }

    /// A page; or why it was not read, if fewer objects may help.
    async fn page_once(
        &self,
        continue_token: Option<&str>,
        limit: Option<u32>,
        accept: &'static str,
    ) -> Result<Result<Bytes, ReadError>, Fault> {
        let mut parameters = Vec::new();
        if let Some(limit) = limit {
            parameters.push(("limit", limit.to_string()));
        }
        if let Some(token) = continue_token {
            parameters.push(("continue", token.to_owned()));
        }
        let request = request(&self.collection.uri(&parameters), accept, None)?;
        let answer = async {
            let response = self
                .client
                .send(request)
                .await
                .map_err(|error| transport_fault(&error))?;
            if !response.status().is_success() {
                return Err(refused(response).await);
            }
            let intake = Intake::of(&response);
            let most = intake.limits().page;
            match intake.read(response.into_body(), most).await {
                Ok(body) => {
                    self.grow_pages(limit, body.len(), most);
                    Ok(Ok(body))
                }
                Err(ReadError::Broken(error)) => Err(transport_fault(&*error)),
                Err(unread) => Ok(Err(unread)),
            }
        };
        tokio::time::timeout(LIST_TIMEOUT, answer)
            .await
            .unwrap_or_else(|_| Err(timed_out("list", LIST_TIMEOUT)))
    }

    /// After a page that was reduced, and is small, the next one may have more objects again.
    fn grow_pages(&self, limit: Option<u32>, length: usize, most: usize) {
        let Some(limit) = limit.filter(|limit| *limit < LARGEST_PAGE) else {
            return;
        };
        if limit == self.page_size.load(Ordering::Relaxed)
            && length.saturating_mul(2 * SHRINKING as usize) < most
        {
            self.page_size
                .store(limit.saturating_mul(2).min(LARGEST_PAGE), Ordering::Relaxed);
        }
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
        if !response.status().is_success() {
            return Err(tokio::time::timeout(OPEN_TIMEOUT, refused(response))
                .await
                .unwrap_or_else(|_| timed_out("watch", OPEN_TIMEOUT)));
        }
        let intake = Intake::of(&response);
        let lifetime = Duration::from_secs(u64::from(seconds)) + WATCH_GRACE;
        Ok(Lines::new(
            response.into_body(),
            intake,
            tokio::time::Instant::now() + lifetime,
        ))
    }
}

fn request(
    uri: &str,
    accept: &'static str,
    accept_encoding: Option<&'static str>,
) -> Result<Request<Body>, Fault> {
    let mut builder = Request::get(uri).header(header::ACCEPT, accept);
    if let Some(encoding) = accept_encoding {
        builder = builder.header(header::ACCEPT_ENCODING, encoding);
    }
    builder.body(Body::empty()).map_err(|error| Fault {
        kind: FaultKind::Invalid,
        message: error.to_string(),
    })
}

/// What an answer other than success says.
async fn refused(response: Response<Body>) -> Fault {
    let status: StatusCode = response.status();
    match Intake::of(&response)
        .read_refusal(response.into_body())
        .await
    {
        Ok(body) => status_fault(&body, Some(status.as_u16())),
        Err(error) => transport_fault(&error),
    }
}

fn transport_fault(error: &dyn std::error::Error) -> Fault {
    Fault {
        kind: FaultKind::Transport,
        message: causes(error),
    }
}

fn outlived() -> Fault {
    Fault {
        kind: FaultKind::Transport,
        message: "the watch outlived its deadline in silence".to_owned(),
    }
}

fn line_not_read(unread: &ReadError) -> Fault {
    Fault {
        kind: FaultKind::Server,
        message: format!("a line of a watch was not read: {unread}"),
    }
}

fn timed_out(what: &str, after: Duration) -> Fault {
    Fault {
        kind: FaultKind::Transport,
        message: format!("no answer to a {what} within {} s", after.as_secs()),
    }
}

/// The lines of a watch.
pub struct Lines {
    body: UnsyncBoxBody<Bytes, BoxError>,
    buffer: BytesMut,
    /// How much of the buffer is known to hold no line end.
    searched: usize,
    deadline: tokio::time::Instant,
    intake: Intake,
    /// Memory for a line that is longer than most.
    hold: Hold,
}

impl Lines {
    fn new<B>(body: B, intake: Intake, deadline: tokio::time::Instant) -> Self
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let (body, hold) = (body.map_err(Into::into).boxed_unsync(), intake.hold());
        Self {
            body,
            buffer: BytesMut::new(),
            searched: 0,
            deadline,
            intake,
            hold,
        }
    }

    /// The next line without its end; nothing when the stream has ended. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        // The line before is done with. Its memory goes with what was held for it: a buffer that is emptied keeps all that it ever needed.
        if self.buffer.is_empty() || self.hold.holds_any() {
            self.buffer = BytesMut::from(&self.buffer[..]);
            self.hold.release();
        }
        loop {
            if let Some(line) = self.take_line() {
                if line.is_empty() {
                    continue;
                }
                return Ok(Some(line));
            }
            let most = self.intake.limits().line;
            if self.buffer.len() > most && !planted(Bug::EndlessLine) {
                let message = format!("a line of a watch is longer than {most} bytes");
                return Err(Fault {
                    kind: FaultKind::TooLarge,
                    message,
                });
            }
            // A buffer that grows has up to twice what is in it.
            let memory = 2 * self.buffer.len();
            if !self.hold.has(memory) {
                let grown = tokio::time::timeout_at(self.deadline, self.hold.grow(memory))
                    .await
                    .map_err(|_| outlived())?;
                grown.map_err(|unread| line_not_read(&unread))?;
            }
            match tokio::time::timeout_at(self.deadline, self.hold.next(&mut self.body)).await {
                Err(_) => return Err(outlived()),
                // A line cut off by the end of the stream was not received; the next watch sends it again.
                Ok(Ok(None)) => return Ok(None),
                Ok(Ok(Some(data))) => self.buffer.extend_from_slice(&data),
                Ok(Err(ReadError::Broken(error))) => return Err(transport_fault(&*error)),
                Ok(Err(unread)) => return Err(line_not_read(&unread)),
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
    use fleetdex_core::model::Gvk;
    use fleetdex_limits::intake::{Budget, Limits};
    use futures::StreamExt as _;

    use super::*;

    const LIMITS: Limits = Limits {
        page: 256 << 10,
        line: 128 << 10,
        answer: 64 << 10,
        refusal: 1_000,
        share: 1 << 20,
        shared: 2 << 20,
    };

    fn lines(chunks: &[&'static str]) -> Lines {
        let chunks: Vec<Result<Bytes, std::convert::Infallible>> = chunks
            .iter()
            .map(|chunk| Ok(Bytes::from_static(chunk.as_bytes())))
            .collect();
        let stream = futures::stream::iter(
            chunks
                .into_iter()
                .map(|chunk| chunk.map(http_body::Frame::data)),
        );
        let intake = Budget::new(LIMITS).share("a");
        Lines::new(
            http_body_util::StreamBody::new(stream),
            intake,
            tokio::time::Instant::now() + Duration::from_mins(1),
        )
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

    #[tokio::test]
    async fn the_memory_of_a_long_line_goes_with_what_was_held_for_it() {
        for rest in ["", "{\"a\":"] {
            let budget = Budget::new(LIMITS);
            let chunks = [
                format!("\"{}", "x".repeat(60_000)),
                format!("{}\"\n{rest}", "x".repeat(40_000)),
            ];
            let frames =
                futures::stream::iter(chunks.map(Bytes::from)).chain(futures::stream::pending());
            let frames = frames
                .map(|chunk| Ok::<_, std::convert::Infallible>(http_body::Frame::data(chunk)));
            let deadline = tokio::time::Instant::now() + Duration::from_mins(1);
            let mut lines = Lines::new(
                http_body_util::StreamBody::new(frames),
                budget.share("a"),
                deadline,
            );
            assert_eq!(
                lines.next().await.unwrap().map(|line| line.len()),
                Some(100_002)
            );
            assert!(budget.held() >= 100_000);
            assert!(futures::poll!(std::pin::pin!(lines.next())).is_pending());
            assert_eq!(budget.held(), 0);
            assert!(
                !lines.buffer.try_reclaim(100_000),
                "the allocation is still there"
            );
            assert_eq!(lines.buffer, rest.as_bytes());
        }
    }

    fn endless() -> impl http_body::Body<Data = Bytes, Error = std::convert::Infallible> {
        let chunk = Bytes::from(vec![b' '; 10_000]);
        http_body_util::StreamBody::new(
            futures::stream::repeat(chunk).map(|chunk| Ok(http_body::Frame::data(chunk))),
        )
    }

    #[tokio::test]
    async fn a_line_without_end_is_given_up_and_so_is_its_memory() {
        let budget = Budget::new(LIMITS);
        let mut lines = Lines::new(
            endless(),
            budget.share("a"),
            tokio::time::Instant::now() + Duration::from_mins(1),
        );
        assert_eq!(lines.next().await.unwrap_err().kind, FaultKind::TooLarge);
        assert!(budget.held() >= LIMITS.line);
        drop(lines);
        assert_eq!(budget.held(), 0);
    }

    /// A member with a number of objects of one size, which it counts in a page as it is asked to.
    fn source(
        budget: &Budget,
        objects: usize,
        size: usize,
    ) -> (Source, Arc<parking_lot::Mutex<Vec<String>>>) {
        let asked: Arc<parking_lot::Mutex<Vec<String>>> = Arc::default();
        let (notes, intake) = (Arc::clone(&asked), budget.share("a"));
        let service = tower::service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let limit = query
                .split('&')
                .find_map(|pair| pair.strip_prefix("limit=")?.parse().ok());
            notes.lock().push(query);
            let item = format!(
                r#"{{"metadata":{{"name":"a","uid":"u","resourceVersion":"1"}},"spec":"{}"}}"#,
                "x".repeat(size)
            );
            let items = vec![item; objects.min(limit.unwrap_or(objects))].join(",");
            let mut response = Response::new(Body::from(
                format!(r#"{{"metadata":{{"resourceVersion":"9"}},"items":[{items}]}}"#)
                    .into_bytes(),
            ));
            response.extensions_mut().insert(intake.clone());
            async move { Ok::<_, tower::BoxError>(response) }
        });
        let resource = Resource {
            gvk: Gvk::new("", "v1", "Pod"),
            plural: "pods".into(),
            namespaced: true,
        };
        let collection = Collection {
            resource,
            scope: Scope::All,
            label_selector: None,
            field_selector: None,
        };
        (
            Source::new(kube::Client::new(service, "default"), collection),
            asked,
        )
    }

    #[tokio::test]
    async fn a_page_that_is_too_large_is_asked_for_again_with_fewer_objects_and_grows_again() {
        let budget = Budget::new(LIMITS);
        let (source, asked) = source(&budget, 500, 2_000);
        let body = source.list(None, Some(500)).await.unwrap();
        assert_eq!(ListPage::parse(&body).unwrap().items.len(), 125);
        assert_eq!(*asked.lock(), ["limit=500", "limit=125"]);
        drop(body);
        assert_eq!(budget.held(), 0);
    }

    #[tokio::test]
    async fn an_object_that_is_too_large_alone_is_an_error_that_says_so() {
        let budget = Budget::new(LIMITS);
        let (source, asked) = source(&budget, 500, 300 << 10);
        let fault = source.list(None, Some(500)).await.unwrap_err();
        assert_eq!(fault.kind, FaultKind::TooLarge);
        assert_eq!(
            fault.message,
            "a page of one object of pods was not read: it is longer than 262144 bytes"
        );
        assert_eq!(asked.lock().len(), 5);
        assert_eq!(
            source.list(None, None).await.unwrap_err().kind,
            FaultKind::TooLarge
        );
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn selectors_are_encoded_into_the_request() {
        let collection = Collection {
            resource: Resource {
                gvk: Gvk::new("", "v1", "Pod"),
                plural: "pods".into(),
                namespaced: true,
            },
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

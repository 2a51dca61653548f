//! A member that tries to harm the others: it responds as an API server does, and tampers with
//! responses so that they may harm their reader.

use std::{
    collections::BTreeMap,
    future::Future,
    io,
    io::Write as _,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use fleetdex_clusters::{
    connect::{accepting_gzip, unpacked},
    watch::ListPage,
};
use fleetdex_limits::intake::{Intake, IntakeLayer};
use futures::stream;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::{body::Incoming, server::conn::http1, service::service_fn as hyper_service};
use hyper_util::rt::TokioIo;
use kube::client::Body as ClientBody;
use memchr::memrchr;
use parking_lot::{Mutex, MutexGuard};
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use tokio::net::TcpListener;
use tower::{BoxError, ServiceBuilder, service_fn};

use fakes::apiserver::{Body, Broken, Server};

/// Chunk size of an endless response, in bytes.
const CHUNK: usize = 8 << 10;
/// Invalid or misleading resource versions.
const VERSIONS: [&str; 8] = [
    "",
    "0",
    "-1",
    "abc",
    "1",
    "9223372036854775807",
    "18446744073709551616",
    "99999999999999999999999999999999",
];

/// How it tampers with a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Malice {
    /// Line breaks between the tokens of its objects, and between them the lines of a bulk request
    /// for another cluster.
    LineBreaks,
    /// Duplicate keys, escaped control characters, values of the wrong type, and members that are
    /// reserved for the document.
    OddJson,
    /// Resource versions that decrease, are no numbers, or exceed every integer type.
    LyingVersions,
    /// UIDs of other clusters' objects, or one UID for all objects.
    LyingUids,
    /// Huge objects.
    HugeObjects,
    /// Deeply nested objects.
    DeepObjects,
    /// A response that never ends.
    EndlessAnswer,
    /// A decompression bomb.
    Bomb,
    /// An error response that never ends.
    EndlessRefusal,
    /// A watch line that never ends.
    EndlessLine,
    /// The UID of the `kube-system` namespace of another cluster.
    LyingIdentity,
}

impl Malice {
    /// All kinds.
    pub const ALL: [Self; 11] = [
        Self::LineBreaks,
        Self::OddJson,
        Self::LyingVersions,
        Self::LyingUids,
        Self::HugeObjects,
        Self::DeepObjects,
        Self::EndlessAnswer,
        Self::Bomb,
        Self::EndlessRefusal,
        Self::EndlessLine,
        Self::LyingIdentity,
    ];
}

/// A hostile member. Clones share their state.
#[derive(Clone)]
pub struct Hostile {
    server: Server,
    state: Arc<Mutex<HostileState>>,
}

struct HostileState {
    random: StdRng,
    malices: Vec<Malice>,
    /// Documents of other clusters, by alias and id.
    victims: Vec<(String, String)>,
    /// The length of endless responses: many times the limit of the reader.
    endless: usize,
    struck: BTreeMap<Malice, u64>,
    impersonated: Option<Impersonated>,
}

/// The cluster whose identity a hostile member reports.
#[derive(Clone)]
struct Impersonated {
    victim: Server,
    /// Whether it relays the history of that cluster, too.
    relays: bool,
}

impl Hostile {
    /// Creates a hostile member that tampers with half of the lists and watches. `victims` are
    /// documents of other clusters, by alias and id.
    pub fn new(
        server: Server,
        seed: u64,
        malices: &[Malice],
        victims: Vec<(String, String)>,
        endless: usize,
    ) -> Self {
        let random = StdRng::seed_from_u64(seed);
        let state = HostileState {
            random,
            malices: malices.to_vec(),
            victims,
            endless,
            struck: BTreeMap::new(),
            impersonated: None,
        };
        Self {
            server,
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Reports the identity of the victim from now on, and its history if it `relays`; without a
    /// victim it reports its own identity again.
    pub fn impersonate(&self, victim: Option<Server>, relays: bool) {
        self.lock().impersonated = victim.map(|victim| Impersonated { victim, relays });
    }

    /// Returns how often it applied each kind of malice.
    pub fn struck(&self) -> BTreeMap<Malice, u64> {
        self.lock().struck.clone()
    }

    /// Handles a request.
    pub async fn respond(&self, request: Request<Bytes>) -> Result<Response<Body>, Broken> {
        let query = request.uri().query().unwrap_or_default().to_owned();
        if let Some(victim) = self.impersonated(&request) {
            return victim.respond(request).await;
        }
        let is_watch = query.contains("watch=true");
        let is_list = !is_watch && query.contains("limit=");
        let chosen = self.lock().choose(is_list, is_watch);
        let Some((malice, endless)) = chosen else {
            return self.server.respond(request).await;
        };
        match malice {
            Malice::EndlessAnswer | Malice::EndlessLine => {
                return Ok(response(StatusCode::OK, spaces(endless)));
            }
            Malice::EndlessRefusal => return Ok(response(StatusCode::FORBIDDEN, spaces(endless))),
            Malice::Bomb => {
                let mut response = response(StatusCode::OK, packed(endless));
                response
                    .headers_mut()
                    .insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
                return Ok(response);
            }
            _ => {}
        }
        let response = self.server.respond(request).await?;
        if !response.status().is_success() {
            return Ok(response);
        }
        let (head, body) = response.into_parts();
        let state = Arc::clone(&self.state);
        let body = if is_watch {
            let tamper = move |lines: Bytes| tampered_lines(&mut state.lock(), malice, &lines);
            body.map_frame(move |frame| frame.map_data(&tamper))
                .boxed_unsync()
        } else {
            let Ok(whole) = body.collect().await else {
                return Err(Broken::Reset);
            };
            let page = tampered_page(&mut state.lock(), malice, &whole.to_bytes());
            chunked(page)
        };
        Ok(Response::from_parts(head, body))
    }

    /// Returns the impersonated cluster if it handles the request instead.
    fn impersonated(&self, request: &Request<Bytes>) -> Option<Server> {
        let mut state = self.lock();
        let Impersonated { victim, relays } = state.impersonated.clone()?;
        let is_identity = request.uri().path() == "/api/v1/namespaces/kube-system";
        let is_history = [
            "/api/v1/namespaces",
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases",
        ];
        let is_relayed = is_identity || relays && is_history.contains(&request.uri().path());
        if is_relayed {
            *state.struck.entry(Malice::LyingIdentity).or_default() += 1;
        }
        is_relayed.then_some(victim)
    }

    fn lock(&self) -> MutexGuard<'_, HostileState> {
        self.state.lock()
    }
}

/// Serves on a listener until the future is dropped or accepting fails.
pub async fn serve(listener: TcpListener, hostile: Hostile) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        let hostile = hostile.clone();
        let service = hyper_service(move |request: Request<Incoming>| {
            let hostile = hostile.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
                hostile
                    .respond(Request::from_parts(head, body))
                    .await
                    .map_err(io::Error::other)
            }
        });
        // The task is detached; it ends with its connection.
        tokio::spawn(async move {
            if let Err(error) = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await
            {
                tracing::debug!(%error, "connection failed");
            }
        });
    }
}

/// Measures the longest line that was read of any body, after decompression.
#[derive(Clone, Debug, Default)]
pub struct Gauge(Arc<AtomicUsize>);

impl Gauge {
    /// Returns the length of that line in bytes.
    pub fn longest(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn counted(
        &self,
        body: impl http_body::Body<Data = Bytes, Error = BoxError> + Send + 'static,
    ) -> Body {
        let gauge = Arc::clone(&self.0);
        let mut length = 0;
        let mut count = move |data: Bytes| {
            length = memrchr(b'\n', &data).map_or(length + data.len(), |at| data.len() - at - 1);
            gauge.fetch_max(length, Ordering::Relaxed);
            data
        };
        body.map_frame(move |frame| frame.map_data(&mut count))
            .boxed_unsync()
    }
}

/// Creates a client for a server in this process. It decompresses responses as network clients do,
/// reads them within `intake`, and records their length in `gauge`.
pub fn client<F>(
    intake: Intake,
    gauge: Gauge,
    respond: impl Fn(Request<Bytes>) -> F + Clone + Send + 'static,
) -> kube::Client
where
    F: Future<Output = Result<Response<Body>, Broken>> + Send + 'static,
{
    let service = service_fn(move |request: Request<ClientBody>| {
        let respond = respond.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await?;
            Ok::<_, BoxError>(respond(Request::from_parts(head, body)).await?)
        }
    });
    let service = ServiceBuilder::new()
        .layer(IntakeLayer(intake))
        .map_response(move |response: Response<_>| response.map(|body| gauge.counted(body)))
        .map_request(accepting_gzip)
        .map_response(unpacked)
        .service(service);
    kube::Client::new(service, "default")
}

impl HostileState {
    fn choose(&mut self, is_list: bool, is_watch: bool) -> Option<(Malice, usize)> {
        let is_applicable = |malice: &Malice| match malice {
            Malice::EndlessLine => is_watch,
            Malice::EndlessAnswer | Malice::Bomb => !is_watch,
            Malice::EndlessRefusal => true,
            // Never random: a cluster keeps its identity until `impersonate` changes it.
            Malice::LyingIdentity => false,
            _ => is_list || is_watch,
        };
        let applicable: Vec<Malice> = self.malices.iter().copied().filter(is_applicable).collect();
        // Other requests mostly succeed, so that the operator connects.
        let often = if is_list || is_watch { 2 } else { 6 };
        if applicable.is_empty() || !(self.malices.len() == 1 || self.random.random_ratio(1, often))
        {
            return None;
        }
        let malice = *applicable.choose(&mut self.random)?;
        *self.struck.entry(malice).or_default() += 1;
        Some((malice, self.endless))
    }

    fn pick<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts.choose(&mut self.random).copied().unwrap_or_default()
    }

    fn tampered(&mut self, malice: Malice, object: &str, line_break: &str) -> String {
        let mut object = object.to_owned();
        match malice {
            Malice::LineBreaks => {
                let (alias, id) = self
                    .victims
                    .choose(&mut self.random)
                    .cloned()
                    .unwrap_or_default();
                let delete = format!(r#"{{"delete":{{"_index":"{alias}","_id":"{id}"}}}},"#);
                let index = format!(r#"{{"index":{{"_index":"{alias}","_id":"planted"}}}},"#);
                let evil =
                    [r#""evil":["#, delete.as_str(), index.as_str(), "{}],"].join(line_break);
                object.insert_str(1, &evil);
            }
            Malice::OddJson => {
                const ODD: [&str; 7] = [
                    r#""metadata":{"name":7},"#,
                    r#""cluster":"member1","search":{"resource":"configmaps","group":"","labels":["tier=web"]},"#,
                    r#""\u0000\n":"\u001b[2J\r\n\ud800","#,
                    r#""apiVersion":{"a":[]},"kind":[],"kind":null,"#,
                    r#""spec":[1e999999,-0,"spec"],"spec":{},"#,
                    r#""search.resource":"configmaps","metadata.namespace":"default","search.rejected":"x","search.sort.x":"y",".":1,"#,
                    r#""native":null,"clu\u0073ter":"member1","meta\u0064ata":{},"#,
                ];
                object.insert_str(1, self.pick(&ODD));
                if self.random.random_ratio(1, 3) {
                    object = object.replacen(
                        "\"uid\":\"",
                        self.pick(&["\"uid\":\"\\n", "\"uid\":[\"", "\"uid\":null,\"x\":\""]),
                        1,
                    );
                }
            }
            Malice::LyingVersions => {
                let lie = format!(r#""resourceVersion":"{}","was":""#, self.pick(&VERSIONS));
                object = object.replacen(r#""resourceVersion":""#, &lie, 1);
            }
            Malice::LyingUids => {
                let (_, id) = self
                    .victims
                    .choose(&mut self.random)
                    .cloned()
                    .unwrap_or_default();
                let uid = if self.random.random_ratio(1, 2) {
                    id.rsplit('/').next().unwrap_or_default()
                } else {
                    "one"
                };
                object = object.replacen(r#""uid":""#, &format!(r#""uid":"{uid}","was":""#), 1);
            }
            Malice::HugeObjects => {
                let length = self.random.random_range(0..self.endless / 3);
                object.insert_str(1, &format!(r#""evil":"{}","#, "x".repeat(length)));
            }
            Malice::DeepObjects => {
                let levels = self.random.random_range(100..20_000);
                object.insert_str(
                    1,
                    &format!(r#""evil":{}{},"#, "[".repeat(levels), "]".repeat(levels)),
                );
            }
            _ => {}
        }
        object
    }
}

fn tampered_page(state: &mut HostileState, malice: Malice, page: &[u8]) -> String {
    let Ok(ListPage {
        version,
        continue_token,
        items,
    }) = ListPage::parse(page)
    else {
        return String::from_utf8_lossy(page).into_owned();
    };
    let items: Vec<String> = items
        .iter()
        .map(|item| state.tampered(malice, item, "\n"))
        .collect();
    let lies = malice == Malice::LyingVersions && state.random.random_ratio(1, 2);
    let version = if lies {
        state.pick(&VERSIONS).to_owned()
    } else {
        version.to_string()
    };
    let next = continue_token.unwrap_or_default();
    format!(
        r#"{{"kind":"List","metadata":{{"resourceVersion":"{version}","continue":"{next}"}},"items":[{}]}}"#,
        items.join(",")
    )
}

/// A watch has one line per event, so that within an event only carriage returns can act as line
/// breaks.
fn tampered_lines(state: &mut HostileState, malice: Malice, lines: &[u8]) -> Bytes {
    let text = String::from_utf8_lossy(lines);
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        match line.split_once("\"object\":") {
            Some((event, object)) if !event.contains("BOOKMARK") && !event.contains("ERROR") => {
                out.push_str(event);
                out.push_str("\"object\":");
                out.push_str(&state.tampered(malice, object, "\r"));
            }
            _ => out.push_str(line),
        }
    }
    out.into()
}

fn response(status: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}

/// Splits the body into chunks, as a network does.
fn chunked(text: String) -> Body {
    let text = Bytes::from(text);
    let starts = (0..text.len()).step_by(CHUNK);
    let chunks: Vec<Bytes> = starts
        .map(|start| text.slice(start..text.len().min(start + CHUNK)))
        .collect();
    streamed(stream::iter(chunks))
}

fn spaces(length: usize) -> Body {
    let chunk = Bytes::from(vec![b' '; CHUNK]);
    streamed(stream::iter(std::iter::repeat_n(chunk, length / CHUNK)))
}

fn packed(length: usize) -> Body {
    let chunk = [b' '; CHUNK];
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    // Writing into memory does not fail; a failure would only shorten the response.
    let _written = (0..length / CHUNK).try_for_each(|_| packer.write_all(&chunk));
    streamed(stream::iter([Bytes::from(
        packer.finish().unwrap_or_default(),
    )]))
}

fn streamed(chunks: impl stream::Stream<Item = Bytes> + Send + 'static) -> Body {
    use futures::StreamExt as _;
    let frames = chunks.map(|chunk| Ok::<_, BoxError>(http_body::Frame::data(chunk)));
    http_body_util::StreamBody::new(frames).boxed_unsync()
}

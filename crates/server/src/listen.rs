//! Accepts HTTP connections with bounds on what one peer may hold, and stops gracefully.
//!
//! Every port of the process is served from here. Bounds: connections, and those of one address ([`connections`]); time to the first request, and
//! between two ([`activity`]); size and number of headers; how long an answer may lie untaken ([`delivery`]); over HTTP/2 also streams at a time, streams
//! that are cut off, and what waits to be sent.

mod activity;
mod connections;
mod counts;
pub mod delivery;

use std::{
    collections::HashMap,
    convert::Infallible,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

pub use activity::Arrived;
use axum::{Router, body::Body, extract::Request, response::Response};
use fleetdex_telemetry::{Metrics, metrics::ConnectionEnd};
use hyper::{
    body::Incoming,
    rt::{Read, Write},
    server::conn::{http1, http2},
    service::{Service, service_fn},
};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::{AbortHandle, Id, JoinSet},
    time::{sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use tracing::{debug, warn};

use self::{
    activity::Activity,
    connections::{Admission, Connections},
    counts::Counts,
    delivery::{Streams, while_taken},
};
use super::front::{authenticate::Peer, tls::HTTP_2};

/// Connections at a time, of which half may be from one address: on loopback that is all there is. At 64 KiB of buffer each, a full house costs 32 MiB.
const MAX_CONNECTIONS: usize = 512;
/// Connections at a time to a port that others than this machine reach. At 60 kB each, a full house costs 120 MB.
const MAX_SECURED_CONNECTIONS: usize = 2_048;
/// Bytes of a request's line and headers: a selector of several thousand names still fits. What is longer is answered 431 (or 414) without a body. Over HTTP/2
/// each header counts 32 bytes more; were it more there, URIs over 65,534 bytes would be met by a reset and no answer.
const MAX_HEAD_BYTES: u32 = 64 * 1024;
/// Requests under way on one HTTP/2 connection: as many as Kubernetes' API server takes.
const MAX_STREAMS: u32 = 250;
/// Streams that the peer has cut off before they were looked at; more are a flood, and the connection ends.
const MAX_RESET_STREAMS: usize = 50;
/// Streams that were cut off because of the peer's mistakes, likewise.
const MAX_FAULTY_STREAMS: usize = 100;
/// Bytes of one stream that wait to be sent.
const MAX_SEND_BYTES: usize = delivery::PIECE_BYTES;
/// How often a silent HTTP/2 peer is asked whether it lives, and how long it may take to say so.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a peer may take to send the line and headers, an idle kept-alive connection included.
const HEAD_TIMEOUT: Duration = Duration::from_mins(1);
/// How long a peer may take until its TLS connection stands.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection that was idle may take to end in good order.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(2);
/// The first byte of every TLS connection.
const TLS_HANDSHAKE: u8 = 0x16;
/// How long answers under way may take once the process stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after a failed accept (out of file descriptors), so that it is no busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// A port could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}; choose another with {flag}")]
pub struct ListenError {
    /// The address.
    pub address: SocketAddr,
    /// The flag that sets it.
    pub flag: &'static str,
    /// What the system said.
    pub source: std::io::Error,
}

/// An open port.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    counts: Counts,
}

impl Listener {
    /// Opens a port; port 0 takes a free one. `flag` is named in the error.
    pub async fn bind(address: SocketAddr, flag: &'static str) -> Result<Self, ListenError> {
        let failed = |source| ListenError {
            address,
            flag,
            source,
        };
        let socket = TcpListener::bind(address).await.map_err(failed)?;
        let local = socket.local_addr().map_err(failed)?;
        Ok(Self {
            socket,
            address: local,
            counts: Counts::default(),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Counts what is refused and ended.
    #[must_use]
    pub fn counting(self, metrics: Arc<Metrics>) -> Self {
        Self {
            counts: Counts(Some(metrics)),
            ..self
        }
    }

    /// Answers with `router` until cancelled; then lets answers under way end, for at most ten seconds.
    pub async fn serve(self, router: Router, cancel: CancellationToken) {
        self.serve_all(Way::Plain(router), MAX_CONNECTIONS, cancel)
            .await;
    }

    /// As [`Self::serve`], but over TLS: `secured` finds the [`Peer`] among the extensions of each request. Whoever speaks plain HTTP from this
    /// machine is answered by `local`, and nobody else.
    pub async fn serve_secured(
        self,
        secured: Router,
        local: Router,
        tls: Arc<ServerConfig>,
        cancel: CancellationToken,
    ) {
        let way = Way::Secured {
            secured,
            local,
            acceptor: TlsAcceptor::from(tls),
        };
        self.serve_all(way, MAX_SECURED_CONNECTIONS, cancel).await;
    }

    async fn serve_all(self, way: Way, connections_at_a_time: usize, cancel: CancellationToken) {
        let Self {
            socket,
            address,
            counts,
        } = self;
        let mut house = House::new(connections_at_a_time, counts);
        loop {
            let accepted = tokio::select! {
                () = cancel.cancelled() => break,
                () = house.next_end() => continue,
                accepted = socket.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    house.receive(stream, peer.ip().to_canonical(), &way, &cancel);
                }
                Err(error) => {
                    warn!(%address, %error, "cannot accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(socket);
        let drained = timeout(DRAIN_TIMEOUT, async {
            while house.tasks.join_next().await.is_some() {}
        })
        .await;
        if drained.is_err() {
            warn!(%address, connections = house.tasks.len(), "connections were cut at shutdown");
        }
    }
}

/// The connections of a port.
struct House {
    shares: Connections<IpAddr>,
    kept: HashMap<Id, Kept>,
    tasks: JoinSet<()>,
    counts: Counts,
}

/// One of them.
struct Kept {
    address: IpAddr,
    activity: Arc<Activity>,
    task: AbortHandle,
}

impl House {
    fn new(connections_at_a_time: usize, counts: Counts) -> Self {
        Self {
            shares: Connections::new(connections_at_a_time),
            kept: HashMap::new(),
            tasks: JoinSet::new(),
            counts,
        }
    }

    /// Waits until a connection has ended; for ever while there is none.
    async fn next_end(&mut self) {
        let id = match self.tasks.join_next_with_id().await {
            Some(Ok((id, ()))) => id,
            Some(Err(error)) => error.id(),
            None => return std::future::pending().await,
        };
        // One that was ended for another has left already.
        if let Some(kept) = self.kept.remove(&id) {
            self.shares.leave(&kept.address);
        }
    }

    /// Serves a connection, unless there is no room for it.
    fn receive(
        &mut self,
        stream: TcpStream,
        address: IpAddr,
        way: &Way,
        cancel: &CancellationToken,
    ) {
        let idle = self
            .kept
            .iter()
            .filter_map(|(id, kept)| Some((*id, kept.address, kept.activity.idle_since()?)));
        match self.shares.arrive(&address, idle) {
            Admission::Free => {}
            Admission::InsteadOf(id) => self.end(id),
            Admission::Refused => return self.counts.ended(ConnectionEnd::Refused),
        }
        let activity = Activity::new();
        let link = Link {
            address,
            activity: Arc::clone(&activity),
            counts: self.counts.clone(),
            cancel: cancel.clone(),
        };
        let task = self.tasks.spawn(way.clone().serve(stream, link));
        self.kept.insert(
            task.id(),
            Kept {
                address,
                activity,
                task,
            },
        );
    }

    fn end(&mut self, id: Id) {
        let Some(kept) = self.kept.remove(&id) else {
            return;
        };
        kept.task.abort();
        self.shares.leave(&kept.address);
        self.counts.ended(ConnectionEnd::Displaced);
    }
}

/// What is known of a connection.
struct Link {
    address: IpAddr,
    activity: Arc<Activity>,
    counts: Counts,
    cancel: CancellationToken,
}

/// How the connections of one port are served.
#[derive(Clone)]
enum Way {
    Plain(Router),
    Secured {
        secured: Router,
        local: Router,
        acceptor: TlsAcceptor,
    },
}

impl Way {
    async fn serve(self, stream: TcpStream, link: Link) {
        // Else the second part of an answer waits for the first one's acknowledgement, which the peer may put off for 40 ms.
        if let Err(error) = stream.set_nodelay(true) {
            return debug!(%error, "a connection has ended before it began");
        }
        let (secured, local, acceptor) = match self {
            Self::Plain(router) => return serve_http_1(stream, router, None, link).await,
            Self::Secured {
                secured,
                local,
                acceptor,
            } => (secured, local, acceptor),
        };
        match timeout(HANDSHAKE_TIMEOUT, speaks_tls(&stream)).await {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) if link.address.is_loopback() => {
                return serve_http_1(stream, local, None, link).await;
            }
            Ok(Ok(false)) => return say_that_it_is_tls(stream).await,
            Ok(Err(_)) | Err(_) => return,
        }
        match timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => serve_tls(stream, secured, link).await,
            Ok(Err(error)) => debug!(%error, "no TLS connection was made"),
            Err(_) => debug!("no TLS connection was made in time"),
        }
    }
}

async fn speaks_tls(stream: &TcpStream) -> std::io::Result<bool> {
    let mut first = [0];
    let length = stream.peek(&mut first).await?;
    Ok(length == 1 && first[0] == TLS_HANDSHAKE)
}

async fn say_that_it_is_tls(mut stream: TcpStream) {
    let answer =
        b"HTTP/1.0 400 Bad Request\r\ncontent-type: text/plain\r\n\r\nthis port speaks HTTPS\n";
    // Whether it is heard makes no difference.
    let _heard = timeout(HANDSHAKE_TIMEOUT, stream.write_all(answer)).await;
}

async fn serve_tls(stream: TlsStream<TcpStream>, router: Router, link: Link) {
    let (_, session) = stream.get_ref();
    let certificates = session.peer_certificates().unwrap_or_default();
    let certificates = certificates
        .iter()
        .map(|certificate| certificate.clone().into_owned())
        .collect();
    let peer = Peer::at(link.address, certificates);
    if session.alpn_protocol() == Some(HTTP_2) {
        serve_http_2(stream, router, peer, link).await;
    } else {
        serve_http_1(stream, router, Some(peer), link).await;
    }
}

async fn serve_http_1<S>(stream: S, router: Router, peer: Option<Arc<Peer>>, link: Link)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(|request| {
        answer(
            router.clone(),
            request,
            peer.clone(),
            Arc::clone(&link.activity),
        )
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES as usize)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    if let Err(why) = while_taken(drive(connection, &link)).await {
        link.counts.cut(why);
    }
}

async fn serve_http_2<S>(stream: S, router: Router, peer: Arc<Peer>, link: Link)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(|request| {
        answer(
            router.clone(),
            request,
            Some(Arc::clone(&peer)),
            Arc::clone(&link.activity),
        )
    });
    let connection = http2::Builder::new(Streams(link.counts.clone()))
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEAD_BYTES)
        .max_pending_accept_reset_streams(MAX_RESET_STREAMS)
        .max_local_error_reset_streams(MAX_FAULTY_STREAMS)
        .max_send_buf_size(MAX_SEND_BYTES)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    drive(connection, &link).await;
}

/// What connections of both versions of HTTP can do.
trait Connection: Future<Output = hyper::Result<()>> {
    /// Takes no more requests, and ends when those under way are answered.
    fn finish(self: Pin<&mut Self>);
}

impl<I, S> Connection for http1::UpgradeableConnection<I, S>
where
    S: Service<hyper::Request<Incoming>, Response = Response, Error = Infallible>,
    I: Read + Write + Unpin + Send + 'static,
{
    fn finish(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

impl<I, S> Connection for http2::Connection<I, S, Streams>
where
    S: Service<hyper::Request<Incoming>, Response = Response, Error = Infallible>,
    S::Future: Send + 'static,
    I: Read + Write + Unpin,
{
    fn finish(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

async fn drive(connection: impl Connection, link: &Link) {
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = link.cancel.cancelled() => {
            connection.as_mut().finish();
            connection.await
        }
        () = link.activity.idles() => {
            link.counts.ended(ConnectionEnd::Idle);
            connection.as_mut().finish();
            // A peer that has not even begun does not end it.
            timeout(FAREWELL_TIMEOUT, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        debug!(%error, "connection ended with an error");
    }
}

async fn answer(
    router: Router,
    request: hyper::Request<Incoming>,
    peer: Option<Arc<Peer>>,
    activity: Arc<Activity>,
) -> Result<Response, Infallible> {
    let under_way = activity.begin();
    let mut request: Request = request.map(Body::new);
    request.extensions_mut().insert(under_way.arrived());
    if let Some(peer) = peer {
        request.extensions_mut().insert(peer);
    }
    Ok(delivery::watched(router.oneshot(request).await?, under_way))
}

#[cfg(test)]
mod tests {
    use axum::{extract::Path, routing::get};
    use http_body_util::BodyExt as _;
    use hyper_util::rt::TokioExecutor;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt, duplex},
        net::TcpSocket,
        sync::Semaphore,
        time::Instant,
    };

    use super::{delivery::PATIENCE, *};
    use crate::holding::holding;

    async fn listener() -> Listener {
        Listener::bind("127.0.0.1:0".parse().unwrap(), "--test")
            .await
            .unwrap()
    }

    async fn exchange(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn answers_under_way_end_after_cancellation_and_new_connections_are_refused() {
        let listener = listener().await;
        let address = listener.address();
        let cancel = CancellationToken::new();
        let release = CancellationToken::new();
        let (started, mut has_started) = tokio::sync::mpsc::channel(1);
        let handler = {
            let release = release.clone();
            move || async move {
                started.send(()).await.unwrap();
                release.cancelled().await;
                "slow answer"
            }
        };
        let server =
            tokio::spawn(listener.serve(Router::new().route("/", get(handler)), cancel.clone()));
        let client =
            tokio::spawn(exchange(address, "GET / HTTP/1.1\r\nhost: x\r\n\r\n").into_future());
        has_started.recv().await.unwrap();
        cancel.cancel();
        while TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
        release.cancel();
        assert!(client.await.unwrap().ends_with("slow answer"));
        server.await.unwrap();
    }

    #[tokio::test]
    async fn a_head_that_is_too_long_or_has_too_many_headers_is_refused() {
        let listener = listener().await;
        let (address, cancel) = (listener.address(), CancellationToken::new());
        let server = tokio::spawn(listener.serve(
            Router::new().route("/", get(async || "fine")),
            cancel.clone(),
        ));
        let with = |headers: &str| format!("GET / HTTP/1.1\r\nhost: x\r\n{headers}\r\n");
        let selector = |length: usize| {
            format!(
                "GET /?labelSelector={} HTTP/1.1\r\nhost: x\r\n\r\n",
                "x".repeat(length)
            )
        };
        // A URI that hyper could read and http not is 414.
        let is_too_long = [
            (selector(65_535), "414"),
            (selector(120_000), "431"),
            (with(&format!("a: {}\r\n", "x".repeat(120_000))), "431"),
            (with(&"a: b\r\n".repeat(200)), "431"),
        ];
        for (refused, code) in is_too_long {
            let answer = exchange(address, &refused).await;
            let is_refused = answer.starts_with("HTTP/1.1 431")
                || code == "414" && answer.starts_with("HTTP/1.1 414");
            assert!(
                is_refused && answer.contains("content-length: 0"),
                "{answer}"
            );
        }
        let fits = selector(60_000).replace("host: x", "host: x\r\nconnection: close");
        assert!(exchange(address, &fits).await.starts_with("HTTP/1.1 200"));
        cancel.cancel();
        server.await.unwrap();
    }

    /// What a test sees of a server: how many answers are not over, and what was counted.
    struct Seen {
        places: Arc<Semaphore>,
        metrics: Arc<Metrics>,
    }

    impl Seen {
        fn new() -> Self {
            Self {
                places: Arc::new(Semaphore::new(PLACES)),
                metrics: Arc::new(Metrics::new()),
            }
        }

        fn link(&self) -> Link {
            let counts = Counts(Some(Arc::clone(&self.metrics)));
            Link {
                address: [127, 0, 0, 1].into(),
                activity: Activity::new(),
                counts,
                cancel: CancellationToken::new(),
            }
        }

        /// Answers with so many bytes, and takes a place until that is over.
        fn router(&self) -> Router {
            let places = Arc::clone(&self.places);
            let answer = move |Path(length): Path<usize>| async move {
                holding(
                    Body::from(vec![b'x'; length]),
                    places.try_acquire_owned().unwrap(),
                )
            };
            Router::new().route("/{length}", get(answer))
        }

        fn assert_counted(&self, series: &str) {
            let text = self.metrics.encode().unwrap();
            assert!(
                text.lines().any(|line| line == series),
                "{series} is not in:\n{text}"
            );
        }
    }

    const PLACES: usize = 3;

    #[tokio::test(start_paused = true)]
    async fn streams_whose_answers_are_not_taken_are_reset_and_others_of_the_connection_go_on() {
        for (window, length) in [(65_535, 1 << 20), (16, 1_000)] {
            let seen = Seen::new();
            let (client, server) = duplex(1 << 22);
            let served = tokio::spawn({
                let (router, link) = (seen.router(), seen.link());
                async move { serve_http_2(server, router, Peer::unknown(), link).await }
            });
            let (mut sender, connection) =
                hyper::client::conn::http2::Builder::new(TokioExecutor::new())
                    .initial_stream_window_size(window)
                    .handshake::<_, Body>(TokioIo::new(client))
                    .await
                    .unwrap();
            tokio::spawn(connection);
            let mut ask = |length: usize| {
                sender.send_request(
                    Request::get(format!("http://x/{length}"))
                        .body(Body::empty())
                        .unwrap(),
                )
            };
            let mut unread = Vec::new();
            for _ in 0..PLACES {
                unread.push(ask(length).await.unwrap());
            }
            sleep(Duration::from_secs(29)).await;
            assert_eq!(seen.places.available_permits(), 0);
            sleep(Duration::from_secs(2)).await;
            assert_eq!(seen.places.available_permits(), PLACES);
            seen.assert_counted(&format!(
                "fleetdex_answers_cut_total{{reason=\"unread\"}} {PLACES}"
            ));
            assert!(
                unread.pop().unwrap().into_body().collect().await.is_err(),
                "what is missing is not kept quiet"
            );
            let read = ask(10)
                .await
                .unwrap()
                .into_body()
                .collect()
                .await
                .unwrap()
                .to_bytes();
            assert_eq!((read.len(), seen.places.available_permits()), (10, PLACES));
            drop(sender);
            served.await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_of_http_1_whose_answer_is_not_taken_is_closed() {
        let seen = Seen::new();
        let (mut client, server) = duplex(1_024);
        let served = tokio::spawn({
            let (router, link) = (seen.router(), seen.link());
            async move { serve_http_1(server, router, None, link).await }
        });
        client
            .write_all(b"GET /1000000 HTTP/1.1\r\nhost: x\r\n\r\n")
            .await
            .unwrap();
        sleep(Duration::from_secs(29)).await;
        assert_eq!(seen.places.available_permits(), PLACES - 1);
        // What hyper has buffered may have made room for one piece more.
        sleep(PATIENCE).await;
        assert_eq!(seen.places.available_permits(), PLACES);
        served.await.unwrap();
        let mut read = Vec::new();
        assert!(client.read_to_end(&mut read).await.unwrap() < 1_000_000);
        seen.assert_counted(r#"fleetdex_answers_cut_total{reason="unread"} 1"#);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_says_nothing_or_only_hello_ends_within_seconds() {
        let hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".as_slice();
        for said in [b"".as_slice(), b"PRI * HT", hello] {
            let seen = Seen::new();
            let (mut client, server) = duplex(1_024);
            client.write_all(said).await.unwrap();
            let begun = Instant::now();
            serve_http_2(server, seen.router(), Peer::unknown(), seen.link()).await;
            assert!(
                begun.elapsed() <= Duration::from_secs(12),
                "{:?}",
                begun.elapsed()
            );
            seen.assert_counted(r#"fleetdex_connections_ended_total{reason="idle"} 1"#);
        }
        let seen = Seen::new();
        let (mut client, server) = duplex(1_024);
        client.write_all(b"GET / HTTP/1.1\r\nhost: ").await.unwrap();
        let begun = Instant::now();
        serve_http_1(server, seen.router(), None, seen.link()).await;
        assert!(
            begun.elapsed() <= Duration::from_secs(12),
            "{:?}",
            begun.elapsed()
        );
    }

    #[tokio::test]
    async fn half_sent_requests_from_many_addresses_do_not_keep_a_probe_out() {
        let listener = listener().await;
        let (address, cancel) = (listener.address(), CancellationToken::new());
        let metrics = Arc::new(Metrics::new());
        let way = Way::Plain(Router::new().route("/healthz", get(async || "ok")));
        let server = tokio::spawn(listener.counting(Arc::clone(&metrics)).serve_all(
            way,
            8,
            cancel.clone(),
        ));
        let mut half_sent = Vec::new();
        for number in 0..64 {
            let socket = TcpSocket::new_v4().unwrap();
            socket
                .bind(SocketAddr::from(([127, 0, 0, 2 + number % 5], 0)))
                .unwrap();
            let mut stream = socket.connect(address).await.unwrap();
            // The server may have ended it already.
            let _sent = stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: ").await;
            half_sent.push(stream);
        }
        let probe = exchange(
            address,
            "GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
        );
        let answer = timeout(Duration::from_secs(30), probe)
            .await
            .expect("a probe waits for half-sent requests");
        assert!(answer.ends_with("ok"), "{answer}");
        let displaced = r#"fleetdex_connections_ended_total{reason="displaced"}"#;
        assert!(metrics.encode().unwrap().contains(displaced));
        drop(half_sent);
        cancel.cancel();
        server.await.unwrap();
    }

    #[tokio::test]
    async fn answers_that_are_not_read_by_unknown_callers_do_not_keep_a_probe_out() {
        let listener = listener().await;
        let (address, cancel) = (listener.address(), CancellationToken::new());
        // More than the buffers of a socket hold.
        let large = bytes::Bytes::from(vec![b'x'; 64 << 20]);
        let known = |request: Request| async move {
            request
                .extensions()
                .get::<Arrived>()
                .unwrap()
                .caller_is_known();
            Body::from_stream(futures::stream::pending::<Result<bytes::Bytes, Infallible>>())
        };
        let router = Router::new()
            .route("/healthz", get(async || "ok"))
            .route(
                "/metrics",
                get(move || std::future::ready(Body::from(large.clone()))),
            )
            .route("/watch", get(known));
        let server = tokio::spawn(listener.serve_all(Way::Plain(router), 8, cancel.clone()));
        let ask = async |from: u8, path: &str| {
            let socket = TcpSocket::new_v4().unwrap();
            socket
                .bind(SocketAddr::from(([127, 0, 0, from], 0)))
                .unwrap();
            let mut stream = socket.connect(address).await.unwrap();
            stream
                .write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes())
                .await
                .unwrap();
            let mut first = [0];
            stream.read_exact(&mut first).await.unwrap();
            stream
        };
        let mut watch = ask(2, "/watch").await;
        let mut unread = Vec::new();
        for from in [3, 3, 3, 4, 4, 5, 6] {
            unread.push(ask(from, "/metrics").await);
        }
        for _ in 0..16 {
            let probe = exchange(
                address,
                "GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
            );
            let answer = timeout(Duration::from_secs(30), probe)
                .await
                .expect("a probe waits for answers that are not read");
            assert!(answer.ends_with("ok"), "{answer}");
            // In place of the one that was ended for the probe.
            unread.push(ask(7, "/metrics").await);
        }
        let mut next = [0; 4_096];
        let head = timeout(Duration::from_secs(30), watch.read(&mut next))
            .await
            .unwrap()
            .unwrap();
        assert!(head > 0, "a connection that is busy was ended");
        let more = watch.try_read(&mut next);
        assert!(
            more.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock),
            "a connection that is busy was ended"
        );
        drop(unread);
        cancel.cancel();
        drop(watch);
        server.await.unwrap();
    }

    #[tokio::test]
    async fn a_taken_port_is_an_error_that_names_the_flag() {
        let taken = listener().await;
        let error = Listener::bind(taken.address(), "--admin-address")
            .await
            .unwrap_err();
        assert!(error.to_string().contains("--admin-address"), "{error}");
    }
}

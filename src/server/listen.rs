//! Accepts HTTP connections with bounds on what one peer may hold, and stops gracefully.
//!
//! Every port of the process is served from here. Bounds: connections, size and number of headers, time to send them; over HTTP/2 also streams
//! at a time, streams that are cut off, and what waits to be sent.

use std::{
    convert::Infallible,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use axum::{Router, body::Body, extract::Request, response::Response};
use hyper::{
    body::Incoming,
    rt::{Read, Write},
    server::conn::{http1, http2},
    service::{Service, service_fn},
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use tracing::{debug, warn};

use super::{
    front::{authenticate::Peer, tls::HTTP_2},
    heads::{Answering, Heads, MAX_HEAD_BYTES},
};

/// Connections at a time. At 64 KiB of buffer each, a full house costs 16 MiB.
const MAX_CONNECTIONS: usize = 256;
/// Connections at a time to a port that others than this machine reach. At 60 kB each, a full house costs 120 MB.
const MAX_SECURED_CONNECTIONS: usize = 2_048;
/// Bytes of one request's headers over HTTP/2, the URI among them and 32 for each header: what is longer is answered 431 without a body, as the
/// stream has no request then that could be answered otherwise. Were it more, URIs over 65,534 bytes would be met by a reset and no answer.
const MAX_HEADER_LIST_BYTES: u32 = 64 * 1024;
/// Requests under way on one HTTP/2 connection: as many as Kubernetes' API server takes.
const MAX_STREAMS: u32 = 250;
/// Streams that the peer has cut off before they were looked at; more are a flood, and the connection ends.
const MAX_RESET_STREAMS: usize = 50;
/// Streams that were cut off because of the peer's mistakes, likewise.
const MAX_FAULTY_STREAMS: usize = 100;
/// Bytes of one stream that wait to be sent.
const MAX_SEND_BYTES: usize = 64 * 1024;
/// How often a silent HTTP/2 peer is asked whether it lives, and how long it may take to say so.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a peer may take to send the line and headers, an idle kept-alive connection included.
const HEAD_TIMEOUT: Duration = Duration::from_mins(1);
/// How long a peer may take until its TLS connection stands.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
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
}

impl Listener {
    /// Opens a port; port 0 takes a free one. `flag` is named in the error.
    pub async fn bind(address: SocketAddr, flag: &'static str) -> Result<Self, ListenError> {
        let failed = |source| ListenError { address, flag, source };
        let socket = TcpListener::bind(address).await.map_err(failed)?;
        let local = socket.local_addr().map_err(failed)?;
        Ok(Self { socket, address: local })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers with `router` until cancelled; then lets answers under way end, for at most ten seconds.
    pub async fn serve(self, router: Router, cancel: CancellationToken) {
        self.serve_all(Way::Plain(router), MAX_CONNECTIONS, cancel).await;
    }

    /// As [`Self::serve`], but over TLS: `secured` finds the [`Peer`] among the extensions of each request. Whoever speaks plain HTTP from this
    /// machine is answered by `local`, and nobody else.
    pub async fn serve_secured(self, secured: Router, local: Router, tls: Arc<ServerConfig>, cancel: CancellationToken) {
        let way = Way::Secured { secured, local, acceptor: TlsAcceptor::from(tls) };
        self.serve_all(way, MAX_SECURED_CONNECTIONS, cancel).await;
    }

    async fn serve_all(self, way: Way, connections_at_a_time: usize, cancel: CancellationToken) {
        let places = Arc::new(Semaphore::new(connections_at_a_time));
        let mut connections = JoinSet::new();
        while let Some(accepted) = self.next(&places, &mut connections, &cancel).await {
            let (way, cancel) = (way.clone(), cancel.clone());
            connections.spawn(async move {
                way.serve(accepted.stream, accepted.peer, cancel).await;
                drop(accepted.place);
            });
        }
        drop(self.socket);
        let drained = timeout(DRAIN_TIMEOUT, async { while connections.join_next().await.is_some() {} }).await;
        if drained.is_err() {
            warn!(address = %self.address, connections = connections.len(), "connections were cut at shutdown");
        }
    }

    /// The next connection and its place; `None` once cancelled. Reaps ended connections meanwhile.
    async fn next(&self, places: &Arc<Semaphore>, connections: &mut JoinSet<()>, cancel: &CancellationToken) -> Option<Accepted> {
        loop {
            let accepted = tokio::select! {
                () = cancel.cancelled() => return None,
                Some(_) = connections.join_next() => continue,
                accepted = self.accept(places) => accepted,
            };
            match accepted {
                Ok(connection) => return Some(connection),
                Err(error) => {
                    warn!(address = %self.address, %error, "cannot accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Waits for a place first, so that waiting peers queue in the kernel and not in our memory.
    async fn accept(&self, places: &Arc<Semaphore>) -> std::io::Result<Accepted> {
        let place = Arc::clone(places).acquire_owned().await.map_err(std::io::Error::other)?;
        let (stream, peer) = self.socket.accept().await?;
        // Else the second part of an answer waits for the first one's acknowledgement, which the peer may put off for 40 ms.
        stream.set_nodelay(true)?;
        Ok(Accepted { stream, peer: peer.ip(), place })
    }
}

/// A connection, and the place that it takes.
struct Accepted {
    stream: TcpStream,
    peer: IpAddr,
    place: OwnedSemaphorePermit,
}

/// How the connections of one port are served.
#[derive(Clone)]
enum Way {
    Plain(Router),
    Secured { secured: Router, local: Router, acceptor: TlsAcceptor },
}

impl Way {
    async fn serve(self, stream: TcpStream, peer: IpAddr, cancel: CancellationToken) {
        let (secured, local, acceptor) = match self {
            Self::Plain(router) => return serve_http_1(stream, router, None, cancel).await,
            Self::Secured { secured, local, acceptor } => (secured, local, acceptor),
        };
        match timeout(HANDSHAKE_TIMEOUT, speaks_tls(&stream)).await {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) if peer.to_canonical().is_loopback() => return serve_http_1(stream, local, None, cancel).await,
            Ok(Ok(false)) => return say_that_it_is_tls(stream).await,
            Ok(Err(_)) | Err(_) => return,
        }
        match timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => serve_tls(stream, secured, cancel).await,
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
    let answer = b"HTTP/1.0 400 Bad Request\r\ncontent-type: text/plain\r\n\r\nthis port speaks HTTPS\n";
    // Whether it is heard makes no difference.
    let _heard = timeout(HANDSHAKE_TIMEOUT, stream.write_all(answer)).await;
}

async fn serve_tls(stream: TlsStream<TcpStream>, router: Router, cancel: CancellationToken) {
    let (_, session) = stream.get_ref();
    let certificates = session.peer_certificates().unwrap_or_default();
    let peer = Peer::new(certificates.iter().map(|certificate| certificate.clone().into_owned()).collect());
    if session.alpn_protocol() == Some(HTTP_2) {
        serve_http_2(stream, router, peer, cancel).await;
    } else {
        serve_http_1(stream, router, Some(peer), cancel).await;
    }
}

async fn serve_http_1<S>(stream: S, router: Router, peer: Option<Arc<Peer>>, cancel: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let heads = Heads::new();
    let service = service_fn(|request| {
        heads.begin_answer();
        let (heads, answer) = (heads.clone(), answer(router.clone(), request, peer.clone()));
        async move { answer.await.map(|response| heads.answered(response)) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(Answering::new(stream, heads.clone())), service)
        .with_upgrades();
    drive(connection, cancel).await;
}

async fn serve_http_2(stream: TlsStream<TcpStream>, router: Router, peer: Arc<Peer>, cancel: CancellationToken) {
    let service = service_fn(|request| answer(router.clone(), request, Some(Arc::clone(&peer))));
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEADER_LIST_BYTES)
        .max_pending_accept_reset_streams(MAX_RESET_STREAMS)
        .max_local_error_reset_streams(MAX_FAULTY_STREAMS)
        .max_send_buf_size(MAX_SEND_BYTES)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    drive(connection, cancel).await;
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

impl<I, S> Connection for http2::Connection<I, S, TokioExecutor>
where
    S: Service<hyper::Request<Incoming>, Response = Response, Error = Infallible>,
    S::Future: Send + 'static,
    I: Read + Write + Unpin,
{
    fn finish(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

async fn drive(connection: impl Connection, cancel: CancellationToken) {
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = cancel.cancelled() => {
            connection.as_mut().finish();
            connection.await
        }
    };
    if let Err(error) = ended {
        debug!(%error, "connection ended with an error");
    }
}

async fn answer(router: Router, request: hyper::Request<Incoming>, peer: Option<Arc<Peer>>) -> Result<Response, Infallible> {
    let mut request: Request = request.map(Body::new);
    if let Some(peer) = peer {
        request.extensions_mut().insert(peer);
    }
    router.oneshot(request).await
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn listener() -> Listener {
        Listener::bind("127.0.0.1:0".parse().unwrap(), "--test").await.unwrap()
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
        let server = tokio::spawn(listener.serve(Router::new().route("/", get(handler)), cancel.clone()));
        let client = tokio::spawn(exchange(address, "GET / HTTP/1.1\r\nhost: x\r\n\r\n").into_future());
        has_started.recv().await.unwrap();
        cancel.cancel();
        while TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
        release.cancel();
        assert!(client.await.unwrap().ends_with("slow answer"));
        server.await.unwrap();
    }

    /// What a server answers to each of some requests, sent on one connection after the answer to the one before has come.
    async fn answers(requests: &[String]) -> Vec<String> {
        let listener = listener().await;
        let mut stream = TcpStream::connect(listener.address()).await.unwrap();
        let cancel = CancellationToken::new();
        let server = tokio::spawn(listener.serve(Router::new().route("/", get(async || "fine")), cancel.clone()));
        let mut answers = Vec::new();
        for request in requests {
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            while !answer.ends_with(b"fine") && stream.read_buf(&mut answer).await.unwrap() > 0 {}
            answers.push(String::from_utf8(answer).unwrap());
        }
        drop(stream);
        cancel.cancel();
        server.await.unwrap();
        answers
    }

    /// Code and message of a Status.
    fn told(answer: &str) -> String {
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status: serde_json::Value = serde_json::from_str(body).unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())) && status["kind"] == "Status", "{answer}");
        assert!(head.starts_with(&format!("HTTP/1.1 {}", status["code"])), "{answer}");
        format!("{} {}: {}", status["code"], status["reason"].as_str().unwrap(), status["message"].as_str().unwrap())
    }

    #[tokio::test]
    async fn a_head_that_is_too_long_is_answered_with_a_status_also_after_other_requests() {
        let good = "GET / HTTP/1.1\r\nhost: x\r\n\r\n".to_owned();
        // A selector of 10,000 terms, one that hyper could read and http not, and one whose end never comes.
        let selector = |length: usize| format!("GET /?labelSelector={} HTTP/1.1\r\nhost: x\r\n\r\n", "x".repeat(length));
        for refused in [selector(120_000), selector(65_530), format!("GET /{}", "x".repeat(900_000))] {
            let answers = answers(&[good.clone(), good.clone(), refused]).await;
            assert!(answers[1].starts_with("HTTP/1.1 200"), "{}", answers[1]);
            insta::allow_duplicates! {
                insta::assert_snapshot!(told(&answers[2]), @"414 RequestURITooLong: the URI of the request is too long: line and headers may have 65536 bytes together; ask with fewer values in selectors and parameters, in several requests if need be, or select by a label that the objects share");
            }
        }
    }

    #[tokio::test]
    async fn headers_that_are_too_long_or_too_many_and_what_is_no_http_are_answered_with_a_status() {
        let with = |headers: &str| format!("GET / HTTP/1.1\r\nhost: x\r\n{headers}\r\n");
        let long = answers(&[with(&format!("a: {}\r\n", "x".repeat(2 * MAX_HEAD_BYTES)))]).await;
        let many = answers(&[with(&"a: b\r\n".repeat(200))]).await;
        insta::assert_snapshot!(told(&long[0]), @"431 RequestHeaderFieldsTooLarge: the headers of the request are too long or too many: line and headers may have 65536 bytes together, in 100 headers");
        assert_eq!(told(&many[0]), told(&long[0]));
        let garbled = answers(&["GET / HTTP/1.1\r\nno header\r\n\r\n".to_owned()]).await;
        assert_eq!(told(&garbled[0]), "400 BadRequest: this is no request of HTTP/1.1");
    }

    #[tokio::test]
    async fn an_answer_that_looks_like_a_refusal_is_left_as_it_is() {
        let listener = listener().await;
        let address = listener.address();
        let cancel = CancellationToken::new();
        let text = "HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\n\r\n";
        let router = Router::new()
            .route("/text", get(move || async move { text }))
            .route("/code", get(async || (http::StatusCode::URI_TOO_LONG, "")));
        let server = tokio::spawn(listener.serve(router, cancel.clone()));
        let answer = exchange(address, "GET /text HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with(text), "{answer}");
        let answer = exchange(address, "GET /code HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 414") && answer.contains("content-length: 0"), "{answer}");
        cancel.cancel();
        server.await.unwrap();
    }

    #[tokio::test]
    async fn a_taken_port_is_an_error_that_names_the_flag() {
        let taken = listener().await;
        let error = Listener::bind(taken.address(), "--admin-address").await.unwrap_err();
        assert!(error.to_string().contains("--admin-address"), "{error}");
    }
}

use std::{
    convert::Infallible,
    io::{Read as _, Write as _},
};

use axum::{
    body::Body,
    extract::{Path, Request},
    routing::get,
};
use http_body_util::BodyExt as _;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, duplex},
    net::TcpSocket,
    sync::Semaphore,
    time::Instant,
};

use super::{
    delivery::PIECE_TIMEOUT,
    protocol::{serve_http_1, serve_http_2},
    *,
};
use crate::{auth::authenticate::RemoteClient, limits::guarded_body::guarded};

async fn listener() -> Listener {
    Listener::bind("127.0.0.1:0".parse().unwrap(), "--test")
        .await
        .unwrap()
}

async fn exchange(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    response
}

#[tokio::test]
async fn shutdown_completes_responses_in_flight_and_refuses_new_connections() {
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
            "slow response"
        }
    };
    let server =
        tokio::spawn(listener.serve(Router::new().route("/", get(handler)), cancel.clone()));
    let client = tokio::spawn(exchange(address, "GET / HTTP/1.1\r\nhost: x\r\n\r\n").into_future());
    has_started.recv().await.unwrap();
    cancel.cancel();
    while TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    release.cancel();
    assert!(client.await.unwrap().ends_with("slow response"));
    server.await.unwrap();
}

#[test]
fn a_port_on_a_thread_of_its_own_answers_while_all_other_threads_are_busy() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let cancel = CancellationToken::new();
    let (address, ended) = runtime.block_on(async {
        let listener = listener().await;
        let address = listener.address();
        let router = Router::new().route("/", get(async || "fine"));
        let ended = listener.serve_apart("test", router, cancel.clone());
        (address, ended.unwrap())
    });
    let (release, released) = std::sync::mpsc::channel::<()>();
    let busy = runtime.spawn(async move { released.recv().is_err() });
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let request = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    stream.write_all(request).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.ends_with("fine"), "{response}");
    drop(release);
    cancel.cancel();
    runtime.block_on(async {
        assert!(busy.await.unwrap());
        ended.await;
    });
}

#[tokio::test]
async fn a_request_head_with_too_many_bytes_or_headers_is_refused() {
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
    // A URI that hyper reads and the http crate does not is 414.
    let too_long = [
        (selector(65_535), "414"),
        (selector(120_000), "431"),
        (with(&format!("a: {}\r\n", "x".repeat(120_000))), "431"),
        (with(&"a: b\r\n".repeat(200)), "431"),
    ];
    for (refused, code) in too_long {
        let response = exchange(address, &refused).await;
        let is_refused = response.starts_with("HTTP/1.1 431")
            || code == "414" && response.starts_with("HTTP/1.1 414");
        assert!(
            is_refused && response.contains("content-length: 0"),
            "{response}"
        );
    }
    let fits = selector(60_000).replace("host: x", "host: x\r\nconnection: close");
    assert!(exchange(address, &fits).await.starts_with("HTTP/1.1 200"));
    cancel.cancel();
    server.await.unwrap();
}

/// What a test observes of a server: how many responses have not ended, and what was counted.
struct Observer {
    slots: Arc<Semaphore>,
    metrics: Arc<Metrics>,
}

impl Observer {
    fn new() -> Self {
        Self {
            slots: Arc::new(Semaphore::new(SLOTS)),
            metrics: Arc::new(Metrics::new()),
        }
    }

    fn context(&self) -> ConnectionContext {
        let metrics = ConnectionMetrics(Some(Arc::clone(&self.metrics)));
        ConnectionContext {
            address: [127, 0, 0, 1].into(),
            activity: Activity::new(),
            metrics,
            cancel: CancellationToken::new(),
        }
    }

    /// Responds with `length` bytes and takes a slot until the response has ended.
    fn router(&self) -> Router {
        let slots = Arc::clone(&self.slots);
        let respond = move |Path(length): Path<usize>| async move {
            guarded(
                Body::from(vec![b'x'; length]),
                slots.try_acquire_owned().unwrap(),
            )
        };
        Router::new().route("/{length}", get(respond))
    }

    fn assert_counted(&self, series: &str) {
        let text = self.metrics.encode().unwrap();
        assert!(
            text.lines().any(|line| line == series),
            "{series} is not in:\n{text}"
        );
    }
}

const SLOTS: usize = 3;

#[tokio::test(start_paused = true)]
async fn unread_http_2_streams_are_reset_and_other_streams_of_the_connection_continue() {
    for (window, length) in [(65_535, 1 << 20), (16, 1_000)] {
        let observer = Observer::new();
        let (client, server) = duplex(1 << 22);
        let served = tokio::spawn({
            let (router, context) = (observer.router(), observer.context());
            async move { serve_http_2(server, router, RemoteClient::unknown(), context).await }
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
        for _ in 0..SLOTS {
            unread.push(ask(length).await.unwrap());
        }
        sleep(Duration::from_secs(29)).await;
        assert_eq!(observer.slots.available_permits(), 0);
        sleep(Duration::from_secs(2)).await;
        assert_eq!(observer.slots.available_permits(), SLOTS);
        observer.assert_counted(&format!(
            "fleetdex_responses_aborted_total{{reason=\"slow_client\"}} {SLOTS}"
        ));
        assert!(
            unread.pop().unwrap().into_body().collect().await.is_err(),
            "an incomplete response is an error"
        );
        let read = ask(10)
            .await
            .unwrap()
            .into_body()
            .collect()
            .await
            .unwrap()
            .to_bytes();
        assert_eq!(
            (read.len(), observer.slots.available_permits()),
            (10, SLOTS)
        );
        drop(sender);
        served.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_http_1_connection_with_an_unread_response_is_closed() {
    let observer = Observer::new();
    let (mut client, server) = duplex(1_024);
    let served = tokio::spawn({
        let (router, context) = (observer.router(), observer.context());
        async move { serve_http_1(server, router, None, context).await }
    });
    client
        .write_all(b"GET /1000000 HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
    sleep(Duration::from_secs(29)).await;
    assert_eq!(observer.slots.available_permits(), SLOTS - 1);
    // Room in hyper's buffer may have taken one more piece.
    sleep(PIECE_TIMEOUT).await;
    assert_eq!(observer.slots.available_permits(), SLOTS);
    served.await.unwrap();
    let mut read = Vec::new();
    assert!(client.read_to_end(&mut read).await.unwrap() < 1_000_000);
    observer.assert_counted(r#"fleetdex_responses_aborted_total{reason="slow_client"} 1"#);
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_a_complete_request_ends_within_seconds() {
    let hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".as_slice();
    for said in [b"".as_slice(), b"PRI * HT", hello] {
        let observer = Observer::new();
        let (mut client, server) = duplex(1_024);
        client.write_all(said).await.unwrap();
        let begun = Instant::now();
        serve_http_2(
            server,
            observer.router(),
            RemoteClient::unknown(),
            observer.context(),
        )
        .await;
        assert!(
            begun.elapsed() <= Duration::from_secs(12),
            "{:?}",
            begun.elapsed()
        );
        observer.assert_counted(r#"fleetdex_connections_closed_total{reason="idle"} 1"#);
    }
    let observer = Observer::new();
    let (mut client, server) = duplex(1_024);
    client.write_all(b"GET / HTTP/1.1\r\nhost: ").await.unwrap();
    let begun = Instant::now();
    serve_http_1(server, observer.router(), None, observer.context()).await;
    assert!(
        begun.elapsed() <= Duration::from_secs(12),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test]
async fn incomplete_requests_from_many_addresses_do_not_block_a_probe() {
    let listener = listener().await;
    let (address, cancel) = (listener.address(), CancellationToken::new());
    let metrics = Arc::new(Metrics::new());
    let protocol = PortProtocol::Plain(Router::new().route("/healthz", get(async || "ok")));
    let server = tokio::spawn(listener.counting(Arc::clone(&metrics)).serve_all(
        protocol,
        8,
        cancel.clone(),
    ));
    let mut incomplete = Vec::new();
    for number in 0..64 {
        let socket = TcpSocket::new_v4().unwrap();
        socket
            .bind(SocketAddr::from(([127, 0, 0, 2 + number % 5], 0)))
            .unwrap();
        let mut stream = socket.connect(address).await.unwrap();
        // The server may have closed it already.
        let _sent = stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: ").await;
        incomplete.push(stream);
    }
    let probe = exchange(
        address,
        "GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    );
    let response = timeout(Duration::from_secs(30), probe)
        .await
        .expect("a probe waits for incomplete requests");
    assert!(response.ends_with("ok"), "{response}");
    let evicted = r#"fleetdex_connections_closed_total{reason="evicted"}"#;
    assert!(metrics.encode().unwrap().contains(evicted));
    drop(incomplete);
    cancel.cancel();
    server.await.unwrap();
}

#[tokio::test]
async fn unread_responses_to_unauthenticated_callers_do_not_block_a_probe() {
    let listener = listener().await;
    let (address, cancel) = (listener.address(), CancellationToken::new());
    // More than the buffers of a socket hold.
    let large = bytes::Bytes::from(vec![b'x'; 64 << 20]);
    let known = |request: Request| async move {
        request
            .extensions()
            .get::<RequestHandle>()
            .unwrap()
            .mark_authenticated();
        Body::from_stream(futures::stream::pending::<Result<bytes::Bytes, Infallible>>())
    };
    let router = Router::new()
        .route("/healthz", get(async || "ok"))
        .route(
            "/metrics",
            get(move || std::future::ready(Body::from(large.clone()))),
        )
        .route("/watch", get(known));
    let server = tokio::spawn(listener.serve_all(PortProtocol::Plain(router), 8, cancel.clone()));
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
        let response = timeout(Duration::from_secs(30), probe)
            .await
            .expect("a probe waits for unread responses");
        assert!(response.ends_with("ok"), "{response}");
        // Replaces the connection that was evicted by the probe.
        unread.push(ask(7, "/metrics").await);
    }
    let mut next = [0; 4_096];
    let head = timeout(Duration::from_secs(30), watch.read(&mut next))
        .await
        .unwrap()
        .unwrap();
    assert!(head > 0, "a busy connection was closed");
    let more = watch.try_read(&mut next);
    assert!(
        more.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock),
        "a busy connection was closed"
    );
    drop(unread);
    cancel.cancel();
    drop(watch);
    server.await.unwrap();
}

#[tokio::test]
async fn a_port_in_use_is_an_error_that_names_the_flag() {
    let taken = listener().await;
    let error = Listener::bind(taken.address(), "--admin-address")
        .await
        .unwrap_err();
    assert!(error.to_string().contains("--admin-address"), "{error}");
}

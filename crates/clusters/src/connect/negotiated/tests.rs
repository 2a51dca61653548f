//! Against local servers with TLS.

use std::{convert::Infallible, net::SocketAddr, sync::atomic::AtomicUsize};

use http_body_util::{BodyExt, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::Frame,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use kube::Config;
use rustls::{ServerConfig, crypto::aws_lc_rs, pki_types::PrivateKeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::connect::transport::{Protocols, transport};

/// A body that begins with a text, and then goes on as it says.
type ServerBody = UnsyncBoxBody<Bytes, Infallible>;

struct TlsServer {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl TlsServer {
    /// `streams`: how many a connection may have.
    async fn start(protocols: &[&str], streams: u32) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let (tls, counted) = (acceptor(protocols), Arc::clone(&connections));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let stream = tls.accept(stream).await.unwrap();
                counted.fetch_add(1, Ordering::Relaxed);
                let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                tokio::spawn(async move {
                    let stream = TokioIo::new(stream);
                    if !is_http2 {
                        let _ = http1::Builder::new()
                            .serve_connection(stream, service_fn(respond))
                            .await;
                        return;
                    }
                    let _ = http2::Builder::new(TokioExecutor::new())
                        .max_concurrent_streams(streams)
                        .serve_connection(stream, service_fn(respond))
                        .await;
                });
            }
        });
        Self {
            address,
            connections,
        }
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    fn client(&self, protocols: Protocols) -> TestClient {
        let _installed_before = aws_lc_rs::default_provider().install_default();
        let mut config = Config::new(format!("https://{}", self.address).parse().unwrap());
        config.accept_invalid_certs = true;
        let mut tcp = hyper_util::client::legacy::connect::HttpConnector::new();
        tcp.enforce_http(false);
        let transport = transport(&config, tcp, protocols).unwrap();
        let call = move |request| {
            let transport = transport.clone();
            let called: BoxFuture<'static, _> = Box::pin(transport.oneshot(request));
            called
        };
        TestClient {
            address: self.address,
            call: Box::new(call),
        }
    }
}

type TestResponse = Result<Response<CountedBody>, BoxError>;

struct TestClient {
    address: SocketAddr,
    call: Box<dyn Fn(Request<Body>) -> BoxFuture<'static, TestResponse>>,
}

impl TestClient {
    fn request(&self, path: &str) -> http::request::Builder {
        Request::get(format!("https://{}{path}", self.address))
    }

    async fn get(&self, path: &str) -> Response<CountedBody> {
        let request = self.request(path).body(Body::empty()).unwrap();
        (self.call)(request).await.unwrap()
    }

    /// The version that the server saw.
    async fn version(&self) -> String {
        let body = self.get("/version").await.into_body();
        String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }
}

fn acceptor(protocols: &[&str]) -> TlsAcceptor {
    let certified = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(certified.signing_key.serialize_der().into());
    let provider = aws_lc_rs::default_provider().into();
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = protocols
        .iter()
        .map(|name| name.as_bytes().to_vec())
        .collect();
    TlsAcceptor::from(Arc::new(config))
}

/// `/version`: the version of HTTP. `/watch`: a line, and no end. `/flood`: data as long as it is
/// read.
async fn respond(
    request: Request<hyper::body::Incoming>,
) -> Result<Response<ServerBody>, Infallible> {
    let text = format!("{:?}", request.version());
    let first = Bytes::from(text);
    let body = match request.uri().path() {
        "/watch" => {
            let line = futures::stream::iter([Ok(Frame::data(first))]);
            let open = futures::StreamExt::chain(line, futures::stream::pending());
            StreamBody::new(open).boxed_unsync()
        }
        "/flood" => {
            let chunk = Bytes::from(vec![b' '; 1 << 16]);
            let chunks = futures::stream::repeat_with(move || Ok(Frame::data(chunk.clone())));
            StreamBody::new(chunks).boxed_unsync()
        }
        _ => http_body_util::Full::new(first).boxed_unsync(),
    };
    Ok(Response::new(body))
}

#[tokio::test]
async fn all_watches_of_a_server_share_a_connection() {
    let server = TlsServer::start(&["h2", "http/1.1"], 100).await;
    let client = server.client(Protocols::default());
    let watches = futures::future::join_all((0..79).map(|_| client.get("/watch"))).await;
    assert_eq!((watches.len(), server.connections()), (79, 1));
    assert_eq!(client.version().await, "HTTP/2.0");
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn streams_that_a_connection_may_not_have_get_another() {
    let server = TlsServer::start(&["h2"], 10).await;
    let client = server.client(Protocols::default());
    let mut watches = futures::future::join_all((0..25).map(|_| client.get("/watch"))).await;
    assert_eq!(server.connections(), 3);
    // Streams that have ended make room for others.
    watches.truncate(5);
    watches.extend(futures::future::join_all((0..5).map(|_| client.get("/watch"))).await);
    assert_eq!(server.connections(), 3);
    assert_eq!(client.version().await, "HTTP/2.0");
}

#[tokio::test]
async fn a_stream_that_is_not_read_does_not_hold_up_the_others() {
    let server = TlsServer::start(&["h2"], 100).await;
    let client = server.client(Protocols::default());
    let floods = futures::future::join_all((0..50).map(|_| client.get("/flood"))).await;
    // Time for the windows to fill.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut other = client.get("/flood").await.into_body();
    let mut read = 0;
    while read < 4 * STREAM_WINDOW as usize {
        let frame = timeout(Duration::from_secs(20), other.frame()).await;
        read += frame.unwrap().unwrap().unwrap().into_data().unwrap().len();
    }
    assert_eq!((floods.len(), server.connections()), (50, 1));
}

#[tokio::test]
async fn a_server_or_a_proxy_without_http2_gets_http1() {
    for protocols in [&["http/1.1"][..], &[]] {
        let server = TlsServer::start(protocols, 100).await;
        let client = server.client(Protocols::default());
        for _ in 0..3 {
            assert_eq!(client.version().await, "HTTP/1.1");
        }
        // The first connection only negotiates.
        assert_eq!(server.connections(), 2);
    }
}

#[tokio::test]
async fn http2_is_not_offered_where_it_is_switched_off() {
    let server = TlsServer::start(&["h2", "http/1.1"], 100).await;
    let client = server.client(Protocols::Http1);
    let watches = futures::future::join_all((0..5).map(|_| client.get("/watch"))).await;
    assert_eq!((watches.len(), server.connections()), (5, 5));
    assert_eq!(client.version().await, "HTTP/1.1");
}

#[tokio::test]
async fn a_request_that_switches_protocols_goes_over_http1() {
    let server = TlsServer::start(&["h2", "http/1.1"], 100).await;
    let client = server.client(Protocols::default());
    assert_eq!(client.version().await, "HTTP/2.0");
    let exec = client.request("/version").header(UPGRADE, "SPDY/3.1");
    let response = (client.call)(exec.body(Body::empty()).unwrap()).await;
    let body = response.unwrap().into_body().collect().await.unwrap();
    assert_eq!(body.to_bytes(), "HTTP/1.1");
}

#[tokio::test]
async fn a_connection_that_is_allowed_no_stream_any_more_is_closed() {
    let (client, server) = tokio::io::duplex(1 << 16);
    let serving = http2::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(server), service_fn(respond));
    let served = tokio::spawn(serving);
    let mut state = ConnectionsState {
        is_http1: false,
        open: vec![open(TokioIo::new(client)).await.unwrap()],
    };
    let stream = state.slot().unwrap();
    let streams = Arc::clone(&state.open[0].streams);
    streams.allowed.store(0, Ordering::Relaxed);
    assert!(state.slot().is_none());
    assert_eq!(state.open.len(), 1, "it has a stream");
    drop(stream);
    assert!(state.slot().is_none() && state.open.is_empty());
    let ended = timeout(Duration::from_secs(10), served).await;
    assert!(ended.is_ok(), "the server still has the connection");
}

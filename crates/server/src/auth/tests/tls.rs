//! The port as seen by clients that speak TLS, do not, or misuse it.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{Router, body::Body, extract::Request};
use fleetdex_store::fake::PreparedReader;
use http_body_util::BodyExt as _;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::{JoinHandle, JoinSet},
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_util::sync::CancellationToken;

use super::{
    super::{
        certificate::{CertificateAuthority, ServingCertificate},
        tls,
    },
    Identity, SEARCH, World,
};
use crate::{fake::page, http::listen::Listener};

const HOST: &str = "fleetdex.search.svc";
const HTTP_1: &[u8] = b"http/1.1";

/// A server on a port of its own.
struct Served {
    world: World,
    authority: CertificateAuthority,
    certificate: Arc<ServingCertificate>,
    address: SocketAddr,
    cancel: CancellationToken,
    server: JoinHandle<()>,
}

impl Served {
    async fn new() -> Self {
        Self::over(World::new(&["* * *"])).await
    }

    async fn over(world: World) -> Self {
        let authority = CertificateAuthority::create(None).unwrap();
        let certificate = ServingCertificate::new(authority.sign(&[HOST.to_owned()]).unwrap());
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), "--test")
            .await
            .unwrap();
        let (address, cancel) = (listener.address(), CancellationToken::new());
        let local = Router::new().fallback(async || "local");
        let tls = tls::config(Arc::clone(&certificate)).unwrap();
        let server =
            tokio::spawn(listener.serve_secured(world.app.clone(), local, tls, cancel.clone()));
        Self {
            world,
            authority,
            certificate,
            address,
            cancel,
            server,
        }
    }

    async fn connect(
        &self,
        identity: Option<Identity>,
        protocol: &[u8],
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let roots = self.roots();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = builder.with_root_certificates(roots);
        let mut config = match identity {
            Some(identity) => builder
                .with_client_auth_cert(vec![identity.certificate], identity.key)
                .unwrap(),
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![protocol.to_vec()];
        let stream = TcpStream::connect(self.address).await.unwrap();
        TlsConnector::from(Arc::new(config))
            .connect(HOST.try_into().unwrap(), stream)
            .await
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        let pem = self.authority.certificates.as_bytes();
        roots
            .add(CertificateDer::from_pem_slice(pem).unwrap())
            .unwrap();
        roots
    }

    /// A connection of the front proxy.
    async fn over_http_2(&self) -> TlsStream<TcpStream> {
        let identity = Some(self.world.front_proxy());
        self.connect(identity, tls::HTTP_2).await.unwrap()
    }

    async fn end(self) {
        self.cancel.cancel();
        self.server.await.unwrap();
    }
}

async fn handshake(
    stream: TlsStream<TcpStream>,
) -> (SendRequest<Body>, JoinHandle<hyper::Result<()>>) {
    let agreed = http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (sender, connection) = agreed.await.unwrap();
    (sender, tokio::spawn(connection))
}

fn of_alice(uri: &str) -> Request {
    let request = Request::get(uri).header("x-remote-user", "alice");
    request.body(Body::empty()).unwrap()
}

/// The response to a request of alice over HTTP/1.1, as text.
async fn version(mut stream: TlsStream<TcpStream>) -> String {
    let head =
        "GET /version HTTP/1.1\r\nhost: x\r\nx-remote-user: alice\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A connection that is closed without close_notify is fine here.
    let _closed = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn client_certificates_are_optional_and_need_their_key() {
    let served = Served::new().await;
    let proxy = served.world.front_proxy();
    let with = version(
        served
            .connect(Some(served.world.front_proxy()), HTTP_1)
            .await
            .unwrap(),
    )
    .await;
    assert!(with.starts_with("HTTP/1.1 200"), "{with}");
    let without = version(served.connect(None, HTTP_1).await.unwrap()).await;
    assert!(without.starts_with("HTTP/1.1 401"), "{without}");
    // A client with the certificate, and another key.
    let stolen = Identity {
        certificate: proxy.certificate,
        key: served.world.front_proxy().key,
    };
    let roots = served.roots();
    let provider = aws_lc_rs::default_provider();
    let key = provider.key_provider.load_private_key(stolen.key).unwrap();
    let pair = rustls::sign::CertifiedKey::new(vec![stolen.certificate], key);
    let config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = config
        .with_root_certificates(roots)
        .with_client_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(pair)));
    let stream = TcpStream::connect(served.address).await.unwrap();
    let connected = TlsConnector::from(Arc::new(config))
        .connect(HOST.try_into().unwrap(), stream)
        .await;
    // In TLS 1.3 the client gets the refusal only when it reads.
    let refused = match connected {
        Err(_) => true,
        Ok(stream) => version(stream).await.is_empty(),
    };
    assert!(refused);
    served.end().await;
}

#[tokio::test]
async fn http_2_is_served_and_new_connections_get_the_new_certificate() {
    let served = Served::new().await;
    let stream = served.over_http_2().await;
    let first = stream.get_ref().1.peer_certificates().unwrap()[0].clone();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(tls::HTTP_2));
    served
        .certificate
        .replace(served.authority.sign(&[HOST.to_owned()]).unwrap());
    let (mut sender, connection) = handshake(stream).await;
    let request = of_alice(&format!("https://{HOST}/version"));
    assert_eq!(sender.send_request(request).await.unwrap().status(), 200);
    drop(sender);
    connection.await.unwrap().unwrap();
    let again = served.connect(None, HTTP_1).await.unwrap();
    assert_ne!(again.get_ref().1.peer_certificates().unwrap()[0], first);
    drop(again);
    served.end().await;
}

#[tokio::test]
async fn plain_http_on_loopback_needs_the_token_of_the_token_file() {
    let served = Served::new().await;
    let mut plain = TcpStream::connect(served.address).await.unwrap();
    plain
        .write_all(
            b"GET / HTTP/1.1\r\nhost: x\r\nx-remote-user: alice\r\nconnection: close\r\n\r\n",
        )
        .await
        .unwrap();
    let mut answer = String::new();
    plain.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("local"), "{answer}");
    served.end().await;
}

/// Requests that are reset as soon as they are sent, frame by frame.
fn resets(count: u32) -> Vec<u8> {
    let frame = |kind: u8, flags: u8, stream: u32, payload: &[u8]| {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    };
    // GET / over https, authority x.
    let head = [0x82, 0x84, 0x87, 0x41, 1, b'x'];
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(4, 0, 0, &[]));
    for number in 0..count {
        let stream = 2 * number + 1;
        bytes.extend(frame(1, 5, stream, &head));
        bytes.extend(frame(3, 0, stream, &8_u32.to_be_bytes()));
    }
    bytes
}

/// The error code of the GOAWAY frame, if the server sends one.
fn goaway_code(mut sent: &[u8]) -> Option<u32> {
    while let [l1, l2, l3, kind, _, _, _, _, _, rest @ ..] = sent {
        let (payload, next) =
            rest.split_at_checked(u32::from_be_bytes([0, *l1, *l2, *l3]) as usize)?;
        if *kind == 7 {
            return Some(u32::from_be_bytes(payload[4..8].try_into().unwrap()));
        }
        sent = next;
    }
    None
}

#[tokio::test]
async fn a_flood_of_resets_ends_its_own_connection_only() {
    const ENHANCE_YOUR_CALM: u32 = 11;
    let served = Served::new().await;
    let (mut calm, connection) = handshake(served.over_http_2().await).await;
    for _ in 0..3 {
        let flood = served.over_http_2().await;
        let (mut reads, mut writes) = tokio::io::split(flood);
        // The server may end the connection before it has read everything.
        let writer = tokio::spawn(async move { writes.write_all(&resets(5_000)).await });
        let mut sent = Vec::new();
        let _closed = timeout(Duration::from_secs(30), reads.read_to_end(&mut sent))
            .await
            .unwrap();
        assert_eq!(goaway_code(&sent), Some(ENHANCE_YOUR_CALM));
        drop(writer.await.unwrap());
        let request = of_alice(&format!("https://{HOST}/version"));
        assert_eq!(calm.send_request(request).await.unwrap().status(), 200);
    }
    drop(calm);
    connection.await.unwrap().unwrap();
    served.end().await;
}

/// Over HTTP/2 the library responds itself, before there is a request.
#[tokio::test]
async fn too_long_headers_over_http_2_are_refused_and_the_connection_stays_open() {
    let served = Served::new().await;
    let stream = served.over_http_2().await;
    let (mut sender, connection) = handshake(stream).await;
    // A shorter one is read, and its parameter is ignored.
    for (length, code) in [
        (65_450, 431),
        (60_000, 200),
        (65_534 - "https://fleetdex.search.svc/version?x=".len(), 431),
        (1, 200),
    ] {
        let request = of_alice(&format!("https://{HOST}/version?x={}", "x".repeat(length)));
        let answer = sender.send_request(request).await.unwrap();
        assert_eq!(answer.status(), code, "{length}");
    }
    drop(sender);
    connection.await.unwrap().unwrap();
    served.end().await;
}

#[tokio::test]
async fn one_user_with_many_unread_responses_does_not_block_others() {
    // More than a stream's window, so that each response waits to be read.
    let (long, streams) = ("x".repeat(70_000), 250);
    let store = PreparedReader::with(
        (0..2 * streams)
            .map(|_| Ok(page(&[&long], None, None)))
            .collect(),
    );
    let served = Served::over(World::over(store, &["* * *", "* * * * *"], false)).await;
    let connect = async || {
        let stream = served.over_http_2().await;
        let mut builder = http2::Builder::new(TokioExecutor::new());
        let (sender, connection) = builder
            .initial_stream_window_size(65_535)
            .handshake(TokioIo::new(stream))
            .await
            .unwrap();
        (sender, tokio::spawn(connection))
    };
    let pods = |user: &str| {
        let request = Request::get(format!("https://{HOST}{SEARCH}/api/v1/pods"))
            .header("x-remote-user", user);
        request.body(Body::empty()).unwrap()
    };
    let (mut noisy, _connection) = connect().await;
    let mut answers = JoinSet::new();
    for _ in 0..streams {
        answers.spawn(noisy.send_request(pods("noisy")));
    }
    let mut unread = Vec::new();
    while unread.len() < 100 {
        let answer = answers.join_next().await.unwrap().unwrap().unwrap();
        assert_eq!(answer.status(), 200);
        unread.push(answer);
    }
    let (mut calm, _connection) = connect().await;
    for user in ["alice", "bob", "alice"] {
        let answer = timeout(Duration::from_secs(30), calm.send_request(pods(user)))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(answer.status(), 200, "{user}");
        assert!(answer.into_body().collect().await.unwrap().to_bytes().len() > 70_000);
    }
    drop((answers, unread, noisy, calm));
    served.end().await;
}

//! A server of webhooks over TLS, good or bad, on the loopback interface.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use fleetdex_interpreter::webhook::{ReviewRequest, ReviewResponse};
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::sleep,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// A certificate authority with one certificate for servers.
pub(super) struct Authority {
    pub(super) ca_pem: String,
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl Authority {
    pub(super) fn new(names: &[&str]) -> Self {
        let ca_key = KeyPair::generate().unwrap();
        let mut ca = CertificateParams::default();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca_pem = ca.self_signed(&ca_key).unwrap().pem();
        let issuer = Issuer::new(ca, ca_key);
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let server = CertificateParams::new(names).unwrap();
        let certificate = server.signed_by(&key, &issuer).unwrap();
        Self {
            ca_pem,
            certificate: certificate.der().clone(),
            key: PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        }
    }
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(super) struct Received {
    /// The request line and the headers.
    pub(super) head: String,
    pub(super) body: Vec<u8>,
    pub(super) server_name: Option<String>,
}

impl Received {
    pub(super) fn review(&self) -> ReviewRequest {
        ReviewRequest::decode(&self.body).unwrap()
    }

    pub(super) fn has(&self, line: &str) -> bool {
        self.head
            .lines()
            .any(|other| other.eq_ignore_ascii_case(line))
    }
}

/// What a server sends.
pub(super) enum Reply {
    /// Head and body, as they are.
    Raw(Vec<u8>),
    /// The same, and then nothing on this connection.
    Cut(Vec<u8>),
    /// The same after a time.
    Late(Duration, Vec<u8>),
    /// A head, and then spaces for as long as anybody reads.
    Endless(Vec<u8>),
    /// Nothing, and the connection stays open.
    Silence,
}

pub(super) fn ok(body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

pub(super) fn status(line: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {line}\r\n{headers}content-length: {length}\r\n\r\n{body}").into_bytes()
}

/// The answer of a well-behaved server in the request's dialect.
pub(super) fn answer(received: &Received, response: &ReviewResponse) -> Vec<u8> {
    ok(&response.encode(&received.review()).unwrap())
}

type Handler = Arc<dyn Fn(&Received) -> Reply + Send + Sync>;

/// A running server, which ends when this is dropped.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    pub(super) ca_pem: String,
    pub(super) received: Arc<Mutex<Vec<Received>>>,
    pub(super) connections: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

#[derive(Clone)]
struct Serving {
    acceptor: TlsAcceptor,
    handler: Handler,
    received: Arc<Mutex<Vec<Received>>>,
    connections: Arc<AtomicUsize>,
}

impl Server {
    pub(super) async fn start(
        authority: &Authority,
        handler: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let _first = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let certificates = vec![authority.certificate.clone()];
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(certificates, authority.key.clone_key())
            .unwrap();
        let serving = Serving {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            handler: Arc::new(handler),
            received: Arc::default(),
            connections: Arc::default(),
        };
        let mut tasks = JoinSet::new();
        let address = listener.local_addr().unwrap();
        let (received, connections) = (
            Arc::clone(&serving.received),
            Arc::clone(&serving.connections),
        );
        tasks.spawn(accept(listener, serving));
        Self {
            address,
            ca_pem: authority.ca_pem.clone(),
            received,
            connections,
            _tasks: tasks,
        }
    }

    pub(super) fn last(&self) -> Received {
        self.received.lock().last().cloned().unwrap()
    }
}

async fn accept(listener: TcpListener, serving: Serving) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        serving.connections.fetch_add(1, Ordering::Relaxed);
        let serving = serving.clone();
        connections.spawn(async move {
            let _ended = serving.connection(stream).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

impl Serving {
    async fn connection(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut stream = self.acceptor.accept(stream).await?;
        while let Some(received) = read(&mut stream).await? {
            self.received.lock().push(received.clone());
            match (self.handler)(&received) {
                Reply::Raw(bytes) => stream.write_all(&bytes).await?,
                Reply::Late(delay, bytes) => {
                    sleep(delay).await;
                    stream.write_all(&bytes).await?;
                }
                Reply::Cut(bytes) => {
                    stream.write_all(&bytes).await?;
                    return stream.flush().await;
                }
                Reply::Endless(head) => {
                    stream.write_all(&head).await?;
                    loop {
                        stream.write_all(&[b' '; 1 << 14]).await?;
                    }
                }
                Reply::Silence => std::future::pending().await,
            }
            stream.flush().await?;
        }
        Ok(())
    }
}

async fn read(stream: &mut TlsStream<TcpStream>) -> std::io::Result<Option<Received>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).await? == 0 {
            return Ok(None);
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head
        .lines()
        .find_map(|line| {
            line.to_lowercase()
                .strip_prefix("content-length: ")?
                .parse()
                .ok()
        })
        .unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let server_name = stream.get_ref().1.server_name().map(str::to_owned);
    Ok(Some(Received {
        head,
        body,
        server_name,
    }))
}

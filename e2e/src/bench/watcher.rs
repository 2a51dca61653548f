//! A watch client that records when each line arrives.

use std::{
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use memchr::memmem::Finder;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tokio::{net::TcpStream, task::AbortHandle};
use tokio_rustls::TlsConnector;

/// The text before an object's own resourceVersion: in lines of Fleetdex, and of an API server.
static FLEETDEX: LazyLock<Finder<'static>> =
    LazyLock::new(|| Finder::new(r#""fleetdex.io/resource-version":""#));
static API_SERVER: LazyLock<Finder<'static>> =
    LazyLock::new(|| Finder::new(r#""resourceVersion":""#));
/// Start of a line whose object is the state before the change, so that its version does not
/// identify the change.
const DELETED: &[u8] = br#"{"type":"DELETED""#;

/// The version of an object, and when a watcher received it, in microseconds since 1970.
pub type Delivery = (u64, u64);

/// Microseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Assembles lines from chunks.
struct Lines {
    before_version: &'static Finder<'static>,
    begun: Vec<u8>,
    deliveries: Vec<Delivery>,
    /// Lines that all watchers together have received.
    count: Arc<AtomicU64>,
}

impl Lines {
    fn new(before_version: &'static Finder<'static>, count: Arc<AtomicU64>) -> Self {
        Self {
            before_version,
            begun: Vec::new(),
            deliveries: Vec::new(),
            count,
        }
    }

    fn read(&mut self, piece: &[u8]) {
        let now = now();
        let mut rest = piece;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            self.begun.extend_from_slice(&rest[..end]);
            rest = &rest[end + 1..];
            self.note(now);
            self.begun.clear();
        }
        self.begun.extend_from_slice(rest);
    }

    fn note(&mut self, now: u64) {
        self.count.fetch_add(1, Ordering::Relaxed);
        if !self.begun.starts_with(DELETED) {
            self.deliveries.extend(
                version_after(self.before_version, &self.begun).map(|version| (version, now)),
            );
        }
    }
}

fn version_after(text: &Finder<'_>, line: &[u8]) -> Option<u64> {
    let digits = &line[text.find(line)? + text.needle().len()..];
    let end = digits.iter().position(|byte| !byte.is_ascii_digit())?;
    str::from_utf8(&digits[..end]).ok()?.parse().ok()
}

/// A client over TLS and HTTP/2, as client-go.
#[derive(Clone)]
pub struct TlsClient {
    /// `127.0.0.1:<port>`
    pub address: String,
    /// The bearer token.
    pub token: String,
    connector: TlsConnector,
}

impl TlsClient {
    /// Trusts nothing but `ca_pem`.
    pub fn new(address: String, token: String, ca_pem: &str) -> Result<Self> {
        crate::http::install_tls_provider();
        let mut roots = RootCertStore::empty();
        roots.add(
            CertificateDer::from_pem_slice(ca_pem.as_bytes())
                .context("reading a CA certificate")?,
        )?;
        let mut config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self {
            address,
            token,
            connector: TlsConnector::from(Arc::new(config)),
        })
    }

    /// Opens a new connection and starts a watch on it. The returned watch reads until it is
    /// stopped.
    pub async fn watch(&self, path: &str, count: Arc<AtomicU64>) -> Result<OpenWatch> {
        let stream = TcpStream::connect(&self.address)
            .await
            .context("connecting")?;
        stream.set_nodelay(true)?;
        let stream = self
            .connector
            .connect(ServerName::try_from("localhost")?, stream)
            .await
            .context("making a TLS connection")?;
        let handshake =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.context("beginning HTTP/2")?;
        let connection = tokio::spawn(connection).abort_handle();
        let request = http::Request::get(format!("https://localhost{path}"))
            .header("authorization", format!("Bearer {}", self.token))
            .body(Empty::<Bytes>::new())?;
        let mut response = sender
            .send_request(request)
            .await
            .context("beginning a watch")?;
        ensure!(
            response.status().is_success(),
            "a watch was answered {}",
            response.status()
        );
        let (stop, mut stopped) = tokio::sync::oneshot::channel::<()>();
        let reading = tokio::spawn(async move {
            // Dropping the sender would end the connection.
            let _sender = sender;
            let mut lines = Lines::new(&FLEETDEX, count);
            loop {
                tokio::select! {
                    _ = &mut stopped => return Ok(lines.deliveries),
                    frame = response.frame() => {
                        let frame = frame.context("a watch has ended")??;
                        lines.read(frame.data_ref().map_or(&[], |data| data));
                    }
                }
            }
        });
        Ok(OpenWatch {
            stop,
            reading,
            connection: Some(connection),
        })
    }
}

/// Watches an API server directly.
pub async fn watch_apiserver(url: &str) -> Result<OpenWatch> {
    let mut response = crate::http::client(None)?
        .get(url)
        .timeout(super::sizes::DEADLINE)
        .send()
        .await?
        .error_for_status()?;
    let (stop, mut stopped) = tokio::sync::oneshot::channel::<()>();
    let reading = tokio::spawn(async move {
        let mut lines = Lines::new(&API_SERVER, Arc::default());
        loop {
            tokio::select! {
                _ = &mut stopped => return Ok(lines.deliveries),
                chunk = response.chunk() => lines.read(&chunk?.context("a watch has ended")?),
            }
        }
    });
    Ok(OpenWatch {
        stop,
        reading,
        connection: None,
    })
}

/// An open watch, read by a task.
pub struct OpenWatch {
    stop: tokio::sync::oneshot::Sender<()>,
    reading: tokio::task::JoinHandle<Result<Vec<Delivery>>>,
    connection: Option<AbortHandle>,
}

impl OpenWatch {
    /// Whether the watch is still open.
    pub fn is_running(&self) -> bool {
        !self.reading.is_finished()
    }

    /// Ends the watch and returns its deliveries. Fails if it has ended by itself.
    pub async fn stop(self) -> Result<Vec<Delivery>> {
        // Fails if the task has already ended.
        let _ = self.stop.send(());
        let deliveries = self.reading.await.context("the task of a watch")?;
        if let Some(connection) = self.connection {
            connection.abort();
        }
        deliveries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_lines_split_at_any_byte() {
        let text = concat!(
            r#"{"type":"ADDED","object":{"metadata":{"resourceVersion":"9","annotations":{"fleetdex.io/resource-version":"41"}}}}"#,
            "\n",
            r#"{"type":"DELETED","object":{"metadata":{"annotations":{"fleetdex.io/resource-version":"41"}}}}"#,
            "\n",
            r#"{"type":"MODIFIED","object":{"metadata":{"annotations":{"fleetdex.io/resource-version":"43"}}}}"#,
            "\n",
        );
        for size in [1, 7, 64, text.len()] {
            let count = Arc::<AtomicU64>::default();
            let mut lines = Lines::new(&FLEETDEX, Arc::clone(&count));
            text.as_bytes()
                .chunks(size)
                .for_each(|piece| lines.read(piece));
            assert_eq!(
                lines
                    .deliveries
                    .iter()
                    .map(|(version, _)| *version)
                    .collect::<Vec<_>>(),
                [41, 43]
            );
            assert_eq!(count.load(Ordering::Relaxed), 3);
        }
    }
}

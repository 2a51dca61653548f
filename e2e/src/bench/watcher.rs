//! One who watches: reads lines, and notes when each of them came.

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

/// What stands before the version of an object in its own cluster: in lines of Fleetdex, and of an API server.
static FLEETDEX: LazyLock<Finder<'static>> =
    LazyLock::new(|| Finder::new(r#""fleetdex.io/resource-version":""#));
static API_SERVER: LazyLock<Finder<'static>> =
    LazyLock::new(|| Finder::new(r#""resourceVersion":""#));
/// Beginning of a line whose object is as it was before the change: its version does not tell which change it was.
const DELETED: &[u8] = br#"{"type":"DELETED""#;

/// The version of an object, and when somebody had it, in microseconds since 1970.
pub type Seen = (u64, u64);

/// Microseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Puts lines together from the pieces that come.
struct Lines {
    before_version: &'static Finder<'static>,
    begun: Vec<u8>,
    seen: Vec<Seen>,
    /// How many lines all of those who watch have had.
    count: Arc<AtomicU64>,
}

impl Lines {
    fn new(before_version: &'static Finder<'static>, count: Arc<AtomicU64>) -> Self {
        Self {
            before_version,
            begun: Vec::new(),
            seen: Vec::new(),
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
            self.seen.extend(
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

/// How a server is reached over TLS, by HTTP/2 as client-go does.
#[derive(Clone)]
pub struct Secured {
    /// `127.0.0.1:<port>`
    pub address: String,
    /// Who asks.
    pub token: String,
    connector: TlsConnector,
}

impl Secured {
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

    /// Opens a connection of its own, and begins a watch on it. What it gives reads until it is told to stop, and gives what it has seen.
    pub async fn watch(&self, path: &str, count: Arc<AtomicU64>) -> Result<Watching> {
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
            // The connection ends when nobody can send any more.
            let _sender = sender;
            let mut lines = Lines::new(&FLEETDEX, count);
            loop {
                tokio::select! {
                    _ = &mut stopped => return Ok(lines.seen),
                    frame = response.frame() => {
                        let frame = frame.context("a watch has ended")??;
                        lines.read(frame.data_ref().map_or(&[], |data| data));
                    }
                }
            }
        });
        Ok(Watching {
            stop,
            reading,
            connection: Some(connection),
        })
    }
}

/// Watches an API server itself.
pub async fn watch_plainly(url: &str) -> Result<Watching> {
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
                _ = &mut stopped => return Ok(lines.seen),
                chunk = response.chunk() => lines.read(&chunk?.context("a watch has ended")?),
            }
        }
    });
    Ok(Watching {
        stop,
        reading,
        connection: None,
    })
}

/// A watch that is read.
pub struct Watching {
    stop: tokio::sync::oneshot::Sender<()>,
    reading: tokio::task::JoinHandle<Result<Vec<Seen>>>,
    connection: Option<AbortHandle>,
}

impl Watching {
    /// Whether the watch has not ended.
    pub fn is_running(&self) -> bool {
        !self.reading.is_finished()
    }

    /// Ends it; what it has seen. Fails if it has ended by itself.
    pub async fn stop(self) -> Result<Vec<Seen>> {
        // Whoever has ended already does not hear it.
        let _ = self.stop.send(());
        let seen = self.reading.await.context("the task of a watch")?;
        if let Some(connection) = self.connection {
            connection.abort();
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_lines_in_whatever_pieces_they_come() {
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
                    .seen
                    .iter()
                    .map(|(version, _)| *version)
                    .collect::<Vec<_>>(),
                [41, 43]
            );
            assert_eq!(count.load(Ordering::Relaxed), 3);
        }
    }
}

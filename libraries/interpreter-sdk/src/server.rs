//! Serves a router over TLS.
//!
//! Limits: connections; time for the handshake, for a request's head, and of a connection in all,
//! which also ends one whose client does not read. The server speaks HTTP/1.1, as do Karmada and
//! Fleetdex when they call webhooks.

use std::{net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use axum::{Router, body::Body};
use fleetdex_core::model::causes;
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{MissedTickBehavior, interval, sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;
use tracing::{debug, info, warn};

use crate::certificate::{CertificateFiles, CertificateFilesError, FileCertificate};

/// Concurrent connections: callers use up to some dozens. At 60 kB each, all of them take 16 MB.
pub const MAX_CONNECTIONS: usize = 256;
/// How often the certificate's files are read.
const RELOAD_INTERVAL: Duration = Duration::from_secs(10);
/// How long the TLS handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the head of a request may take to arrive, time idle on a kept-alive connection
/// included.
const HEAD_TIMEOUT: Duration = Duration::from_mins(1);
/// Bytes of a request's line and headers; those of callers have some hundred.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// How old a connection gets before it is closed after its current request.
const MAX_AGE: Duration = Duration::from_mins(10);
/// How long a request under way may take when its connection is closed: as long as callers wait at
/// most.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause after a failed accept (out of file descriptors), to avoid a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// A webhook cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The port cannot be opened.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: std::io::Error,
    },
    /// The certificate cannot be used.
    #[error(transparent)]
    Certificate(#[from] CertificateFilesError),
    /// The signals that end the server cannot be received.
    #[error("cannot receive signals")]
    Signals(#[source] std::io::Error),
}

/// An open port, and the certificate to serve with.
pub struct WebhookServer {
    socket: TcpListener,
    address: SocketAddr,
    certificate: FileCertificate,
    reload_interval: Duration,
}

impl WebhookServer {
    /// Opens a port and reads the certificate. Port 0 takes a free one.
    pub async fn bind(address: SocketAddr, files: CertificateFiles) -> Result<Self, ServeError> {
        let failed = |source| ServeError::Listen { address, source };
        let certificate = FileCertificate::read(files).await?;
        let socket = TcpListener::bind(address).await.map_err(failed)?;
        Ok(Self {
            address: socket.local_addr().map_err(failed)?,
            socket,
            certificate,
            reload_interval: RELOAD_INTERVAL,
        })
    }

    /// The local address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Reads the certificate's files in another interval than ten seconds.
    #[cfg(test)]
    pub(crate) fn reloading_every(self, reload_interval: Duration) -> Self {
        Self {
            reload_interval,
            ..self
        }
    }

    /// Serves `router` until `shutdown` is cancelled; then waits up to 30 seconds for the answers
    /// under way.
    pub async fn serve(self, router: Router, shutdown: CancellationToken) {
        let Self {
            socket,
            address,
            mut certificate,
            reload_interval,
        } = self;
        info!(%address, "serving");
        let mut connections = JoinSet::new();
        let mut reloads = interval(reload_interval);
        reloads.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let has_room = connections.len() < MAX_CONNECTIONS;
            tokio::select! {
                () = shutdown.cancelled() => break,
                Some(_ended) = connections.join_next() => {}
                _ = reloads.tick() => reload(&mut certificate).await,
                accepted = socket.accept(), if has_room => match accepted {
                    Ok((stream, _)) => {
                        connections.spawn(connection(
                            stream,
                            Arc::clone(&certificate.config),
                            router.clone(),
                            shutdown.clone(),
                        ));
                    }
                    Err(error) => {
                        warn!(%address, %error, "cannot accept a connection");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        drop(socket);
        // Each connection ends within the same time after the cancellation.
        while connections.join_next().await.is_some() {}
        info!(%address, "stopped");
    }
}

async fn reload(certificate: &mut FileCertificate) {
    match certificate.reload().await {
        Ok(false) => {}
        Ok(true) => info!(
            file = %certificate.files.certificate.display(),
            "serving new connections with a new certificate"
        ),
        Err(error) => warn!(
            error = causes(&error),
            "serving with the previous certificate: the new one cannot be used"
        ),
    }
}

async fn connection(
    stream: TcpStream,
    config: Arc<ServerConfig>,
    router: Router,
    shutdown: CancellationToken,
) {
    // With Nagle's algorithm the second part of an answer waits for the acknowledgement of the
    // first.
    if let Err(error) = stream.set_nodelay(true) {
        return debug!(%error, "a connection ended before it was served");
    }
    let handshake = timeout(HANDSHAKE_TIMEOUT, TlsAcceptor::from(config).accept(stream));
    match shutdown.run_until_cancelled(handshake).await {
        Some(Ok(Ok(stream))) => serve(stream, router, &shutdown).await,
        Some(Ok(Err(error))) => debug!(%error, "the TLS handshake failed"),
        Some(Err(_)) => debug!("the TLS handshake timed out"),
        None => {}
    }
}

/// Answers the requests of a connection until its client closes it, it is old, or the server shuts
/// down.
async fn serve(stream: TlsStream<TcpStream>, router: Router, shutdown: &CancellationToken) {
    let service =
        service_fn(|request: Request<Incoming>| router.clone().oneshot(request.map(Body::new)));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => {
            if let Err(error) = ended {
                debug!(%error, "a connection broke");
            }
            return;
        }
        () = shutdown.cancelled() => {}
        () = sleep(MAX_AGE) => {}
    }
    connection.as_mut().graceful_shutdown();
    if timeout(DRAIN_TIMEOUT, connection).await.is_err() {
        debug!("closing a connection that did not end in time");
    }
}

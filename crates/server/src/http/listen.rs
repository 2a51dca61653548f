//! Accepts HTTP connections, limits what one client can hold, and shuts down gracefully.
//!
//! Every port of the process is served from here. Limits: connections in total and of one address
//! ([`connection_limiter`]); time until the first request and between two ([`activity`]); size and
//! number of headers; how long an unread response is kept ([`delivery`]); for HTTP/2 also
//! concurrent streams, reset streams, and bytes that wait to be sent ([`protocol`]).

mod activity;
mod connection_limiter;
mod connection_metrics;
pub mod delivery;
mod protocol;

#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

pub use activity::RequestHandle;
use axum::Router;
use fleetdex_telemetry::{Metrics, metrics::CloseReason};
use rustls::ServerConfig;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::{AbortHandle, Id, JoinError, JoinSet},
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use self::{
    activity::Activity,
    connection_limiter::{Admission, ConnectionLimiter},
    connection_metrics::ConnectionMetrics,
    protocol::{ConnectionContext, PortProtocol},
};

/// Concurrent connections, of which one address can have half: all clients of loopback share one
/// address. At 64 KiB of buffer each, all of them take 32 MiB.
const MAX_CONNECTIONS: usize = 512;
/// Concurrent connections of a port that other machines reach. At 60 kB each, all of them take
/// 120 MB.
const MAX_SECURED_CONNECTIONS: usize = 2_048;
/// How long responses in flight may take once the process stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after a failed accept (out of file descriptors), to avoid a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// A port cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}; choose another with {flag}")]
pub struct ListenError {
    /// The address.
    pub address: SocketAddr,
    /// The flag that sets it.
    pub flag: &'static str,
    /// The system's error.
    pub source: std::io::Error,
}

/// An open port.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    metrics: ConnectionMetrics,
}

impl Listener {
    /// Opens a port; port 0 takes a free one. The error names `flag`.
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
            metrics: ConnectionMetrics::default(),
        })
    }

    /// The local address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Counts refused and ended connections and cut responses in `metrics`.
    #[must_use]
    pub fn counting(self, metrics: Arc<Metrics>) -> Self {
        Self {
            metrics: ConnectionMetrics(Some(metrics)),
            ..self
        }
    }

    /// Serves `router` over plain HTTP until cancelled; then waits up to ten seconds for responses
    /// in flight.
    pub async fn serve(self, router: Router, cancel: CancellationToken) {
        self.serve_all(PortProtocol::Plain(router), MAX_CONNECTIONS, cancel)
            .await;
    }

    /// As [`Self::serve`], but on a thread of its own, so that it answers when all other threads
    /// are busy. Returns what waits for its end.
    pub fn serve_apart(
        self,
        name: &str,
        router: Router,
        cancel: CancellationToken,
    ) -> std::io::Result<impl Future<Output = ()> + use<>> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let socket = self.socket.into_std()?;
        let socket = {
            let _context = runtime.enter();
            TcpListener::from_std(socket)?
        };
        let listener = Self { socket, ..self };
        let (ended, end) = oneshot::channel();
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                runtime.block_on(listener.serve(router, cancel));
                // Without a receiver the process ends.
                let _ = ended.send(());
            })?;
        Ok(async move {
            // A sender that is gone has ended, too.
            let _ = end.await;
        })
    }

    /// As [`Self::serve`], but over TLS: each request of `secured` has the [`RemoteClient`] among
    /// its extensions. Plain HTTP is served from `local`, to clients on this machine only.
    ///
    /// [`RemoteClient`]: crate::auth::authenticate::RemoteClient
    pub async fn serve_secured(
        self,
        secured: Router,
        local: Router,
        tls: Arc<ServerConfig>,
        cancel: CancellationToken,
    ) {
        let protocol = PortProtocol::Secured {
            secured,
            local,
            acceptor: TlsAcceptor::from(tls),
        };
        self.serve_all(protocol, MAX_SECURED_CONNECTIONS, cancel)
            .await;
    }

    async fn serve_all(
        self,
        protocol: PortProtocol,
        max_connections: usize,
        cancel: CancellationToken,
    ) {
        let Self {
            socket,
            address,
            metrics,
        } = self;
        let mut connections = OpenConnections::new(max_connections, metrics);
        loop {
            let accepted = tokio::select! {
                () = cancel.cancelled() => break,
                Some(ended) = connections.tasks.join_next_with_id() => {
                    connections.remove(&ended);
                    continue;
                }
                accepted = socket.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    connections.admit(stream, peer.ip().to_canonical(), &protocol, &cancel);
                }
                Err(error) => {
                    warn!(%address, %error, "cannot accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(socket);
        let drained = timeout(DRAIN_TIMEOUT, async {
            while connections.tasks.join_next().await.is_some() {}
        })
        .await;
        if drained.is_err() {
            warn!(%address, connections = connections.tasks.len(), "closing connections that did not end in time at shutdown");
        }
    }
}

/// The open connections of a port.
struct OpenConnections {
    limiter: ConnectionLimiter<IpAddr>,
    by_task: HashMap<Id, OpenConnection>,
    tasks: JoinSet<()>,
    metrics: ConnectionMetrics,
}

struct OpenConnection {
    address: IpAddr,
    activity: Arc<Activity>,
    task: AbortHandle,
}

impl OpenConnections {
    fn new(max_connections: usize, metrics: ConnectionMetrics) -> Self {
        Self {
            limiter: ConnectionLimiter::new(max_connections),
            by_task: HashMap::new(),
            tasks: JoinSet::new(),
            metrics,
        }
    }

    /// Forgets a connection whose task has ended.
    fn remove(&mut self, ended: &Result<(Id, ()), JoinError>) {
        let id = match ended {
            Ok((id, ())) => *id,
            Err(error) => error.id(),
        };
        // `evict` has removed its connection already.
        if let Some(connection) = self.by_task.remove(&id) {
            self.limiter.release(&connection.address);
        }
    }

    /// Serves a connection, unless there is no room for it.
    fn admit(
        &mut self,
        stream: TcpStream,
        address: IpAddr,
        protocol: &PortProtocol,
        cancel: &CancellationToken,
    ) {
        let idle = self.by_task.iter().filter_map(|(id, connection)| {
            Some((*id, connection.address, connection.activity.idle_since()?))
        });
        match self.limiter.admit(&address, idle) {
            Admission::Admitted => {}
            Admission::Evicts(id) => self.evict(id),
            Admission::Refused => return self.metrics.closed(CloseReason::Refused),
        }
        let activity = Activity::new();
        let context = ConnectionContext {
            address,
            activity: Arc::clone(&activity),
            metrics: self.metrics.clone(),
            cancel: cancel.clone(),
        };
        let task = self.tasks.spawn(protocol.clone().serve(stream, context));
        self.by_task.insert(
            task.id(),
            OpenConnection {
                address,
                activity,
                task,
            },
        );
    }

    fn evict(&mut self, id: Id) {
        let Some(connection) = self.by_task.remove(&id) else {
            return;
        };
        connection.task.abort();
        self.limiter.release(&connection.address);
        self.metrics.closed(CloseReason::Evicted);
    }
}

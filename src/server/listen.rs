//! Accepts HTTP/1 connections with bounds on what one peer may hold, and stops gracefully.
//!
//! Every port of the process is served from here. Bounds: connections, size and number of headers, time to send them.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use axum::{Router, body::Body, extract::Request, response::Response};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use tracing::{debug, warn};

/// Connections at a time. At 64 KiB of buffer each, a full house costs 16 MiB.
const MAX_CONNECTIONS: usize = 256;
/// Bytes of one request's line and headers: a selector of several thousand names still fits.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// How long a peer may take to send the line and headers, an idle kept-alive connection included.
const HEAD_TIMEOUT: Duration = Duration::from_mins(1);
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
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut connections = JoinSet::new();
        while let Some((stream, place)) = self.next(&places, &mut connections, &cancel).await {
            connections.spawn(serve_connection(stream, place, router.clone(), cancel.clone()));
        }
        drop(self.socket);
        let drained = timeout(DRAIN_TIMEOUT, async { while connections.join_next().await.is_some() {} }).await;
        if drained.is_err() {
            warn!(address = %self.address, connections = connections.len(), "connections were cut at shutdown");
        }
    }

    /// The next connection and its place; `None` once cancelled. Reaps ended connections meanwhile.
    async fn next(
        &self,
        places: &Arc<Semaphore>,
        connections: &mut JoinSet<()>,
        cancel: &CancellationToken,
    ) -> Option<(TcpStream, OwnedSemaphorePermit)> {
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
    async fn accept(&self, places: &Arc<Semaphore>) -> std::io::Result<(TcpStream, OwnedSemaphorePermit)> {
        let place = Arc::clone(places).acquire_owned().await.map_err(std::io::Error::other)?;
        let (stream, _peer) = self.socket.accept().await?;
        // Else the second part of an answer waits for the first one's acknowledgement, which the peer may put off for 40 ms.
        stream.set_nodelay(true)?;
        Ok((stream, place))
    }
}

async fn serve_connection(stream: TcpStream, place: OwnedSemaphorePermit, router: Router, cancel: CancellationToken) {
    let service = service_fn(|request: hyper::Request<Incoming>| answer(router.clone(), request.map(Body::new)));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = cancel.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        debug!(%error, "connection ended with an error");
    }
    drop(place);
}

async fn answer(router: Router, request: Request) -> Result<Response, Infallible> {
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

    #[tokio::test]
    async fn a_head_that_never_ends_is_refused() {
        let listener = listener().await;
        let address = listener.address();
        let cancel = CancellationToken::new();
        let server = tokio::spawn(listener.serve(Router::new(), cancel.clone()));
        let endless = format!("GET /{} HTTP/1.1\r\n", "x".repeat(2 * MAX_HEAD_BYTES));
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(endless.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 431");
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

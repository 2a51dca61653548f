//! What a port speaks: HTTP/1.1 without TLS, or HTTP/1.1 and HTTP/2 over TLS, each with its limits.
//!
//! ALPN alone decides between the two versions. `hyper_util::server::conn::auto` does not fit: with
//! upgrades it always goes by the first bytes, so that a port without TLS would serve HTTP/2, too.
//! `hyper_util::server::graceful` does not fit either: it shuts down all connections at once, but
//! an idle one has to be shut down alone; and it has no support for HTTP/1.1 connections with
//! upgrades.

use std::{convert::Infallible, net::IpAddr, pin::Pin, sync::Arc, time::Duration};

use axum::{Router, body::Body, extract::Request, response::Response};
use fleetdex_telemetry::metrics::CloseReason;
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use tracing::debug;

use super::{
    activity::Activity,
    connection_metrics::ConnectionMetrics,
    delivery::{self, StreamExecutor, cut_if_unread},
};
use crate::auth::{authenticate::RemoteClient, tls::HTTP_2};

/// Bytes of a request's line and headers: a selector of several thousand names still fits. Longer
/// ones get 431 (or 414) without a body. HTTP/2 adds 32 bytes for each header; with a higher limit
/// there, the library would reset the stream of a URI over 65,534 bytes instead of responding.
const MAX_HEAD_BYTES: u32 = 64 * 1024;
/// Concurrent requests of one HTTP/2 connection: as in Kubernetes' API server.
const MAX_STREAMS: u32 = 250;
/// Streams that the client resets before they are accepted; more are a flood and end the
/// connection.
const MAX_RESET_STREAMS: usize = 50;
/// Streams that are reset because of the client's protocol errors, likewise.
const MAX_FAULTY_STREAMS: usize = 100;
/// Bytes of one stream that wait to be sent.
const MAX_SEND_BYTES: usize = delivery::PIECE_BYTES;
/// How often a silent HTTP/2 client gets a PING, and how long it may take to acknowledge it.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a client may take to send the line and headers, time idle on a kept-alive connection
/// included.
const HEAD_TIMEOUT: Duration = Duration::from_mins(1);
/// How long the TLS handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the graceful shutdown of an idle connection may take.
const IDLE_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);
/// The first byte of every TLS connection.
const TLS_HANDSHAKE: u8 = 0x16;

/// A connection as its limits see it.
pub(super) struct ConnectionContext {
    pub(super) address: IpAddr,
    pub(super) activity: Arc<Activity>,
    pub(super) metrics: ConnectionMetrics,
    pub(super) cancel: CancellationToken,
}

/// How the connections of one port are served.
#[derive(Clone)]
pub(super) enum PortProtocol {
    /// HTTP/1.1 without TLS.
    Plain(Router),
    /// TLS, and plain HTTP/1.1 from this machine.
    Secured {
        /// Answers over TLS.
        secured: Router,
        /// Answers this machine without TLS.
        local: Router,
        /// Accepts connections over TLS.
        acceptor: TlsAcceptor,
    },
}

impl PortProtocol {
    pub(super) async fn serve(self, stream: TcpStream, context: ConnectionContext) {
        // With Nagle's algorithm the second part of a response waits for the acknowledgement of the
        // first, which the client may delay by 40 ms.
        if let Err(error) = stream.set_nodelay(true) {
            return debug!(%error, "a connection ended before it was served");
        }
        let (secured, local, acceptor) = match self {
            Self::Plain(router) => return serve_http_1(stream, router, None, context).await,
            Self::Secured {
                secured,
                local,
                acceptor,
            } => (secured, local, acceptor),
        };
        match timeout(HANDSHAKE_TIMEOUT, starts_with_tls(&stream)).await {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) if context.address.is_loopback() => {
                return serve_http_1(stream, local, None, context).await;
            }
            Ok(Ok(false)) => return refuse_plain_http(stream).await,
            Ok(Err(_)) | Err(_) => return,
        }
        match timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => serve_tls(stream, secured, context).await,
            Ok(Err(error)) => debug!(%error, "the TLS handshake failed"),
            Err(_) => debug!("the TLS handshake timed out"),
        }
    }
}

async fn starts_with_tls(stream: &TcpStream) -> std::io::Result<bool> {
    let mut first = [0];
    let length = stream.peek(&mut first).await?;
    Ok(length == 1 && first[0] == TLS_HANDSHAKE)
}

async fn refuse_plain_http(mut stream: TcpStream) {
    let response =
        b"HTTP/1.0 400 Bad Request\r\ncontent-type: text/plain\r\n\r\nthis port speaks HTTPS\n";
    // The connection ends in any case.
    let _written = timeout(HANDSHAKE_TIMEOUT, stream.write_all(response)).await;
}

async fn serve_tls(stream: TlsStream<TcpStream>, router: Router, context: ConnectionContext) {
    let (_, session) = stream.get_ref();
    let certificates = session.peer_certificates().unwrap_or_default().iter();
    let certificates = certificates.map(|one| one.clone().into_owned()).collect();
    let client = RemoteClient::at(context.address, certificates);
    if session.alpn_protocol() == Some(HTTP_2) {
        serve_http_2(stream, router, client, context).await;
    } else {
        serve_http_1(stream, router, Some(client), context).await;
    }
}

pub(super) async fn serve_http_1<S>(
    stream: S,
    router: Router,
    client: Option<Arc<RemoteClient>>,
    context: ConnectionContext,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(|request| {
        let activity = Arc::clone(&context.activity);
        respond(router.clone(), request, client.clone(), activity)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES as usize)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    if let Err(reason) = cut_if_unread(drive(
        connection,
        http1::UpgradeableConnection::graceful_shutdown,
        &context,
    ))
    .await
    {
        context.metrics.aborted(reason);
    }
}

pub(super) async fn serve_http_2<S>(
    stream: S,
    router: Router,
    client: Arc<RemoteClient>,
    context: ConnectionContext,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let activity = Arc::clone(&context.activity);
    let service = service_fn(move |request| {
        let client = Some(Arc::clone(&client));
        respond(router.clone(), request, client, Arc::clone(&activity))
    });
    let connection = http2::Builder::new(StreamExecutor(context.metrics.clone()))
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEAD_BYTES)
        .max_pending_accept_reset_streams(MAX_RESET_STREAMS)
        .max_local_error_reset_streams(MAX_FAULTY_STREAMS)
        .max_send_buf_size(MAX_SEND_BYTES)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    drive(connection, http2::Connection::graceful_shutdown, &context).await;
}

/// Runs a connection until its client closes it, it has been idle for too long, or the process
/// stops. After `drain` it accepts no more requests, and ends when those in flight have their
/// responses.
async fn drive<C>(connection: C, drain: fn(Pin<&mut C>), context: &ConnectionContext)
where
    C: Future<Output = hyper::Result<()>>,
{
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = context.cancel.cancelled() => {
            drain(connection.as_mut());
            connection.await
        }
        () = context.activity.idles() => {
            context.metrics.closed(CloseReason::Idle);
            drain(connection.as_mut());
            // The graceful shutdown of an HTTP/2 connection waits for the preface of its client.
            timeout(IDLE_SHUTDOWN_TIMEOUT, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        debug!(%error, "a connection ended with an error");
    }
}

async fn respond(
    router: Router,
    request: hyper::Request<Incoming>,
    client: Option<Arc<RemoteClient>>,
    activity: Arc<Activity>,
) -> Result<Response, Infallible> {
    let guard = activity.begin();
    let mut request: Request = request.map(Body::new);
    request.extensions_mut().insert(guard.handle());
    if let Some(client) = client {
        request.extensions_mut().insert(client);
    }
    Ok(delivery::timed(router.oneshot(request).await?, guard))
}

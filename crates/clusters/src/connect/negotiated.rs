//! Sends requests over HTTP/2 where the server offers it, and over HTTP/1.1 otherwise.
//!
//! Over HTTP/1.1 every open watch has a connection of its own: a socket, TLS buffers, and a
//! handshake at the start. Over HTTP/2 all watches of a server share one connection, up to
//! [`MAX_STREAMS`] or to what the server allows; further streams get a further connection.
//!
//! - The window of a connection is as large as those of all its streams together, so that a stream
//!   that is not read never keeps another from receiving.
//! - A connection that does not answer a ping is closed, and all of its watches with it: they
//!   resume.
//! - A request that asks to switch protocols, such as `kubectl exec`, goes over HTTP/1.1, and so
//!   does a [`LargeTransfer`], for which a window is too small, and everything that is not
//!   encrypted, since only TLS negotiates the protocol.
//! - Nothing is retried that the server may have received.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response, Uri, Version, header::UPGRADE, uri::Scheme};
use http_body::{Frame, SizeHint};
use hyper::{
    body::Incoming,
    client::conn::http2::{Builder, SendRequest},
    rt::{Read, Write},
};
use hyper_util::{
    client::legacy::{Client as HttpClient, connect::Connection},
    rt::{TokioExecutor, TokioTimer},
};
use kube::client::Body;
use parking_lot::Mutex;
use tokio::{task::AbortHandle, time::timeout};
use tower::{BoxError, Service, ServiceExt};

/// Streams of one connection. kube-apiserver allows 100 by default, and some stay free for requests
/// that it still counts after they have ended here.
const MAX_STREAMS: usize = 80;
/// Bytes that the server may send on a stream before they are read: the default of HTTP/2. A watch
/// needs no more; a list of several pages is a [`LargeTransfer`].
const STREAM_WINDOW: u32 = 64 << 10;
/// All streams together: 5 MiB.
const CONNECTION_WINDOW: u32 = 80 * STREAM_WINDOW;
/// The server is asked for a sign of life after this time without one: more than the time between
/// two probes, so that a connection that works is not pinged.
const PING_INTERVAL: Duration = Duration::from_secs(15);
/// How long it may take to answer.
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection of HTTP/1.1 stays open that nothing uses: longer than the time between two
/// probes.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Headers of a response.
const MAX_HEADER_BYTES: u32 = 64 << 10;
/// How long a server may take to say how many streams it allows.
const SETTINGS_TIMEOUT: Duration = Duration::from_secs(10);
/// How often it is checked meanwhile.
const SETTINGS_POLL_INTERVAL: Duration = Duration::from_millis(2);
/// How often a request is sent that has not left: each time the connection had just been closed.
const ATTEMPTS: usize = 3;

const SETTINGS_MISSING: &str = "the server does not allow a stream on its connection of HTTP/2";

/// An extension of requests whose response is large: it has a connection of its own, with the
/// window of TCP.
#[derive(Clone, Copy, Debug)]
pub struct LargeTransfer;

/// A transport to one server. Clones share its connections.
#[derive(Clone)]
pub(super) struct NegotiatedTransport<C> {
    http1: HttpClient<C, Body>,
    /// `None`: only HTTP/1.1 is offered.
    http2: Option<Arc<SharedConnections<C>>>,
}

impl<C> NegotiatedTransport<C>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + Unpin + 'static,
    C::Error: Into<BoxError>,
{
    /// `http1` offers no protocol in TLS; `http2` offers both versions.
    pub(super) fn new(http1: C, http2: Option<C>) -> Self {
        let shared = |connector| {
            Arc::new(SharedConnections {
                connector,
                connecting: tokio::sync::Mutex::default(),
                state: Mutex::default(),
            })
        };
        Self {
            http1: HttpClient::builder(TokioExecutor::new())
                .pool_timer(TokioTimer::new())
                .pool_idle_timeout(IDLE_TIMEOUT)
                .build(http1),
            http2: http2.map(shared),
        }
    }

    async fn send(self, mut request: Request<Body>) -> Result<Response<CountedBody>, BoxError> {
        let may_share = request.uri().scheme() == Some(&Scheme::HTTPS)
            && !request.headers().contains_key(UPGRADE)
            && request.extensions().get::<LargeTransfer>().is_none();
        let Some(http2) = self.http2.as_ref().filter(|_| may_share) else {
            return self.send_over_http1(request).await;
        };
        let mut attempt = 1;
        loop {
            let Some((mut sender, stream)) = http2.stream(request.uri()).await? else {
                return self.send_over_http1(request).await;
            };
            *request.version_mut() = Version::HTTP_2;
            let mut failed = match sender.try_send_request(request).await {
                Ok(response) => {
                    return Ok(response.map(|body| CountedBody::new(body, Some(stream))));
                }
                Err(failed) => failed,
            };
            match failed.take_message() {
                Some(unsent) if attempt < ATTEMPTS => request = unsent,
                _ => return Err(failed.into_error().into()),
            }
            attempt += 1;
        }
    }

    async fn send_over_http1(
        &self,
        mut request: Request<Body>,
    ) -> Result<Response<CountedBody>, BoxError> {
        *request.version_mut() = Version::HTTP_11;
        let response = self.http1.request(request).await?;
        Ok(response.map(|body| CountedBody::new(body, None)))
    }
}

impl<C> Service<Request<Body>> for NegotiatedTransport<C>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + Unpin + 'static,
    C::Error: Into<BoxError>,
{
    type Response = Response<CountedBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().send(request))
    }
}

/// The connections to a server that offers HTTP/2.
struct SharedConnections<C> {
    connector: C,
    /// One request connects at a time: those that start together share what the first one opens.
    connecting: tokio::sync::Mutex<()>,
    state: Mutex<ConnectionsState>,
}

#[derive(Default)]
struct ConnectionsState {
    /// The server, or a proxy that ends TLS before it, has chosen HTTP/1.1.
    is_http1: bool,
    open: Vec<SharedConnection>,
}

struct SharedConnection {
    sender: SendRequest<Body>,
    streams: Arc<StreamCount>,
    /// Reads and writes it.
    task: AbortHandle,
}

/// How many streams a connection has, and may have.
struct StreamCount {
    open: AtomicUsize,
    allowed: AtomicUsize,
}

struct OpenStream(Arc<StreamCount>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Where a stream goes; `None`: over HTTP/1.1.
type StreamSlot = Option<(SendRequest<Body>, OpenStream)>;

impl<C> SharedConnections<C>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + Unpin + 'static,
    C::Error: Into<BoxError>,
{
    async fn stream(&self, uri: &Uri) -> Result<StreamSlot, BoxError> {
        if let Some(slot) = self.state.lock().slot() {
            return Ok(slot);
        }
        let _one_at_a_time = self.connecting.lock().await;
        if let Some(slot) = self.state.lock().slot() {
            return Ok(slot);
        }
        let connector = self.connector.clone();
        let io = connector.oneshot(uri.clone()).await.map_err(Into::into)?;
        if !io.connected().is_negotiated_h2() {
            self.state.lock().is_http1 = true;
            return Ok(None);
        }
        let connection = timeout(SETTINGS_TIMEOUT, open(io))
            .await
            .map_err(|_| SETTINGS_MISSING)??;
        let slot = connection.slot();
        self.state.lock().open.push(connection);
        slot.map(Some).ok_or_else(|| SETTINGS_MISSING.into())
    }
}

impl ConnectionsState {
    /// A slot on an open connection; `None` if a connection has to be opened first.
    fn slot(&mut self) -> Option<StreamSlot> {
        if self.is_http1 {
            return Some(None);
        }
        self.open.retain(|connection| !connection.is_over());
        let (position, slot) = self
            .open
            .iter()
            .enumerate()
            .find_map(|(position, connection)| Some((position, connection.slot()?)))?;
        // Those that were opened for more streams than there are now.
        let mut rest = self.open.split_off(position + 1);
        rest.retain(|connection| connection.streams.open.load(Ordering::Relaxed) > 0);
        self.open.append(&mut rest);
        Some(Some(slot))
    }
}

impl SharedConnection {
    /// Whether it carries no further stream. One whose server allows none any more, and that has
    /// none, is closed: it would never end by itself.
    fn is_over(&self) -> bool {
        let StreamCount { open, allowed } = &*self.streams;
        let is_refused = allowed.load(Ordering::Relaxed) == 0 && open.load(Ordering::Relaxed) == 0;
        if is_refused {
            self.task.abort();
        }
        is_refused || self.sender.is_closed()
    }

    fn slot(&self) -> Option<(SendRequest<Body>, OpenStream)> {
        let allowed = self
            .streams
            .allowed
            .load(Ordering::Relaxed)
            .min(MAX_STREAMS);
        let take = |open| (open < allowed).then_some(open + 1);
        self.streams
            .open
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .ok()?;
        Some((self.sender.clone(), OpenStream(Arc::clone(&self.streams))))
    }
}

async fn open<I>(io: I) -> Result<SharedConnection, BoxError>
where
    I: Read + Write + Send + Unpin + 'static,
{
    let (sender, mut connection) = Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .max_header_list_size(MAX_HEADER_BYTES)
        // Until the server has said how many it allows.
        .initial_max_send_streams(0)
        .handshake(io)
        .await?;
    let streams = Arc::new(StreamCount {
        open: AtomicUsize::new(0),
        allowed: AtomicUsize::new(0),
    });
    // hyper reads the settings in a task of its own, which does not wake this one.
    loop {
        if let Ok(ended) = timeout(SETTINGS_POLL_INTERVAL, &mut connection).await {
            ended?;
            return Err(SETTINGS_MISSING.into());
        }
        let allowed = connection.current_max_send_streams();
        streams.allowed.store(allowed, Ordering::Relaxed);
        if allowed > 0 {
            break;
        }
    }
    let counted = Arc::clone(&streams);
    // Like the connections of HTTP/1.1, it ends with the last that uses it: after the client is
    // dropped, its streams are still read to their end.
    let task = tokio::spawn(async move {
        // Each request polls it, so that a changed limit is known to the one after that.
        let ended = std::future::poll_fn(|context| {
            let polled = Pin::new(&mut connection).poll(context);
            let allowed = connection.current_max_send_streams();
            counted.allowed.store(allowed, Ordering::Relaxed);
            polled
        });
        if let Err(error) = ended.await {
            tracing::debug!(%error, "a connection of HTTP/2 failed");
        }
    });
    Ok(SharedConnection {
        sender,
        streams,
        task: task.abort_handle(),
    })
}

/// The body of a response. The stream counts as open until it is dropped.
pub(super) struct CountedBody {
    body: Incoming,
    _stream: Option<OpenStream>,
}

impl CountedBody {
    fn new(body: Incoming, stream: Option<OpenStream>) -> Self {
        Self {
            body,
            _stream: stream,
        }
    }
}

impl http_body::Body for CountedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;

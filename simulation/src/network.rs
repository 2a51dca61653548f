//! Simulated connections between processes: a server ends with its process, the client can still
//! read what was sent before, and every message is delayed, as on an overloaded machine.

use std::{collections::BTreeMap, convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::stream::unfold;
use http::{HeaderValue, Request, Response, header};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use kube::client::Body as ClientBody;
use parking_lot::{Mutex, MutexGuard};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{sleep, timeout},
};
use tower::{BoxError, Service, ServiceExt, service_fn, util::BoxCloneSyncService};

/// The bearer token of every request.
pub const TOKEN: &str = "secret";
/// Number of response chunks in transit: the buffers of a connection.
const BUFFERED_CHUNKS: usize = 64;
/// How long a stopping server waits for its open responses, as the operator's server does.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The body of a response.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;
type Handler = BoxCloneSyncService<Request<Full<Bytes>>, Response<Body>, Infallible>;

/// The reachable servers. Clones share the network.
#[derive(Clone)]
pub struct Network(Arc<Mutex<NetworkState>>);

struct NetworkState {
    servers: BTreeMap<SocketAddr, ListeningServer>,
    random: StdRng,
    max_delay: Duration,
}

/// A server with its open responses, which end with it.
struct ListeningServer {
    handler: Handler,
    responses: JoinSet<()>,
}

impl Network {
    /// Creates a network that delays every message by a random time up to `max_delay`.
    pub fn new(seed: u64, max_delay: Duration) -> Self {
        Self(Arc::new(Mutex::new(NetworkState {
            servers: BTreeMap::new(),
            random: StdRng::seed_from_u64(seed),
            max_delay,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, NetworkState> {
        self.0.lock()
    }

    /// Starts a server.
    pub fn listen<S, B>(&self, address: SocketAddr, service: S)
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>, Error = Infallible>
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send + 'static,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let boxed = service.map_response(|response: Response<B>| {
            response.map(|body| body.map_err(Into::into).boxed_unsync())
        });
        let listening = ListeningServer {
            handler: BoxCloneSyncService::new(boxed),
            responses: JoinSet::new(),
        };
        self.lock().servers.insert(address, listening);
    }

    /// Kills a server: chunks that it has sent still arrive, nothing else does.
    pub fn kill(&self, address: SocketAddr) {
        self.lock().servers.remove(&address);
    }

    /// Stops a server: it accepts no more requests, and ends when its open responses are sent or
    /// the timeout has passed.
    pub async fn close(&self, address: SocketAddr) {
        let Some(mut listening) = self.lock().servers.remove(&address) else {
            return;
        };
        // Dropping the set aborts the remaining responses.
        let _is_sent = timeout(CLOSE_TIMEOUT, async {
            while listening.responses.join_next().await.is_some() {}
        })
        .await;
    }

    /// Creates a client of the server at an address.
    pub fn client(&self, address: SocketAddr) -> kube::Client {
        let network = self.clone();
        let service = service_fn(move |request: Request<ClientBody>| {
            let network = network.clone();
            async move {
                let (mut head, body) = request.into_parts();
                let token = HeaderValue::from_static("Bearer secret");
                head.headers.insert(header::AUTHORIZATION, token);
                let body = body.collect_bytes().await?;
                network
                    .send(address, Request::from_parts(head, Full::new(body)))
                    .await
            }
        });
        kube::Client::new(service, "default")
    }

    async fn send(
        &self,
        address: SocketAddr,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Body>, BoxError> {
        self.delay().await;
        let refused = || BoxError::from("connection refused");
        let handler = self
            .lock()
            .servers
            .get(&address)
            .map(|listening| listening.handler.clone())
            .ok_or_else(refused)?;
        let (head, body) = handler.oneshot(request).await?.into_parts();
        let (sender, receiver) = mpsc::channel(BUFFERED_CHUNKS);
        let mut state = self.lock();
        // The server may have ended meanwhile.
        state
            .servers
            .get_mut(&address)
            .ok_or("connection reset")?
            .responses
            .spawn(send_all(body, sender));
        drop(state);
        Ok(Response::from_parts(head, self.clone().receive(receiver)))
    }

    fn receive(self, chunks: mpsc::Receiver<Result<Bytes, BoxError>>) -> Body {
        let frames = unfold((self, chunks), async |(network, mut chunks)| {
            let first = chunks.recv().await?;
            network.delay().await;
            Some((
                with_buffered(first, &mut chunks).map(http_body::Frame::data),
                (network, chunks),
            ))
        });
        StreamBody::new(frames).boxed_unsync()
    }

    /// Waits for the random delay of a message.
    async fn delay(&self) {
        let time = {
            let mut state = self.lock();
            let max_delay = state.max_delay;
            state.random.random_range(Duration::ZERO..=max_delay)
        };
        sleep(time).await;
    }
}

/// Appends the chunks that have arrived meanwhile.
fn with_buffered(
    first: Result<Bytes, BoxError>,
    chunks: &mut mpsc::Receiver<Result<Bytes, BoxError>>,
) -> Result<Bytes, BoxError> {
    let mut bytes = first?.to_vec();
    while let Ok(chunk) = chunks.try_recv() {
        bytes.extend_from_slice(&chunk?);
    }
    Ok(bytes.into())
}

async fn send_all(mut body: Body, sender: mpsc::Sender<Result<Bytes, BoxError>>) {
    loop {
        let frame = tokio::select! {
            biased;
            frame = body.frame() => frame,
            () = sender.closed() => return,
        };
        let chunk = match frame {
            None => return,
            Some(Ok(frame)) => Ok(frame.into_data().unwrap_or_default()),
            Some(Err(error)) => Err(error),
        };
        if sender.send(chunk).await.is_err() {
            return;
        }
    }
}

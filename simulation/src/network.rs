//! Connections between processes on one machine, as far as they matter: each has a server that ends with its process, what was sent before is read
//! afterwards, and on a starved machine everything comes late.

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

/// What every request carries.
pub const TOKEN: &str = "secret";
/// Chunks of an answer that are on their way: what the buffers of a connection hold.
const BUFFERED: usize = 64;
/// How long a server that stops waits for what it is still sending, as the operator's does.
const CLOSING: Duration = Duration::from_secs(5);

/// The body of an answer.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;
type Handler = BoxCloneSyncService<Request<Full<Bytes>>, Response<Body>, Infallible>;

/// The servers that can be reached. Clones are the same network.
#[derive(Clone)]
pub struct Network(Arc<Mutex<State>>);

struct State {
    servers: BTreeMap<SocketAddr, Listening>,
    random: StdRng,
    slowest: Duration,
}

/// A server, and the answers that it is sending: they end with it.
struct Listening {
    handler: Handler,
    sending: JoinSet<()>,
}

impl Network {
    /// Everything takes a random time, up to `slowest`.
    pub fn new(seed: u64, slowest: Duration) -> Self {
        Self(Arc::new(Mutex::new(State {
            servers: BTreeMap::new(),
            random: StdRng::seed_from_u64(seed),
            slowest,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    /// A server begins to listen.
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
        let boxed = service.map_response(|answer: Response<B>| {
            answer.map(|body| body.map_err(Into::into).boxed_unsync())
        });
        let listening = Listening {
            handler: BoxCloneSyncService::new(boxed),
            sending: JoinSet::new(),
        };
        self.lock().servers.insert(address, listening);
    }

    /// A server ends where it stands: what it has sent arrives, and nothing else.
    pub fn kill(&self, address: SocketAddr) {
        self.lock().servers.remove(&address);
    }

    /// A server stops: it takes no requests any more, and ends when everything is sent, or has not been for long.
    pub async fn close(&self, address: SocketAddr) {
        let Some(mut listening) = self.lock().servers.remove(&address) else {
            return;
        };
        // What is cut off is aborted with the set.
        let _is_sent = timeout(CLOSING, async {
            while listening.sending.join_next().await.is_some() {}
        })
        .await;
    }

    /// A client of the server at an address.
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
        self.pass().await;
        let refused = || BoxError::from("connection refused");
        let handler = self
            .lock()
            .servers
            .get(&address)
            .map(|listening| listening.handler.clone())
            .ok_or_else(refused)?;
        let (head, body) = handler.oneshot(request).await?.into_parts();
        let (sender, receiver) = mpsc::channel(BUFFERED);
        let mut state = self.lock();
        // It may have ended meanwhile.
        state
            .servers
            .get_mut(&address)
            .ok_or("connection reset")?
            .sending
            .spawn(send_all(body, sender));
        drop(state);
        Ok(Response::from_parts(head, self.clone().receive(receiver)))
    }

    fn receive(self, chunks: mpsc::Receiver<Result<Bytes, BoxError>>) -> Body {
        let frames = unfold((self, chunks), async |(network, mut chunks)| {
            let first = chunks.recv().await?;
            network.pass().await;
            Some((
                with_rest(first, &mut chunks).map(http_body::Frame::data),
                (network, chunks),
            ))
        });
        StreamBody::new(frames).boxed_unsync()
    }

    /// What is sent is on its way.
    async fn pass(&self) {
        let time = {
            let mut state = self.lock();
            let slowest = state.slowest;
            state.random.random_range(Duration::ZERO..=slowest)
        };
        sleep(time).await;
    }
}

/// What is late comes together.
fn with_rest(
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

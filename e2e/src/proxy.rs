//! A TCP proxy that breaks connections on purpose, between the operator and a server.
//!
//! It forwards bytes without knowledge of protocols:TLS goes through it untouched, and the server's
//! certificate is valid for it because both are on 127.0.0.1. It runs on a thread of its own, so
//! that a test may block and its runtime may end.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    sync::watch,
    task::JoinSet,
};

use crate::fleet::ports::Port;

/// How many bytes are read at once, and the unit of delays and limits.
const CHUNK: usize = 16 * 1024;

/// What a proxy does to its connections, including open ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fault {
    /// All bytes pass.
    #[default]
    None,
    /// The port is closed, and open connections are reset.
    Refuse,
    /// Connections are accepted and stay open, and no byte passes until the fault is over.
    BlackHole,
    /// Every chunk of at most 16 KiB passes this much later.
    Delay(Duration),
    /// A connection is reset after this many response bytes since the fault began.
    ResetAfter(u64),
    /// Responses are held once this many bytes of them have passed since the fault began, over all
    /// connections, until the fault is over.
    HoldAfter(u64),
}

/// A running proxy. Dropping it closes its connections.
#[derive(Debug)]
pub struct FaultProxy {
    scheme: String,
    port: Port,
    settings: Option<watch::Sender<Settings>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Clone, Default)]
struct Settings {
    fault: Fault,
    /// The response bytes that have passed since the fault began.
    passed: Arc<AtomicU64>,
    /// Connections that were open before the last increase are reset.
    cuts: u64,
}

impl FaultProxy {
    /// Starts a proxy to the server at `url`, such as `https://127.0.0.1:6443`.
    pub fn start(url: &str) -> Result<Self> {
        let (scheme, address) = url
            .split_once("://")
            .with_context(|| format!("{url} has no scheme"))?;
        let server: SocketAddr = address
            .trim_end_matches('/')
            .parse()
            .with_context(|| format!("{url} has no address"))?;
        let port = Port::reserve()?;
        let address = SocketAddr::from(([127, 0, 0, 1], port.number()));
        let listener = std::net::TcpListener::bind(address)
            .with_context(|| format!("listening on {address}"))?;
        listener
            .set_nonblocking(true)
            .context("making a listener asynchronous")?;
        let (settings, receiver) = watch::channel(Settings::default());
        let thread = thread::Builder::new().name("proxy".to_owned());
        let thread = thread
            .spawn(move || run_thread(listener, server, receiver))
            .context("starting a proxy's thread")?;
        Ok(Self {
            scheme: scheme.to_owned(),
            port,
            settings: Some(settings),
            thread: Some(thread),
        })
    }

    /// The URL of the proxy, with the scheme of the server's URL.
    pub fn url(&self) -> String {
        format!("{}://127.0.0.1:{}", self.scheme, self.port.number())
    }

    /// Replaces the current fault.
    pub fn set(&self, fault: Fault) {
        self.update(|settings| {
            settings.fault = fault;
            settings.passed = Arc::default();
        });
    }

    /// Resets every connection that is open now.
    pub fn cut(&self) {
        self.update(|settings| settings.cuts += 1);
    }

    fn update(&self, change: impl FnOnce(&mut Settings)) {
        if let Some(settings) = &self.settings {
            settings.send_modify(change);
        }
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        // The thread ends when the sender of its settings is dropped.
        drop(self.settings.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Runs the proxy's thread. After an error, clients fail to connect.
fn run_thread(
    listener: std::net::TcpListener,
    server: SocketAddr,
    settings: watch::Receiver<Settings>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let served = runtime.and_then(|runtime| runtime.block_on(serve(listener, server, settings)));
    if let Err(error) = served {
        tracing::error!(%error, "a fault proxy ended");
    }
}

async fn serve(
    first: std::net::TcpListener,
    server: SocketAddr,
    mut settings: watch::Receiver<Settings>,
) -> io::Result<()> {
    let address = first.local_addr()?;
    let mut listener = Some(TcpListener::from_std(first)?);
    let mut connections = JoinSet::new();
    loop {
        let refuses = settings.borrow_and_update().fault == Fault::Refuse;
        if refuses {
            listener = None;
        } else if listener.is_none() {
            listener = Some(TcpListener::bind(address).await?);
        }
        tokio::select! {
            changed = settings.changed() => if changed.is_err() { return Ok(()) },
            Some(client) = accept(listener.as_ref()) => {
                connections.spawn(forward(client, server, settings.clone()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// The next connection; none while the port is closed.
async fn accept(listener: Option<&TcpListener>) -> Option<TcpStream> {
    let (client, _) = listener?.accept().await.ok()?;
    Some(client)
}

/// Forwards one connection until it ends.
async fn forward(mut client: TcpStream, address: SocketAddr, settings: watch::Receiver<Settings>) {
    let cuts_at_start = settings.borrow().cuts;
    let gate = Gate {
        settings,
        cuts_at_start,
    };
    let mut cut = gate.clone();
    let ended = tokio::select! {
        () = cut.closed() => Err(anyhow::anyhow!("cut")),
        ended = exchange(&mut client, address, gate) => ended,
    };
    if ended.is_err() {
        // Dropping the socket now resets the connection.
        let _ = client.set_zero_linger();
    }
}

async fn exchange(client: &mut TcpStream, address: SocketAddr, mut gate: Gate) -> Result<()> {
    // In a black hole not even the server sees the connection.
    gate.pass(Direction::Request).await?;
    let mut server = TcpStream::connect(address).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let requests = pump(from_client, to_server, gate.clone(), Direction::Request);
    let answers = pump(from_server, to_client, gate, Direction::Response);
    tokio::try_join!(requests, answers)?;
    Ok(())
}

/// Only the bytes of responses count for limits.
#[derive(Clone, Copy, PartialEq)]
enum Direction {
    Request,
    Response,
}

async fn pump(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    mut gate: Gate,
    direction: Direction,
) -> Result<()> {
    let mut buffer = vec![0; CHUNK];
    let mut passed = 0;
    loop {
        let length = from.read(&mut buffer).await?;
        if length == 0 {
            return Ok(to.shutdown().await?);
        }
        let limit = match gate.pass(direction).await? {
            Fault::ResetAfter(limit) if direction == Direction::Response => limit,
            _ => {
                passed = 0;
                u64::MAX
            }
        };
        let room = usize::try_from(limit.saturating_sub(passed)).unwrap_or(usize::MAX);
        to.write_all(&buffer[..length.min(room)]).await?;
        if length > room {
            bail!("the limit is reached");
        }
        let length = u64::try_from(length)?;
        passed += length;
        if direction == Direction::Response {
            gate.count(length);
        }
    }
}

/// Applies the current fault to every chunk of a connection.
#[derive(Debug, Clone)]
struct Gate {
    settings: watch::Receiver<Settings>,
    /// The number of cuts before this connection.
    cuts_at_start: u64,
}

impl Gate {
    /// Waits as long as the fault requires, and returns the fault.
    async fn pass(&mut self, direction: Direction) -> io::Result<Fault> {
        let opens = |settings: &Settings| match settings.fault {
            Fault::BlackHole => false,
            Fault::HoldAfter(limit) => {
                direction == Direction::Request || settings.passed.load(Ordering::Relaxed) < limit
            }
            Fault::None | Fault::Refuse | Fault::Delay(_) | Fault::ResetAfter(_) => true,
        };
        let open = self.settings.wait_for(opens).await;
        let fault = open.map_err(io::Error::other)?.fault;
        if let Fault::Delay(delay) = fault {
            tokio::time::sleep(delay).await;
        }
        Ok(fault)
    }

    /// Counts response bytes that have passed.
    fn count(&self, bytes: u64) {
        let settings = self.settings.borrow();
        settings.passed.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns when the connection must be reset.
    async fn closed(&mut self) {
        let cuts_at_start = self.cuts_at_start;
        let ends =
            |settings: &Settings| settings.fault == Fault::Refuse || settings.cuts > cuts_at_start;
        // An error means that the proxy has ended.
        let _ = self.settings.wait_for(ends).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends every byte back.
    async fn echo_server() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        url
    }

    async fn proxy() -> FaultProxy {
        FaultProxy::start(&echo_server().await).unwrap()
    }

    async fn connect(proxy: &FaultProxy) -> io::Result<TcpStream> {
        TcpStream::connect(("127.0.0.1", proxy.port.number())).await
    }

    async fn say(stream: &mut TcpStream, text: &str) -> io::Result<String> {
        stream.write_all(text.as_bytes()).await?;
        let mut answer = vec![0; text.len()];
        stream.read_exact(&mut answer).await?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    const SHORT: Duration = Duration::from_millis(100);

    #[tokio::test]
    async fn bytes_and_end_of_stream_pass_in_both_directions() {
        let proxy = proxy().await;
        let mut stream = connect(&proxy).await.unwrap();
        assert_eq!(say(&mut stream, "hello").await.unwrap(), "hello");
        stream.shutdown().await.unwrap();
        assert_eq!(stream.read(&mut [0; 8]).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_cut_resets_open_connections_and_no_later_ones() {
        let proxy = proxy().await;
        let mut stream = connect(&proxy).await.unwrap();
        say(&mut stream, "hello").await.unwrap();
        proxy.cut();
        let error = stream.read(&mut [0; 8]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        let mut next = connect(&proxy).await.unwrap();
        assert_eq!(say(&mut next, "again").await.unwrap(), "again");
    }

    #[tokio::test]
    async fn the_port_is_closed_while_connections_are_refused() {
        let proxy = proxy().await;
        let mut stream = connect(&proxy).await.unwrap();
        say(&mut stream, "hello").await.unwrap();
        proxy.set(Fault::Refuse);
        assert!(stream.read(&mut [0; 8]).await.is_err());
        while connect(&proxy).await.is_ok() {
            tokio::task::yield_now().await;
        }
        assert_eq!(
            connect(&proxy).await.unwrap_err().kind(),
            io::ErrorKind::ConnectionRefused
        );
        proxy.set(Fault::None);
        while connect(&proxy).await.is_err() {
            tokio::task::yield_now().await;
        }
        assert_eq!(
            say(&mut connect(&proxy).await.unwrap(), "again")
                .await
                .unwrap(),
            "again"
        );
    }

    #[tokio::test]
    async fn a_black_hole_delivers_held_bytes_when_it_ends() {
        let proxy = proxy().await;
        let mut open = connect(&proxy).await.unwrap();
        say(&mut open, "hello").await.unwrap();
        proxy.set(Fault::BlackHole);
        let mut new = connect(&proxy).await.unwrap();
        for stream in [&mut open, &mut new] {
            tokio::time::timeout(SHORT, say(stream, "lost?"))
                .await
                .unwrap_err();
        }
        proxy.set(Fault::None);
        for stream in [&mut open, &mut new] {
            let mut answer = [0; 5];
            stream.read_exact(&mut answer).await.unwrap();
            assert_eq!(&answer, b"lost?");
        }
    }

    #[tokio::test]
    async fn a_delay_applies_to_every_chunk() {
        let proxy = proxy().await;
        proxy.set(Fault::Delay(SHORT));
        let mut stream = connect(&proxy).await.unwrap();
        let started = std::time::Instant::now();
        assert_eq!(say(&mut stream, "slow").await.unwrap(), "slow");
        assert!(started.elapsed() >= 2 * SHORT, "both ways take their time");
    }

    #[tokio::test]
    async fn a_connection_is_reset_after_a_number_of_response_bytes() {
        let proxy = proxy().await;
        proxy.set(Fault::ResetAfter(6));
        let mut stream = connect(&proxy).await.unwrap();
        assert_eq!(say(&mut stream, "four").await.unwrap(), "four");
        assert!(say(&mut stream, "four").await.is_err());
        proxy.set(Fault::None);
        let mut next = connect(&proxy).await.unwrap();
        assert_eq!(say(&mut next, "four").await.unwrap(), "four");
        assert_eq!(say(&mut next, "four").await.unwrap(), "four");
    }

    #[tokio::test]
    async fn responses_are_held_after_a_number_of_bytes_of_all_connections() {
        let proxy = proxy().await;
        proxy.set(Fault::HoldAfter(6));
        let mut streams = [
            connect(&proxy).await.unwrap(),
            connect(&proxy).await.unwrap(),
        ];
        for stream in &mut streams {
            assert_eq!(say(stream, "four").await.unwrap(), "four");
        }
        for stream in &mut streams {
            tokio::time::timeout(SHORT, say(stream, "held?"))
                .await
                .unwrap_err();
        }
        proxy.set(Fault::None);
        for stream in &mut streams {
            let mut answer = [0; 5];
            stream.read_exact(&mut answer).await.unwrap();
            assert_eq!(&answer, b"held?");
        }
    }
}

//! A forward proxy with a login: CONNECT of HTTP, and SOCKS version 5.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use anyhow::{Context, Result, bail, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// It runs as long as the runtime of the test that started it.
pub struct ForwardProxy {
    address: String,
    seen: Arc<Seen>,
    _task: JoinSet<()>,
}

#[derive(Default)]
struct Seen {
    user: String,
    password: String,
    tunnels: AtomicUsize,
    destinations: Mutex<BTreeSet<String>>,
}

impl ForwardProxy {
    /// Starts a proxy that wants this login.
    pub async fn start(user: &str, password: &str) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let seen = Arc::new(Seen {
            user: user.to_owned(),
            password: password.to_owned(),
            ..Seen::default()
        });
        let mut task = JoinSet::new();
        let shared = Arc::clone(&seen);
        task.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let seen = Arc::clone(&shared);
                connections.spawn(async move {
                    // A refused client sees the end of its connection.
                    let _ = serve(client, &seen).await;
                });
            }
        });
        Ok(Self {
            address,
            seen,
            _task: task,
        })
    }

    /// Its URL, without the login.
    pub fn url(&self, scheme: &str) -> String {
        format!("{scheme}://{}", self.address)
    }

    /// How many connections it has forwarded.
    pub fn tunnels(&self) -> usize {
        self.seen.tunnels.load(Ordering::Relaxed)
    }

    /// Where to.
    pub fn destinations(&self) -> Vec<String> {
        self.seen.destinations.lock().iter().cloned().collect()
    }

    /// Counts from the beginning.
    pub fn forget(&self) {
        self.seen.tunnels.store(0, Ordering::Relaxed);
        self.seen.destinations.lock().clear();
    }
}

async fn serve(mut client: TcpStream, seen: &Seen) -> Result<()> {
    let mut first = [0];
    client.peek(&mut first).await?;
    let destination = if first == [5] {
        socks(&mut client, seen).await?
    } else {
        connect(&mut client, seen).await?
    };
    let mut server = TcpStream::connect(&destination).await?;
    let granted: &[u8] = if first == [5] {
        &[5, 0, 0, 1, 127, 0, 0, 1, 0, 80]
    } else {
        b"HTTP/1.1 200 Connection established\r\n\r\n"
    };
    client.write_all(granted).await?;
    seen.tunnels.fetch_add(1, Ordering::Relaxed);
    seen.destinations.lock().insert(destination);
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

/// Reads a CONNECT request with its login.
async fn connect(client: &mut TcpStream, seen: &Seen) -> Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await?);
    }
    let head = String::from_utf8(head)?;
    let login = STANDARD.encode(format!("{}:{}", seen.user, seen.password));
    let expected = format!("proxy-authorization: Basic {login}").to_lowercase();
    let lower = head.to_lowercase();
    if !lower.lines().any(|line| line == expected) {
        let refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n";
        client.write_all(refusal).await?;
        bail!("no login");
    }
    ensure!(
        !lower.lines().any(|line| line.starts_with("authorization:")),
        "the proxy sees the credentials of the store"
    );
    let line = head.lines().next().context("no request line")?;
    let target = line.split(' ').nth(1).context("no target")?;
    ensure!(line.starts_with("CONNECT "), "{line}");
    Ok(target.to_owned())
}

/// Source: <https://datatracker.ietf.org/doc/html/rfc1928> and
/// <https://datatracker.ietf.org/doc/html/rfc1929>
async fn socks(client: &mut TcpStream, seen: &Seen) -> Result<String> {
    let mut greeting = [0; 2];
    client.read_exact(&mut greeting).await?;
    let mut methods = vec![0; usize::from(greeting[1])];
    client.read_exact(&mut methods).await?;
    ensure!(methods.contains(&2), "the client has no password");
    client.write_all(&[5, 2]).await?;
    ensure!(client.read_u8().await? == 1, "another version");
    let user = counted(client).await?;
    let password = counted(client).await?;
    let is_right = user == seen.user.as_bytes() && password == seen.password.as_bytes();
    client.write_all(&[1, u8::from(!is_right)]).await?;
    ensure!(is_right, "wrong login");
    let mut request = [0; 4];
    client.read_exact(&mut request).await?;
    let host = match request[3] {
        1 => {
            let mut address = [0; 4];
            client.read_exact(&mut address).await?;
            std::net::Ipv4Addr::from(address).to_string()
        }
        3 => String::from_utf8(counted(client).await?)?,
        other => bail!("address of type {other}"),
    };
    let port = client.read_u16().await?;
    Ok(format!("{host}:{port}"))
}

/// A text behind its length.
async fn counted(client: &mut TcpStream) -> Result<Vec<u8>> {
    let mut text = vec![0; usize::from(client.read_u8().await?)];
    client.read_exact(&mut text).await?;
    Ok(text)
}

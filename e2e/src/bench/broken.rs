//! Addresses of members that fail in different ways.

use std::{net::TcpListener as DeafListener, time::Duration};

use anyhow::{Context, Result};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// How long a slow member takes for each response: longer than any timeout.
const SLOWNESS: Duration = Duration::from_secs(20);
const UNAUTHORIZED: &str = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}"#;

/// Servers that fail in different ways. They stop when this is dropped.
#[derive(Debug)]
pub struct Broken {
    /// A listener that accepts no connections.
    deaf: DeafListener,
    refusing: String,
    slow: String,
    _servers: JoinSet<()>,
}

impl Broken {
    /// Starts the servers.
    pub async fn start() -> Result<Self> {
        let deaf = DeafListener::bind("127.0.0.1:0").context("listening without accepting")?;
        let mut servers = JoinSet::new();
        let refusing = serve(&mut servers, Duration::ZERO).await?;
        let slow = serve(&mut servers, SLOWNESS).await?;
        Ok(Self {
            deaf,
            refusing,
            slow,
            _servers: servers,
        })
    }

    /// The address of a broken member: unknown to DNS, silent, rejecting the token, without the
    /// expected TLS, or slow.
    pub fn url(&self, number: usize) -> Result<String> {
        Ok(match number % 5 {
            0 => format!("https://member{number}.fleetdex.invalid:6443"),
            1 => format!(
                "https://{}",
                self.deaf
                    .local_addr()
                    .context("the address of the silent listener")?
            ),
            2 => format!("http://{}", self.refusing),
            3 => format!("https://{}", self.refusing),
            _ => format!("http://{}", self.slow),
        })
    }
}

/// Starts a server that responds 401 to every request, with a delay. Returns its address.
async fn serve(servers: &mut JoinSet<()>, late_by: Duration) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")
        .await
        .context("listening")?;
    let address = listener
        .local_addr()
        .context("looking for the address")?
        .to_string();
    servers.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            while connections.try_join_next().is_some() {}
            connections.spawn(refuse(stream, late_by));
        }
    });
    Ok(address)
}

async fn refuse(mut stream: TcpStream, late_by: Duration) {
    let mut read = [0; 4096];
    while stream.read(&mut read).await.is_ok_and(|count| count > 0) {
        tokio::time::sleep(late_by).await;
        let answer = format!(
            "HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{UNAUTHORIZED}",
            UNAUTHORIZED.len()
        );
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

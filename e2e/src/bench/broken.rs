//! Addresses of members that are broken, each in its own way.

use std::{net::TcpListener as DeafListener, time::Duration};

use anyhow::{Context, Result};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// How long a slow member takes for each answer: longer than anybody waits.
const SLOWNESS: Duration = Duration::from_secs(20);
const UNAUTHORIZED: &str = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}"#;

/// Servers that do everything wrong. They end when it is dropped.
#[derive(Debug)]
pub struct Broken {
    /// Nobody accepts its connections.
    deaf: DeafListener,
    refusing: String,
    slow: String,
    _servers: JoinSet<()>,
}

impl Broken {
    /// Starts them.
    pub async fn start() -> Result<Self> {
        let deaf = DeafListener::bind("127.0.0.1:0").context("listening for nobody")?;
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

    /// The address of a broken member: unknown to DNS, silent, refusing the token, without TLS where it is expected, or slow.
    pub fn url(&self, number: usize) -> Result<String> {
        Ok(match number % 5 {
            0 => format!("https://member{number}.fleetdex.invalid:6443"),
            1 => format!(
                "https://{}",
                self.deaf.local_addr().context("the address of nobody")?
            ),
            2 => format!("http://{}", self.refusing),
            3 => format!("https://{}", self.refusing),
            _ => format!("http://{}", self.slow),
        })
    }
}

/// A server that answers everything with 401, late. Gives its address.
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

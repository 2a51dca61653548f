//! A stub kubelet without containers: it serves recognisable logs and sessions to an API server.
//!
//! It runs on a thread of its own, so that a test may block and its runtime may end.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context, Result};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use serde_json::{Value, json};

use crate::{
    fleet::{ApiServer, ports::Port},
    http::install_tls_provider,
};

/// How long one read of a connection may take.
const DEADLINE: Duration = Duration::from_secs(30);
/// How often the thread checks whether it should stop.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(50);

type Tls = StreamOwned<ServerConnection, TcpStream>;

/// A running stub. Dropping it stops it.
#[derive(Debug)]
pub struct Kubelet {
    port: Port,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Kubelet {
    /// Starts one with a certificate of the API server's authority.
    pub fn start(server: &ApiServer) -> Result<Self> {
        install_tls_provider();
        let identity = server.authority().server("kubelet")?;
        let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes())
            .context("the kubelet's certificate")?;
        let key =
            PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).context("the kubelet's key")?;
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key);
        let config = Arc::new(config.context("TLS of the kubelet")?);
        let port = Port::reserve()?;
        let listener =
            TcpListener::bind(("127.0.0.1", port.number())).context("the kubelet's port")?;
        listener
            .set_nonblocking(true)
            .context("the kubelet's port")?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || serve(&listener, &config, &stopped));
        Ok(Self {
            port,
            stop,
            thread: Some(thread),
        })
    }

    /// The Node that leads to it.
    pub fn node(&self, name: &str) -> Value {
        json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name } })
    }

    /// The status of the Node: its address and kubelet port.
    pub fn node_status(&self) -> Value {
        json!({ "status": {
            "addresses": [{ "type": "InternalIP", "address": "127.0.0.1" }],
            "daemonEndpoints": { "kubeletEndpoint": { "Port": self.port.number() } },
        } })
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the stub shows as a failing test.
            let _ = thread.join();
        }
    }
}

fn serve(listener: &TcpListener, config: &Arc<ServerConfig>, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let Ok((stream, _)) = listener.accept() else {
            thread::sleep(STOP_POLL_INTERVAL);
            continue;
        };
        let config = Arc::clone(config);
        thread::spawn(move || {
            if let Err(error) = answer(stream, config) {
                eprintln!("stub kubelet: {error:#}");
            }
        });
    }
}

fn answer(stream: TcpStream, config: Arc<ServerConfig>) -> Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    let connection = ServerConnection::new(config)?;
    let mut reader = BufReader::new(StreamOwned::new(connection, stream));
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(());
        }
    }
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut tls = reader.into_inner();
    if path.starts_with("/containerLogs/") {
        // As a kubelet does.
        let time = if path.contains("timestamps=true") {
            "2026-01-01T00:00:00.000000000Z "
        } else {
            ""
        };
        let body = format!("{time}log of {path}\n");
        write!(
            tls,
            "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        )?;
    } else if let Some(protocol) = header(&head, "upgrade") {
        session(&mut tls, &head, &protocol)?;
    } else {
        write!(
            tls,
            "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        )?;
    }
    tls.conn.send_close_notify();
    tls.flush()?;
    Ok(())
}

/// Accepts any protocol upgrade, and echoes every byte until the end of the stream.
fn session(tls: &mut Tls, head: &str, protocol: &str) -> Result<()> {
    let chosen = header(head, "x-stream-protocol-version")
        .map(|version| format!("X-Stream-Protocol-Version: {version}\r\n"));
    let chosen = chosen.unwrap_or_default();
    write!(
        tls,
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n{chosen}\r\n"
    )?;
    tls.flush()?;
    let mut buffer = [0; 1024];
    loop {
        let read = tls.read(&mut buffer).unwrap_or(0);
        if read == 0 {
            return Ok(());
        }
        tls.write_all(&buffer[..read])?;
        tls.flush()?;
    }
}

fn header(head: &str, name: &str) -> Option<String> {
    let lines = head.lines().filter_map(|line| line.split_once(':'));
    let mut found = lines.filter(|(key, _)| key.eq_ignore_ascii_case(name));
    found.next().map(|(_, value)| value.trim().to_owned())
}

//! The one etcd under all API servers of a fleet.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::ports::Port;
use super::process::{Process, Start};
use super::ready;
use crate::http;
use crate::parts::Part;

/// A running etcd. Its data survives a restart, not the fleet.
#[derive(Debug)]
pub struct Etcd {
    url: String,
    process: Process,
    _ports: [Port; 2],
}

impl Etcd {
    pub(super) fn spawn(dir: &Path, scratch: &Path, group: u32) -> Result<Self> {
        let (client_port, peer_port) = (Port::reserve()?, Port::reserve()?);
        let url = format!("http://127.0.0.1:{}", client_port.number());
        let peer_url = format!("http://127.0.0.1:{}", peer_port.number());
        let data = scratch.join("etcd");
        fs::create_dir_all(&data).with_context(|| format!("creating {}", data.display()))?;
        let arguments = vec![
            "--name=fleet".to_owned(),
            format!("--data-dir={}", data.display()),
            format!("--listen-client-urls={url}"),
            format!("--advertise-client-urls={url}"),
            format!("--listen-peer-urls={peer_url}"),
            format!("--initial-advertise-peer-urls={peer_url}"),
            format!("--initial-cluster=fleet={peer_url}"),
            // Data that is thrown away needs no disk that keeps its promises.
            "--unsafe-no-fsync".to_owned(),
            "--quota-backend-bytes=4294967296".to_owned(),
            "--log-level=warn".to_owned(),
        ];
        let start = Start { program: Part::Etcd.ensure()?, arguments, folder: dir.to_owned(), ..Start::default() };
        let process = Process::new("etcd", start, dir.join("etcd.log"), group);
        process.spawn()?;
        Ok(Self { url, process, _ports: [client_port, peer_port] })
    }

    /// The client address, plain HTTP on loopback.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The running program.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Starts it again after it was killed, with its data, and waits until it answers.
    pub async fn restart(&self) -> Result<()> {
        self.process.kill();
        self.process.spawn()?;
        self.wait_ready().await
    }

    pub(super) async fn wait_ready(&self) -> Result<()> {
        let client = http::client(None)?;
        let health = format!("{}/health", self.url);
        ready::wait(&self.process, || client.get(&health).timeout(Duration::from_secs(2))).await
    }
}

//! The etcd under the API servers of a fleet: one for all, or one for each.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{
    folder,
    ports::Port,
    process::{Process, Start},
    ready,
};
use crate::{http, parts::Part};

/// Far beyond what a clean stop takes.
const STOP_DEADLINE: Duration = Duration::from_secs(30);

/// A running etcd. Its data survives restarts, and is removed with the fleet.
#[derive(Debug)]
pub struct Etcd {
    url: String,
    data: PathBuf,
    process: Process,
    _ports: [Port; 2],
}

impl Etcd {
    pub(super) fn spawn(name: &str, dir: &Path, scratch: &Path, group: u32) -> Result<Self> {
        let (client_port, peer_port) = (Port::reserve()?, Port::reserve()?);
        let url = format!("http://127.0.0.1:{}", client_port.number());
        let peer_url = format!("http://127.0.0.1:{}", peer_port.number());
        let data = scratch.join(name);
        fs::create_dir_all(&data).with_context(|| format!("creating {}", data.display()))?;
        let arguments = vec![
            "--name=fleet".to_owned(),
            format!("--data-dir={}", data.display()),
            format!("--listen-client-urls={url}"),
            format!("--advertise-client-urls={url}"),
            format!("--listen-peer-urls={peer_url}"),
            format!("--initial-advertise-peer-urls={peer_url}"),
            format!("--initial-cluster=fleet={peer_url}"),
            // The data is temporary, so no fsync is needed.
            "--unsafe-no-fsync".to_owned(),
            "--quota-backend-bytes=4294967296".to_owned(),
            "--log-level=warn".to_owned(),
        ];
        let start = Start {
            program: Part::Etcd.ensure()?,
            arguments,
            folder: dir.to_owned(),
            ..Start::default()
        };
        let process = Process::new(name, start, dir.join(format!("{name}.log")), group);
        process.spawn()?;
        Ok(Self {
            url,
            data,
            process,
            _ports: [client_port, peer_port],
        })
    }

    /// The client address, plain HTTP on loopback.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The running program.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Restarts it after a kill, with its data, and waits until it answers.
    pub async fn restart(&self) -> Result<()> {
        self.process.kill();
        self.process.spawn()?;
        self.wait_ready().await
    }

    /// Compacts the history up to the current revision, and returns that revision. A watch from an
    /// earlier revision fails as expired, unless an API server's watch cache still has it.
    pub async fn compact(&self) -> Result<u64> {
        // Every read returns the revision.
        let read = self.call("kv/range", &json!({ "key": "AA==" })).await?;
        let revision = read["header"]["revision"]
            .as_str()
            .with_context(|| format!("no revision in {read}"))?;
        let body = json!({ "revision": revision, "physical": true });
        self.call("kv/compaction", &body).await?;
        revision
            .parse()
            .with_context(|| format!("the revision is {revision}"))
    }

    /// Copies its data into `folder`. Stops it meanwhile, and waits until it answers again.
    pub async fn save_snapshot(&self, folder: &Path) -> Result<()> {
        self.process.terminate(STOP_DEADLINE).await?;
        folder::copy(&self.data, folder)?;
        self.restart().await
    }

    /// Restores the data that was [saved](Self::save_snapshot); its API servers should be stopped.
    pub async fn restore_snapshot(&self, folder: &Path) -> Result<()> {
        self.remove_data()?;
        folder::copy(folder, &self.data)?;
        self.restart().await
    }

    /// Restarts without any data; its API servers should be stopped.
    pub async fn wipe(&self) -> Result<()> {
        self.remove_data()?;
        self.restart().await
    }

    fn remove_data(&self) -> Result<()> {
        self.process.kill();
        fs::remove_dir_all(&self.data).with_context(|| format!("removing {}", self.data.display()))
    }

    async fn call(&self, method: &str, body: &Value) -> Result<Value> {
        let request = http::client(None)?
            .post(format!("{}/v3/{method}", self.url))
            .json(body);
        let answer = request
            .send()
            .await
            .with_context(|| format!("etcd: {method}"))?;
        let status = answer.status();
        let text = answer
            .text()
            .await
            .with_context(|| format!("etcd: {method}"))?;
        ensure!(status.is_success(), "etcd: {method}: {status}: {text}");
        serde_json::from_str(&text).with_context(|| format!("etcd: {method}: {text}"))
    }

    pub(super) async fn wait_ready(&self) -> Result<()> {
        let client = http::client(None)?;
        let health = format!("{}/health", self.url);
        ready::wait(&self.process, || {
            client.get(&health).timeout(Duration::from_secs(2))
        })
        .await
    }
}

//! An unmodified client-go informer in a child process, whose cache can be read.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, Result};
use serde::Deserialize;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use crate::parts::build_informer;

/// The response comes from memory, so it takes no longer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The API of an informer, and the resource that it watches.
#[derive(Debug, Clone, Default)]
pub struct Target {
    /// URL of the Kubernetes API.
    pub server: String,
    /// Bearer token.
    pub token: String,
    /// The certificate authority of the server.
    pub ca_file: PathBuf,
    /// `version/plural` or `group/version/plural`.
    pub resource: String,
    /// Whether the informer gets its first objects by a streaming list (`sendInitialEvents`), or by
    /// pages.
    pub streams_lists: bool,
}

/// An object in the informer's cache.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Object {
    /// Its annotations.
    #[serde(default)]
    pub annotations: Option<BTreeMap<String, String>>,
    /// Its version.
    pub resource_version: String,
    /// Its UID.
    pub uid: String,
}

/// The state of the informer.
#[derive(Debug, Clone, Deserialize)]
pub struct State {
    /// Whether its initial list is complete (`HasSynced`).
    pub synced: bool,
    /// Calls of its handlers.
    pub added: i64,
    /// Calls of its handlers.
    pub updated: i64,
    /// Calls of its handlers.
    pub deleted: i64,
    /// Errors of its lists and watches.
    pub errors: Vec<String>,
    /// By `namespace/name`.
    pub objects: BTreeMap<String, Object>,
}

/// A running informer; it ends with its standard input, and so with this process.
#[derive(Debug)]
pub struct Informer {
    _child: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl Informer {
    /// Builds it in `folder` and starts it.
    pub fn start(folder: &Path, target: &Target) -> Result<Self> {
        let program = build_informer(folder)?;
        let mut child = Command::new(program)
            .args([
                "-server",
                &target.server,
                "-token",
                &target.token,
                "-resource",
                &target.resource,
            ])
            .arg("-ca-file")
            .arg(&target.ca_file)
            .env(
                "KUBE_FEATURE_WatchListClient",
                target.streams_lists.to_string(),
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("starting the informer")?;
        let stdin = child
            .stdin
            .take()
            .context("the informer has no standard input")?;
        let stdout = child
            .stdout
            .take()
            .context("the informer has no standard output")?;
        Ok(Self {
            _child: child,
            stdin,
            stdout: BufReader::new(stdout).lines(),
        })
    }

    /// Its current state.
    pub async fn state(&mut self) -> Result<State> {
        self.stdin
            .write_all(b"\n")
            .await
            .context("asking the informer")?;
        let line = timeout(TIMEOUT, self.stdout.next_line())
            .await
            .context("the informer does not answer")??;
        serde_json::from_str(&line.context("the informer has ended")?)
            .context("reading what the informer knows")
    }
}

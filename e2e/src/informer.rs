//! An informer of client-go, unmodified, that can be asked what it knows.

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

/// An answer comes from memory.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Where an informer finds its API, and what it follows.
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
    /// Whether the informer gets its first objects by a streaming list (`sendInitialEvents`), or by pages.
    pub streams_lists: bool,
}

/// An object as the informer has it.
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

/// What the informer knows.
#[derive(Debug, Clone, Deserialize)]
pub struct State {
    /// Whether it has had its first objects.
    pub synced: bool,
    /// Calls of its handlers.
    pub added: i64,
    /// Calls of its handlers.
    pub updated: i64,
    /// Calls of its handlers.
    pub deleted: i64,
    /// What went wrong with its lists and watches.
    pub errors: Vec<String>,
    /// By `namespace/name`.
    pub objects: BTreeMap<String, Object>,
}

/// A running informer; it ends with its standard input, and so with this process.
#[derive(Debug)]
pub struct Informer {
    _child: Child,
    questions: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
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
        let questions = child
            .stdin
            .take()
            .context("the informer has no standard input")?;
        let answers = child
            .stdout
            .take()
            .context("the informer has no standard output")?;
        Ok(Self {
            _child: child,
            questions,
            answers: BufReader::new(answers).lines(),
        })
    }

    /// What it knows now.
    pub async fn state(&mut self) -> Result<State> {
        self.questions
            .write_all(b"\n")
            .await
            .context("asking the informer")?;
        let line = timeout(TIMEOUT, self.answers.next_line())
            .await
            .context("the informer does not answer")??;
        serde_json::from_str(&line.context("the informer has ended")?)
            .context("reading what the informer knows")
    }
}

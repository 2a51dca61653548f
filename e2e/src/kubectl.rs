//! Runs kubectl.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tokio::{io::AsyncWriteExt, process::Command};

use crate::{arguments::Arguments, parts::Part};

/// Timeout of a kubectl call.
const TIMEOUT: Duration = Duration::from_mins(2);

/// kubectl with one kubeconfig.
#[derive(Debug, Clone)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    environment: Vec<(String, String)>,
}

/// The output of a kubectl call.
#[derive(Debug, Clone)]
pub struct Output {
    /// Whether it exited with 0.
    pub success: bool,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Kubectl {
    /// Uses the kubectl of our [parts](crate::parts), building it when needed.
    pub fn new(kubeconfig: &Path) -> Result<Self> {
        Ok(Self {
            program: Part::Kubectl.ensure()?,
            kubeconfig: kubeconfig.to_owned(),
            environment: Vec::new(),
        })
    }

    /// The same with an environment variable in addition, such as `KUBE_EDITOR`.
    #[must_use]
    pub fn with(mut self, variable: &str, value: &str) -> Self {
        self.environment
            .push((variable.to_owned(), value.to_owned()));
        self
    }

    /// Runs it and returns standard output; a failure is an error with its standard error.
    pub async fn run(&self, arguments: &(impl Arguments + ?Sized)) -> Result<String> {
        self.checked(arguments, "").await
    }

    /// Runs it with `-o json` and returns the parsed output.
    pub async fn json(&self, arguments: &(impl Arguments + ?Sized)) -> Result<Value> {
        let all = [&arguments.words()[..], &["-o", "json"]].concat();
        let text = self.checked(&all, "").await?;
        serde_json::from_str(&text)
            .with_context(|| format!("kubectl {} printed no JSON: {text}", all.join(" ")))
    }

    /// Runs it and returns its output and success.
    pub async fn output(&self, arguments: &(impl Arguments + ?Sized)) -> Result<Output> {
        self.call(&arguments.words(), "").await
    }

    /// `kubectl apply -f -`; several documents are fine.
    pub async fn apply(&self, manifest: &str) -> Result<String> {
        self.checked("apply -f -", manifest).await
    }

    /// `kubectl apply --server-side --force-conflicts -f -`: for manifests that are too large for
    /// an annotation, such as CRDs.
    pub async fn apply_server_side(&self, manifest: &str) -> Result<String> {
        self.checked("apply --server-side --force-conflicts -f -", manifest)
            .await
    }

    /// `kubectl apply --server-side --subresource=status -f -`: what a controller or kubelet would
    /// report.
    pub async fn apply_status(&self, manifest: &str) -> Result<String> {
        let arguments = "apply --server-side --force-conflicts --subresource=status -f -";
        self.checked(arguments, manifest).await
    }

    /// `kubectl create -f -`.
    pub async fn create(&self, manifest: &str) -> Result<String> {
        self.checked("create -f -", manifest).await
    }

    /// `kubectl delete --ignore-not-found --wait=false -f -`.
    pub async fn delete(&self, manifest: &str) -> Result<String> {
        self.checked("delete --ignore-not-found --wait=false -f -", manifest)
            .await
    }

    async fn checked(&self, arguments: &(impl Arguments + ?Sized), input: &str) -> Result<String> {
        let arguments = arguments.words();
        let output = self.call(&arguments, input).await?;
        if output.success {
            return Ok(output.stdout);
        }
        bail!(
            "kubectl {}: {}{}",
            arguments.join(" "),
            output.stderr,
            output.stdout
        )
    }

    async fn call(&self, arguments: &[&str], input: &str) -> Result<Output> {
        let what = || format!("kubectl {}", arguments.join(" "));
        let mut command = Command::new(&self.program);
        command
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(arguments);
        // The default discovery cache is keyed by address, and other servers have used our ports.
        command.env(
            "KUBECACHEDIR",
            self.kubeconfig.with_added_extension("cache"),
        );
        command.envs(
            self.environment
                .iter()
                .map(|(variable, value)| (variable, value)),
        );
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().with_context(what)?;
        let mut stdin = child
            .stdin
            .take()
            .context("kubectl has no standard input")?;
        let feed = async move {
            // kubectl may fail before it has read all input; its own message is better than our
            // broken pipe.
            let _ = stdin.write_all(input.as_bytes()).await;
        };
        let finish = async { tokio::join!(feed, child.wait_with_output()).1 };
        let finished = tokio::time::timeout(TIMEOUT, finish).await;
        let output = finished
            .with_context(|| format!("{}: no end after {} s", what(), TIMEOUT.as_secs()))?;
        let output = output.with_context(what)?;
        Ok(Output {
            success: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }
}

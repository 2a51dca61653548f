//! Credential plugins (`exec`) of the user's own kubeconfig: programs that print a token or a client certificate.
//!
//! As [client-go does](https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins), but
//! never with a terminal, for a limited time, and a few at once. What a plugin gave is kept until it expires.

use std::{collections::BTreeMap, process::Stdio, time::Duration};

use jiff::{SignedDuration, Timestamp};
use kube::config::{ExecAuthCluster, ExecConfig, ExecInteractiveMode};
use parking_lot::{Mutex, MutexGuard};
use serde::Deserialize;
use serde_json::json;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{Child, Command},
    sync::Semaphore,
    time::timeout,
};

use super::super::credentials::{Identity, bearer};

/// Longest time that a plugin may take. They ask an identity provider over the network.
const LIMIT: Duration = Duration::from_secs(30);
/// Plugins that run at once: many are large interpreters, and a kubeconfig may name hundreds.
const AT_ONCE: usize = 4;
/// What is kept of a plugin's output; a credential is some kilobytes.
const MAX_OUTPUT: u64 = 1 << 20;
/// How much of a plugin's own words is shown.
const MAX_WORDS: usize = 300;
/// Kept credentials: one for each context of a kubeconfig, and of those that a file had before.
const MAX_KEPT: usize = 4_096;
/// A credential is asked for anew this long before it expires.
const EARLY: SignedDuration = SignedDuration::from_mins(1);
/// A credential that does not say when it expires is asked for again after this.
const UNSAID: SignedDuration = SignedDuration::from_mins(10);

/// What a plugin gave.
#[derive(Clone, Default)]
pub struct Given {
    /// A bearer token.
    pub(super) token: Option<String>,
    /// A client certificate.
    pub(super) identity: Option<Identity>,
}

/// A plugin gave nothing. What it wrote to its standard output is never shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PluginError {
    /// No command.
    #[error("exec has no command: name the program that prints the credentials")]
    CommandMissing,
    /// It wants a terminal.
    #[error(
        "the plugin {command} needs a terminal (interactiveMode: Always): use one that can do without"
    )]
    Interactive {
        /// The program.
        command: String,
    },
    /// It did not start.
    #[error("the plugin {command} did not start: {cause}. {hint}")]
    NotStarted {
        /// The program.
        command: String,
        /// Why.
        cause: String,
        /// What the kubeconfig says about getting it.
        hint: String,
    },
    /// It took too long.
    #[error(
        "the plugin {command} was stopped, as it was not done within {LIMIT:?}; run it in a terminal to see what it waits for"
    )]
    TooSlow {
        /// The program.
        command: String,
    },
    /// It failed.
    #[error("the plugin {command} failed ({status}): {words}")]
    Failed {
        /// The program.
        command: String,
        /// Its exit code or signal.
        status: String,
        /// The end of what it wrote to its standard error.
        words: String,
    },
    /// It printed something else.
    #[error(
        "the plugin {command} printed no ExecCredential with a token or a client certificate and key"
    )]
    Unreadable {
        /// The program.
        command: String,
    },
}

/// Runs plugins and keeps what they gave.
pub struct Plugins {
    kept: Mutex<BTreeMap<String, Kept>>,
    permits: Semaphore,
}

struct Kept {
    given: Given,
    until: Timestamp,
}

/// What a plugin prints, as JSON or YAML.
#[derive(Deserialize)]
struct Printed {
    status: Option<Status>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
    expiration_timestamp: Option<String>,
}

impl Default for Plugins {
    fn default() -> Self {
        Self {
            kept: Mutex::default(),
            permits: Semaphore::new(AT_ONCE),
        }
    }
}

impl Plugins {
    /// What the plugin gave and is still good, or gives now. `anew`: what it gave before was refused.
    pub async fn ask(
        &self,
        exec: &ExecConfig,
        cluster: Option<&ExecAuthCluster>,
        anew: bool,
    ) -> Result<Given, PluginError> {
        let question = serde_json::to_string(&(exec, cluster)).unwrap_or_default();
        if !anew && let Some(kept) = self.kept(&question) {
            return Ok(kept);
        }
        let Ok(_permit) = self.permits.acquire().await else {
            return Err(PluginError::CommandMissing);
        };
        let (given, until) = run(exec, cluster).await?;
        self.keep(question, given.clone(), until);
        Ok(given)
    }

    fn kept(&self, question: &str) -> Option<Given> {
        let kept = self.lock();
        kept.get(question)
            .filter(|kept| Timestamp::now() < kept.until)
            .map(|kept| kept.given.clone())
    }

    fn keep(&self, question: String, given: Given, until: Timestamp) {
        let mut kept = self.lock();
        if kept.len() >= MAX_KEPT {
            let now = Timestamp::now();
            kept.retain(|_, kept| now < kept.until);
        }
        if kept.len() < MAX_KEPT {
            kept.insert(question, Kept { given, until });
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Kept>> {
        self.kept.lock()
    }
}

/// Runs a plugin. It is killed when this is dropped.
async fn run(
    exec: &ExecConfig,
    cluster: Option<&ExecAuthCluster>,
) -> Result<(Given, Timestamp), PluginError> {
    let name = exec
        .command
        .clone()
        .filter(|command| !command.is_empty())
        .ok_or(PluginError::CommandMissing)?;
    if exec.interactive_mode == Some(ExecInteractiveMode::Always) {
        return Err(PluginError::Interactive { command: name });
    }
    let spawned = command(&name, exec, cluster).spawn();
    let child = spawned.map_err(|error| PluginError::NotStarted {
        command: name.clone(),
        cause: error.to_string(),
        hint: exec
            .install_hint
            .clone()
            .unwrap_or_else(|| "Is it installed and in PATH?".to_owned()),
    })?;
    match timeout(LIMIT, output(child)).await {
        Err(_) => Err(PluginError::TooSlow { command: name }),
        Ok(Err(error)) => Err(PluginError::Failed {
            command: name,
            status: error.to_string(),
            words: String::new(),
        }),
        Ok(Ok(output)) if !output.status.success() => Err(PluginError::Failed {
            command: name,
            status: output.status.to_string(),
            words: words(&output.stderr),
        }),
        Ok(Ok(output)) => {
            read(&output.stdout, Timestamp::now()).ok_or(PluginError::Unreadable { command: name })
        }
    }
}

fn command(name: &str, exec: &ExecConfig, cluster: Option<&ExecAuthCluster>) -> Command {
    let information = json!({
        "apiVersion": exec.api_version,
        "kind": "ExecCredential",
        "spec": { "interactive": false, "cluster": cluster.filter(|_| exec.provide_cluster_info) },
    });
    let mut command = Command::new(name);
    command.args(exec.args.iter().flatten());
    for variable in exec.env.iter().flatten() {
        if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
            command.env(name, value);
        }
    }
    command.env("KUBERNETES_EXEC_INFO", information.to_string());
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// Waits for the end of a plugin, and keeps only so much of what it writes.
async fn output(mut child: Child) -> std::io::Result<std::process::Output> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (stdout, stderr, status) = tokio::join!(start_of(stdout), start_of(stderr), child.wait());
    Ok(std::process::Output {
        status: status?,
        stdout: stdout?,
        stderr: stderr?,
    })
}

async fn start_of(stream: Option<impl AsyncRead + Unpin>) -> std::io::Result<Vec<u8>> {
    let mut read = Vec::new();
    if let Some(stream) = stream {
        stream.take(MAX_OUTPUT).read_to_end(&mut read).await?;
    }
    Ok(read)
}

/// The end of what a plugin wrote to its standard error, in one line.
fn words(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let start = line.chars().count().saturating_sub(MAX_WORDS);
    line.chars().skip(start).collect()
}

fn read(printed: &[u8], now: Timestamp) -> Option<(Given, Timestamp)> {
    let printed: Printed = serde_saphyr::from_slice(printed).ok()?;
    let status = printed.status?;
    let token = match status.token.filter(|token| !token.is_empty()) {
        Some(token) => Some(bearer(token.trim().as_bytes())?),
        None => None,
    };
    let identity = match (status.client_certificate_data, status.client_key_data) {
        (Some(certificate), Some(key)) => Some(Identity {
            certificate: certificate.into_bytes(),
            key: key.into_bytes(),
        }),
        _ => None,
    };
    if token.is_none() && identity.is_none() {
        return None;
    }
    let until = match status.expiration_timestamp {
        Some(text) => text.parse::<Timestamp>().ok()? - EARLY,
        None => now + UNSAID,
    };
    Some((Given { token, identity }, until))
}

#[cfg(test)]
#[path = "plugin_tests.rs"]
mod tests;

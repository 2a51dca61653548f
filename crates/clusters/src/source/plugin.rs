//! Runs credential plugins (`exec`) of the user's kubeconfig: programs that print a token or a
//! client certificate.
//!
//! Works as in
//! [client-go](https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins),
//! but without a terminal, with a timeout, and with few plugins at a time. A credential is cached
//! until it expires.

use std::{collections::BTreeMap, process::Stdio, time::Duration};

use jiff::{SignedDuration, Timestamp};
use kube::config::{ExecAuthCluster, ExecConfig, ExecInteractiveMode};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{Child, Command},
    sync::Semaphore,
    time::timeout,
};

use super::super::credentials::{ClientCertificate, bearer};

/// Longest time that a plugin may run. Plugins usually call an identity provider over the network.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Plugins that run at a time: many are large interpreters, and a kubeconfig may name hundreds.
const MAX_CONCURRENT: usize = 4;
/// Bytes read from each of a plugin's output streams, at most; a credential has some kilobytes.
const MAX_OUTPUT: u64 = 1 << 20;
/// Characters of a plugin's standard error that are shown.
const MAX_STDERR_CHARS: usize = 300;
/// Cached credentials, at most: one per context of a kubeconfig, and those of contexts that it had
/// before.
const MAX_CACHED: usize = 4_096;
/// A credential is renewed this long before it expires.
const EXPIRY_MARGIN: SignedDuration = SignedDuration::from_mins(1);
/// Lifetime of a credential without expiration timestamp.
const DEFAULT_LIFETIME: SignedDuration = SignedDuration::from_mins(10);

/// A credential that a plugin printed.
#[derive(Clone, Default)]
pub struct PluginCredential {
    /// A bearer token.
    pub(super) token: Option<String>,
    pub(super) client_certificate: Option<ClientCertificate>,
}

/// Why a plugin gave no credential. Its standard output is never shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PluginError {
    /// The configuration has no command.
    #[error("exec has no command: name the program that prints the credentials")]
    CommandMissing,
    /// The plugin needs a terminal.
    #[error(
        "the plugin {command} needs a terminal (interactiveMode: Always): use one that works without a terminal"
    )]
    Interactive {
        /// The program.
        command: String,
    },
    /// The plugin could not be started.
    #[error("the plugin {command} did not start: {cause}. {hint}")]
    NotStarted {
        /// The program.
        command: String,
        /// Why.
        cause: String,
        /// The install hint of the kubeconfig.
        hint: String,
    },
    /// The plugin exceeded the time limit.
    #[error(
        "the plugin {command} was killed, as it did not finish within {TIMEOUT:?}; run it in a terminal to see what it waits for"
    )]
    TooSlow {
        /// The program.
        command: String,
    },
    /// The plugin failed.
    #[error("the plugin {command} failed ({status}): {stderr_tail}")]
    Failed {
        /// The program.
        command: String,
        /// Its exit code or signal.
        status: String,
        /// The end of its standard error.
        stderr_tail: String,
    },
    /// The plugin printed something else.
    #[error(
        "the plugin {command} printed no ExecCredential with a token or a client certificate and key"
    )]
    Unreadable {
        /// The program.
        command: String,
    },
}

/// Runs plugins and caches their credentials.
pub struct Plugins {
    cached: Mutex<BTreeMap<String, CachedCredential>>,
    permits: Semaphore,
}

struct CachedCredential {
    credential: PluginCredential,
    expires: Timestamp,
}

/// The output of a plugin, as JSON or YAML.
#[derive(Deserialize)]
struct ExecCredential {
    status: Option<ExecCredentialStatus>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecCredentialStatus {
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
    expiration_timestamp: Option<String>,
}

impl Default for Plugins {
    fn default() -> Self {
        Self {
            cached: Mutex::default(),
            permits: Semaphore::new(MAX_CONCURRENT),
        }
    }
}

impl Plugins {
    /// Returns the cached credential, or runs the plugin. `bypass_cache`: always runs it, as the
    /// member may have refused the last credential.
    pub async fn credential(
        &self,
        exec: &ExecConfig,
        cluster: Option<&ExecAuthCluster>,
        bypass_cache: bool,
    ) -> Result<PluginCredential, PluginError> {
        let key = serde_json::to_string(&(exec, cluster)).unwrap_or_default();
        if !bypass_cache && let Some(cached) = self.cached(&key) {
            return Ok(cached);
        }
        let Ok(_permit) = self.permits.acquire().await else {
            return Err(PluginError::CommandMissing);
        };
        let (credential, expires) = run(exec, cluster).await?;
        self.cache(key, credential.clone(), expires);
        Ok(credential)
    }

    fn cached(&self, key: &str) -> Option<PluginCredential> {
        let cached = self.cached.lock();
        cached
            .get(key)
            .filter(|cached| Timestamp::now() < cached.expires)
            .map(|cached| cached.credential.clone())
    }

    fn cache(&self, key: String, credential: PluginCredential, expires: Timestamp) {
        let mut cached = self.cached.lock();
        if cached.len() >= MAX_CACHED {
            let now = Timestamp::now();
            cached.retain(|_, cached| now < cached.expires);
        }
        if cached.len() < MAX_CACHED {
            cached.insert(
                key,
                CachedCredential {
                    credential,
                    expires,
                },
            );
        }
    }
}

/// Runs a plugin, which is killed when the future is dropped.
async fn run(
    exec: &ExecConfig,
    cluster: Option<&ExecAuthCluster>,
) -> Result<(PluginCredential, Timestamp), PluginError> {
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
    match timeout(TIMEOUT, output(child)).await {
        Err(_) => Err(PluginError::TooSlow { command: name }),
        Ok(Err(error)) => Err(PluginError::Failed {
            command: name,
            status: error.to_string(),
            stderr_tail: String::new(),
        }),
        Ok(Ok(output)) if !output.status.success() => Err(PluginError::Failed {
            command: name,
            status: output.status.to_string(),
            stderr_tail: stderr_tail(&output.stderr),
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

/// Waits until a plugin exits, and returns the start of its output streams.
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

/// The end of a plugin's standard error, in one line.
fn stderr_tail(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let start = line.chars().count().saturating_sub(MAX_STDERR_CHARS);
    line.chars().skip(start).collect()
}

fn read(printed: &[u8], now: Timestamp) -> Option<(PluginCredential, Timestamp)> {
    let printed: ExecCredential = serde_saphyr::from_slice(printed).ok()?;
    let status = printed.status?;
    let token = match status.token.filter(|token| !token.is_empty()) {
        Some(token) => Some(bearer(token.trim().as_bytes())?),
        None => None,
    };
    let client_certificate = match (status.client_certificate_data, status.client_key_data) {
        (Some(certificate), Some(key)) => Some(ClientCertificate {
            certificate: certificate.into_bytes(),
            key: key.into_bytes(),
        }),
        _ => None,
    };
    if token.is_none() && client_certificate.is_none() {
        return None;
    }
    let expires = match status.expiration_timestamp {
        Some(text) => text.parse::<Timestamp>().ok()? - EXPIRY_MARGIN,
        None => now + DEFAULT_LIFETIME,
    };
    Some((
        PluginCredential {
            token,
            client_certificate,
        },
        expires,
    ))
}

#[cfg(test)]
mod tests;

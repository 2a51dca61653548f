//! The files to continue the demo by hand: one kubeconfig for all clusters, and a shell file to
//! source.

use std::{
    fs,
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::{
    fleet::{ApiServer, Fleet},
    operator::{Operator, fleetdex_program},
    parts::Part,
};

/// Environment variables with which the printed commands work.
#[derive(Debug, Clone)]
pub struct Session {
    /// The file to source.
    pub file: PathBuf,
    variables: Vec<(&'static str, String)>,
}

impl Session {
    /// Writes `kubeconfig` and `env` into the fleet's folder.
    pub fn write(fleet: &Fleet, operator: &Operator) -> Result<Self> {
        let kubeconfig = fleet.dir().join("kubeconfig");
        write_private(&kubeconfig, &kubeconfig_of(fleet)?.to_string())?;
        let variables = vec![
            ("PATH", search_path()?),
            ("DEMO", fleet.dir().display().to_string()),
            ("KUBECONFIG", kubeconfig.display().to_string()),
            (
                "KUBECACHEDIR",
                fleet.dir().join("kubeconfig.cache").display().to_string(),
            ),
            (
                "FLEETDEX_SERVER",
                format!("http://{}", operator.api_address()),
            ),
            (
                "FLEETDEX_TOKEN_FILE",
                operator.token_file().display().to_string(),
            ),
            ("OPENSEARCH_URL", fleet.opensearch()?.url().to_owned()),
        ];
        let exports: Vec<String> = variables
            .iter()
            .map(|(name, value)| format!("export {name}='{value}'"))
            .collect();
        let file = fleet.dir().join("env");
        write_private(&file, &(exports.join("\n") + "\n"))?;
        Ok(Self { file, variables })
    }

    /// Runs a line of shell with these variables, and returns its standard output.
    pub async fn shell(&self, line: &str) -> Result<String> {
        let mut command = Command::new("sh");
        command
            .args(["-c", line])
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        let output = command
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await
            .with_context(|| format!("starting {line}"))?;
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            bail!(
                "`{line}` failed ({}): {stdout}{}",
                output.status,
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(stdout)
    }
}

/// A command that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Whether it exited with 0.
    pub success: bool,
    /// Standard output and standard error, in the order in which they were written.
    pub output: String,
}

impl Session {
    /// The kubeconfig with all contexts.
    pub fn kubeconfig(&self) -> Option<&str> {
        let mut all = self.variables.iter();
        all.find_map(|(name, value)| (*name == "KUBECONFIG").then_some(value.as_str()))
    }

    /// Runs a line of bash in a folder, with further variables. One that does not end is an error.
    pub async fn run(
        &self,
        line: &str,
        folder: &Path,
        variables: &[(&str, String)],
        deadline: Duration,
    ) -> Result<Ended> {
        let path = self.variables.iter().find(|(name, _)| *name == "PATH");
        let path = path.map(|(_, value)| value.as_str()).unwrap_or_default();
        let running = Command::new("bash")
            .args(["-c", &format!("exec 2>&1\n{line}")])
            .current_dir(folder)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .env("PATH", format!("{}/bin:{path}", folder.display()))
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let ended = tokio::time::timeout(deadline, running).await;
        let ended = ended.with_context(|| format!("no end after {deadline:?}: {line}"))?;
        let ended = ended.with_context(|| format!("starting {line}"))?;
        Ok(Ended {
            success: ended.status.success(),
            output: String::from_utf8_lossy(&ended.stdout).into_owned(),
        })
    }
}

/// Below the control plane's address: the fleet as one Kubernetes API.
const FLEET: &str = "/apis/search.fleetdex.io/v1alpha1/proxying/karmada/proxy";

/// One context per cluster, of the same name, and two for the fleet; the control plane's is the
/// current one.
fn kubeconfig_of(fleet: &Fleet) -> Result<Value> {
    let hub = fleet.control_plane();
    let servers: Vec<&ApiServer> = [hub].into_iter().chain(fleet.members()).collect();
    let cluster = |name: &str, server: &str, ca: &Path| json!({ "name": name, "cluster": { "server": server, "certificate-authority": ca } });
    let user = |name: &str, token: &str| json!({ "name": name, "user": { "token": token } });
    let context = |name: &str, cluster: &str, user: &str| json!({ "name": name, "context": { "cluster": cluster, "user": user } });
    let mut clusters: Vec<Value> = servers
        .iter()
        .map(|server| cluster(server.name(), server.url(), &server.ca_path()))
        .collect();
    let mut users: Vec<Value> = servers
        .iter()
        .map(|server| user(server.name(), server.token()))
        .collect();
    let mut contexts: Vec<Value> = servers
        .iter()
        .map(|server| context(server.name(), server.name(), server.name()))
        .collect();
    let target = format!("{}{FLEET}", hub.url());
    clusters.push(cluster("fleet", &target, &hub.ca_path()));
    users.push(user("alice", hub.token_of("alice")?));
    contexts.extend([
        context("fleet", "fleet", hub.name()),
        context("alice", "fleet", "alice"),
    ]);
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": hub.name(),
        "clusters": clusters,
        "users": users,
        "contexts": contexts,
    }))
}

/// The search path with the folders of fleetdex, kubectl and helm in front.
pub fn search_path() -> Result<String> {
    let programs = [
        fleetdex_program()?,
        Part::Kubectl.ensure()?,
        Part::Helm.ensure()?,
    ];
    let folders = programs
        .iter()
        .filter_map(|program| program.parent())
        .map(Path::to_owned);
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    let all = std::env::join_paths(folders.chain(std::env::split_paths(&inherited)))
        .context("making a search path")?;
    Ok(all.to_string_lossy().into_owned())
}

/// The files contain tokens.
fn write_private(path: &Path, text: &str) -> Result<()> {
    let write = || {
        // Truncating an existing file would keep its mode.
        let _ = fs::remove_file(path);
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        file.write_all(text.as_bytes())
    };
    write().with_context(|| format!("writing {}", path.display()))
}

//! The file that describes a running fleet, for scripts and for `e2e down`.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde::{Deserialize, Serialize};

use super::{
    apiserver::ApiServer,
    certificates,
    opensearch::OpenSearchServer,
    process::{Process, group_of, members_of_group, started_at},
};

/// How long the program that started a fleet may take to stop it.
const STOP_DEADLINE: Duration = Duration::from_secs(20);

/// What is needed to use a running fleet, and to stop only its processes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FleetState {
    /// The cluster for registries and Cluster objects.
    pub control_plane: ClusterState,
    /// The member clusters.
    pub members: Vec<ClusterState>,
    /// OpenSearch, if the fleet has one.
    pub opensearch: Option<OpenSearchState>,
    /// The client address of the control plane's etcd.
    pub etcd_url: String,
    /// The program that started the fleet: when it ends, the fleet ends.
    pub owner: ProcessState,
    /// The process group of all servers.
    pub process_group: ProcessState,
    /// The servers as they were started; a server that was restarted since has another id in the
    /// same process group.
    pub processes: Vec<ProcessState>,
}

/// How to reach one cluster as its administrator.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClusterState {
    /// `control-plane`, `member1`, …
    pub name: String,
    /// The server's URL.
    pub server: String,
    /// A kubeconfig file.
    pub kubeconfig: PathBuf,
    /// A bearer token.
    pub token: String,
    /// The file with the CA of the server's certificate.
    pub ca_path: PathBuf,
}

/// How to reach OpenSearch.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OpenSearchState {
    /// Its URL.
    pub url: String,
    /// The user for basic authentication, when it is secure.
    pub username: Option<String>,
    /// That user's password.
    pub password: Option<String>,
    /// The file with the CA of its certificate, when it is secure.
    pub ca_path: Option<PathBuf>,
}

/// A process that cannot be taken for another one with the same id.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProcessState {
    /// Its name.
    pub name: String,
    /// Its process id.
    pub pid: u32,
    /// When it started, in clock ticks since boot.
    pub started_at: u64,
}

impl FleetState {
    /// Writes the file, readable for us alone: it holds credentials.
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self).context("describing the fleet")?;
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        }
        // A reader that waits for the file must not see a part of it.
        let unfinished = path.with_added_extension("unfinished");
        certificates::write_private(&unfinished, &text)?;
        fs::rename(&unfinished, path).with_context(|| format!("writing {}", path.display()))
    }

    /// Reads the file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| {
            format!(
                "reading {}: is a fleet running? (`e2e up` writes this file)",
                path.display()
            )
        })?;
        serde_json::from_str(&text)
            .with_context(|| format!("{} does not describe a fleet", path.display()))
    }

    /// Ends the program that started the fleet, and with it the fleet; kills what is left.
    /// Processes that merely have the id of one of ours are left alone.
    pub fn stop(&self) -> Result<()> {
        if self.owner.is_running() {
            self.owner.signal(Signal::SIGTERM)?;
        }
        if self.all_gone_within(STOP_DEADLINE) {
            return Ok(());
        }
        for process in self.survivors() {
            process.signal(Signal::SIGKILL)?;
        }
        if self.all_gone_within(STOP_DEADLINE) {
            return Ok(());
        }
        bail!("still running after SIGKILL: {:?}", self.survivors())
    }

    /// Every process of the fleet that still runs.
    pub fn survivors(&self) -> Vec<ProcessState> {
        let known = self
            .processes
            .iter()
            .chain([&self.owner, &self.process_group]);
        let mut running: Vec<ProcessState> = known
            .filter(|process| process.is_running())
            .cloned()
            .collect();
        if self.process_group.is_running() {
            let members = members_of_group(self.process_group.pid);
            let restarted = members
                .into_iter()
                .filter(|pid| running.iter().all(|process| process.pid != *pid));
            let restarted: Vec<ProcessState> = restarted
                .map(|pid| ProcessState::of("restarted server", pid))
                .collect();
            running.extend(restarted);
        }
        running
    }

    fn all_gone_within(&self, deadline: Duration) -> bool {
        let started = Instant::now();
        while !self.survivors().is_empty() {
            if started.elapsed() > deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        true
    }
}

impl ClusterState {
    pub(super) fn of(server: &ApiServer) -> Self {
        Self {
            name: server.name().to_owned(),
            server: server.url().to_owned(),
            kubeconfig: server.kubeconfig(),
            token: server.token().to_owned(),
            ca_path: server.ca_path(),
        }
    }
}

impl OpenSearchState {
    pub(super) fn of(server: &OpenSearchServer) -> Self {
        Self {
            url: server.url().to_owned(),
            username: server.username().map(str::to_owned),
            password: server.password().map(str::to_owned),
            ca_path: server.ca_path().map(Path::to_owned),
        }
    }
}

impl ProcessState {
    /// `None` if the process does not run.
    pub(super) fn of_running(process: &Process) -> Option<Self> {
        Some(Self::of(process.name(), process.pid()?))
    }

    pub(super) fn of(name: &str, pid: u32) -> Self {
        Self {
            name: name.to_owned(),
            pid,
            started_at: started_at(pid).unwrap_or(0),
        }
    }

    fn is_running(&self) -> bool {
        group_of(self.pid).is_some() && started_at(self.pid) == Some(self.started_at)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.pid).context("process id")?;
        match kill(Pid::from_raw(pid), signal) {
            Ok(()) | Err(nix::errno::Errno::ESRCH) => Ok(()),
            Err(error) => Err(error).with_context(|| format!("sending {signal} to {self:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reused_process_id_is_not_taken_for_our_process() {
        let us = ProcessState::of("us", std::process::id());
        assert!(us.is_running());
        let earlier = ProcessState {
            started_at: us.started_at - 1,
            ..us
        };
        assert!(!earlier.is_running());
    }
}

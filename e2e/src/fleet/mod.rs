//! A fleet of real servers on loopback: a control plane, member clusters, etcd and OpenSearch.
//!
//! Nothing outlives the process that started it, however that process ends; see [`process`].

pub mod apiserver;
pub mod certificates;
pub(crate) mod dir;
pub mod etcd;
mod folder;
pub mod idle;
pub mod opensearch;
mod opensearch_pool;
mod password;
pub mod ports;
pub mod process;
pub(crate) mod ready;
pub mod registration;
mod shared;
pub mod state;

use std::{
    fs,
    ops::Deref,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;

pub use self::{
    apiserver::ApiServer,
    dir::target_folder,
    etcd::Etcd,
    opensearch::{OpenSearchKind, OpenSearchServer},
    process::Process,
    registration::Registration,
    shared::SharedFleet,
    state::FleetState,
};
use self::{
    apiserver::ServerEnvironment,
    certificates::Authority,
    dir::{FleetDir, scratch_folder},
    opensearch::USUAL_JAVA,
    opensearch_pool::PooledOpenSearch,
    process::Guard,
    state::{ClusterState, OpenSearchState, ProcessState},
};
use crate::{parts::Part, poll::eventually};

/// The name of the cluster that registries and members are registered with.
pub const CONTROL_PLANE: &str = "control-plane";

/// The parts of a fleet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// How many member clusters, `member1` and so on.
    pub members: usize,
    /// Which OpenSearch.
    pub opensearch: OpenSearchKind,
    /// The folder for logs, certificates and kubeconfigs; by default one in `target/fleet` named
    /// after the test's module, or after this program.
    pub dir: Option<PathBuf>,
    /// The file that describes the running fleet; by default `fleet.json` in that folder.
    pub state_file: Option<PathBuf>,
    /// Starts an OpenSearch for this fleet only. Otherwise it may reuse one of an earlier fleet of
    /// this process, emptied.
    pub own_opensearch: bool,
    /// How many more nodes the OpenSearch has, which is plain and the fleet's own then.
    pub more_opensearch_nodes: usize,
    /// Gives each member its own etcd, so that its history can be restored or wiped. Otherwise all
    /// servers share one.
    pub own_etcds: bool,
    /// Records what service accounts request of the control plane: [`ApiServer::audit_log`].
    pub audit: bool,
    /// Additional flags of the first members, such as `--runtime-config=autoscaling/v2=false`.
    pub member_flags: Vec<&'static [&'static str]>,
}

impl Options {
    /// This many members, and this OpenSearch.
    pub fn of(members: usize, opensearch: OpenSearchKind) -> Self {
        Self {
            members,
            opensearch,
            ..Self::default()
        }
    }
}

/// Running servers. Dropping it kills them and removes their data; logs and certificates stay until
/// the next start in the same folder.
///
/// Fields are dropped in order: the servers first, before the guard kills the rest of the group.
#[derive(Debug)]
pub struct Fleet {
    control_plane: ApiServer,
    members: Vec<ApiServer>,
    opensearch: Option<Store>,
    /// Its further nodes.
    more_nodes: Vec<OpenSearchServer>,
    /// The control plane's, and those of the members if they have their own.
    etcds: Vec<Etcd>,
    guard: Guard,
    state_file: PathBuf,
    dir: FleetDir,
}

/// The OpenSearch of a fleet.
#[derive(Debug)]
enum Store {
    Own(Box<OpenSearchServer>),
    Pooled(PooledOpenSearch),
}

impl Store {
    async fn wait_ready(&mut self) -> Result<()> {
        match self {
            Self::Own(server) => server.wait_ready().await,
            Self::Pooled(opensearch_pool) => opensearch_pool.wait_ready().await,
        }
    }
}

impl Deref for Store {
    type Target = OpenSearchServer;

    fn deref(&self) -> &OpenSearchServer {
        match self {
            Self::Own(server) => server,
            Self::Pooled(opensearch_pool) => opensearch_pool,
        }
    }
}

impl Fleet {
    /// Starts everything in parallel and returns when all of it answers. Missing parts are built
    /// first, which takes minutes, and [idle](idle) servers are stopped; a server that does not
    /// come up is an error with the end of its log, and everything else is stopped.
    pub async fn start(options: Options) -> Result<Self> {
        let needed = needed_parts(options.opensearch);
        tokio::task::spawn_blocking(move || {
            idle::stop_all();
            needed.iter().try_for_each(|part| part.ensure().map(drop))
        })
        .await
        .context("getting parts")??;

        let dir = FleetDir::claim(options.dir.as_deref())?;
        let path = &dir.path;
        let scratch = scratch_folder()?;
        let guard = Guard::start(std::slice::from_ref(&scratch))?;
        let group = guard.group();

        // OpenSearch takes longest. An API server waits for etcd by itself, but not long enough on
        // a busy machine.
        let mut more_nodes = Vec::new();
        let mut opensearch = match options.opensearch {
            OpenSearchKind::None => None,
            _ if options.more_opensearch_nodes > 0 => {
                let nodes = 1 + options.more_opensearch_nodes;
                let mut nodes =
                    OpenSearchServer::spawn_nodes(nodes, path, &scratch, group)?.into_iter();
                let first = nodes.next().context("no node of OpenSearch")?;
                more_nodes.extend(nodes);
                Some(Store::Own(Box::new(first)))
            }
            kind if options.own_opensearch => {
                let server = OpenSearchServer::spawn(kind, USUAL_JAVA, path, &scratch, group)?;
                Some(Store::Own(Box::new(server)))
            }
            kind => Some(Store::Pooled(PooledOpenSearch::begin(kind)?)),
        };
        let names: Vec<String> = (1..=options.members)
            .map(|number| format!("member{number}"))
            .collect();
        let of_members = names
            .iter()
            .filter(|_| options.own_etcds)
            .map(|name| format!("etcd-{name}"));
        let etcds = ["etcd".to_owned()].into_iter().chain(of_members);
        let etcds: Vec<Etcd> = etcds
            .map(|name| Etcd::spawn(&name, path, &scratch, group))
            .collect::<Result<_>>()?;
        try_join_all(etcds.iter().map(Etcd::wait_ready)).await?;
        // Shared, so that a member can aggregate another member's API.
        let front_proxy = Authority::new("front-proxy-ca")?;
        let environment = |etcd_url| ServerEnvironment {
            etcd_url,
            dir: path,
            group,
            front_proxy: &front_proxy,
        };
        let audit_flags = ApiServer::audit_flags(&path.join(CONTROL_PLANE));
        let audit_flags = audit_flags.each_ref().map(String::as_str);
        let flags = if options.audit { &audit_flags[..] } else { &[] };
        let control_plane = ApiServer::spawn(CONTROL_PLANE, &environment(etcds[0].url()), flags)?;
        let flags_of = |number: usize| {
            options
                .member_flags
                .get(number - 1)
                .copied()
                .unwrap_or_default()
        };
        let start = |(name, number): (&String, usize)| {
            ApiServer::spawn(
                name,
                &environment(etcd_of(&etcds, number).url()),
                flags_of(number),
            )
        };
        let members: Vec<ApiServer> = names.iter().zip(1..).map(start).collect::<Result<_>>()?;

        control_plane.wait_ready().await?;
        try_join_all(members.iter().map(ApiServer::wait_ready)).await?;
        if let Some(server) = &mut opensearch {
            server.wait_ready().await?;
        }
        try_join_all(more_nodes.iter().map(OpenSearchServer::wait_ready)).await?;

        let state_file = options
            .state_file
            .unwrap_or_else(|| path.join("fleet.json"));
        let fleet = Self {
            control_plane,
            members,
            opensearch,
            more_nodes,
            etcds,
            guard,
            state_file,
            dir,
        };
        fleet.state().write(&fleet.state_file)?;
        Ok(fleet)
    }

    /// The cluster in which registries, Cluster objects and their Secrets live.
    pub fn control_plane(&self) -> &ApiServer {
        &self.control_plane
    }

    /// All members in the order of their numbers.
    pub fn members(&self) -> &[ApiServer] {
        &self.members
    }

    /// A member by number, from 1.
    ///
    /// # Panics
    ///
    /// If the fleet has no such member.
    #[track_caller]
    pub fn member(&self, number: usize) -> &ApiServer {
        let members = self.members.len();
        assert!(
            (1..=members).contains(&number),
            "there is no member{number}; the fleet has {members} members"
        );
        &self.members[number - 1]
    }

    /// All members with their names.
    pub fn named_members(&self) -> impl Iterator<Item = (&str, &ApiServer)> {
        self.members.iter().map(|member| (member.name(), member))
    }

    /// The OpenSearch of the fleet.
    pub fn opensearch(&self) -> Result<&OpenSearchServer> {
        self.opensearch
            .as_deref()
            .context("this fleet was started without OpenSearch")
    }

    /// The further nodes of the OpenSearch.
    pub fn more_opensearch_nodes(&self) -> &[OpenSearchServer] {
        &self.more_nodes
    }

    /// The URLs of all nodes of the OpenSearch.
    pub fn opensearch_urls(&self) -> Result<Vec<&str>> {
        let nodes = [self.opensearch()?].into_iter().chain(&self.more_nodes);
        Ok(nodes.map(OpenSearchServer::url).collect())
    }

    /// Waits until the OpenSearch has all its nodes, and all copies of all shards.
    pub async fn until_all_copies_are_there(&self, deadline: Duration) -> Result<()> {
        let client = self.opensearch()?.client()?;
        let nodes = 1 + self.more_nodes.len();
        eventually("all copies of all shards", deadline, || async {
            let health = client.get("_cluster/health").await?;
            ensure!(
                health["status"] == "green" && health["number_of_nodes"] == nodes,
                "{health}"
            );
            Ok::<_, anyhow::Error>(())
        })
        .await
    }

    /// The etcd under the control plane, and under the members unless they have [their
    /// own](Options::own_etcds).
    pub fn etcd(&self) -> &Etcd {
        &self.etcds[0]
    }

    /// The etcd under a member, by the member's number.
    pub fn etcd_of(&self, number: usize) -> &Etcd {
        etcd_of(&self.etcds, number)
    }

    /// Logs, certificates, kubeconfigs.
    pub fn dir(&self) -> &Path {
        &self.dir.path
    }

    /// The file that [`FleetState`] was written to.
    pub fn state_file(&self) -> &Path {
        &self.state_file
    }

    /// The process group of all servers.
    pub fn process_group(&self) -> u32 {
        self.guard.group()
    }

    /// What a script needs to use and to stop the fleet.
    pub fn state(&self) -> FleetState {
        FleetState {
            control_plane: ClusterState::of(&self.control_plane),
            members: self.members.iter().map(ClusterState::of).collect(),
            opensearch: self.opensearch.as_deref().map(OpenSearchState::of),
            etcd_url: self.etcd().url().to_owned(),
            owner: ProcessState::of("owner", std::process::id()),
            process_group: ProcessState::of("process group", self.guard.group()),
            processes: self
                .processes()
                .filter_map(ProcessState::of_running)
                .collect(),
        }
    }

    /// Fails with the end of the log if a server of the fleet has exited unexpectedly.
    pub fn check_running(&self) -> Result<()> {
        self.processes().try_for_each(Process::check_running)
    }

    /// Resumes every paused server and starts every stopped one.
    pub async fn heal(&self) -> Result<()> {
        for etcd in &self.etcds {
            if !etcd.process().resume_if_running()? {
                etcd.restart().await?;
            }
        }
        for server in [&self.control_plane].into_iter().chain(&self.members) {
            if !server.process().resume_if_running()? {
                server.restart().await?;
            }
        }
        for node in &self.more_nodes {
            if !node.process().resume_if_running()? {
                node.restart().await?;
            }
        }
        match &self.opensearch {
            Some(server) if !server.process().resume_if_running()? => server.restart().await,
            _ => Ok(()),
        }
    }

    fn processes(&self) -> impl Iterator<Item = &Process> {
        let servers = [&self.control_plane]
            .into_iter()
            .chain(&self.members)
            .map(ApiServer::process);
        servers
            .chain(self.etcds.iter().map(Etcd::process))
            .chain(self.opensearch.as_deref().map(OpenSearchServer::process))
            .chain(self.more_nodes.iter().map(OpenSearchServer::process))
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        // The file would name processes that no longer exist.
        let _ = fs::remove_file(&self.state_file);
    }
}

/// An index prefix that is unique in this process: `name_4f3a1`.
pub fn unique_prefix(name: &str) -> String {
    unique(name).replace('-', "_")
}

/// A name for namespaces and clusters that is unique in this process: `name-4f3a1`.
pub fn unique(name: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{name}-{:04x}{number}", std::process::id() & 0xffff)
}

/// Members without their own etcd use the first one.
fn etcd_of(etcds: &[Etcd], number: usize) -> &Etcd {
    etcds.get(number).unwrap_or(&etcds[0])
}

fn needed_parts(opensearch: OpenSearchKind) -> Vec<Part> {
    let mut needed = vec![Part::Etcd, Part::KubeApiserver, Part::Kubectl];
    match opensearch {
        OpenSearchKind::Plain => needed.push(Part::OpenSearch),
        OpenSearchKind::Secure => needed.push(Part::SecureOpenSearch),
        OpenSearchKind::None => {}
    }
    needed
}

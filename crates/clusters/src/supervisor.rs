//! Runs all members: one supervised task each, so that one broken or hanging member never delays another.
//!
//! Locks are held only to look up or publish, never across I/O. Whoever wants to react to a change waits on
//! [`Clusters::changed`] and then takes a snapshot with [`Clusters::states`].

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    panic::AssertUnwindSafe,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fleetdex_core::model::ClusterName;
use futures::FutureExt;
use jiff::Timestamp;
use kube::Client;
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::{
    bearer::Bearer,
    connect::{self, Connect, ConnectError},
    credentials::{Credentials, Trust},
    definitions::Definitions,
    discovery::Discovery,
    events::{Events, Publisher, Reasons},
    fetch::OwnPod,
    member::{Access, Member},
    source::{Asking, Loader},
    state::{Accessor, Fault, Happened, Health, Phase, Timing},
    task::{MemberTask, moment},
};

/// A live connection to a member.
#[derive(Clone)]
pub struct Connection {
    /// New on each reconnect, and never the same for two members.
    pub id: u64,
    /// The client.
    pub client: Client,
    /// UID of the member's namespace `kube-system`: another UID is another cluster. `None` if it may not be read.
    pub uid: Option<String>,
    /// Whether the member is the cluster that this program runs in; see [`Clusters::recognise`].
    pub is_own: bool,
    /// How it was made. `None` for a client that somebody else made.
    way: Option<Way>,
}

/// What a connection was made from.
#[derive(Clone)]
pub(super) struct Way {
    pub(super) credentials: Credentials,
    pub(super) bearer: Bearer,
}

impl Connection {
    /// A connection over a client that somebody else made.
    pub fn new(id: u64, client: Client, uid: Option<String>) -> Self {
        Self {
            id,
            client,
            uid,
            is_own: false,
            way: None,
        }
    }

    pub(super) fn made(self, way: Way, is_own: bool) -> Self {
        Self {
            way: Some(way),
            is_own,
            ..self
        }
    }

    /// The address of the API server, if that is known.
    pub(super) fn address(&self) -> Option<&str> {
        self.way.as_ref().map(|way| way.credentials.server())
    }

    /// What the API server's certificate is checked against, if that is known.
    pub(super) fn trust(&self) -> Option<&Trust> {
        self.way.as_ref().map(|way| way.credentials.trust())
    }

    /// How the member is reached, with the token of this moment.
    pub fn rest_config(&self) -> Option<kube::Config> {
        let Way {
            credentials,
            bearer,
        } = self.way.as_ref()?;
        connect::rest_config(credentials, bearer).ok()
    }
}

/// Where a member stands.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberState {
    /// The member as last told.
    pub member: Arc<Member>,
    /// Where it stands.
    pub phase: Phase,
    /// Why, in one CamelCase word.
    pub reason: &'static str,
    /// Why, and what to do about it.
    pub message: String,
    /// Since when it is in this phase.
    pub since: Timestamp,
    /// The connection, while there is one.
    pub connection: Option<Connection>,
    /// What it serves, as last seen; kept while it is disconnected.
    pub discovery: Option<Arc<Discovery>>,
    /// What it says of its custom resources, as last seen; nothing until that has been asked.
    pub definitions: Option<Arc<Definitions>>,
    /// Version of its Kubernetes, as last seen.
    pub kubernetes_version: Option<String>,
    /// What is unusual about the connection although it works.
    pub note: Option<Cow<'static, str>>,
}

/// All members, and the tasks that keep them connected.
pub struct Clusters {
    shared: Arc<Shared>,
    tasks: Mutex<Tasks>,
    shutdown: CancellationToken,
}

/// What the tasks share.
pub(super) struct Shared {
    pub(super) loader: Loader,
    pub(super) connect: Arc<dyn Connect>,
    pub(super) timing: Timing,
    pub(super) own_pod: OnceLock<OwnPod>,
    entries: Mutex<BTreeMap<ClusterName, Entry>>,
    events: Publisher,
    changed: watch::Sender<u64>,
    last_connection: AtomicU64,
}

struct Entry {
    /// The task that may publish here. One that was stopped may still be about to.
    task: u64,
    state: MemberState,
    health: Health,
}

#[derive(Default)]
struct Tasks {
    set: JoinSet<()>,
    running: BTreeMap<ClusterName, Running>,
    last: u64,
}

struct Running {
    id: u64,
    member: watch::Sender<Arc<Member>>,
    wake: Arc<Notify>,
    stop: CancellationToken,
}

impl Clusters {
    /// No members yet. Credentials are read by `loader`, which a client of the control plane becomes; `shutdown` stops all tasks.
    pub fn new(
        loader: impl Into<Loader>,
        connect: Arc<dyn Connect>,
        timing: Timing,
        shutdown: CancellationToken,
    ) -> Self {
        let shared = Shared {
            loader: loader.into(),
            connect,
            timing,
            own_pod: OnceLock::new(),
            entries: Mutex::default(),
            events: Publisher::default(),
            changed: watch::Sender::new(0),
            last_connection: AtomicU64::new(0),
        };
        Self {
            shared: Arc::new(shared),
            tasks: Mutex::default(),
            shutdown,
        }
    }

    /// Tells members that are this program's own cluster by its Pod, which is looked for at each connect from now on:
    /// [`Connection::is_own`]. It takes the right to get that Pod. Only the first Pod counts.
    pub fn recognise(&self, own_pod: OwnPod) {
        let _is_known_already = self.shared.own_pod.set(own_pod);
    }

    /// Makes `members` the members: starts new ones, stops others, reconnects those whose address or credentials
    /// changed, and leaves the rest alone. Must be called on a tokio runtime.
    pub fn set_members(&self, members: Vec<Member>) {
        let mut tasks = self.tasks.lock();
        while tasks.set.try_join_next().is_some() {}
        let kept: BTreeSet<ClusterName> = members
            .iter()
            .filter(|member| tasks.runs(member))
            .map(|member| member.name.clone())
            .collect();
        tasks.running.retain(|name, running| {
            let keep = kept.contains(name);
            if !keep {
                running.stop.cancel();
                self.shared.remove(name);
            }
            keep
        });
        for member in members {
            self.tell(&mut tasks, Arc::new(member));
        }
    }

    /// Where every member stands: a snapshot.
    pub fn states(&self) -> BTreeMap<ClusterName, MemberState> {
        let entries = self.shared.entries.lock();
        entries
            .iter()
            .map(|(name, entry)| (name.clone(), entry.state.clone()))
            .collect()
    }

    /// Where one member stands.
    pub fn state(&self, cluster: &ClusterName) -> Option<MemberState> {
        self.shared
            .entries
            .lock()
            .get(cluster)
            .map(|entry| entry.state.clone())
    }

    /// All members, connected or not.
    pub fn names(&self) -> Vec<ClusterName> {
        self.shared.entries.lock().keys().cloned().collect()
    }

    /// The connection of a member, while there is one.
    pub fn connection(&self, cluster: &ClusterName) -> Option<Connection> {
        self.shared
            .entries
            .lock()
            .get(cluster)?
            .state
            .connection
            .clone()
    }

    /// What connects and probes of a member have shown; nothing of one that is none.
    pub fn health(&self, cluster: &ClusterName) -> Health {
        self.shared
            .entries
            .lock()
            .get(cluster)
            .map(|entry| entry.health)
            .unwrap_or_default()
    }

    /// Tells of each connect and disconnect of a member from now on, and once of each of these times that pass without a
    /// successful probe.
    pub fn events(&self, probe_failure: &[Duration]) -> Events {
        self.shared.events.subscribe(probe_failure)
    }

    /// A number that grows with every change of any state or discovery.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.shared.changed.subscribe()
    }

    /// Probes a member and reads its discovery now; connects now if it is disconnected.
    pub fn refresh(&self, cluster: &ClusterName) {
        if let Some(running) = self.tasks.lock().running.get(cluster) {
            running.wake.notify_one();
        }
    }

    /// Waits until all tasks have ended; to be called after the shutdown token was cancelled.
    pub async fn stopped(&self) {
        let mut set = std::mem::take(&mut self.tasks.lock().set);
        while set.join_next().await.is_some() {}
    }

    pub(super) async fn load(
        &self,
        access: &Access,
        asking: Asking,
    ) -> Result<Credentials, ConnectError> {
        self.shared
            .loader
            .load(access, asking, self.shared.timing.request_timeout)
            .await
    }

    pub(super) fn connector(&self) -> &dyn Connect {
        &*self.shared.connect
    }

    fn tell(&self, tasks: &mut Tasks, member: Arc<Member>) {
        match tasks.running.get(&member.name) {
            None => self.start(tasks, &member),
            Some(running) if *running.member.borrow() == member => {}
            Some(running) => {
                let health = self.health(&member.name);
                self.shared
                    .publish(&member.name, running.id, health, |state| {
                        state.member = member.clone();
                    });
                running.member.send_replace(member);
            }
        }
    }

    fn start(&self, tasks: &mut Tasks, member: &Arc<Member>) {
        tasks.last += 1;
        let id = tasks.last;
        let stop = self.shutdown.child_token();
        let wake = Arc::new(Notify::new());
        let sender = watch::Sender::new(member.clone());
        let shared = self.shared.clone();
        shared.insert(id, member);
        let task = MemberTask::new(id, shared, sender.subscribe(), wake.clone());
        tasks.set.spawn(supervise(task, stop.clone()));
        tasks.running.insert(
            member.name.clone(),
            Running {
                id,
                member: sender,
                wake,
                stop,
            },
        );
    }
}

impl Tasks {
    /// Whether a task runs for this member: the same object, not only the same name.
    fn runs(&self, member: &Member) -> bool {
        self.running
            .get(&member.name)
            .is_some_and(|running| running.member.borrow().uid == member.uid)
    }
}

/// Starts the task again should it ever panic: that is a defect, but it must not take a member away for good.
async fn supervise(task: MemberTask, stop: CancellationToken) {
    let forever = async {
        loop {
            let run = AssertUnwindSafe(task.clone().run()).catch_unwind();
            let Err(_panic) = run.await;
            tracing::error!(cluster = %task.name(), "the task of a cluster panicked and starts again");
            task.panicked();
            tokio::time::sleep(task.timing().connect_retry).await;
        }
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = forever => {}
    }
}

impl Shared {
    /// A number for a new connection.
    pub(super) fn connection_id(&self) -> u64 {
        self.last_connection.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// What a member was last seen to serve.
    pub(super) fn discovery(&self, name: &ClusterName) -> Option<Arc<Discovery>> {
        self.entries
            .lock()
            .get(name)
            .and_then(|entry| entry.state.discovery.clone())
    }

    /// Changes the state of a member, if task `task` still runs it, and tells those who wait if anything is different.
    pub(super) fn publish(
        &self,
        name: &ClusterName,
        task: u64,
        health: Health,
        change: impl FnOnce(&mut MemberState),
    ) {
        let mut entries = self.entries.lock();
        let Some(entry) = entries.get_mut(name).filter(|entry| entry.task == task) else {
            return;
        };
        let mut state = entry.state.clone();
        change(&mut state);
        if state.phase != entry.state.phase {
            state.since = Timestamp::now();
        }
        let different = state != entry.state;
        let reasons = Reasons::between(entry.state.connection.as_ref(), state.connection.as_ref());
        entry.state = state;
        entry.health = health;
        drop(entries);
        if different {
            self.bump();
        }
        self.events.tell(name, reasons, &health, moment().now);
    }

    /// Says what a member's custom resources are defined as, if task `task` still runs it; nothing: as before, or nothing at all. Members that
    /// define them alike share what is known.
    pub(super) fn set_definitions(
        &self,
        name: &ClusterName,
        task: u64,
        found: Option<Definitions>,
    ) {
        let mut entries = self.entries.lock();
        let is_known = entries
            .get(name)
            .is_some_and(|entry| entry.state.definitions.is_some());
        let found = match found {
            None if is_known => return,
            found => found.unwrap_or_default(),
        };
        let mut known = entries
            .values()
            .filter_map(|entry| entry.state.definitions.as_ref());
        let found = known
            .find(|known| ***known == found)
            .cloned()
            .unwrap_or_else(|| Arc::new(found));
        let Some(entry) = entries.get_mut(name).filter(|entry| entry.task == task) else {
            return;
        };
        if entry
            .state
            .definitions
            .replace(Arc::clone(&found))
            .is_some_and(|before| before == found)
        {
            return;
        }
        drop(entries);
        self.bump();
    }

    fn insert(&self, task: u64, member: &Arc<Member>) {
        let accessor = Accessor::default();
        let state = MemberState {
            member: member.clone(),
            phase: accessor.phase(),
            reason: accessor.reason(),
            message: accessor.message(&self.timing),
            since: Timestamp::now(),
            connection: None,
            discovery: None,
            definitions: None,
            kubernetes_version: None,
            note: None,
        };
        self.entries.lock().insert(
            member.name.clone(),
            Entry {
                task,
                state,
                health: Health::default(),
            },
        );
        self.bump();
    }

    fn remove(&self, name: &ClusterName) {
        self.entries.lock().remove(name);
        self.events.forget(name);
        self.bump();
    }

    fn bump(&self) {
        self.changed.send_modify(|number| *number += 1);
    }
}

impl MemberTask {
    fn panicked(&self) {
        let fault = Fault {
            reason: "InternalError",
            message:
                "this program failed while it watched over the member: see its log and report it"
                    .to_owned(),
            unauthorized: false,
        };
        let mut accessor = Accessor::default();
        accessor.observe(Happened::ConnectFailed(fault), moment(), self.timing());
        self.show(&accessor);
    }
}

impl PartialEq for Connection {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Connection")
            .field("id", &self.id)
            .field("uid", &self.uid)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "supervisor_tests.rs"]
mod tests;

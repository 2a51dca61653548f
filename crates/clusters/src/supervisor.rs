//! Supervises the member tasks, one per member, so that a broken or hanging member never delays
//! another.
//!
//! Locks are held only to look up or publish, never across I/O. To react to a change, wait on
//! [`Clusters::changed`] and then take a snapshot with [`Clusters::states`].

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::AssertUnwindSafe,
    sync::{Arc, OnceLock, atomic::AtomicU64},
    time::Duration,
};

use fleetdex_core::model::ClusterName;
use futures::FutureExt;
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::{
    connect::{Connect, ConnectError},
    connection::Connection,
    connection_state::ConnectionHealth,
    connection_timing::ConnectionTiming,
    credentials::Credentials,
    events::{ClusterEvents, Publisher},
    fetch::OwnPod,
    member::{Member, MemberAccess},
    member_task::MemberTask,
    shared::{MemberEntry, MemberState, SupervisorState},
    source::{Loader, PluginCachePolicy},
};

/// All members, and the tasks that keep them connected.
pub struct Clusters {
    shared: Arc<SupervisorState>,
    tasks: Mutex<Tasks>,
    shutdown: CancellationToken,
}

#[derive(Default)]
struct Tasks {
    set: JoinSet<()>,
    running: BTreeMap<ClusterName, RunningTask>,
    last: u64,
}

struct RunningTask {
    id: u64,
    member: watch::Sender<Arc<Member>>,
    wake: Arc<Notify>,
    stop: CancellationToken,
}

impl Clusters {
    /// A supervisor without members. `loader` reads credentials; a client of the control plane
    /// converts to one. `shutdown` stops all tasks.
    pub fn new(
        loader: impl Into<Loader>,
        connect: Arc<dyn Connect>,
        timing: ConnectionTiming,
        shutdown: CancellationToken,
    ) -> Self {
        let shared = SupervisorState {
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

    /// Sets [`Connection::is_own`] for members that have the Pod that this program runs in. The Pod
    /// is looked up at each connect from now on, which needs the right to get it. Only the first
    /// call has an effect.
    pub fn detect_own_cluster(&self, own_pod: OwnPod) {
        let _is_known_already = self.shared.own_pod.set(own_pod);
    }

    /// Replaces the set of members: starts new ones, stops removed ones, reconnects those whose
    /// address or credentials changed, and leaves the rest alone. Must be called on a tokio
    /// runtime.
    pub fn set_members(&self, members: Vec<Member>) {
        let mut tasks = self.tasks.lock();
        while tasks.set.try_join_next().is_some() {}
        let unchanged: BTreeSet<ClusterName> = members
            .iter()
            .filter(|member| tasks.runs(member))
            .map(|member| member.name.clone())
            .collect();
        tasks.running.retain(|name, running| {
            let keep = unchanged.contains(name);
            if !keep {
                running.stop.cancel();
                self.shared.remove(name);
            }
            keep
        });
        for member in members {
            self.start_or_update(&mut tasks, Arc::new(member));
        }
    }

    /// A snapshot of the state of every member.
    pub fn states(&self) -> BTreeMap<ClusterName, MemberState> {
        let entries = self.shared.entries.lock();
        entries
            .iter()
            .map(|(name, entry)| (name.clone(), entry.state.clone()))
            .collect()
    }

    /// The state of one member.
    pub fn state(&self, cluster: &ClusterName) -> Option<MemberState> {
        self.entry(cluster, |entry| entry.state.clone())
    }

    /// All members, connected or not.
    pub fn names(&self) -> Vec<ClusterName> {
        self.shared.entries.lock().keys().cloned().collect()
    }

    /// The connection of a member, while it is connected.
    pub fn connection(&self, cluster: &ClusterName) -> Option<Connection> {
        self.entry(cluster, |entry| entry.state.connection.clone())?
    }

    /// The results of a member's connects and probes; the default for an unknown member.
    pub fn health(&self, cluster: &ClusterName) -> ConnectionHealth {
        self.entry(cluster, |entry| entry.health)
            .unwrap_or_default()
    }

    fn entry<T>(&self, cluster: &ClusterName, read: impl FnOnce(&MemberEntry) -> T) -> Option<T> {
        self.shared.entries.lock().get(cluster).map(read)
    }

    /// Subscribes to each further connect and disconnect of a member, and to each of these
    /// durations that passes without a successful probe.
    pub fn events(&self, probe_failure: &[Duration]) -> ClusterEvents {
        self.shared.events.subscribe(probe_failure)
    }

    /// A number that grows with every change of any member's state or discovery.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.shared.changed.subscribe()
    }

    /// Probes a member and refreshes its discovery now; connects now if it is disconnected.
    pub fn refresh(&self, cluster: &ClusterName) {
        if let Some(running) = self.tasks.lock().running.get(cluster) {
            running.wake.notify_one();
        }
    }

    /// Waits until all tasks have ended. Call it after cancelling the shutdown token.
    pub async fn stopped(&self) {
        let mut set = std::mem::take(&mut self.tasks.lock().set);
        while set.join_next().await.is_some() {}
    }

    pub(super) async fn load(
        &self,
        access: &MemberAccess,
        plugin_cache: PluginCachePolicy,
    ) -> Result<Credentials, ConnectError> {
        self.shared
            .loader
            .load(access, plugin_cache, self.shared.timing.request_timeout)
            .await
    }

    pub(super) fn connector(&self) -> &dyn Connect {
        &*self.shared.connect
    }

    fn start_or_update(&self, tasks: &mut Tasks, member: Arc<Member>) {
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
            RunningTask {
                id,
                member: sender,
                wake,
                stop,
            },
        );
    }
}

impl Tasks {
    /// Whether a task runs for this member, by the UID of its object as well as its name.
    fn runs(&self, member: &Member) -> bool {
        self.running
            .get(&member.name)
            .is_some_and(|running| running.member.borrow().uid == member.uid)
    }
}

/// Runs a task, and restarts it if it panics: a panic is a defect, but must not disconnect a member
/// permanently.
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

#[cfg(test)]
mod tests;

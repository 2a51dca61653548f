//! Runs all members: one supervised task each, so that one broken or hanging member never delays another.
//!
//! Locks are held only to look up or publish, never across I/O. Whoever wants to react to a change waits on
//! [`Clusters::changed`] and then takes a snapshot with [`Clusters::states`].

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
    credentials::Credentials,
    events::{Events, Publisher},
    fetch::OwnPod,
    member::{Access, Member},
    shared::{MemberState, Shared},
    source::{Asking, Loader},
    state::{Health, Timing},
    task::MemberTask,
};

/// All members, and the tasks that keep them connected.
pub struct Clusters {
    shared: Arc<Shared>,
    tasks: Mutex<Tasks>,
    shutdown: CancellationToken,
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

#[cfg(test)]
#[path = "supervisor_tests.rs"]
mod tests;

//! The state of all members, which their tasks publish.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use fleetdex_core::model::ClusterName;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};

use super::{
    connect::Connect,
    connection::Connection,
    connection_state::{ClockReading, ConnectionHealth, ConnectionPhase, ConnectionState},
    connection_timing::ConnectionTiming,
    definitions::Definitions,
    discovery::Discovery,
    events::{EventReasons, Publisher},
    fetch::OwnPod,
    member::Member,
    source::Loader,
};

/// The state of a member.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberState {
    /// The member as its source describes it.
    pub member: Arc<Member>,
    /// The phase of its connection.
    pub phase: ConnectionPhase,
    /// The reason for the phase, in CamelCase.
    pub reason: &'static str,
    /// The reason, and what to do about it.
    pub message: String,
    /// The time of the last change of the phase.
    pub since: Timestamp,
    /// The connection, while the member is connected.
    pub connection: Option<Connection>,
    /// The resources that it serves, by the last successful discovery; kept while it is
    /// disconnected.
    pub discovery: Option<Arc<Discovery>>,
    /// Its custom resource definitions, as last read; `None` until they have been read or have
    /// timed out.
    pub definitions: Option<Arc<Definitions>>,
    /// Its Kubernetes version, as last read.
    pub kubernetes_version: Option<String>,
    /// A warning about a connection that works.
    pub note: Option<Cow<'static, str>>,
}

/// The state that the supervisor and its tasks share.
pub(super) struct SupervisorState {
    pub(super) loader: Loader,
    pub(super) connect: Arc<dyn Connect>,
    pub(super) timing: ConnectionTiming,
    pub(super) own_pod: OnceLock<OwnPod>,
    pub(super) entries: Mutex<BTreeMap<ClusterName, MemberEntry>>,
    pub(super) events: Publisher,
    pub(super) changed: watch::Sender<u64>,
    pub(super) last_connection: AtomicU64,
}

pub(super) struct MemberEntry {
    /// The task that may publish. A stopped task may still try to.
    pub(super) task: u64,
    pub(super) state: MemberState,
    pub(super) health: ConnectionHealth,
}

impl SupervisorState {
    /// Returns a new connection number.
    pub(super) fn connection_id(&self) -> u64 {
        self.last_connection.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The resources that a member served at the last successful discovery.
    pub(super) fn discovery(&self, name: &ClusterName) -> Option<Arc<Discovery>> {
        self.entries
            .lock()
            .get(name)
            .and_then(|entry| entry.state.discovery.clone())
    }

    /// Changes the state of a member if `task` still runs it, and notifies receivers of
    /// [`Clusters::changed`](super::Clusters::changed) if it differs.
    pub(super) fn publish(
        &self,
        name: &ClusterName,
        task: u64,
        health: ConnectionHealth,
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
        let reasons =
            EventReasons::between(entry.state.connection.as_ref(), state.connection.as_ref());
        entry.state = state;
        entry.health = health;
        drop(entries);
        if different {
            self.notify_changed();
        }
        self.events
            .publish(name, reasons, &health, clock_reading().now);
    }

    /// Sets the custom resource definitions of a member if `task` still runs it. `None` keeps the
    /// known ones, or sets empty ones if none are known. Members with equal definitions share them.
    pub(super) fn set_definitions(
        &self,
        name: &ClusterName,
        task: u64,
        found: Option<Definitions>,
    ) {
        let left_out = found.as_ref().map_or(0, Definitions::left_out);
        if left_out > 0 {
            tracing::warn!(cluster = %name, left_out, "left out custom resource definitions of a member that exceed the limits");
        }
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
        self.notify_changed();
    }

    pub(super) fn insert(&self, task: u64, member: &Arc<Member>) {
        let accessor = ConnectionState::default();
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
            MemberEntry {
                task,
                state,
                health: ConnectionHealth::default(),
            },
        );
        self.notify_changed();
    }

    pub(super) fn remove(&self, name: &ClusterName) {
        self.entries.lock().remove(name);
        self.events.forget(name);
        self.notify_changed();
    }

    fn notify_changed(&self) {
        self.changed.send_modify(|number| *number += 1);
    }
}

/// The current time, and a random number.
pub(super) fn clock_reading() -> ClockReading {
    ClockReading {
        now: Instant::now().into_std(),
        random: fastrand::f64(),
    }
}

//! Where all members stand, as their tasks publish it.

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
    definitions::Definitions,
    discovery::Discovery,
    events::{Publisher, Reasons},
    fetch::OwnPod,
    member::Member,
    source::Loader,
    state::{Accessor, Health, Moment, Phase, Timing},
};

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

/// What the tasks share.
pub(super) struct Shared {
    pub(super) loader: Loader,
    pub(super) connect: Arc<dyn Connect>,
    pub(super) timing: Timing,
    pub(super) own_pod: OnceLock<OwnPod>,
    pub(super) entries: Mutex<BTreeMap<ClusterName, Entry>>,
    pub(super) events: Publisher,
    pub(super) changed: watch::Sender<u64>,
    pub(super) last_connection: AtomicU64,
}

pub(super) struct Entry {
    /// The task that may publish here. One that was stopped may still be about to.
    pub(super) task: u64,
    pub(super) state: MemberState,
    pub(super) health: Health,
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

    pub(super) fn insert(&self, task: u64, member: &Arc<Member>) {
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

    pub(super) fn remove(&self, name: &ClusterName) {
        self.entries.lock().remove(name);
        self.events.forget(name);
        self.bump();
    }

    fn bump(&self) {
        self.changed.send_modify(|number| *number += 1);
    }
}

/// Now, and a chance.
pub(super) fn moment() -> Moment {
    Moment {
        now: Instant::now().into_std(),
        random: fastrand::f64(),
    }
}

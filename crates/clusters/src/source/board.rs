//! What every source has found so far, and the one list of members that comes of it.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use fleetdex_api::cluster::Cluster;
use fleetdex_core::model::ClusterName;
use fleetdex_telemetry::{Metrics, Readiness};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::super::member::Member;

/// What the sources have found. They write through [`Feed`]s, and whoever runs the members takes [`Snapshot`]s.
pub struct Board {
    feeds: Mutex<Vec<State>>,
    version: AtomicU64,
    changed: Arc<Notify>,
    metrics: Arc<Metrics>,
    readiness: Readiness,
}

/// One source in one namespace, or wherever it looks.
struct State {
    label: String,
    /// `None` until it has been read completely once.
    entries: Option<BTreeMap<String, Entry>>,
    /// Why it cannot be read now.
    trouble: Option<String>,
    /// What it was told to find and is not there.
    missing: Option<String>,
}

/// What one object describes.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The member, or why it is none.
    pub member: Result<Member, String>,
    /// The object, where its status is written.
    pub cluster: Option<Arc<Cluster>>,
}

/// Where one source writes what it finds.
#[derive(Clone)]
pub struct Feed {
    board: Arc<Board>,
    index: usize,
}

/// The members of all sources.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// One for each name.
    pub members: Vec<Member>,
    /// Members whose name another one has: they are left out. By that name.
    pub taken: BTreeMap<ClusterName, Vec<Member>>,
    /// Sources that have not been read yet: there may be more members.
    pub unread: Vec<String>,
    /// `Cluster` objects whose status is to be written.
    pub clusters: Vec<Arc<Cluster>>,
}

impl Board {
    /// Nothing is known. `changed` is notified of every change.
    pub fn new(metrics: Arc<Metrics>, readiness: Readiness, changed: Arc<Notify>) -> Arc<Self> {
        Arc::new(Self {
            feeds: Mutex::default(),
            version: AtomicU64::new(0),
            changed,
            metrics,
            readiness,
        })
    }

    /// A source, called `label` in messages.
    pub fn feed(self: &Arc<Self>, label: String) -> Feed {
        let mut feeds = self.lock();
        let index = feeds.len();
        feeds.push(State {
            label,
            entries: None,
            trouble: None,
            missing: None,
        });
        self.tell(&feeds);
        Feed {
            board: Arc::clone(self),
            index,
        }
    }

    /// Whether every source has been read, or could not be.
    pub fn is_settled(&self) -> bool {
        self.lock()
            .iter()
            .all(|state| state.entries.is_some() || state.trouble.is_some())
    }

    /// A number that grows with every change.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// What is known now.
    ///
    /// Of several members with one name the oldest counts, so that nobody can take the place of a member that is there; among those of
    /// the same age the one of the first source.
    pub fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        let mut by_name: BTreeMap<ClusterName, Vec<Member>> = BTreeMap::new();
        for state in self.lock().iter() {
            let Some(entries) = &state.entries else {
                snapshot.unread.push(state.label.clone());
                continue;
            };
            snapshot
                .clusters
                .extend(entries.values().filter_map(|entry| entry.cluster.clone()));
            for member in entries
                .values()
                .filter_map(|entry| entry.member.as_ref().ok())
            {
                by_name
                    .entry(member.name.clone())
                    .or_default()
                    .push(member.clone());
            }
        }
        for (name, mut members) in by_name {
            // Stable: the order of the sources remains among equals.
            members.sort_by_key(|member| (member.created.is_none(), member.created));
            let mut members = members.into_iter();
            snapshot.members.extend(members.next());
            let others: Vec<Member> = members.collect();
            if !others.is_empty() {
                snapshot.taken.insert(name, others);
            }
        }
        snapshot
    }

    /// `change` says whether it has changed anything.
    fn change(&self, index: usize, change: impl FnOnce(&mut State) -> bool) {
        let mut feeds = self.lock();
        if !feeds.get_mut(index).is_some_and(change) {
            return;
        }
        self.tell(&feeds);
        drop(feeds);
        self.version.fetch_add(1, Ordering::AcqRel);
        self.changed.notify_one();
    }

    /// Metrics and readiness. A source that cannot be read makes nobody wait for those that can.
    fn tell(&self, feeds: &[State]) {
        let some_read = feeds.iter().any(|state| state.entries.is_some());
        for state in feeds {
            let works = state.entries.is_some() && state.trouble.is_none();
            self.metrics.set_cluster_source_up(&state.label, works);
            let check = format!("clusters from {}", state.label);
            match (&state.trouble, &state.entries, &state.missing) {
                (None, Some(_), None) => self.readiness.ready(&check),
                (Some(trouble), ..) if some_read => {
                    self.readiness.degraded(&check, trouble.clone());
                }
                (Some(trouble), ..) => self.readiness.not_ready(&check, trouble.clone()),
                (None, Some(_), Some(missing)) => self.readiness.degraded(&check, missing.clone()),
                (None, None, _) if some_read => self.readiness.degraded(&check, "not read yet"),
                (None, None, _) => self.readiness.not_ready(&check, "not read yet"),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<State>> {
        self.feeds.lock()
    }
}

impl Feed {
    /// The source has been read completely: this is all that there is.
    pub fn replace(&self, entries: BTreeMap<String, Entry>) {
        self.board.change(self.index, |state| {
            tracing::info!(source = %state.label, objects = entries.len(), "a source of clusters has been read");
            for (key, entry) in &entries {
                state.warn_of(key, entry);
            }
            state.entries = Some(entries);
            state.trouble = None;
            true
        });
    }

    /// One object has changed.
    pub fn set(&self, key: String, entry: Entry) {
        self.board.change(self.index, |state| {
            state.warn_of(&key, &entry);
            state.entries.get_or_insert_default().insert(key, entry);
            state.trouble = None;
            true
        });
    }

    /// One object is gone.
    pub fn remove(&self, key: &str) {
        self.board.change(self.index, |state| {
            state
                .entries
                .as_mut()
                .is_some_and(|entries| entries.remove(key).is_some())
        });
    }

    /// The source cannot be read now. What it said before stands.
    pub fn trouble(&self, message: String) {
        self.board.change(self.index, |state| {
            if state.trouble.as_ref() == Some(&message) {
                return false;
            }
            tracing::warn!(source = %state.label, "cannot read a source of clusters: {message}");
            state.trouble = Some(message);
            true
        });
    }

    /// Something that the source was told to find is not there.
    pub fn missing(&self, message: Option<String>) {
        self.board.change(self.index, |state| {
            if state.missing == message {
                return false;
            }
            if let Some(message) = &message {
                tracing::warn!(source = %state.label, "{message}");
            }
            state.missing = message;
            true
        });
    }

    /// The member that an object described when it was last seen.
    pub fn member(&self, key: &str) -> Option<Member> {
        let feeds = self.board.lock();
        let entries = feeds.get(self.index)?.entries.as_ref()?;
        entries.get(key)?.member.clone().ok()
    }
}

impl State {
    /// Once for each reason: objects change for other reasons, too.
    fn warn_of(&self, key: &str, entry: &Entry) {
        let Err(reason) = &entry.member else { return };
        let before = self.entries.as_ref().and_then(|entries| entries.get(key));
        if before.is_none_or(|before| before.member != entry.member) {
            tracing::warn!(source = %self.label, object = key, "not a member: {reason}");
        }
    }
}

#[cfg(test)]
#[path = "board_tests.rs"]
mod tests;

//! What every source has found so far, and the one list of members that comes of it.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::Notify;

use super::super::member::Member;
use crate::{
    api::cluster::Cluster,
    model::ClusterName,
    telemetry::{Metrics, Readiness},
};

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
        Arc::new(Self { feeds: Mutex::default(), version: AtomicU64::new(0), changed, metrics, readiness })
    }

    /// A source, called `label` in messages.
    pub fn feed(self: &Arc<Self>, label: String) -> Feed {
        let mut feeds = self.lock();
        let index = feeds.len();
        feeds.push(State { label, entries: None, trouble: None, missing: None });
        self.tell(&feeds);
        Feed { board: Arc::clone(self), index }
    }

    /// Whether every source has been read, or could not be.
    pub fn is_settled(&self) -> bool {
        self.lock().iter().all(|state| state.entries.is_some() || state.trouble.is_some())
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
            snapshot.clusters.extend(entries.values().filter_map(|entry| entry.cluster.clone()));
            for member in entries.values().filter_map(|entry| entry.member.as_ref().ok()) {
                by_name.entry(member.name.clone()).or_default().push(member.clone());
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

    fn change(&self, index: usize, change: impl FnOnce(&mut State)) {
        let mut feeds = self.lock();
        if let Some(state) = feeds.get_mut(index) {
            change(state);
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
                (Some(trouble), ..) if some_read => self.readiness.degraded(&check, trouble.clone()),
                (Some(trouble), ..) => self.readiness.not_ready(&check, trouble.clone()),
                (None, Some(_), Some(missing)) => self.readiness.degraded(&check, missing.clone()),
                (None, None, _) if some_read => self.readiness.degraded(&check, "not read yet"),
                (None, None, _) => self.readiness.not_ready(&check, "not read yet"),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<State>> {
        self.feeds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Feed {
    /// The source has been read completely: this is all that there is.
    pub fn replace(&self, entries: BTreeMap<String, Entry>) {
        for (key, entry) in &entries {
            warn_of(key, entry);
        }
        self.board.change(self.index, |state| {
            tracing::info!(source = %state.label, clusters = entries.len(), "a source of clusters has been read");
            state.entries = Some(entries);
            state.trouble = None;
        });
    }

    /// One object has changed.
    pub fn set(&self, key: String, entry: Entry) {
        warn_of(&key, &entry);
        self.board.change(self.index, |state| {
            state.entries.get_or_insert_default().insert(key, entry);
            state.trouble = None;
        });
    }

    /// One object is gone.
    pub fn remove(&self, key: &str) {
        self.board.change(self.index, |state| {
            if let Some(entries) = &mut state.entries {
                entries.remove(key);
            }
        });
    }

    /// The source cannot be read now. What it said before stands.
    pub fn trouble(&self, message: String) {
        self.board.change(self.index, |state| {
            if state.trouble.as_ref() != Some(&message) {
                tracing::warn!(source = %state.label, "cannot read a source of clusters: {message}");
            }
            state.trouble = Some(message);
        });
    }

    /// Something that the source was told to find is not there.
    pub fn missing(&self, message: Option<String>) {
        self.board.change(self.index, |state| {
            if let Some(message) = message.as_ref().filter(|message| state.missing.as_ref() != Some(message)) {
                tracing::warn!(source = %state.label, "{message}");
            }
            state.missing = message;
        });
    }

    /// The member that an object described when it was last seen.
    pub fn member(&self, key: &str) -> Option<Member> {
        let feeds = self.board.lock();
        let entries = feeds.get(self.index)?.entries.as_ref()?;
        entries.get(key)?.member.clone().ok()
    }
}

fn warn_of(key: &str, entry: &Entry) {
    if let Err(reason) = &entry.member {
        tracing::warn!(object = key, "not a member: {reason}");
    }
}

#[cfg(test)]
#[path = "board_tests.rs"]
mod tests;

//! Aggregates the members that all sources have found into one list.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use fleetdex_core::model::ClusterName;
use fleetdex_crds::cluster::Cluster;
use fleetdex_telemetry::{Metrics, Readiness};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::super::member::Member;

/// The members that the sources have found. Sources write through [`SourceWriter`]s; the operator
/// reads [`MemberSnapshot`]s.
pub struct MemberAggregator {
    sources: Mutex<Vec<SourceState>>,
    version: AtomicU64,
    changed: Arc<Notify>,
    metrics: Arc<Metrics>,
    readiness: Readiness,
}

/// What one source has found in one namespace, or in all that it watches.
struct SourceState {
    label: String,
    /// By object key; `None` until the source was listed completely once.
    entries: Option<BTreeMap<String, SourceEntry>>,
    /// Why the source cannot be read now.
    error: Option<String>,
    /// Configured objects that do not exist.
    missing: Option<String>,
}

/// One object of a source.
#[derive(Clone, Debug)]
pub struct SourceEntry {
    /// The member that it describes, or why it describes none.
    pub member: Result<Member, String>,
    /// The object, if its status is to be written.
    pub cluster_object: Option<Arc<Cluster>>,
}

/// Writes the objects of one source to the aggregator.
#[derive(Clone)]
pub struct SourceWriter {
    aggregator: Arc<MemberAggregator>,
    index: usize,
}

/// The members of all sources.
#[derive(Clone, Debug, Default)]
pub struct MemberSnapshot {
    /// One member per name.
    pub members: Vec<Member>,
    /// By name: members that are left out because another member has the same name.
    pub name_conflicts: BTreeMap<ClusterName, Vec<Member>>,
    /// Sources that have not been listed yet; they may have more members.
    pub unread_sources: Vec<String>,
    /// `Cluster` objects whose status is to be written.
    pub cluster_objects: Vec<Arc<Cluster>>,
}

impl MemberAggregator {
    /// An aggregator without sources. `changed` is notified of every change.
    pub fn new(metrics: Arc<Metrics>, readiness: Readiness, changed: Arc<Notify>) -> Arc<Self> {
        Arc::new(Self {
            sources: Mutex::default(),
            version: AtomicU64::new(0),
            changed,
            metrics,
            readiness,
        })
    }

    /// Adds a source, called `label` in messages.
    pub fn add_source(self: &Arc<Self>, label: String) -> SourceWriter {
        let mut sources = self.sources.lock();
        let index = sources.len();
        sources.push(SourceState {
            label,
            entries: None,
            error: None,
            missing: None,
        });
        self.report_health(&sources);
        SourceWriter {
            aggregator: Arc::clone(self),
            index,
        }
    }

    /// Whether every source has been listed or has failed.
    pub fn has_every_source_reported(&self) -> bool {
        self.sources
            .lock()
            .iter()
            .all(|state| state.entries.is_some() || state.error.is_some())
    }

    /// A number that grows with every change.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The members that are known now.
    ///
    /// Of several members with one name the oldest counts, so that a new object cannot displace an
    /// existing member; among members of the same age the one of the first source counts.
    pub fn snapshot(&self) -> MemberSnapshot {
        let mut snapshot = MemberSnapshot::default();
        let mut by_name: BTreeMap<ClusterName, Vec<Member>> = BTreeMap::new();
        for state in self.sources.lock().iter() {
            let Some(entries) = &state.entries else {
                snapshot.unread_sources.push(state.label.clone());
                continue;
            };
            snapshot.cluster_objects.extend(
                entries
                    .values()
                    .filter_map(|entry| entry.cluster_object.clone()),
            );
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
            // A stable sort keeps the order of the sources among equals.
            members.sort_by_key(|member| (member.created.is_none(), member.created));
            let mut members = members.into_iter();
            snapshot.members.extend(members.next());
            let others: Vec<Member> = members.collect();
            if !others.is_empty() {
                snapshot.name_conflicts.insert(name, others);
            }
        }
        snapshot
    }

    /// Applies `change`, which returns whether it changed anything.
    fn change(&self, index: usize, change: impl FnOnce(&mut SourceState) -> bool) {
        let mut sources = self.sources.lock();
        if !sources.get_mut(index).is_some_and(change) {
            return;
        }
        self.report_health(&sources);
        drop(sources);
        self.version.fetch_add(1, Ordering::AcqRel);
        self.changed.notify_one();
    }

    /// Sets metrics and readiness. A source that fails only degrades readiness as long as another
    /// one could be listed.
    fn report_health(&self, sources: &[SourceState]) {
        let some_read = sources.iter().any(|state| state.entries.is_some());
        for state in sources {
            let works = state.entries.is_some() && state.error.is_none();
            self.metrics.set_cluster_source_up(&state.label, works);
            let check = format!("clusters from {}", state.label);
            match (&state.error, &state.entries, &state.missing) {
                (None, Some(_), None) => self.readiness.ready(&check),
                (Some(error), ..) if some_read => {
                    self.readiness.degraded(&check, error.clone());
                }
                (Some(error), ..) => self.readiness.not_ready(&check, error.clone()),
                (None, Some(_), Some(missing)) => self.readiness.degraded(&check, missing.clone()),
                (None, None, _) if some_read => self.readiness.degraded(&check, "not read yet"),
                (None, None, _) => self.readiness.not_ready(&check, "not read yet"),
            }
        }
    }
}

impl SourceWriter {
    /// Replaces all objects of the source after a complete list.
    pub fn replace(&self, entries: BTreeMap<String, SourceEntry>) {
        self.aggregator.change(self.index, |state| {
            tracing::info!(source = %state.label, objects = entries.len(), "a source of clusters has been read");
            for (key, entry) in &entries {
                state.warn_if_not_a_member(key, entry);
            }
            state.entries = Some(entries);
            state.error = None;
            true
        });
    }

    /// Adds or updates one object.
    pub fn set(&self, key: String, entry: SourceEntry) {
        self.aggregator.change(self.index, |state| {
            state.warn_if_not_a_member(&key, &entry);
            state.entries.get_or_insert_default().insert(key, entry);
            state.error = None;
            true
        });
    }

    /// Removes one object.
    pub fn remove(&self, key: &str) {
        self.aggregator.change(self.index, |state| {
            state
                .entries
                .as_mut()
                .is_some_and(|entries| entries.remove(key).is_some())
        });
    }

    /// Reports that the source cannot be read now. Its last objects stay.
    pub fn report_error(&self, message: String) {
        self.aggregator.change(self.index, |state| {
            if state.error.as_ref() == Some(&message) {
                return false;
            }
            tracing::warn!(source = %state.label, "cannot read a source of clusters: {message}");
            state.error = Some(message);
            true
        });
    }

    /// Reports configured objects that do not exist, or with `None` that all exist.
    pub fn report_missing(&self, message: Option<String>) {
        self.aggregator.change(self.index, |state| {
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

    /// The member that an object described at its last change.
    pub fn member(&self, key: &str) -> Option<Member> {
        let sources = self.aggregator.sources.lock();
        let entries = sources.get(self.index)?.entries.as_ref()?;
        entries.get(key)?.member.clone().ok()
    }
}

impl SourceState {
    /// Warns about an object that is no member, once per reason: objects change for other reasons,
    /// too.
    fn warn_if_not_a_member(&self, key: &str, entry: &SourceEntry) {
        let Err(reason) = &entry.member else { return };
        let before = self.entries.as_ref().and_then(|entries| entries.get(key));
        if before.is_none_or(|before| before.member != entry.member) {
            tracing::warn!(source = %self.label, object = key, "not a member: {reason}");
        }
    }
}

#[cfg(test)]
mod tests;

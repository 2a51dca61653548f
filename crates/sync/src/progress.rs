//! The progress of a unit, for status, metrics and checkpoints: up to which version its writes are
//! acknowledged.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fleetdex_core::model::{ClusterName, FieldPath, Version};
use fleetdex_store::IndexRevision;
use fleetdex_telemetry::metrics::LaggingStream;
use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use tokio::{sync::Notify, time::Instant};

use crate::path_presence::{MissingPaths, PathPresence};

mod ack_tracker;
mod rejected;
mod ticket;
mod write_ages;

use ack_tracker::{AckTracker, WriteInFlight};
pub use ack_tracker::{SelectionCounts, StreamPosition};
pub use rejected::MAX_REJECTED;
use rejected::RejectedDocuments;
pub use ticket::Ticket;

/// The state of a unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnitState {
    /// It has not begun, or waits for its store.
    Starting,
    /// It reads the list, or waits for the acknowledgement of its writes.
    Listing,
    /// The store holds the list; the unit watches changes.
    Synced,
    /// The last attempt failed; the unit retries.
    Failing {
        /// CamelCase.
        reason: Cow<'static, str>,
        /// The message of the member or the store.
        message: String,
    },
}

/// Bytes of the message of a failure. Statuses and the reports of replicas hold the messages of
/// many kinds of many clusters in an object of 1.5 MiB.
const MAX_MESSAGE_BYTES: usize = 512;
/// How long after the end of its request the store may apply a write at the latest: OpenSearch has the request in a queue
/// of bounded length then, and answers within a minute unless it is overloaded.
const MAX_LATENESS: Duration = Duration::from_mins(5);
/// The age of the oldest change that is not stored, from which query results count as stale. A
/// change is usually stored within a second or two.
const DELAYED_AFTER: Duration = Duration::from_secs(3);

/// What caused a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureCause {
    /// The store.
    Store,
    /// The member, and a retry may succeed.
    Member,
    /// The member, which refuses this kind until someone changes its configuration.
    Refusal,
}

/// The progress of one unit, shared by its task, its writes and the status.
#[derive(Debug)]
pub struct Progress {
    cluster: ClusterName,
    drained: Notify,
    objects: AtomicU64,
    selected: Mutex<SelectionCounts>,
    skipped: AtomicU64,
    rejected: Mutex<RejectedDocuments>,
    acks: Mutex<AckTracker>,
    state: Mutex<SyncState>,
    audits: Mutex<AuditSummary>,
    /// When a write may last have been under way that nothing waits for.
    abandoned_write: Mutex<Option<Instant>>,
    /// Since when changes of the member are not read, because the store takes none.
    unread_since: Mutex<Option<Instant>>,
    /// Notified when such a write can have been applied, and an audit found the versions right.
    settled: Notify,
    filter_paths: OnceLock<Arc<PathPresence>>,
    changed: Arc<Notify>,
}

/// The results of the audits of a unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditSummary {
    /// When the last one ended.
    pub last: Option<Timestamp>,
    /// Documents that all audits together found wrong.
    pub drift: u64,
    /// When an audit last found any.
    pub drift_found: Option<Timestamp>,
}

/// A snapshot of the progress of a unit. Replicas exchange it as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitStatus {
    /// The state of the unit.
    pub state: UnitState,
    /// When the store last held a complete list.
    pub synced_at: Option<Timestamp>,
    /// How many objects the unit has.
    pub objects: u64,
    /// How many of them each selection has, by its id, if registries select different ones.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub selected: SelectionCounts,
    /// Objects of the last list, and of the watch since then, that cannot be identified.
    pub skipped: u64,
    /// Fallback documents; [`MAX_REJECTED`] means that many or more.
    pub rejected: u64,
    /// One of those documents.
    pub rejected_example: Option<Arc<str>>,
    /// The results of audits.
    pub audits: AuditSummary,
    /// Paths that filters name and at which no object has a value; absent before a complete list.
    #[serde(default, rename = "sought")]
    pub filter_paths: Option<MissingPaths>,
}

#[derive(Clone, Debug)]
struct SyncState {
    state: UnitState,
    synced_at: Option<Timestamp>,
    /// Whether the store holds a complete list and everything after it.
    in_sync: bool,
    failing_since: Option<Instant>,
    obstacle: Option<FailureCause>,
    /// The id of the index revision that the state is of.
    revision: Option<Arc<str>>,
}

impl SyncState {
    fn is_in(&self, revision: &IndexRevision) -> bool {
        self.revision.as_ref() == Some(&revision.id)
    }
}

/// Counts an object that was added or deleted for these selections.
pub fn count_selected(counts: &mut SelectionCounts, selections: &[&Arc<str>], added: bool) {
    if selections.is_empty() {
        return;
    }
    let counts = Arc::make_mut(counts);
    for selection in selections {
        let count = counts.entry(Arc::clone(selection)).or_default();
        *count = if added {
            *count + 1
        } else {
            count.saturating_sub(1)
        };
    }
}

impl Progress {
    /// Progress of a unit of `cluster`; `changed` is notified of every change of state.
    pub fn new(cluster: ClusterName, changed: Arc<Notify>) -> Arc<Self> {
        let state = SyncState {
            state: UnitState::Starting,
            synced_at: None,
            in_sync: false,
            failing_since: None,
            obstacle: None,
            revision: None,
        };
        Arc::new(Self {
            cluster,
            drained: Notify::new(),
            objects: AtomicU64::new(0),
            selected: Mutex::default(),
            skipped: AtomicU64::new(0),
            rejected: Mutex::default(),
            acks: Mutex::default(),
            state: Mutex::new(state),
            audits: Mutex::default(),
            abandoned_write: Mutex::new(Some(Instant::now())),
            unread_since: Mutex::default(),
            settled: Notify::new(),
            filter_paths: OnceLock::new(),
            changed,
        })
    }

    /// The unit's cluster.
    pub fn cluster(&self) -> &ClusterName {
        &self.cluster
    }

    /// A snapshot of the progress.
    pub fn status(&self) -> UnitStatus {
        UnitStatus {
            state: self.state(),
            synced_at: self.state.lock().synced_at,
            objects: self.objects(),
            selected: self.selected(),
            skipped: self.skipped(),
            rejected: self.rejected(),
            rejected_example: self.rejected.lock().example(),
            audits: *self.audits.lock(),
            filter_paths: self.filter_paths.get().and_then(|paths| paths.missing()),
        }
    }

    /// Tracks which of these paths have values in objects. Later calls return the paths of the
    /// first call.
    pub fn track_paths(&self, paths: BTreeSet<FieldPath>) -> Arc<PathPresence> {
        Arc::clone(
            self.filter_paths
                .get_or_init(|| Arc::new(PathPresence::new(paths, Arc::clone(&self.changed)))),
        )
    }

    /// The state of the unit.
    pub fn state(&self) -> UnitState {
        self.state.lock().state.clone()
    }

    /// Whether the unit was in sync at least once.
    pub fn has_been_synced(&self) -> bool {
        self.state.lock().synced_at.is_some()
    }

    /// Sets the index revision that the unit writes to. Progress in another revision does not count
    /// for it.
    pub fn set_revision(&self, revision: &IndexRevision) {
        self.state.lock().revision = Some(Arc::clone(&revision.id));
    }

    /// Whether an index revision holds all objects of the unit.
    pub fn is_synced_to(&self, revision: &IndexRevision) -> bool {
        let current = self.state.lock();
        current.is_in(revision) && current.state == UnitState::Synced
    }

    /// The cause of a failure that has kept the unit from filling an index revision for at least
    /// `duration`.
    pub fn blocking_failure(
        &self,
        revision: &IndexRevision,
        duration: Duration,
    ) -> Option<FailureCause> {
        let current = self.state.lock();
        let is_long = current
            .failing_since
            .is_some_and(|since| since.elapsed() >= duration);
        current
            .obstacle
            .filter(|_| is_long && current.is_in(revision))
    }

    /// For how long every attempt has failed; `None` if the last one succeeded.
    pub fn failing_for(&self) -> Option<Duration> {
        self.state.lock().failing_since.map(|since| since.elapsed())
    }

    fn set_state(&self, state: UnitState) {
        let mut current = self.state.lock();
        if current.state == state {
            return;
        }
        if state == UnitState::Synced {
            current.synced_at = Some(Timestamp::now());
        }
        let failing = matches!(state, UnitState::Failing { .. });
        if !failing {
            current.obstacle = None;
        }
        current.failing_since = failing.then(|| current.failing_since.unwrap_or_else(Instant::now));
        current.state = state;
        drop(current);
        self.changed.notify_one();
    }

    /// Notes a failed attempt. 512 bytes of the message are retained.
    pub fn failing(&self, obstacle: FailureCause, reason: &'static str, mut message: String) {
        message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
        message.shrink_to_fit();
        self.state.lock().obstacle = Some(obstacle);
        self.set_state(UnitState::Failing {
            reason: Cow::Borrowed(reason),
            message,
        });
    }

    /// Notes that a list or watch succeeded, which ends a failure.
    pub fn recovered(&self) {
        let in_sync = {
            let current = self.state.lock();
            match current.state {
                UnitState::Failing { .. } => current.in_sync,
                _ => return,
            }
        };
        self.set_state(if in_sync {
            UnitState::Synced
        } else {
            UnitState::Listing
        });
    }

    /// Notes that a list has begun. The unit is in sync again when the complete list is stored.
    pub fn list_started(&self) {
        self.acks.lock().forget_positions();
        let failing = {
            let mut current = self.state.lock();
            current.in_sync = false;
            matches!(current.state, UnitState::Failing { .. })
        };
        // A failure lasts until something has worked.
        if !failing {
            self.set_state(UnitState::Listing);
        }
    }

    /// Resumes from a position up to which everything is stored.
    pub fn resume_from(&self, position: StreamPosition) {
        self.objects.store(position.objects, Ordering::Relaxed);
        *self.selected.lock() = Arc::clone(&position.selected);
        self.acks.lock().resume(position);
        self.in_sync();
    }

    /// Notes that everything up to a version was submitted, by the end of a list, an event or a
    /// bookmark.
    pub fn reached(&self, version: Version) {
        let mut acks = self.acks.lock();
        acks.reach(StreamPosition {
            version,
            objects: self.objects(),
            selected: self.selected(),
        });
        self.advance(acks);
    }

    fn advance(&self, mut acks: MutexGuard<'_, AckTracker>) {
        let acknowledged = acks.advance();
        drop(acks);
        if acknowledged {
            self.in_sync();
        }
    }

    fn in_sync(&self) {
        let mut current = self.state.lock();
        current.in_sync = true;
        let waits = matches!(current.state, UnitState::Starting | UnitState::Listing);
        drop(current);
        if waits {
            self.set_state(UnitState::Synced);
        }
    }

    /// The version up to which everything was submitted; `None` while the unit is listed.
    pub fn reached_version(&self) -> Option<Version> {
        self.acks.lock().reached().map(|position| position.version)
    }

    /// The position up to which everything is stored; `None` while the unit is listed.
    pub fn acknowledged(&self) -> Option<StreamPosition> {
        self.acks.lock().acknowledged().cloned()
    }

    /// Notes that stored documents are wrong although every write was acknowledged. Only a list
    /// repairs them.
    pub fn require_list(&self) {
        self.acks.lock().require_list();
        self.changed.notify_one();
    }

    /// Records an audit that found `drift` wrong documents.
    pub fn record_audit(&self, drift: u64) {
        let now = Timestamp::now();
        let mut audits = self.audits.lock();
        audits.last = Some(now);
        if drift > 0 {
            audits.drift += drift;
            audits.drift_found = Some(now);
            return;
        }
        drop(audits);
        let mut abandoned = self.abandoned_write.lock();
        if abandoned.is_some_and(|since| since.elapsed() >= MAX_LATENESS) {
            *abandoned = None;
            self.settled.notify_one();
        }
    }

    /// Notes that a request with a write of the unit has failed, which the store may apply all the same: after a later write
    /// of the same version, such as the answer of a webhook, too. Versions do not show that.
    pub(crate) fn write_abandoned(&self) {
        *self.abandoned_write.lock() = Some(Instant::now());
    }

    /// Waits until documents may have been replaced by older ones of the same version, and will not be any more. The first
    /// time counts the writes of a process that wrote before this one.
    pub(crate) async fn settled(&self) {
        self.settled.notified().await;
    }

    /// Whether the unit has to be restarted, from what is acknowledged or with a list.
    pub fn is_broken(&self) -> bool {
        self.acks.lock().is_broken()
    }

    /// How many objects the unit has.
    pub fn objects(&self) -> u64 {
        self.objects.load(Ordering::Relaxed)
    }

    /// How many of its objects each selection has.
    fn selected(&self) -> SelectionCounts {
        Arc::clone(&self.selected.lock())
    }

    /// Sets how many objects a list had, and how many of them each selection.
    pub fn set_objects(&self, count: u64, selected: SelectionCounts) {
        self.objects.store(count, Ordering::Relaxed);
        *self.selected.lock() = selected;
        self.changed.notify_one();
    }

    /// Counts an object that was added or deleted, for the unit and for these selections.
    pub fn object_added(&self, added: bool, selections: &[&Arc<str>]) {
        if !selections.is_empty() {
            let mut selected = self.selected.lock();
            count_selected(&mut selected, selections, added);
        }
        let update = |count: u64| {
            Some(if added {
                count + 1
            } else {
                count.saturating_sub(1)
            })
        };
        if self
            .objects
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, update)
            .is_ok()
        {
            self.changed.notify_one();
        }
    }

    /// Counts an object that cannot be identified.
    pub fn skip(&self) {
        self.skipped.fetch_add(1, Ordering::Relaxed);
    }

    /// Sets how many objects of a list cannot be identified.
    pub fn set_skipped(&self, count: u64) {
        if self.skipped.swap(count, Ordering::Relaxed) != count {
            self.changed.notify_one();
        }
    }

    /// Objects of the last list, and of the watch since then, that cannot be identified.
    pub fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    /// The number of fallback documents; [`MAX_REJECTED`] means that many or more.
    pub fn rejected(&self) -> u64 {
        self.rejected.lock().count()
    }

    /// Sets the ids of the fallback documents that are stored.
    pub fn set_rejected(&self, ids: &[Arc<str>]) {
        let mut rejected = RejectedDocuments::default();
        for id in ids {
            rejected.add(id);
        }
        *self.rejected.lock() = rejected;
    }

    /// Notes that a document is stored as a fallback document.
    pub fn reject(&self, id: &Arc<str>) {
        if self.rejected.lock().add(id) {
            self.changed.notify_one();
        }
    }

    /// Notes that a document is stored whole, or deleted.
    pub fn accept(&self, id: &str) {
        if self.rejected.lock().remove(id) {
            self.changed.notify_one();
        }
    }

    /// The number of writes that are not acknowledged yet.
    pub fn outstanding(&self) -> u64 {
        self.acks.lock().in_flight()
    }

    /// Waits until every write is acknowledged or dropped.
    pub async fn drained(&self) {
        loop {
            let notified = self.drained.notified();
            if self.outstanding() == 0 {
                return;
            }
            notified.await;
        }
    }

    /// Notes that no change is read any more, because the queue of the store is full.
    pub(crate) fn reading_paused(&self) {
        self.unread_since.lock().get_or_insert_with(Instant::now);
    }

    /// Notes that changes are read.
    pub(crate) fn reading_resumed(&self) {
        *self.unread_since.lock() = None;
    }

    /// Since when changes are not stored, if that is longer than writes usually take: what is
    /// stored is no newer than this.
    pub fn delayed_since(&self) -> Option<Instant> {
        let oldest = self.acks.lock().oldest();
        let unread = *self.unread_since.lock();
        let since = oldest.into_iter().chain(unread).min()?;
        (since.elapsed() >= DELAYED_AFTER).then_some(since)
    }

    fn ended(&self, write: WriteInFlight, acknowledged: bool) {
        let mut acks = self.acks.lock();
        acks.end(write, acknowledged);
        let outstanding = acks.in_flight();
        self.advance(acks);
        if outstanding == 0 {
            self.drained.notify_waiters();
        }
        if !acknowledged {
            self.changed.notify_one();
        }
    }
}

impl LaggingStream for Progress {
    fn cluster(&self) -> ClusterName {
        self.cluster.clone()
    }

    fn lag(&self) -> Duration {
        let oldest = self.acks.lock().oldest();
        oldest.map_or(Duration::ZERO, |began| began.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress() -> Arc<Progress> {
        Progress::new("member1".parse().unwrap(), Arc::default())
    }

    fn version(number: u64) -> Version {
        number.to_string().parse().unwrap()
    }

    fn acknowledged(progress: &Progress) -> Option<u64> {
        progress
            .acknowledged()
            .map(|position| position.version.get())
    }

    #[test]
    fn a_long_message_is_truncated() {
        let progress = progress();
        progress.failing(FailureCause::Member, "InvalidAnswer", "ä".repeat(17 << 20));
        let UnitState::Failing { message, .. } = progress.state() else {
            panic!()
        };
        assert!(message.len() <= MAX_MESSAGE_BYTES && message.capacity() <= 2 * MAX_MESSAGE_BYTES);
    }

    #[test]
    fn a_version_is_acknowledged_with_the_last_write_up_to_it() {
        let progress = progress();
        let first = progress.ticket();
        progress.reached(version(1));
        let second = progress.ticket();
        progress.reached(version(2));
        assert_eq!(acknowledged(&progress), None);
        second.acknowledge();
        assert_eq!(acknowledged(&progress), None);
        first.acknowledge();
        assert_eq!(acknowledged(&progress), Some(2));
    }

    #[test]
    fn a_continuous_stream_of_writes_still_acknowledges_versions() {
        let progress = progress();
        let mut last = progress.ticket();
        for number in 1..100 {
            progress.reached(version(number));
            let next = progress.ticket();
            last.acknowledge();
            last = next;
        }
        assert!(acknowledged(&progress) >= Some(97));
        last.acknowledge();
        assert_eq!(acknowledged(&progress), Some(99));
    }

    #[test]
    fn nothing_after_a_dropped_write_is_acknowledged_before_a_list() {
        let progress = progress();
        progress.reached(version(1));
        drop(progress.ticket());
        progress.reached(version(2));
        assert_eq!(acknowledged(&progress), Some(1));
        assert!(progress.is_broken());
        progress.list_started();
        let ticket = progress.ticket();
        progress.reached(version(5));
        assert_eq!(
            (acknowledged(&progress), progress.state()),
            (None, UnitState::Listing)
        );
        ticket.acknowledge();
        assert_eq!(
            (acknowledged(&progress), progress.state()),
            (Some(5), UnitState::Synced)
        );
    }

    #[test]
    fn a_list_also_waits_for_earlier_writes() {
        let progress = progress();
        let before = progress.ticket();
        progress.list_started();
        progress.reached(version(5));
        assert_eq!(
            acknowledged(&progress),
            None,
            "the list waits for them, in case they are of the same documents"
        );
        before.acknowledge();
        assert_eq!(acknowledged(&progress), Some(5));
    }
}

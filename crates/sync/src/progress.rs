//! The progress of a unit, for status, metrics and checkpoints: up to which version its writes are
//! acknowledged.

mod ack_tracker;
mod object_counts;
mod rejected;
mod status;
mod sync_state;
mod ticket;
mod write_ages;

use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
    time::Duration,
};

use ack_tracker::{AckTracker, WriteInFlight};
use fleetdex_core::model::{ClusterName, FieldPath, Version};
use fleetdex_store::IndexRevision;
use fleetdex_telemetry::metrics::LaggingStream;
use jiff::Timestamp;
use object_counts::ObjectCounts;
use parking_lot::{Mutex, MutexGuard};
use rejected::RejectedDocuments;
use sync_state::SyncState;
use tokio::{sync::Notify, time::Instant};

pub use self::{
    ack_tracker::{SelectionCounts, StreamPosition},
    object_counts::count_selected,
    rejected::MAX_REJECTED,
    status::{AuditSummary, UnitStatus},
    sync_state::{FailureCause, UnitState},
    ticket::Ticket,
};
use crate::path_presence::PathPresence;

/// How long after the end of its request the store may apply a write at the latest: OpenSearch has
/// the request in a queue of bounded length then, and answers within a minute unless it is
/// overloaded.
const MAX_LATENESS: Duration = Duration::from_mins(5);
/// The age of the oldest change that is not stored, from which query results count as stale. A
/// change is usually stored within a second or two.
const DELAYED_AFTER: Duration = Duration::from_secs(3);

/// The progress of one unit, shared by its task, its writes and the status.
#[derive(Debug)]
pub struct Progress {
    cluster: ClusterName,
    drained: Notify,
    objects: ObjectCounts,
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

impl Progress {
    /// Progress of a unit of `cluster`; `changed` is notified of every change of state.
    pub fn new(cluster: ClusterName, changed: Arc<Notify>) -> Arc<Self> {
        Arc::new(Self {
            cluster,
            drained: Notify::new(),
            objects: ObjectCounts::default(),
            rejected: Mutex::default(),
            acks: Mutex::default(),
            state: Mutex::default(),
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
            synced_at: self.state.lock().synced_at(),
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
        self.state.lock().state().clone()
    }

    /// Whether the unit was in sync at least once.
    pub fn has_been_synced(&self) -> bool {
        self.state.lock().synced_at().is_some()
    }

    /// Sets the index revision that the unit writes to. Progress in another revision does not count
    /// for it.
    pub fn set_revision(&self, revision: &IndexRevision) {
        self.state.lock().set_revision(revision);
    }

    /// Whether an index revision holds all objects of the unit.
    pub fn is_synced_to(&self, revision: &IndexRevision) -> bool {
        self.state.lock().is_synced_to(revision)
    }

    /// The cause of a failure that has kept the unit from filling an index revision for at least
    /// `duration`.
    pub fn blocking_failure(
        &self,
        revision: &IndexRevision,
        duration: Duration,
    ) -> Option<FailureCause> {
        self.state.lock().blocking_failure(revision, duration)
    }

    /// For how long every attempt has failed; `None` if the last one succeeded.
    pub fn failing_for(&self) -> Option<Duration> {
        self.state.lock().failing_for()
    }

    fn change_state(&self, change: impl FnOnce(&mut SyncState) -> bool) {
        let has_changed = change(&mut self.state.lock());
        if has_changed {
            self.changed.notify_one();
        }
    }

    /// Notes a failed attempt. 512 bytes of the message are retained.
    pub fn failing(&self, obstacle: FailureCause, reason: &'static str, message: String) {
        self.change_state(|state| state.failing(obstacle, reason, message));
    }

    /// Notes that a list or watch succeeded, which ends a failure.
    pub fn recovered(&self) {
        self.change_state(SyncState::recovered);
    }

    /// Notes that a list has begun. The unit is in sync again when the complete list is stored.
    pub fn list_started(&self) {
        self.acks.lock().forget_positions();
        self.change_state(SyncState::list_started);
    }

    /// Resumes from a position up to which everything is stored.
    pub fn resume_from(&self, position: StreamPosition) {
        self.objects
            .set(position.objects, Arc::clone(&position.selected));
        self.acks.lock().resume(position);
        self.change_state(SyncState::in_sync);
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
            self.change_state(SyncState::in_sync);
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

    /// Notes that a request with a write of the unit has failed, which the store may apply all the
    /// same: after a later write of the same version, such as the answer of a webhook, too.
    /// Versions do not show that.
    pub(crate) fn write_abandoned(&self) {
        *self.abandoned_write.lock() = Some(Instant::now());
    }

    /// Waits until documents may have been replaced by older ones of the same version, and will not
    /// be any more. The first time counts the writes of a process that wrote before this one.
    pub(crate) async fn settled(&self) {
        self.settled.notified().await;
    }

    /// Whether the unit has to be restarted, from what is acknowledged or with a list.
    pub fn is_broken(&self) -> bool {
        self.acks.lock().is_broken()
    }

    /// How many objects the unit has.
    pub fn objects(&self) -> u64 {
        self.objects.all()
    }

    /// How many of its objects each selection has.
    fn selected(&self) -> SelectionCounts {
        self.objects.selected()
    }

    /// Sets how many objects a list had, and how many of them each selection.
    pub fn set_objects(&self, count: u64, selected: SelectionCounts) {
        self.objects.set(count, selected);
        self.changed.notify_one();
    }

    /// Counts an object that was added or deleted, for the unit and for these selections.
    pub fn object_added(&self, added: bool, selections: &[&Arc<str>]) {
        self.objects.added(added, selections);
        self.changed.notify_one();
    }

    /// Counts an object that cannot be identified.
    pub fn skip(&self) {
        self.objects.skip();
    }

    /// Sets how many objects of a list cannot be identified.
    pub fn set_skipped(&self, count: u64) {
        if self.objects.set_skipped(count) {
            self.changed.notify_one();
        }
    }

    /// Objects of the last list, and of the watch since then, that cannot be identified.
    pub fn skipped(&self) -> u64 {
        self.objects.skipped()
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

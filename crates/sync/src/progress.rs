//! How far a unit has come, for status, metrics and checkpoints: up to which version everything it sent is acknowledged.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fleetdex_core::model::{ClusterName, FieldPath, Version};
use fleetdex_store::Generation;
use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use tokio::{sync::Notify, time::Instant};

use super::sought::{Findings, Sought};

mod flow;
mod rejected;
mod ticket;

use flow::Flow;
pub use flow::Mark;
pub use rejected::MOST_REJECTED;
use rejected::Rejected;
pub use ticket::Ticket;

/// Where a unit is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnitState {
    /// Not begun, or waiting for its stores.
    Starting,
    /// Reading the list, or waiting for its writes to be acknowledged.
    Listing,
    /// The store holds the list; changes are followed.
    Synced,
    /// The last attempt failed; the next one follows.
    Failing {
        /// CamelCase.
        reason: Cow<'static, str>,
        /// What the member or the store said.
        message: String,
    },
}

/// Bytes of a failure's message. Statuses and the reports of replicas hold those of many kinds of many clusters in an object of 1.5 MiB.
const MAX_MESSAGE_BYTES: usize = 512;

/// What keeps a unit from going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The store.
    Store,
    /// The member, in a way that may pass.
    Member,
    /// The member, which refuses this kind until somebody changes something.
    Refusal,
}

/// The progress of one unit. Shared by the unit's task, its writes and the status.
#[derive(Debug)]
pub struct Progress {
    cluster: ClusterName,
    drained: Notify,
    objects: AtomicU64,
    skipped: AtomicU64,
    rejected: Mutex<Rejected>,
    flow: Mutex<Flow>,
    state: Mutex<Snapshot>,
    audits: Mutex<Audited>,
    sought: OnceLock<Arc<Sought>>,
    changed: Arc<Notify>,
}

/// What the audits of a unit have come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audited {
    /// When the last one ended.
    pub last: Option<Timestamp>,
    /// Documents that were found wrong, by all of them together.
    pub drift: u64,
    /// When any were last found wrong.
    pub drift_found: Option<Timestamp>,
}

/// What a progress says at one time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// Where the unit is.
    pub state: UnitState,
    /// When the store last held a complete list.
    pub synced_at: Option<Timestamp>,
    /// How many objects the unit has.
    pub objects: u64,
    /// Objects that do not say which ones they are: of the last list, and of the watch since then.
    pub skipped: u64,
    /// Documents that are there as fallback documents only; [`MOST_REJECTED`] stands for that many or more.
    pub rejected: u64,
    /// One of those documents.
    pub rejected_example: Option<Arc<str>>,
    /// What audits have come to.
    pub audits: Audited,
    /// What was found at the paths that filters name beside selectable fields; nothing before a complete list.
    #[serde(default)]
    pub sought: Option<Findings>,
}

#[derive(Clone, Debug)]
struct Snapshot {
    state: UnitState,
    synced_at: Option<Timestamp>,
    /// Whether the store holds a complete list and everything after it.
    in_sync: bool,
    failing_since: Option<Instant>,
    obstacle: Option<Obstacle>,
    /// The id of the generation that all this is about.
    generation: Option<Arc<str>>,
}

impl Snapshot {
    fn is_in(&self, generation: &Generation) -> bool {
        self.generation.as_ref() == Some(&generation.id)
    }
}

impl Progress {
    /// Progress of a unit of `cluster`; `changed` is notified of every change of state.
    pub fn new(cluster: ClusterName, changed: Arc<Notify>) -> Arc<Self> {
        let state = Snapshot {
            state: UnitState::Starting,
            synced_at: None,
            in_sync: false,
            failing_since: None,
            obstacle: None,
            generation: None,
        };
        Arc::new(Self {
            cluster,
            drained: Notify::new(),
            objects: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            rejected: Mutex::default(),
            flow: Mutex::default(),
            state: Mutex::new(state),
            audits: Mutex::default(),
            sought: OnceLock::new(),
            changed,
        })
    }

    /// The unit's cluster.
    pub fn cluster(&self) -> &ClusterName {
        &self.cluster
    }

    /// All of it, as it is now.
    pub fn view(&self) -> View {
        View {
            state: self.state(),
            synced_at: self.state.lock().synced_at,
            objects: self.objects(),
            skipped: self.skipped(),
            rejected: self.rejected(),
            rejected_example: self.rejected.lock().example(),
            audits: *self.audits.lock(),
            sought: self.sought.get().and_then(|sought| sought.findings()),
        }
    }

    /// Follows what objects have at these paths, from the first call on.
    pub fn seek(&self, paths: BTreeSet<FieldPath>) -> Arc<Sought> {
        Arc::clone(
            self.sought
                .get_or_init(|| Arc::new(Sought::new(paths, Arc::clone(&self.changed)))),
        )
    }

    /// Where the unit is.
    pub fn state(&self) -> UnitState {
        self.state.lock().state.clone()
    }

    /// Whether the store has held everything that the unit has, once at least.
    pub fn has_been_synced(&self) -> bool {
        self.state.lock().synced_at.is_some()
    }

    /// The unit fills this generation from now on: what it has come to in another one says nothing of this one.
    pub fn fills(&self, generation: &Generation) {
        self.state.lock().generation = Some(Arc::clone(&generation.id));
    }

    /// Whether a generation holds everything that the unit has.
    pub fn is_synced_in(&self, generation: &Generation) -> bool {
        let current = self.state.lock();
        current.is_in(generation) && current.state == UnitState::Synced
    }

    /// What has kept the unit from filling a generation for at least so long.
    pub fn kept_from(&self, generation: &Generation, patience: Duration) -> Option<Obstacle> {
        let current = self.state.lock();
        let is_long = current
            .failing_since
            .is_some_and(|since| since.elapsed() >= patience);
        current
            .obstacle
            .filter(|_| is_long && current.is_in(generation))
    }

    /// For how long every attempt has failed; nothing if the last one did not.
    pub fn failing_for(&self) -> Option<Duration> {
        self.state.lock().failing_since.map(|since| since.elapsed())
    }

    /// Sets the state.
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

    /// The last attempt failed. Of the message 512 bytes are kept.
    pub fn failing(&self, obstacle: Obstacle, reason: &'static str, mut message: String) {
        message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
        message.shrink_to_fit();
        self.state.lock().obstacle = Some(obstacle);
        self.set_state(UnitState::Failing {
            reason: Cow::Borrowed(reason),
            message,
        });
    }

    /// A list or watch works again: a failure is over.
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

    /// A complete list has to be stored before the unit is in sync again.
    pub fn list_begins(&self) {
        self.flow.lock().forget_marks();
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

    /// The store is as it was when everything up to `mark` was acknowledged: changes are followed from there.
    pub fn resumes(&self, mark: Mark) {
        self.objects.store(mark.objects, Ordering::Relaxed);
        self.flow.lock().resume(mark);
        self.in_sync();
    }

    /// Everything up to a version has been sent, be it the end of a list, an event or a bookmark.
    pub fn reached(&self, version: Version) {
        let mut flow = self.flow.lock();
        flow.reach(Mark {
            version,
            objects: self.objects(),
        });
        self.advance(flow);
    }

    fn advance(&self, mut flow: MutexGuard<'_, Flow>) {
        let acknowledged = flow.advance();
        drop(flow);
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

    /// Up to where everything is stored; nothing while a list is under way.
    pub fn acknowledged(&self) -> Option<Mark> {
        self.flow.lock().acknowledged()
    }

    /// What is stored is not what it should be, although every write was acknowledged: only a list puts that right.
    pub fn distrust(&self) {
        self.flow.lock().distrust();
        self.changed.notify_one();
    }

    /// An audit has ended, and found so many documents wrong.
    pub fn audited(&self, drift: u64) {
        let now = Timestamp::now();
        let mut audits = self.audits.lock();
        audits.last = Some(now);
        if drift > 0 {
            audits.drift += drift;
            audits.drift_found = Some(now);
        }
    }

    /// Whether the unit has to begin anew, from what is acknowledged or with a list.
    pub fn is_broken(&self) -> bool {
        self.flow.lock().is_broken()
    }

    /// How many objects the unit has.
    pub fn objects(&self) -> u64 {
        self.objects.load(Ordering::Relaxed)
    }

    /// Sets how many objects a list had.
    pub fn set_objects(&self, count: u64) {
        self.objects.store(count, Ordering::Relaxed);
        self.changed.notify_one();
    }

    /// An object came or went.
    pub fn object_added(&self, added: bool) {
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

    /// An object did not say which one it is.
    pub fn skip(&self) {
        self.skipped.fetch_add(1, Ordering::Relaxed);
    }

    /// Sets how many objects of a list did not say which ones they are.
    pub fn set_skipped(&self, count: u64) {
        if self.skipped.swap(count, Ordering::Relaxed) != count {
            self.changed.notify_one();
        }
    }

    /// Objects that do not say which ones they are: of the last list, and of the watch since then.
    pub fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    /// Documents that are there as fallback documents only; [`MOST_REJECTED`] stands for that many or more.
    pub fn rejected(&self) -> u64 {
        self.rejected.lock().count()
    }

    /// Which documents are fallback documents, as the store has it.
    pub fn set_rejected(&self, ids: &[Arc<str>]) {
        let mut rejected = Rejected::default();
        for id in ids {
            rejected.add(id);
        }
        *self.rejected.lock() = rejected;
    }

    /// A document is there as a fallback document only.
    pub fn reject(&self, id: &Arc<str>) {
        if self.rejected.lock().add(id) {
            self.changed.notify_one();
        }
    }

    /// A document is there as it should be, or gone.
    pub fn accept(&self, id: &str) {
        if self.rejected.lock().remove(id) {
            self.changed.notify_one();
        }
    }

    /// Writes that are not acknowledged yet.
    pub fn outstanding(&self) -> u64 {
        self.flow.lock().under_way()
    }

    /// Waits until every write is acknowledged or given up.
    pub async fn drained(&self) {
        loop {
            let notified = self.drained.notified();
            if self.outstanding() == 0 {
                return;
            }
            notified.await;
        }
    }

    fn ended(&self, side: usize, settled: bool) {
        let mut flow = self.flow.lock();
        flow.end(side, settled);
        let outstanding = flow.under_way();
        self.advance(flow);
        if outstanding == 0 {
            self.drained.notify_waiters();
        }
        if !settled {
            self.changed.notify_one();
        }
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
        progress.acknowledged().map(|mark| mark.version.get())
    }

    #[test]
    fn little_of_what_a_member_says_is_kept() {
        let progress = progress();
        progress.failing(Obstacle::Member, "InvalidAnswer", "ä".repeat(17 << 20));
        let UnitState::Failing { message, .. } = progress.state() else {
            panic!()
        };
        assert!(message.len() <= MAX_MESSAGE_BYTES && message.capacity() <= 2 * MAX_MESSAGE_BYTES);
    }

    #[test]
    fn a_version_is_acknowledged_when_every_write_up_to_it_is_and_not_before() {
        let progress = progress();
        let first = progress.ticket();
        progress.reached(version(1));
        let second = progress.ticket();
        progress.reached(version(2));
        assert_eq!(acknowledged(&progress), None);
        second.settle();
        assert_eq!(acknowledged(&progress), None);
        first.settle();
        assert_eq!(acknowledged(&progress), Some(2));
    }

    #[test]
    fn writes_without_end_do_not_hold_up_earlier_ones() {
        let progress = progress();
        let mut last = progress.ticket();
        for number in 1..100 {
            progress.reached(version(number));
            let next = progress.ticket();
            last.settle();
            last = next;
        }
        assert!(acknowledged(&progress) >= Some(97));
        last.settle();
        assert_eq!(acknowledged(&progress), Some(99));
    }

    #[test]
    fn nothing_after_a_write_that_was_given_up_is_acknowledged_before_a_list() {
        let progress = progress();
        progress.reached(version(1));
        drop(progress.ticket());
        progress.reached(version(2));
        assert_eq!(acknowledged(&progress), Some(1));
        assert!(progress.is_broken());
        progress.list_begins();
        let ticket = progress.ticket();
        progress.reached(version(5));
        assert_eq!(
            (acknowledged(&progress), progress.state()),
            (None, UnitState::Listing)
        );
        ticket.settle();
        assert_eq!(
            (acknowledged(&progress), progress.state()),
            (Some(5), UnitState::Synced)
        );
    }

    #[test]
    fn writes_from_before_a_list_do_not_count_for_it() {
        let progress = progress();
        let before = progress.ticket();
        progress.list_begins();
        progress.reached(version(5));
        assert_eq!(
            acknowledged(&progress),
            None,
            "the list waits for them, in case they are of the same documents"
        );
        before.settle();
        assert_eq!(acknowledged(&progress), Some(5));
    }
}

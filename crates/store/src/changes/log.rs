//! The log of changes that queries can see: bounded, in order, each change with its number.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fleetdex_core::{
    model::FleetVersion,
    planted::{Bug, planted},
    query::ResourceName,
};
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

use super::{Change, Flights, Sequence, TooOld, change::Batch, recent::Recent};

/// How long changes of a whole generation, which alone fill the log, are kept for those who follow and have not seen them yet.
const GRACE: Duration = Duration::from_secs(30);
/// Gaps that are remembered; before the oldest of them everything counts as not known. Clusters come and go rarely.
const GAPS: usize = 64;
/// How long somebody counts as watching who has just listed, or whose watch has just ended: the next one follows.
const BETWEEN_WATCHES: Duration = Duration::from_secs(5);
/// How long a watch waits for writes under way, which take some ten milliseconds each unless the store is in trouble.
const SETTLING_PATIENCE: Duration = Duration::from_secs(2);
/// How often somebody looks whether those who follow have come along.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// What a log keeps, and what for.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Changes that it holds. The newest ones that were made in one step are always kept whole.
    pub changes: usize,
    /// Bytes of the documents in them.
    pub bytes: usize,
    /// Whether the log alone keeps the documents; otherwise the store keeps the newest of each object anyhow.
    pub owns_documents: bool,
    /// Whether answers may be behind the log, and show more than the version that they have. A watch then begins with the newest state of each
    /// object that has changed since, so that nobody goes back in time.
    pub answers_lag: bool,
}

/// A step of which only some resources' changes are known.
struct Gap {
    number: u64,
    known: BTreeSet<ResourceName>,
}

/// A batch that alone fills a good part of the log.
struct Large {
    last: u64,
    changes: usize,
    bytes: usize,
    since: Instant,
}

/// What another replica may hear of next: of one moment, so that a change that comes meanwhile is not skipped.
pub(super) struct ForReplica {
    /// The batch with the next change, if there is one.
    pub(super) batch: Option<Arc<Batch>>,
    /// Number of the last change that it may hear of. Not every number is one of a change: without a batch, everything up to this one is known.
    pub(super) last: u64,
    /// Whether this replica has added its last change.
    pub(super) has_ended: bool,
}

struct Follower {
    resource: ResourceName,
    position: Arc<AtomicU64>,
    kind: FollowerKind,
}

/// Who follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FollowerKind {
    /// Somebody who watches here.
    Watch,
    /// Another replica, for those who watch there.
    Replica,
}

#[derive(Default)]
struct Held {
    batches: VecDeque<Arc<Batch>>,
    changes: usize,
    bytes: usize,
    large: Vec<Large>,
    /// Every change after this number is here.
    start: u64,
    gaps: VecDeque<Gap>,
    /// Numbers of the gaps of steps that are under way: answers do not show yet what was added because of them.
    steps: BTreeSet<u64>,
    /// Changes of a resource up to such a number are not all known, because some are another replica's.
    lost: BTreeMap<ResourceName, u64>,
    followers: BTreeMap<u64, Follower>,
    last_follower: u64,
    /// What was listed, or watched until then, and when: entries are removed once they mean nothing any more.
    asked: BTreeMap<ResourceName, Instant>,
    /// Whether this replica has added its last change. What it hears from others may still come.
    has_ended: bool,
}

/// The newest changes.
pub struct Log {
    sequence: Sequence,
    bounds: Bounds,
    held: Mutex<Held>,
    recent: Recent,
    under_way: Flights,
    /// Number of the last change.
    newest: watch::Sender<u64>,
    /// Number of the last change that every answer shows from now on.
    visible: watch::Sender<u64>,
}

impl fmt::Debug for Log {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Log")
            .field("newest", &self.newest())
            .field("visible", &self.visible())
            .finish_non_exhaustive()
    }
}

impl Log {
    /// Nothing has changed yet.
    pub fn new(sequence: Sequence, bounds: Bounds) -> Self {
        let start = sequence.take(1);
        let held = Mutex::new(Held {
            start,
            ..Held::default()
        });
        Self {
            sequence,
            bounds,
            held,
            recent: Recent::default(),
            under_way: Flights::default(),
            newest: watch::Sender::new(start),
            visible: watch::Sender::new(start),
        }
    }

    /// One of a run that is the same in every test. Nothing has changed in it.
    #[cfg(any(test, feature = "testing"))]
    pub fn of_a_test() -> Arc<Self> {
        let sequence = Sequence::of(fleetdex_core::model::Run::new(1_790_000_000_000, 0));
        let bounds = Bounds {
            changes: 1_000,
            bytes: 1 << 20,
            owns_documents: false,
            answers_lag: false,
        };
        Arc::new(Self::new(sequence, bounds))
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock()
    }

    /// The numbers that its changes have.
    pub fn sequence(&self) -> &Sequence {
        &self.sequence
    }

    /// Number of the last change.
    pub fn newest(&self) -> u64 {
        *self.newest.borrow()
    }

    /// Number of the last change that every answer shows from now on.
    pub fn visible(&self) -> u64 {
        *self.visible.borrow()
    }

    /// The version of the fleet that an answer has from now on.
    pub fn version(&self) -> FleetVersion {
        self.sequence.version(self.visible())
    }

    /// A number after which not all changes are known.
    pub(crate) fn before_start(&self) -> u64 {
        self.lock().start.saturating_sub(1)
    }

    /// Waits until every answer shows a change; whether that came about in time.
    pub async fn reaches(&self, number: u64, patience: Duration) -> bool {
        let mut visible = self.visible.subscribe();
        // What is newer than this log's newest is of another log: there is nothing to wait for.
        let wanted = number.min(self.newest());
        matches!(
            timeout(patience, visible.wait_for(|visible| *visible >= wanted)).await,
            Ok(Ok(_))
        )
    }

    /// The greatest number up to which this log is known to whoever knows all of it up to `number`: changes of other logs have numbers, too.
    pub fn reaches_to(&self, number: u64) -> u64 {
        let held = self.lock();
        // Within the lock, so that whatever is added to this log from now on has a greater number.
        let newest = self.sequence.newest();
        let is_all =
            self.newest() <= number && held.gaps.back().is_none_or(|gap| gap.number <= number);
        drop(held);
        if is_all { number.max(newest) } else { number }
    }

    /// Writes that will be told when they are acknowledged.
    pub(crate) fn under_way(&self) -> &Flights {
        &self.under_way
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    pub(super) fn answers_lag(&self) -> bool {
        self.bounds.answers_lag
    }

    /// The number of the last change once everything is told that is under way now.
    pub async fn settled(&self) -> u64 {
        self.settle().await;
        self.newest()
    }

    /// Waits until everything is told that is under way now, but not for ever.
    pub(super) async fn settle(&self) {
        if timeout(SETTLING_PATIENCE, self.under_way.earlier_end())
            .await
            .is_err()
        {
            tracing::debug!("a watch begins although writes are under way");
        }
    }

    /// Adds changes, in their order, and wakes who follows.
    pub(crate) fn append(&self, changes: &[Change]) {
        self.lock().has_ended = false;
        self.add(changes, false);
    }

    /// Declares that this replica has added its last change: replicas that follow it read what is left, and then know everything.
    pub(crate) fn end(&self) {
        self.lock().has_ended = true;
        // Wakes them although there is no new number.
        self.newest.send_modify(|_| {});
    }

    /// Waits until no other replica reads this log any more; whether that came about in time.
    pub(crate) async fn left_by_replicas(&self, patience: Duration) -> bool {
        let is_read = || {
            self.lock()
                .followers
                .values()
                .any(|follower| follower.kind == FollowerKind::Replica)
        };
        let left = async {
            while is_read() {
                sleep(LOOK_AGAIN).await;
            }
        };
        timeout(patience, left).await.is_ok()
    }

    /// Adds changes that another replica has made.
    pub(crate) fn append_foreign(&self, changes: &[Change]) {
        self.add(changes, true);
    }

    fn add(&self, changes: &[Change], is_foreign: bool) {
        if changes.is_empty() {
            return;
        }
        let bytes = self.bytes_of(changes);
        let mut held = self.lock();
        let first = self.sequence.take(changes.len() as u64);
        let batch = Batch {
            first,
            changes: changes.to_vec(),
            is_foreign,
            bytes,
        };
        let last = batch.last();
        if changes.len() > self.bounds.changes / 2 || bytes > self.bounds.bytes / 2 {
            held.large.push(Large {
                last,
                changes: changes.len(),
                bytes,
                since: Instant::now(),
            });
        }
        held.changes += changes.len();
        held.bytes += bytes;
        held.batches.push_back(Arc::new(batch));
        self.forget_oldest(&mut held);
        // Within the lock: the number of a change that is not in the log yet would be too new.
        self.newest.send_replace(last);
        if !self.bounds.answers_lag {
            self.visible.send_replace(last);
        }
    }

    fn bytes_of(&self, changes: &[Change]) -> usize {
        let documents = changes.iter().flat_map(|change| {
            let newest = change.document();
            let replaced = change
                .before
                .as_ref()
                .filter(|_| self.bounds.owns_documents && change.after.is_some());
            newest.into_iter().chain(replaced)
        });
        documents.map(|document| document.footprint()).sum()
    }

    fn forget_oldest(&self, held: &mut Held) {
        let spared = held.spared();
        while held.batches.len() > 1
            && (held.changes > self.bounds.changes + spared.0
                || held.bytes > self.bounds.bytes + spared.1)
        {
            held.forget_one();
        }
    }

    /// Says that everything up to a number is in every answer from now on.
    pub(crate) fn show(&self, number: u64) {
        self.visible.send_if_modified(|visible| {
            let is_newer = number > *visible;
            *visible = number.max(*visible);
            is_newer
        });
    }

    /// Forgets everything: what comes next does not follow from what was. Who follows has to list again.
    pub(crate) fn restart(&self) {
        let mut held = self.lock();
        held.batches.clear();
        held.large.clear();
        held.gaps.clear();
        held.lost.clear();
        held.has_ended = false;
        (held.changes, held.bytes) = (0, 0);
        held.start = self.sequence.take(1);
        self.newest.send_replace(held.start);
        if !self.bounds.answers_lag {
            self.visible.send_replace(held.start);
        }
    }

    /// Says that somebody lists a resource, and is likely to watch it next.
    pub(crate) fn note_asked(&self, resource: &ResourceName) {
        self.lock().asked.insert(resource.clone(), Instant::now());
    }

    /// Opens a gap for a step that changes what answers show; returns its number, for [`Log::end_step`], and the resources that are still tracked across
    /// it: those that are watched now, or are about to be. A watch of another resource from before the gap has to list again.
    ///
    /// Until the step ends, other replicas hear of no change after the gap: an answer that they give may not show it yet, but would have a version
    /// that includes it.
    pub(crate) fn open_gap(&self) -> (u64, BTreeSet<ResourceName>) {
        let mut held = self.lock();
        held.asked
            .retain(|_, since| since.elapsed() < BETWEEN_WATCHES);
        let followed = held.followers.values().map(|follower| &follower.resource);
        let known: BTreeSet<ResourceName> = followed.chain(held.asked.keys()).cloned().collect();
        let number = self.sequence.take(1);
        held.gaps.push_back(Gap {
            number,
            known: known.clone(),
        });
        if held.gaps.len() > GAPS
            && let Some(oldest) = held.gaps.pop_front()
        {
            held.start = held.start.max(oldest.number);
        }
        held.steps.insert(number);
        self.newest.send_replace(number);
        (number, known)
    }

    /// Ends a step: answers show what was added because of it, or the log has begun anew.
    pub(crate) fn end_step(&self, number: u64) {
        self.lock().steps.remove(&number);
        // Wakes the replicas that wait for it although there is no new number.
        self.newest.send_modify(|_| {});
    }

    /// Says that not all changes of a resource are known up to now: whoever watches it has to list again. The number from which on they are.
    ///
    /// Where answers lag, the number is visible only after a refresh, although nothing was added here: what was lost may not be in the answers yet,
    /// and a list without it would stay wrong.
    pub fn lose(&self, resource: &ResourceName) -> u64 {
        let mut held = self.lock();
        let number = self.sequence.take(1);
        held.lost.insert(resource.clone(), number);
        self.newest.send_replace(number);
        if !self.bounds.answers_lag || planted(Bug::ListBeforeRefresh) {
            self.show(number);
        }
        number
    }

    /// Whether anybody watches a resource here; other replicas do not count.
    pub fn is_watched(&self, resource: &ResourceName) -> bool {
        let counts = |follower: &Follower| {
            follower.kind == FollowerKind::Watch && follower.resource == *resource
        };
        self.lock().followers.values().any(counts)
    }

    /// Whether anybody watches.
    pub(crate) fn is_followed(&self) -> bool {
        !self.lock().followers.is_empty()
    }

    /// Waits until some changes can be added without anything being forgotten that somebody who follows has yet to see, or until patience ends.
    pub(crate) async fn room_for(&self, changes: &[Change], patience: Duration) {
        let bytes = self.bytes_of(changes);
        let wait = async {
            while self.lock().is_crowded(self.bounds, changes.len(), bytes) {
                sleep(LOOK_AGAIN).await;
            }
        };
        if timeout(patience, wait).await.is_err() {
            tracing::debug!("somebody watches too slowly, and will have to list again");
        }
    }

    /// `after`: from where on; without it, from the last change.
    pub(super) fn follow(
        &self,
        resource: &ResourceName,
        after: Option<u64>,
        kind: FollowerKind,
    ) -> Result<(u64, Arc<AtomicU64>), TooOld> {
        let mut held = self.lock();
        let last = match kind {
            FollowerKind::Watch => self.newest(),
            FollowerKind::Replica => held.last_for_replicas(self.newest()),
        };
        let after = after.unwrap_or(last);
        let is_ours = after <= self.sequence.newest();
        let knows_all = held
            .gaps
            .iter()
            .all(|gap| gap.number <= after || gap.known.contains(resource));
        if !is_ours
            || !held.knows_after(after)
            || !knows_all
            || (kind == FollowerKind::Watch && held.has_lost(resource, after))
        {
            return Err(TooOld { after });
        }
        held.last_follower += 1;
        let (number, position) = (held.last_follower, Arc::new(AtomicU64::new(after)));
        held.followers.insert(
            number,
            Follower {
                resource: resource.clone(),
                position: Arc::clone(&position),
                kind,
            },
        );
        Ok((number, position))
    }

    pub(super) fn leave(&self, follower: u64) {
        let mut held = self.lock();
        if let Some(follower) = held.followers.remove(&follower) {
            held.asked.insert(follower.resource, Instant::now());
        }
    }

    /// What those who follow have in common.
    pub(super) fn recent(&self) -> &Recent {
        &self.recent
    }

    /// The batch with the next change after a number; nothing if that has not come yet.
    pub(super) fn after(&self, after: u64) -> Result<Option<Arc<Batch>>, TooOld> {
        let held = self.lock();
        if !held.knows_after(after) {
            return Err(TooOld { after });
        }
        let next = held.batches.partition_point(|batch| batch.last() <= after);
        Ok(held.batches.get(next).cloned())
    }

    /// What another replica that knows everything up to `after` may hear of next.
    pub(super) fn after_for_replica(&self, after: u64) -> Result<ForReplica, TooOld> {
        let held = self.lock();
        if !held.knows_after(after) {
            return Err(TooOld { after });
        }
        let last = held.last_for_replicas(self.newest());
        let next = held.batches.partition_point(|batch| batch.last() <= after);
        let batch = held
            .batches
            .get(next)
            .filter(|batch| batch.first <= last)
            .cloned();
        Ok(ForReplica {
            batch,
            last,
            has_ended: held.has_ended,
        })
    }

    /// The same for somebody who watches a resource, of which other replicas make changes, too.
    pub(super) fn all_changes_after(
        &self,
        resource: &ResourceName,
        after: u64,
    ) -> Result<Option<Arc<Batch>>, TooOld> {
        if self.lock().has_lost(resource, after) {
            return Err(TooOld { after });
        }
        self.after(after)
    }

    /// All batches with changes after a number, and the number of the last change.
    pub(super) fn all_after(&self, after: u64) -> (Vec<Arc<Batch>>, u64) {
        let held = self.lock();
        let next = held.batches.partition_point(|batch| batch.last() <= after);
        (
            held.batches.iter().skip(next).cloned().collect(),
            self.newest(),
        )
    }
}

impl Held {
    fn last_for_replicas(&self, newest: u64) -> u64 {
        self.steps
            .first()
            .map_or(newest, |step| newest.min(step - 1))
    }

    fn knows_after(&self, after: u64) -> bool {
        after >= self.start
    }

    fn has_lost(&self, resource: &ResourceName, after: u64) -> bool {
        self.lost
            .get(resource)
            .is_some_and(|number| after < *number)
    }

    fn slowest(&self) -> u64 {
        self.followers
            .values()
            .map(|follower| follower.position.load(Ordering::Acquire))
            .min()
            .unwrap_or(u64::MAX)
    }

    /// Changes and bytes that do not count for a while.
    fn spared(&self) -> (usize, usize) {
        if self.large.is_empty() {
            return (0, 0);
        }
        let slowest = self.slowest();
        let spared = self
            .large
            .iter()
            .filter(|large| large.last > slowest && large.since.elapsed() < GRACE);
        spared.fold((0, 0), |(changes, bytes), large| {
            (changes + large.changes, bytes + large.bytes)
        })
    }

    fn forget_one(&mut self) {
        let Some(oldest) = self.batches.pop_front() else {
            return;
        };
        self.start = self.start.max(oldest.last());
        self.changes -= oldest.changes.len();
        self.bytes -= oldest.bytes;
        self.large.retain(|large| large.last > oldest.last());
    }

    /// Whether that much more would push out what somebody who follows has yet to see.
    fn is_crowded(&self, bounds: Bounds, changes: usize, bytes: usize) -> bool {
        let slowest = self.slowest();
        let (mut left_changes, mut left_bytes) = (self.changes + changes, self.bytes + bytes);
        for oldest in &self.batches {
            if left_changes <= bounds.changes && left_bytes <= bounds.bytes {
                return false;
            }
            if oldest.last() > slowest {
                return true;
            }
            left_changes -= oldest.changes.len();
            left_bytes -= oldest.bytes;
        }
        false
    }
}

#[cfg(test)]
mod tests;

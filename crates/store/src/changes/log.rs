//! The log of the changes that queries can see: bounded, in order, each change with its sequence
//! number.

mod gaps;
mod replicas;
mod state;

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use fleetdex_core::{model::FleetVersion, query::ResourceName};
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

pub use self::state::Bounds;
pub(super) use self::state::SubscriberKind;
use self::state::{LargeBatch, LogState, Subscriber};
use super::{Change, InFlightWrites, Sequence, TooOld, change::Batch, recent::RecentChanges};

/// How long a watch waits for writes in flight, which take some ten milliseconds each unless the
/// store is in trouble.
const SETTLING_PATIENCE: Duration = Duration::from_secs(2);
/// How often a waiting writer checks how far the subscribers are.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The newest changes of a store.
pub struct Log {
    sequence: Sequence,
    pub(super) bounds: Bounds,
    state: Mutex<LogState>,
    /// What the subscribers share.
    pub(super) recent: RecentChanges,
    /// Writes whose changes are added when they are acknowledged.
    pub(crate) in_flight: InFlightWrites,
    /// Sequence number of the last change.
    pub(super) newest: watch::Sender<u64>,
    /// Sequence number of the last change that every query is sure to show from now on.
    visible: watch::Sender<u64>,
}

impl Log {
    /// An empty log.
    pub fn new(sequence: Sequence, bounds: Bounds) -> Self {
        let start = sequence.take(1);
        let state = Mutex::new(LogState {
            start,
            ..LogState::default()
        });
        Self {
            sequence,
            bounds,
            state,
            recent: RecentChanges::default(),
            in_flight: InFlightWrites::default(),
            newest: watch::Sender::new(start),
            visible: watch::Sender::new(start),
        }
    }

    /// An empty log whose run is the same in every test.
    #[cfg(any(test, feature = "testing"))]
    pub fn of_a_test() -> Arc<Self> {
        let sequence = Sequence::of(fleetdex_core::model::ReplicaRun::new(1_790_000_000_000, 0));
        let bounds = Bounds {
            changes: 1_000,
            bytes: 1 << 20,
            owns_documents: false,
            results_lag: false,
        };
        Arc::new(Self::new(sequence, bounds))
    }

    /// The sequence of its numbers.
    pub fn sequence(&self) -> &Sequence {
        &self.sequence
    }

    /// Sequence number of the last change.
    pub fn newest(&self) -> u64 {
        *self.newest.borrow()
    }

    /// Sequence number of the last change that every query is sure to show from now on.
    pub fn visible(&self) -> u64 {
        *self.visible.borrow()
    }

    /// The fleet version that a list has from now on.
    pub fn version(&self) -> FleetVersion {
        self.sequence.version(self.visible())
    }

    /// A number after which not every change is known.
    pub(crate) fn before_start(&self) -> u64 {
        self.state.lock().start.saturating_sub(1)
    }

    /// Waits until every query is sure to show a change; false if the patience ran out.
    pub async fn reaches(&self, number: u64, patience: Duration) -> bool {
        let mut visible = self.visible.subscribe();
        // A number newer than this log's newest is of another log: there is nothing to wait for.
        let target = number.min(self.newest());
        matches!(
            timeout(patience, visible.wait_for(|visible| *visible >= target)).await,
            Ok(Ok(_))
        )
    }

    /// The greatest number up to which this log is known to a client that knows all of it up to
    /// `number`. Changes of other logs take numbers of the same sequence, too.
    pub fn reaches_to(&self, number: u64) -> u64 {
        let state = self.state.lock();
        // Within the lock, so that whatever is added to this log from now on has a greater number.
        let newest = self.sequence.newest();
        let is_all =
            self.newest() <= number && state.gaps.back().is_none_or(|gap| gap.number <= number);
        drop(state);
        if is_all { number.max(newest) } else { number }
    }

    /// Waits for the writes in flight, then returns the number of the last change.
    pub async fn settled(&self) -> u64 {
        self.settle().await;
        self.newest()
    }

    /// Waits for the writes in flight, but not for ever.
    pub(super) async fn settle(&self) {
        if timeout(SETTLING_PATIENCE, self.in_flight.wait_for_earlier())
            .await
            .is_err()
        {
            tracing::debug!("a watch begins although writes are in flight");
        }
    }

    /// Adds changes in their order, and wakes the subscribers.
    pub(crate) fn append(&self, changes: &[Change]) {
        self.state.lock().has_ended = false;
        self.add(changes, false);
    }

    fn add(&self, changes: &[Change], is_replicated: bool) {
        if changes.is_empty() {
            return;
        }
        let bytes = self.bytes_of(changes);
        let mut state = self.state.lock();
        let first = self.sequence.take(changes.len() as u64);
        let batch = Batch {
            first,
            changes: changes.to_vec(),
            is_replicated,
            bytes,
        };
        let last = batch.last();
        if changes.len() > self.bounds.changes / 2 || bytes > self.bounds.bytes / 2 {
            state.large.push(LargeBatch {
                last,
                changes: changes.len(),
                bytes,
                since: Instant::now(),
            });
        }
        state.changes += changes.len();
        state.bytes += bytes;
        state.batches.push_back(Arc::new(batch));
        self.forget_oldest(&mut state);
        // Within the lock: a number must not be announced before its change is in the log.
        self.newest.send_replace(last);
        if !self.bounds.results_lag {
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

    fn forget_oldest(&self, state: &mut LogState) {
        let spared = state.spared();
        while state.batches.len() > 1
            && (state.changes > self.bounds.changes + spared.0
                || state.bytes > self.bounds.bytes + spared.1)
        {
            state.forget_one();
        }
    }

    /// Marks everything up to a number as visible: every query is sure to show it from now on.
    pub(crate) fn show(&self, number: u64) {
        self.visible.send_if_modified(|visible| {
            let is_newer = number > *visible;
            *visible = number.max(*visible);
            is_newer
        });
    }

    /// Restarts the log empty: what comes next does not follow from what was. Subscribers have to
    /// list again.
    pub(crate) fn restart(&self) {
        let mut state = self.state.lock();
        state.batches.clear();
        state.large.clear();
        state.gaps.clear();
        state.lost.clear();
        state.has_ended = false;
        (state.changes, state.bytes) = (0, 0);
        state.start = self.sequence.take(1);
        self.newest.send_replace(state.start);
        if !self.bounds.results_lag {
            self.visible.send_replace(state.start);
        }
    }

    /// Notes that a resource was listed, and is likely to be watched next.
    pub(crate) fn note_listed(&self, resource: &ResourceName) {
        self.state
            .lock()
            .asked
            .insert(resource.clone(), Instant::now());
    }

    /// Whether a watch of this replica follows a resource. Other replicas do not count.
    pub fn is_watched(&self, resource: &ResourceName) -> bool {
        let counts = |subscriber: &Subscriber| {
            subscriber.kind == SubscriberKind::Watch && subscriber.resources.contains(resource)
        };
        self.state.lock().subscribers.values().any(counts)
    }

    /// Whether there is any subscriber, other replicas included.
    pub(crate) fn has_subscribers(&self) -> bool {
        !self.state.lock().subscribers.is_empty()
    }

    /// Waits until some changes can be added without dropping any that a subscriber has yet to
    /// read, or until the patience runs out.
    pub(crate) async fn wait_for_room(&self, changes: &[Change], patience: Duration) {
        let bytes = self.bytes_of(changes);
        let wait = async {
            while self
                .state
                .lock()
                .is_crowded(self.bounds, changes.len(), bytes)
            {
                sleep(LOOK_AGAIN).await;
            }
        };
        if timeout(patience, wait).await.is_err() {
            tracing::debug!("a slow watch will have to list again");
        }
    }

    /// Adds a subscriber of some resources. `after`: the number to continue from; without it, the
    /// last one. Returns the subscriber's number and its position.
    pub(super) fn follow(
        &self,
        resources: &Arc<BTreeSet<ResourceName>>,
        after: Option<u64>,
        kind: SubscriberKind,
    ) -> Result<(u64, Arc<AtomicU64>), TooOld> {
        let mut state = self.state.lock();
        let last = match kind {
            SubscriberKind::Watch => self.newest(),
            SubscriberKind::Replica => state.last_for_replicas(self.newest()),
        };
        let after = after.unwrap_or(last);
        let is_ours = after <= self.sequence.newest();
        let knows_all = state
            .gaps
            .iter()
            .all(|gap| gap.number <= after || gap.known.is_superset(resources));
        if !is_ours
            || !state.knows_after(after)
            || !knows_all
            || (kind == SubscriberKind::Watch && state.has_lost(resources, after))
        {
            return Err(TooOld { after });
        }
        state.last_subscriber += 1;
        let (number, position) = (state.last_subscriber, Arc::new(AtomicU64::new(after)));
        state.subscribers.insert(
            number,
            Subscriber {
                resources: Arc::clone(resources),
                position: Arc::clone(&position),
                kind,
            },
        );
        Ok((number, position))
    }

    pub(super) fn leave(&self, subscriber: u64) {
        let mut state = self.state.lock();
        if let Some(subscriber) = state.subscribers.remove(&subscriber) {
            let resources = subscriber.resources.iter().cloned();
            let ended = resources.map(|resource| (resource, Instant::now()));
            state.asked.extend(ended);
        }
    }

    /// The batch with the next change after a number, if there is one.
    pub(super) fn after(&self, after: u64) -> Result<Option<Arc<Batch>>, TooOld> {
        let state = self.state.lock();
        if !state.knows_after(after) {
            return Err(TooOld { after });
        }
        let next = state.batches.partition_point(|batch| batch.last() <= after);
        Ok(state.batches.get(next).cloned())
    }

    /// The same for a watch of resources that other replicas change, too.
    pub(super) fn all_changes_after(
        &self,
        resources: &BTreeSet<ResourceName>,
        after: u64,
    ) -> Result<Option<Arc<Batch>>, TooOld> {
        if self.state.lock().has_lost(resources, after) {
            return Err(TooOld { after });
        }
        self.after(after)
    }

    /// All batches with changes after a number, and the number of the last change.
    pub(super) fn all_after(&self, after: u64) -> (Vec<Arc<Batch>>, u64) {
        let state = self.state.lock();
        let next = state.batches.partition_point(|batch| batch.last() <= after);
        (
            state.batches.iter().skip(next).cloned().collect(),
            self.newest(),
        )
    }
}

#[cfg(test)]
mod tests;

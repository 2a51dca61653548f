//! What a log holds: its newest batches, and who has yet to read them.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fleetdex_core::query::ResourceName;
use tokio::time::Instant;

use crate::changes::change::Batch;

/// How long a batch that alone fills the log, such as the changes of a whole revision, is kept
/// beyond the bounds for subscribers that have not read it.
pub(super) const GRACE: Duration = Duration::from_secs(30);

/// How much a log keeps, and how its store behaves.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Changes to hold. The newest batch is always kept whole.
    pub changes: usize,
    /// Bytes of documents to hold.
    pub bytes: usize,
    /// Whether only the log holds the documents. Otherwise the store holds the newest one of each
    /// object anyway.
    pub owns_documents: bool,
    /// Whether query results may lag behind the log, or show more than the version they carry. A
    /// watch then begins with the newest state of each object that has changed since its version,
    /// so that no client goes back in time.
    pub results_lag: bool,
}

/// A step across which only some resources are tracked.
pub(super) struct LogGap {
    pub(super) number: u64,
    pub(super) known: BTreeSet<ResourceName>,
}

/// A batch that alone fills a good part of the log.
pub(super) struct LargeBatch {
    pub(super) last: u64,
    pub(super) changes: usize,
    pub(super) bytes: usize,
    pub(super) since: Instant,
}

/// Who reads the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::changes) enum SubscriberKind {
    /// A watch of this replica.
    Watch,
    /// Another replica, on behalf of its watches.
    Replica,
}

pub(super) struct Subscriber {
    /// The resources that it reads.
    pub(super) resources: Arc<BTreeSet<ResourceName>>,
    pub(super) position: Arc<AtomicU64>,
    pub(super) kind: SubscriberKind,
}

#[derive(Default)]
pub(super) struct LogState {
    pub(super) batches: VecDeque<Arc<Batch>>,
    pub(super) changes: usize,
    pub(super) bytes: usize,
    pub(super) large: Vec<LargeBatch>,
    /// The log holds every change after this number.
    pub(super) start: u64,
    pub(super) gaps: VecDeque<LogGap>,
    /// Numbers of the gaps whose steps have not ended: query results do not show yet what these
    /// steps added.
    pub(super) steps: BTreeSet<u64>,
    /// Changes of a resource up to this number are incomplete: some of another replica are missing.
    pub(super) lost: BTreeMap<ResourceName, u64>,
    pub(super) subscribers: BTreeMap<u64, Subscriber>,
    pub(super) last_subscriber: u64,
    /// When each resource was listed, or its last watch ended. Outdated entries are removed.
    pub(super) asked: BTreeMap<ResourceName, Instant>,
    /// Whether this replica has added its last change. Changes of other replicas may still arrive.
    pub(super) has_ended: bool,
}

/// What another replica may read next. Taken under one lock, so that no concurrent change is
/// skipped.
pub(in crate::changes) struct NextForReplica {
    /// The batch with the next change, if there is one.
    pub(in crate::changes) batch: Option<Arc<Batch>>,
    /// Number of the last change that it may read. Numbers have no change each: without a batch,
    /// everything up to this number is known.
    pub(in crate::changes) last: u64,
    /// Whether this replica has added its last change. Changes of other replicas may still arrive.
    pub(in crate::changes) has_ended: bool,
}

impl LogState {
    pub(super) fn last_for_replicas(&self, newest: u64) -> u64 {
        self.steps
            .first()
            .map_or(newest, |step| newest.min(step - 1))
    }

    pub(super) fn knows_after(&self, after: u64) -> bool {
        after >= self.start
    }

    /// Whether changes of one of these resources are missing after a number.
    pub(super) fn has_lost(&self, resources: &BTreeSet<ResourceName>, after: u64) -> bool {
        self.lost
            .iter()
            .any(|(resource, number)| after < *number && resources.contains(resource))
    }

    pub(super) fn slowest(&self) -> u64 {
        self.subscribers
            .values()
            .map(|subscriber| subscriber.position.load(Ordering::Acquire))
            .min()
            .unwrap_or(u64::MAX)
    }

    /// The changes and bytes that do not count against the bounds for now.
    pub(super) fn spared(&self) -> (usize, usize) {
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

    pub(super) fn forget_one(&mut self) {
        let Some(oldest) = self.batches.pop_front() else {
            return;
        };
        self.start = self.start.max(oldest.last());
        self.changes -= oldest.changes.len();
        self.bytes -= oldest.bytes;
        self.large.retain(|large| large.last > oldest.last());
    }

    /// Whether adding this much would drop changes that a subscriber has yet to read.
    pub(super) fn is_crowded(&self, bounds: Bounds, changes: usize, bytes: usize) -> bool {
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

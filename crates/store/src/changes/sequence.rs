//! The sequence of numbers that the changes of all logs of the process share, and the fleet
//! versions they stand for.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use fleetdex_core::model::{FleetVersion, ReplicaRun};
use tokio::time::Instant;

/// The sequence numbers of this run. Clones share them.
///
/// A number says when it was taken, not how many were taken before: the difference of two versions
/// that a caller reads would otherwise count the changes between them, also those that are hidden
/// from it.
#[derive(Clone)]
pub struct Sequence(Arc<Numbers>);

struct Numbers {
    run: ReplicaRun,
    /// When it began; absent where each number is the one after the last.
    began: Option<Instant>,
    newest: AtomicU64,
}

impl fmt::Debug for Sequence {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Sequence").field(&self.newest()).finish()
    }
}

impl Default for Sequence {
    fn default() -> Self {
        Self::of_replica(None)
    }
}

impl Sequence {
    /// A sequence that begins now, for a replica of this name. Replicas whose names end in
    /// different ordinals never make the same versions; others begin at other times and have a
    /// random tag.
    pub fn of_replica(name: Option<&str>) -> Self {
        let tag = name
            .and_then(ReplicaRun::tag_of)
            .unwrap_or_else(rand::random);
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let began = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        Self::new(ReplicaRun::new(began, tag), Some(Instant::now()))
    }

    /// A sequence of a given run that counts, so that tests know its numbers.
    pub fn of(run: ReplicaRun) -> Self {
        Self::new(run, None)
    }

    fn new(run: ReplicaRun, began: Option<Instant>) -> Self {
        Self(Arc::new(Numbers {
            run,
            began,
            newest: AtomicU64::new(0),
        }))
    }

    /// The last number that was taken.
    pub fn newest(&self) -> u64 {
        self.0.newest.load(Ordering::Acquire)
    }

    /// The fleet version after a change.
    pub fn version(&self, number: u64) -> FleetVersion {
        self.0.run.version(number)
    }

    /// The number of the change that a version stands for; `None` if it is of another run or
    /// replica, or was not made yet.
    pub fn number(&self, version: FleetVersion) -> Option<u64> {
        self.0.run.sequence(version, self.newest())
    }

    /// Takes the next number, for no change: whatever happened before it has a lower one.
    pub fn advance(&self) -> u64 {
        self.take(1)
    }

    /// Takes the next numbers; returns the first of them.
    pub(super) fn take(&self, count: u64) -> u64 {
        let lasted = self.0.began.map(|began| began.elapsed());
        let now = lasted.map_or(0, ReplicaRun::numbers_within);
        let taken = |newest: u64| Some(newest.max(now).saturating_add(count));
        let newest = &self.0.newest;
        match newest.fetch_update(Ordering::AcqRel, Ordering::Acquire, taken) {
            Ok(before) | Err(before) => before.max(now) + 1,
        }
    }
}

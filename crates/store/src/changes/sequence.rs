//! One sequence of numbers for the changes of all logs of the process, and the versions of the fleet that go with them.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use fleetdex_core::model::{FleetVersion, Run};

/// The numbers of this run. Clones share them.
#[derive(Clone)]
pub struct Sequence(Arc<Numbers>);

struct Numbers {
    run: Run,
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
    /// A sequence that begins now, for the replica of a name. Replicas whose names end in different ordinals never make the same versions;
    /// others begin at other times, and have a tag by chance.
    pub fn of_replica(name: Option<&str>) -> Self {
        let tag = name.and_then(Run::tag_of).unwrap_or_else(rand::random);
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let began = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        Self::of(Run::new(began, tag))
    }

    /// A sequence of a certain run.
    pub fn of(run: Run) -> Self {
        Self(Arc::new(Numbers {
            run,
            newest: AtomicU64::new(0),
        }))
    }

    /// The last number that is taken.
    pub fn newest(&self) -> u64 {
        self.0.newest.load(Ordering::Acquire)
    }

    /// The version of the fleet after a change.
    pub fn version(&self, number: u64) -> FleetVersion {
        self.0.run.version(number)
    }

    /// The number of the change that a version stands for; nothing if it is of another run or replica, or not made yet.
    pub fn number(&self, version: FleetVersion) -> Option<u64> {
        self.0.run.sequence(version, self.newest())
    }

    /// Takes the next numbers; the first of them.
    pub(super) fn take(&self, count: u64) -> u64 {
        self.0.newest.fetch_add(count, Ordering::AcqRel) + 1
    }
}

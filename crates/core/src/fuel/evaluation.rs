//! What share of their steps evaluations take, in this process.
//!
//! These numbers show whether real objects come near the limits. They are counted here, as
//! evaluations are spread over crates that know of no metrics; `fleetdex_telemetry` serves them.

use std::sync::atomic::{AtomicU64, Ordering};

/// Upper bounds of the buckets of shares. What is beyond the last one does not exist.
pub const SHARE_BOUNDS: [f64; 9] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 0.5, 0.75, 1.0];
/// A share is added up in millionths.
const MILLION: u64 = 1_000_000;

/// What has a number of steps of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeteredEvaluation {
    /// The cells of one Table, or of all Table events of one watch.
    Table,
    /// All redactions of one object.
    Redaction,
    /// One change, compared with the selectors and words of one watch.
    WatchedChange,
    /// One patch of a webhook.
    Patch,
}

/// How many evaluations of one kind took which share.
#[derive(Clone, Debug, PartialEq)]
pub struct StepShares {
    /// Evaluations with a share up to each of [`SHARE_BOUNDS`], and above the bound before it.
    pub buckets: [u64; SHARE_BOUNDS.len()],
    /// The sum of all shares.
    pub sum: f64,
}

impl StepShares {
    /// The number of evaluations.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

struct ShareCounter {
    buckets: [AtomicU64; SHARE_BOUNDS.len()],
    millionths: AtomicU64,
}

static COUNTERS: [ShareCounter; MeteredEvaluation::ALL.len()] =
    [const { ShareCounter::new() }; MeteredEvaluation::ALL.len()];

impl ShareCounter {
    const fn new() -> Self {
        Self {
            buckets: [const { AtomicU64::new(0) }; SHARE_BOUNDS.len()],
            millionths: AtomicU64::new(0),
        }
    }
}

impl MeteredEvaluation {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Table,
        Self::Redaction,
        Self::WatchedChange,
        Self::Patch,
    ];

    /// The value of a label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Redaction => "redaction",
            Self::WatchedChange => "watched_change",
            Self::Patch => "patch",
        }
    }

    /// What was counted so far.
    pub fn shares(self) -> StepShares {
        let counter = &COUNTERS[self as usize];
        let buckets = std::array::from_fn(|index| counter.buckets[index].load(Ordering::Relaxed));
        StepShares {
            buckets,
            sum: as_float(counter.millionths.load(Ordering::Relaxed)) / as_float(MILLION),
        }
    }

    pub(super) fn count(self, used: u64, capacity: u64) {
        let counter = &COUNTERS[self as usize];
        let share = as_float(used) / as_float(capacity);
        let bucket = SHARE_BOUNDS.partition_point(|bound| *bound < share);
        let bucket = bucket.min(SHARE_BOUNDS.len() - 1);
        counter.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        let millionths = u128::from(used) * u128::from(MILLION) / u128::from(capacity.max(1));
        let millionths = u64::try_from(millionths).unwrap_or(MILLION);
        counter.millionths.fetch_add(millionths, Ordering::Relaxed);
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a share need not be more exact than that"
)]
fn as_float(number: u64) -> f64 {
    number as f64
}

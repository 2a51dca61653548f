//! Delays between attempts to reach a store.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};

/// The longest delay between attempts, without jitter, of a store that answers: a few batches in this time do no harm to one that is
/// overloaded.
pub(super) const MAX_DELAY: Duration = Duration::from_secs(3);
/// The same for a store that gives no answer. An attempt costs it nothing, and one that is back should have what it missed within ten
/// seconds.
pub(super) const MAX_UNREACHABLE_DELAY: Duration = Duration::from_millis(500);

/// Delays that grow with each failure in a row, as long as it is one of a kind. Source of the figures: client-go's reflector (0.8 s,
/// doubling, jittered); the first delay is shorter, because most failures of a store are single requests.
pub(super) struct Backoff {
    delays: backon::ExponentialBackoff,
    max: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self::up_to(MAX_DELAY)
    }
}

impl Backoff {
    fn up_to(max: Duration) -> Self {
        let schedule = ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(200))
            .with_max_delay(max)
            .with_jitter()
            .without_max_times();
        Self {
            delays: schedule.build(),
            max,
        }
    }

    pub(super) fn next(&mut self, max: Duration) -> Duration {
        if self.max != max {
            *self = Self::up_to(max);
        }
        self.delays.next().unwrap_or(max)
    }
}

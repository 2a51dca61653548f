//! Delays between attempts to reach a store.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};

/// The longest delay, without jitter, between attempts at a store that answers. A few batches in
/// this time do no harm to an overloaded store.
pub(super) const MAX_DELAY: Duration = Duration::from_secs(3);
/// The same for an unreachable store. An attempt costs it nothing, and a store that is back should
/// receive what it missed within ten seconds.
pub(super) const MAX_UNREACHABLE_DELAY: Duration = Duration::from_millis(500);

/// The first delay after a success.
const FIRST_DELAY: Duration = Duration::from_millis(200);

/// Delays that double with each failure of the same kind in a row, with jitter, like those of
/// client-go's reflector. The first delay is 0.2 s instead of 0.8 s, because most failures of a
/// store are single requests.
pub(super) struct StoreBackoff {
    delays: backon::ExponentialBackoff,
    max: Duration,
}

impl Default for StoreBackoff {
    fn default() -> Self {
        Self::up_to(MAX_DELAY)
    }
}

impl StoreBackoff {
    fn up_to(max: Duration) -> Self {
        let schedule = ExponentialBuilder::default()
            .with_min_delay(FIRST_DELAY)
            .with_max_delay(max)
            .with_jitter()
            .without_max_times();
        Self {
            delays: schedule.build(),
            max,
        }
    }

    /// The next delay; another `max` than before starts from the first delay again.
    pub(super) fn next(&mut self, max: Duration) -> Duration {
        if self.max != max {
            *self = Self::up_to(max);
        }
        self.delays.next().unwrap_or(max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The longest of the first delays, and of the tenth, over many schedules with their jitter.
    fn longest(max: Duration) -> (Duration, Duration) {
        let delays = (0..200).map(|_| {
            let mut backoff = StoreBackoff::default();
            let first = backoff.next(max);
            (first, (0..9).map(|_| backoff.next(max)).max().unwrap())
        });
        delays.fold(Default::default(), |(first, last), (a, b)| {
            (first.max(a), last.max(b))
        })
    }

    #[test]
    fn delays_grow_from_the_first_one_to_the_maximum() {
        let jitter = 2;
        for max in [MAX_DELAY, MAX_UNREACHABLE_DELAY] {
            let (first, last) = longest(max);
            assert!(first <= FIRST_DELAY * jitter, "{first:?}");
            assert!(last > max && last <= max * jitter, "{last:?}");
        }
    }

    #[test]
    fn another_kind_of_failure_starts_from_the_first_delay() {
        let mut backoff = StoreBackoff::default();
        for _ in 0..10 {
            backoff.next(MAX_DELAY);
        }
        assert!(backoff.next(MAX_DELAY) >= MAX_DELAY);
        assert!(backoff.next(MAX_UNREACHABLE_DELAY) <= FIRST_DELAY * 2);
        assert!(backoff.next(MAX_DELAY) <= FIRST_DELAY * 2);
    }
}

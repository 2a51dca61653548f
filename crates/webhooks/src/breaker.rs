//! A circuit breaker: whether a webhook may be called now.
//!
//! Guarantee: a pure state machine without a clock. After [`FAILURES_TO_OPEN`] calls in a row that
//! did not reach the webhook, none is permitted for a time that doubles from [`FIRST_BACKOFF`] to
//! [`LONGEST_BACKOFF`]; then one call probes the webhook, and its result closes the breaker or
//! opens it again. A `Retry-After` opens it at once, for as long as it says.

use std::time::Duration;

use tokio::time::Instant;

/// Calls in a row that must fail before the breaker opens: one lost connection or one slow object
/// does not.
pub const FAILURES_TO_OPEN: u32 = 5;
/// The time without calls after the breaker opened.
pub const FIRST_BACKOFF: Duration = Duration::from_secs(1);
/// The longest time without calls when probes go on failing.
pub const LONGEST_BACKOFF: Duration = Duration::from_mins(1);
/// The longest `Retry-After` that is respected, so that no webhook can switch its interpreter off
/// for good.
pub const LONGEST_RETRY_AFTER: Duration = Duration::from_mins(5);

/// What a call says about the webhook, whatever it says about the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contact {
    /// The webhook answered, be it with an error about this object.
    Reached,
    /// It could not be reached in time, or is overloaded.
    Unreachable {
        /// How long it asks not to be called.
        retry_after: Option<Duration>,
    },
    /// It was not called at all.
    NotCalled,
}

/// The breaker of one webhook.
#[derive(Clone, Debug)]
pub struct Breaker {
    state: BreakerState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BreakerState {
    Closed { failures: u32 },
    Open { until: Instant, backoff: Duration },
    Probing { backoff: Duration },
}

impl Default for Breaker {
    fn default() -> Self {
        let state = BreakerState::Closed { failures: 0 };
        Self { state }
    }
}

impl Breaker {
    /// Whether a call may begin now.
    pub fn permits(&self, now: Instant) -> bool {
        match self.state {
            BreakerState::Closed { .. } => true,
            BreakerState::Open { until, .. } => now >= until,
            BreakerState::Probing { .. } => false,
        }
    }

    /// When the next call is permitted; `None`: now, or when the probe ends.
    pub fn opens_until(&self) -> Option<Instant> {
        match self.state {
            BreakerState::Open { until, .. } => Some(until),
            BreakerState::Closed { .. } | BreakerState::Probing { .. } => None,
        }
    }

    /// A call begins that was permitted. After a time without calls it is the probe.
    pub fn begin(&mut self) {
        if let BreakerState::Open { backoff, .. } = self.state {
            self.state = BreakerState::Probing { backoff };
        }
    }

    /// A call ended. Returns whether the breaker closed by that.
    pub fn end(&mut self, contact: Contact, now: Instant) -> bool {
        match contact {
            Contact::Reached => return self.reached(),
            Contact::Unreachable { retry_after } => self.failed(retry_after, now),
            Contact::NotCalled => self.abandoned(now),
        }
        false
    }

    fn reached(&mut self) -> bool {
        let was_probing = matches!(self.state, BreakerState::Probing { .. });
        // While it is open, a call from before; the webhook may have asked for a pause since.
        if !matches!(self.state, BreakerState::Open { .. }) {
            *self = Self::default();
        }
        was_probing
    }

    fn failed(&mut self, retry_after: Option<Duration>, now: Instant) {
        let pause = retry_after.map(|pause| pause.min(LONGEST_RETRY_AFTER));
        self.state = match self.state {
            BreakerState::Closed { failures }
                if failures + 1 < FAILURES_TO_OPEN && pause.is_none() =>
            {
                BreakerState::Closed {
                    failures: failures + 1,
                }
            }
            BreakerState::Closed { .. } => open(FIRST_BACKOFF, pause, now),
            // Calls from before: each of them says again what the first one said.
            BreakerState::Open { until, backoff } => BreakerState::Open {
                until: until.max(now + pause.unwrap_or_default()),
                backoff,
            },
            BreakerState::Probing { backoff } => {
                open((backoff * 2).min(LONGEST_BACKOFF), pause, now)
            }
        };
    }

    /// The probe was not made: another one may be after the same time.
    fn abandoned(&mut self, now: Instant) {
        if let BreakerState::Probing { backoff } = self.state {
            self.state = open(backoff, None, now);
        }
    }
}

fn open(backoff: Duration, pause: Option<Duration>, now: Instant) -> BreakerState {
    BreakerState::Open {
        until: now + backoff.max(pause.unwrap_or_default()),
        backoff,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LOST: Contact = Contact::Unreachable { retry_after: None };

    fn opened(now: Instant) -> Breaker {
        let mut breaker = Breaker::default();
        for _ in 0..FAILURES_TO_OPEN {
            assert!(breaker.permits(now));
            breaker.begin();
            breaker.end(LOST, now);
        }
        breaker
    }

    #[test]
    fn failures_in_a_row_open_it_and_an_answer_between_them_does_not_let_them_add_up() {
        let now = Instant::now();
        let mut breaker = Breaker::default();
        for call in 0..100 {
            breaker.begin();
            let contact = if call % FAILURES_TO_OPEN == 0 {
                Contact::Reached
            } else {
                LOST
            };
            breaker.end(contact, now);
            assert!(breaker.permits(now), "{call}");
        }
        assert!(!opened(now).permits(now));
    }

    #[test]
    fn one_probe_follows_each_pause_and_pauses_double_up_to_a_minute() {
        let mut now = Instant::now();
        let mut breaker = opened(now);
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            let until = now + Duration::from_secs(seconds);
            assert_eq!(breaker.opens_until(), Some(until));
            assert!(!breaker.permits(until - Duration::from_millis(1)));
            assert!(breaker.permits(until));
            breaker.begin();
            assert!(!breaker.permits(until), "a second probe at {seconds} s");
            now = until;
            breaker.end(LOST, now);
        }
        now += LONGEST_BACKOFF;
        breaker.begin();
        assert!(breaker.end(Contact::Reached, now));
        assert!(breaker.permits(now));
        assert_eq!(opened(now).opens_until(), Some(now + FIRST_BACKOFF));
    }

    #[test]
    fn retry_after_opens_it_at_once_and_is_bounded() {
        let now = Instant::now();
        for (asked, kept) in [(0, 1), (7, 7), (100_000, 300)] {
            let mut breaker = Breaker::default();
            let retry_after = Some(Duration::from_secs(asked));
            breaker.end(Contact::Unreachable { retry_after }, now);
            assert_eq!(
                breaker.opens_until(),
                Some(now + Duration::from_secs(kept)),
                "{asked}"
            );
            assert!(!breaker.end(Contact::Reached, now), "a call from before");
            assert!(!breaker.permits(now));
        }
    }

    #[test]
    fn calls_from_before_it_opened_do_not_prolong_the_pause() {
        let now = Instant::now();
        let mut breaker = opened(now);
        for _ in 0..50 {
            breaker.end(LOST, now);
        }
        assert_eq!(breaker.opens_until(), Some(now + FIRST_BACKOFF));
    }

    #[test]
    fn a_probe_that_was_not_made_leaves_the_way_to_another_one() {
        let now = Instant::now();
        let mut breaker = opened(now);
        let later = now + FIRST_BACKOFF;
        breaker.begin();
        breaker.end(Contact::NotCalled, later);
        assert_eq!(breaker.opens_until(), Some(later + FIRST_BACKOFF));
    }

    proptest! {
        #[test]
        fn whatever_happens_a_call_is_permitted_again_within_the_longest_pause(
            steps in prop::collection::vec((0_u8..4, 0_u64..400), 0..200)
        ) {
            let mut now = Instant::now();
            let mut breaker = Breaker::default();
            let mut calls = 0_u32;
            for (step, seconds) in steps {
                now += Duration::from_secs(seconds);
                let contact = match step {
                    0 if breaker.permits(now) => {
                        breaker.begin();
                        calls += 1;
                        continue;
                    }
                    1 => Contact::Reached,
                    2 => Contact::Unreachable { retry_after: Some(Duration::from_secs(seconds * 9)) },
                    3 => Contact::NotCalled,
                    _ => LOST,
                };
                if calls > 0 {
                    calls -= 1;
                    breaker.end(contact, now);
                }
            }
            for _ in 0..calls {
                breaker.end(LOST, now);
            }
            prop_assert!(breaker.permits(now + LONGEST_RETRY_AFTER), "{breaker:?}");
        }
    }
}

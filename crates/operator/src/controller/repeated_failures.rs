//! Limits the log lines about failures that are retried every few seconds.

use std::{collections::BTreeMap, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// How often the same failure is logged.
const INTERVAL: Duration = Duration::from_mins(1);

/// The failures of the last minute, by their messages: as many as there are attempts in a minute.
#[derive(Default)]
pub(super) struct RepeatedFailures(Mutex<BTreeMap<String, Instant>>);

impl RepeatedFailures {
    /// Whether to log a failure: the same one was not logged within the last minute.
    pub(super) fn is_due(&self, failure: &str) -> bool {
        let now = Instant::now();
        let mut logged = self.0.lock();
        logged.retain(|_, time| now.duration_since(*time) < INTERVAL);
        if logged.contains_key(failure) {
            tracing::debug!(failure, "it failed again");
            return false;
        }
        logged.insert(failure.to_owned(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_same_failure_is_logged_once_a_minute() {
        let failures = RepeatedFailures::default();
        let mut logged = 0;
        for _ in 0..24 {
            logged += u32::from(failures.is_due("cannot write ResourceRegistry a"));
            tokio::time::advance(Duration::from_secs(5)).await;
        }
        assert_eq!(logged, 2, "in two minutes");
        assert!(failures.is_due("cannot write ResourceRegistry b"));
    }
}

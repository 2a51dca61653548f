//! Whether a unit is in sync with its store, or why it is not.

use std::{borrow::Cow, sync::Arc, time::Duration};

use fleetdex_store::IndexRevision;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// The state of a unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnitState {
    /// It has not begun, or waits for its store.
    Starting,
    /// It reads the list, or waits for the acknowledgement of its writes.
    Listing,
    /// The store holds the list; the unit watches changes.
    Synced,
    /// The last attempt failed; the unit retries.
    Failing {
        /// CamelCase.
        reason: Cow<'static, str>,
        /// The message of the member or the store.
        message: String,
    },
}

/// What caused a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureCause {
    /// The store.
    Store,
    /// The member, and a retry may succeed.
    Member,
    /// The member, which refuses this kind until someone changes its configuration.
    Refusal,
}

/// Bytes of the message of a failure. Statuses and the reports of replicas hold the messages of
/// many kinds of many clusters in an object of 1.5 MiB.
const MAX_MESSAGE_BYTES: usize = 512;
/// The state of a unit, and since when it has it.
#[derive(Debug)]
pub(super) struct SyncState {
    state: UnitState,
    synced_at: Option<Timestamp>,
    /// Whether the store holds a complete list and everything after it.
    in_sync: bool,
    failing_since: Option<Instant>,
    obstacle: Option<FailureCause>,
    /// The id of the index revision that the state is of.
    revision: Option<Arc<str>>,
}

impl Default for SyncState {
    fn default() -> Self {
        Self {
            state: UnitState::Starting,
            synced_at: None,
            in_sync: false,
            failing_since: None,
            obstacle: None,
            revision: None,
        }
    }
}

/// Changes return whether the state of the unit is another one.
impl SyncState {
    pub(super) fn state(&self) -> &UnitState {
        &self.state
    }

    /// When the store last held a complete list.
    pub(super) fn synced_at(&self) -> Option<Timestamp> {
        self.synced_at
    }

    pub(super) fn set_revision(&mut self, revision: &IndexRevision) {
        self.revision = Some(Arc::clone(&revision.id));
    }

    pub(super) fn is_synced_to(&self, revision: &IndexRevision) -> bool {
        self.is_in(revision) && self.state == UnitState::Synced
    }

    fn is_in(&self, revision: &IndexRevision) -> bool {
        self.revision.as_ref() == Some(&revision.id)
    }

    /// For how long every attempt has failed; `None` if the last one succeeded.
    pub(super) fn failing_for(&self) -> Option<Duration> {
        self.failing_since.map(|since| since.elapsed())
    }

    pub(super) fn blocking_failure(
        &self,
        revision: &IndexRevision,
        duration: Duration,
    ) -> Option<FailureCause> {
        let is_long = self
            .failing_for()
            .is_some_and(|failing| failing >= duration);
        self.obstacle.filter(|_| is_long && self.is_in(revision))
    }

    fn set(&mut self, state: UnitState) -> bool {
        if self.state == state {
            return false;
        }
        if state == UnitState::Synced {
            self.synced_at = Some(Timestamp::now());
        }
        let failing = matches!(state, UnitState::Failing { .. });
        if !failing {
            self.obstacle = None;
        }
        self.failing_since = failing.then(|| self.failing_since.unwrap_or_else(Instant::now));
        self.state = state;
        true
    }

    /// Notes a failed attempt. 512 bytes of the message are retained.
    pub(super) fn failing(
        &mut self,
        obstacle: FailureCause,
        reason: &'static str,
        mut message: String,
    ) -> bool {
        message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
        message.shrink_to_fit();
        self.obstacle = Some(obstacle);
        self.set(UnitState::Failing {
            reason: Cow::Borrowed(reason),
            message,
        })
    }

    /// Notes that a list or watch succeeded, which ends a failure.
    pub(super) fn recovered(&mut self) -> bool {
        match (&self.state, self.in_sync) {
            (UnitState::Failing { .. }, true) => self.set(UnitState::Synced),
            (UnitState::Failing { .. }, false) => self.set(UnitState::Listing),
            _ => false,
        }
    }

    /// Notes that a list has begun. A failure lasts until something has worked.
    pub(super) fn list_started(&mut self) -> bool {
        self.in_sync = false;
        let is_failing = matches!(self.state, UnitState::Failing { .. });
        !is_failing && self.set(UnitState::Listing)
    }

    /// Notes that the store holds a complete list and everything after it.
    pub(super) fn in_sync(&mut self) -> bool {
        self.in_sync = true;
        let waits = matches!(self.state, UnitState::Starting | UnitState::Listing);
        waits && self.set(UnitState::Synced)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_truncated() {
        let mut state = SyncState::default();
        state.failing(FailureCause::Member, "InvalidAnswer", "ä".repeat(17 << 20));
        let UnitState::Failing { message, .. } = state.state else {
            panic!()
        };
        assert!(message.len() <= MAX_MESSAGE_BYTES && message.capacity() <= 2 * MAX_MESSAGE_BYTES);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_lasts_until_something_has_worked() {
        let mut state = SyncState::default();
        let fail = |state: &mut SyncState| {
            state.failing(FailureCause::Member, "Unreachable", "dial".to_owned())
        };
        assert!(fail(&mut state) && !fail(&mut state));
        tokio::time::advance(Duration::from_mins(1)).await;
        assert!(!state.list_started());
        assert_eq!(state.failing_for(), Some(Duration::from_mins(1)));
        assert!(state.recovered());
        assert_eq!(
            (state.state(), state.failing_for()),
            (&UnitState::Listing, None)
        );
        assert!(state.in_sync() && fail(&mut state) && state.recovered());
        assert_eq!(state.state(), &UnitState::Synced);
    }
}

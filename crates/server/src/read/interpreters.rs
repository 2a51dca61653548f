//! Resource interpreters, as they are configured: the rules, and who calls webhooks.
//!
//! Guarantee: scripts that do not end and webhooks that do not answer take some threads and calls
//! from users, of which one user has half at most, and nothing from the rest of the process.

use std::{
    fmt,
    sync::{Arc, LazyLock},
};

use fleetdex_interpreter::rules::RuleSet;
use fleetdex_limits::{
    fair_semaphore::{FairPermit, FairSemaphore},
    intake::{Budget, Intake, MemoryLimits},
};
use fleetdex_telemetry::Metrics;
use fleetdex_webhooks::{client::CallWebhook, limits::CALLS_OF_WEBHOOK};
use tokio::{sync::watch, time::Instant};

/// Operations by scripts and built-in rules that run at a time. A script takes a processor for a
/// second at most.
const RUNS: usize = 4;
/// Calls of webhooks under way: those that the client has room for beside the ones of the indexing
/// path, if all are for one webhook.
const CALLS: usize = CALLS_OF_WEBHOOK;
/// Merged objects in memory at a time. Each has 32 MiB of text at most, as a page has, and
/// [`MERGE_BYTES`] of what is parsed.
const MERGES: usize = 2;
/// What a merged object may take besides its text. That of a thousand clusters with a status of 5
/// kB takes a tenth.
pub const MERGE_BYTES: usize = 128 << 20;
/// Operations that wait for their turn: those of two hundred requests.
const QUEUE: usize = 800;

/// The memory of what is parsed for operations: for one request, for one user, and for all users,
/// beside one more request. An object of a megabyte takes 35 MiB, its copy included, and with long
/// texts less.
const PARSED: MemoryLimits = MemoryLimits {
    page: 0,
    line: 0,
    answer: 128 << 20,
    refusal: 0,
    share: 128 << 20,
    shared: 128 << 20,
};

/// What users share, by user name.
type UserPermits = FairSemaphore<Arc<str>>;
/// The share of a user.
pub type Turn = FairPermit<Arc<str>>;

/// Why there is no turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TurnError {
    /// Too many wait already, of this user or of all users.
    #[error("too many operations wait, of this user or of all users")]
    QueueFull,
    /// There was none until the deadline.
    #[error("others took all of the time")]
    Deadline,
}

/// Resource interpreters. Clones share what they have. The default has the built-in rules, and
/// counts for no metrics.
#[derive(Clone)]
pub struct Interpreters {
    rules: watch::Receiver<Arc<RuleSet>>,
    webhooks: Option<Arc<dyn CallWebhook>>,
    runs: UserPermits,
    calls: UserPermits,
    merges: UserPermits,
    parsed: Budget,
}

impl Interpreters {
    /// The rules that a channel publishes, with webhooks that are called by `webhooks`. `metrics`
    /// count what gets no turn.
    pub fn new(
        rules: watch::Receiver<Arc<RuleSet>>,
        webhooks: Option<Arc<dyn CallWebhook>>,
        metrics: &Metrics,
    ) -> Self {
        let users =
            |permits, limit| FairSemaphore::new(permits, QUEUE, metrics.rejected_requests(limit));
        Self {
            rules,
            webhooks,
            runs: users(RUNS, "interpreter_runs"),
            calls: users(CALLS, "interpreter_calls"),
            merges: users(MERGES, "merges"),
            parsed: Budget::new(PARSED),
        }
    }

    /// The rules, as they are now.
    pub fn rules(&self) -> Arc<RuleSet> {
        Arc::clone(&self.rules.borrow())
    }

    /// What calls webhooks; `None` if nothing does.
    pub fn webhooks(&self) -> Option<&Arc<dyn CallWebhook>> {
        self.webhooks.as_ref()
    }

    /// The memory of a user for objects that are parsed for operations.
    pub fn parsed_memory(&self, user: &str) -> Intake {
        self.parsed.share(user)
    }

    /// A turn to run a script or a built-in rule.
    pub async fn run_turn(&self, user: &Arc<str>, until: Instant) -> Result<Turn, TurnError> {
        turn(&self.runs, user, until).await
    }

    /// A turn to call a webhook.
    pub async fn call_turn(&self, user: &Arc<str>, until: Instant) -> Result<Turn, TurnError> {
        turn(&self.calls, user, until).await
    }

    /// A turn to merge objects.
    pub async fn merge_turn(&self, user: &Arc<str>, until: Instant) -> Result<Turn, TurnError> {
        turn(&self.merges, user, until).await
    }
}

async fn turn(users: &UserPermits, user: &Arc<str>, until: Instant) -> Result<Turn, TurnError> {
    let wait = until.saturating_duration_since(Instant::now());
    let turn = users.acquire(Arc::clone(user), wait).await;
    turn.ok_or_else(|| {
        if Instant::now() < until {
            TurnError::QueueFull
        } else {
            TurnError::Deadline
        }
    })
}

impl Default for Interpreters {
    fn default() -> Self {
        static BUILT_IN: LazyLock<watch::Sender<Arc<RuleSet>>> =
            LazyLock::new(watch::Sender::default);
        Self::new(BUILT_IN.subscribe(), None, &Metrics::new())
    }
}

impl fmt::Debug for Interpreters {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Interpreters")
            .field("rules", &self.rules)
            .field("calls_webhooks", &self.webhooks.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_full_queue_refuses_at_once_and_the_deadline_ends_every_wait() {
        let metrics = Metrics::new();
        let (_publisher, rules) = watch::channel(Arc::default());
        let interpreters = Interpreters::new(rules, None, &metrics);
        let user: Arc<str> = "alice".into();
        let deadline = Instant::now() + Duration::from_secs(1);
        let (mut turns, mut waiting) = (Vec::new(), Vec::new());
        let refused = loop {
            let mut turn = Box::pin(interpreters.run_turn(&user, deadline));
            match turn.as_mut().now_or_never() {
                Some(Ok(granted)) => turns.push(granted),
                Some(Err(error)) => break error,
                None => waiting.push(turn),
            }
        };
        assert_eq!(refused, TurnError::QueueFull);
        assert_eq!((turns.len(), waiting.len()), (RUNS / 2, QUEUE / 2));
        let first = waiting.swap_remove(0);
        assert_eq!(first.await.unwrap_err(), TurnError::Deadline);
        drop((turns, waiting));
        let late = interpreters.run_turn(&user, deadline).await;
        assert_eq!(
            late.unwrap_err(),
            TurnError::Deadline,
            "although a turn is free"
        );
        assert_eq!(metrics.rejected_requests("interpreter_runs").get(), 3);
    }
}

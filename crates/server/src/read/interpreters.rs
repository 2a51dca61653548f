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
    request::UserRequest,
};
use fleetdex_telemetry::Metrics;
use fleetdex_webhooks::{client::CallWebhook, limits::CALLS_OF_WEBHOOK};
use tokio::{sync::watch, time::Instant};

/// Operations by scripts and built-in rules that run at a time. A script takes a processor for a
/// second at most, 16 MiB, and as much for its result.
const RUNS: usize = 2;
/// Calls of webhooks under way: those that the client has room for beside the ones of the indexing
/// path, if all are for one webhook.
const CALLS: usize = CALLS_OF_WEBHOOK;
/// Operations that wait for their turn: those of two hundred requests.
const QUEUE: usize = 800;

/// What users share, by user name.
type UserPermits = FairSemaphore<Arc<str>>;
/// The share of a user; `None` for a request that waits for nothing, as it has the reserve of the
/// memory.
pub type Turn = Option<FairPermit<Arc<str>>>;

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
    /// The client of webhooks, if any.
    pub(super) webhooks: Option<Arc<dyn CallWebhook>>,
    runs: UserPermits,
    calls: UserPermits,
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
        }
    }

    /// The rules, as they are now.
    pub fn rules(&self) -> Arc<RuleSet> {
        Arc::clone(&self.rules.borrow())
    }

    /// A turn to run a script or a built-in rule.
    pub async fn run_turn(&self, user: &Arc<str>, until: Instant) -> Result<Turn, TurnError> {
        turn(&self.runs, user, until).await
    }

    /// A turn to call a webhook.
    pub async fn call_turn(&self, user: &Arc<str>, until: Instant) -> Result<Turn, TurnError> {
        turn(&self.calls, user, until).await
    }
}

async fn turn(users: &UserPermits, user: &Arc<str>, until: Instant) -> Result<Turn, TurnError> {
    let wait = until.saturating_duration_since(Instant::now());
    if !wait.is_zero() && UserRequest::current().memory().has_reserve() {
        return Ok(None);
    }
    let turn = users.acquire(Arc::clone(user), wait).await;
    turn.map(Some).ok_or_else(|| {
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

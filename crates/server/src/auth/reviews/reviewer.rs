//! The API servers that review, how many requests each gets at a time, and when to retry.

use std::{sync::Arc, time::Duration};

use backon::{BackoffBuilder as _, ExponentialBuilder};
use fleetdex_core::model::{ClusterName, causes};
use fleetdex_limits::fair_semaphore::{FairPermit, FairSemaphore};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use tokio::time::{Instant, sleep, timeout};

/// How long an API server may take for one review, retries and the pauses between them included,
/// but not the time in the queue.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);
/// Concurrent access reviews by the control plane, of which one user can have half. More of them do
/// not make it faster where it has no core left, but each takes longer: 64 took seconds in attacks.
pub(super) const CONTROL_PLANE_SLOTS: usize = 16;
/// The same for each member, which gets at most 20 requests per second from here.
pub(super) const MEMBER_SLOTS: usize = 16;
/// Queued reviews of each API server, of which one user can have half: with the default flags, what
/// 200 requests ask at once (16 reviews each) and 4,000 watches (4 each). An entry takes about
/// 100 bytes, so a full queue takes 2 MB.
const QUEUE: usize = 20_000;
/// How long a review waits in the queue.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a member is not asked again after a failure.
pub(super) const FAILURE_LIFETIME: Duration = Duration::from_secs(10);

/// A review without a result. Never a permission.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReviewError {
    /// The API server did not respond in time.
    #[error("{reviewer} does not respond within {} s", TIMEOUT.as_secs())]
    Timeout {
        /// The API server.
        reviewer: String,
    },
    /// The API server cannot be reached, or refuses to review.
    #[error("the review by {reviewer} failed: {reason}")]
    Failed {
        /// The API server.
        reviewer: String,
        /// The reason.
        reason: String,
    },
    /// Too many reviews are queued.
    #[error("too many reviews are queued")]
    Busy,
}

impl ReviewError {
    /// The kind of error, for traces.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Timeout { .. } => "timeout",
            Self::Failed { .. } => "failed",
            Self::Busy => "busy",
        }
    }
}

/// The API server that reviews.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reviewer<'a> {
    /// The control plane.
    ControlPlane,
    /// A member.
    Member(&'a ClusterName),
}

impl<'a> Reviewer<'a> {
    /// A member; without one, the control plane.
    pub(super) fn of(member: Option<&'a ClusterName>) -> Self {
        member.map_or(Self::ControlPlane, Self::Member)
    }

    /// The member, if it is one.
    pub(super) fn member(self) -> Option<&'a ClusterName> {
        match self {
            Self::ControlPlane => None,
            Self::Member(name) => Some(name),
        }
    }

    /// Its name in errors.
    pub(super) fn describe(self) -> String {
        match self {
            Self::ControlPlane => "the control plane".to_owned(),
            Self::Member(name) => format!("cluster {name}"),
        }
    }
}

/// The queue and the last failure of an API server.
pub(super) struct ReviewerState {
    pub(super) slots: FairSemaphore<Arc<str>>,
    /// The last failure of a member, and until when it is the result of every review.
    failure: Mutex<Option<(ReviewError, Instant)>>,
}

impl ReviewerState {
    pub(super) fn new(reviewer: Reviewer<'_>, refused: Counter) -> Arc<Self> {
        let slots = match reviewer {
            Reviewer::ControlPlane => CONTROL_PLANE_SLOTS,
            Reviewer::Member(_) => MEMBER_SLOTS,
        };
        Arc::new(Self {
            slots: FairSemaphore::new(slots, QUEUE, refused),
            failure: Mutex::default(),
        })
    }

    /// The failure to return instead of asking. Once it has expired, it lets one review through,
    /// whose result the others wait for.
    fn failure(&self) -> Option<ReviewError> {
        let mut failure = self.failure.lock();
        let (error, until) = failure.as_mut()?;
        let now = Instant::now();
        if now < *until {
            return Some(error.clone());
        }
        *until = now + TIMEOUT;
        None
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failure.lock().is_some()
    }

    fn succeeded(&self) {
        *self.failure.lock() = None;
    }

    fn failed(&self, error: &ReviewError) {
        *self.failure.lock() = Some((error.clone(), Instant::now() + FAILURE_LIFETIME));
    }
}

/// What a review waits for before each attempt: a slot of its user at the API server.
pub(super) struct SlotRequest {
    pub(super) state: Arc<ReviewerState>,
    pub(super) user: Arc<str>,
    pub(super) is_member: bool,
}

impl SlotRequest {
    async fn acquire(&self) -> Result<FairPermit<Arc<str>>, ReviewError> {
        let user = Arc::clone(&self.user);
        let permit = self.state.slots.acquire(user, QUEUE_TIMEOUT).await;
        permit.ok_or(ReviewError::Busy)
    }
}

/// Sends a review, and retries while the API server is busy. Without a `slot`, the caller limits
/// concurrency itself.
pub(super) async fn send<'q, T>(
    reviewer: Reviewer<'_>,
    slot: Option<&SlotRequest>,
    mut review: impl FnMut() -> BoxFuture<'q, kube::Result<T>> + Send,
) -> Result<T, ReviewError> {
    let mut pauses = schedule();
    let mut left = TIMEOUT;
    loop {
        // Held until the state shows a failure to those that wait for the slot.
        let permit = match slot {
            Some(slot) => Some(slot.acquire().await?),
            None => None,
        };
        // The member may have failed while this review was queued.
        let is_first_attempt = left == TIMEOUT;
        let asked = slot.filter(|slot| is_first_attempt && slot.is_member);
        if let Some(failure) = asked.and_then(|slot| slot.state.failure()) {
            return Err(failure);
        }
        let begun = Instant::now();
        let result = timeout(left, review()).await;
        left = left.saturating_sub(begun.elapsed());
        let (error, is_failure) = match result {
            Ok(Ok(reviewed)) => {
                if let Some(slot) = slot {
                    slot.state.succeeded();
                }
                return Ok(reviewed);
            }
            Ok(Err(error))
                if is_busy(&error)
                    && let Some(pause) = pauses.next().filter(|pause| *pause < left) =>
            {
                drop(permit);
                sleep(pause).await;
                left -= pause;
                continue;
            }
            Ok(Err(error)) => (
                ReviewError::Failed {
                    reviewer: reviewer.describe(),
                    reason: causes(&error),
                },
                is_server_failure(&error),
            ),
            Err(_) => {
                let reviewer = reviewer.describe();
                (ReviewError::Timeout { reviewer }, true)
            }
        };
        match slot {
            Some(slot) if slot.is_member && is_failure => slot.state.failed(&error),
            Some(slot) => slot.state.succeeded(),
            None => {}
        }
        return Err(error);
    }
}

fn schedule() -> impl Iterator<Item = Duration> {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(500))
        .with_factor(1.5)
        .with_max_times(4)
        .with_jitter()
        .build()
}

/// Whether an error is the API server's, whatever the review: another user gets the same.
fn is_server_failure(error: &kube::Error) -> bool {
    is_busy(error) || !matches!(error, kube::Error::Api(_))
}

fn is_busy(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 429 | 500 | 503 | 504))
}

//! The queue that asks interpreter webhooks about documents that are written already.
//!
//! Guarantee: submitting never waits. What is held and what is under way is bounded, for each
//! webhook and for all. A webhook that hangs delays no other one: each has calls of its own, and a
//! breaker that stops calling it. Each webhook of a submitted job ends in exactly one way: its
//! final result is delivered, or a newer version supersedes it, or it is cancelled. The same
//! documents and answers at the same times give the same calls, so that a simulation with paused
//! time can run it.

mod lane;
mod room;
mod schedule;

pub use room::{Held, QueueLimits, WEBHOOKS};
pub use schedule::{EnrichmentJob, Overflow};

use std::{future::Future, sync::Arc, time::Duration};

use fleetdex_interpreter::webhook::configuration::FailurePolicy;
use fleetdex_telemetry::metrics::{JobEnd, WebhookMetrics};
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    task::{JoinError, JoinSet},
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use self::schedule::{Ended, NextStep, PlannedCall, Schedule};
use crate::{breaker::Contact, client::CallError};

/// The longest that one document may take of one webhook: nine operations with the longest timeout
/// of 30 s, and room.
const ASK_TIMEOUT: Duration = Duration::from_mins(5);

/// A document that webhooks are asked about.
pub trait Enrich: Send + Sync + 'static {
    /// What a webhook says about the document.
    type Answer: Send + 'static;

    /// Asks one webhook all that the document needs of it, and ends with the first call that does
    /// not reach it. An answer that is no longer wanted is dropped.
    fn ask(&self, webhook: &str) -> impl Future<Output = Result<Self::Answer, Unanswered>> + Send;

    /// Takes a result. For each webhook of the job it is called with [`Delivery::Postponed`] at
    /// most once, and then with another result exactly once, unless the document is superseded or
    /// cancelled in between.
    fn deliver(
        &self,
        webhook: &str,
        delivery: Delivery<Self::Answer>,
    ) -> impl Future<Output = ()> + Send;
}

/// Why a webhook has no answer about a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unanswered {
    /// Why, in one line, without the name of the webhook.
    pub text: Arc<str>,
    /// What that says about the webhook.
    pub contact: Contact,
    /// Whether to ask again: what the failure policy `Fail` means.
    pub again: bool,
}

impl Unanswered {
    /// A call failed of a webhook with this failure policy.
    pub fn of(error: &CallError, policy: FailurePolicy) -> Self {
        Self {
            text: error.failure.to_string().into(),
            contact: error.contact(),
            again: policy == FailurePolicy::Fail,
        }
    }
}

/// The result of asking one webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery<A> {
    /// Its answer.
    Answered(A),
    /// It failed for the first time, and will be asked again.
    Postponed(Arc<str>),
    /// It failed, and will not be asked again: the failure policy is `Ignore`, or there is no room
    /// for the document to wait. In the latter case a later pass over the objects has to submit it
    /// again.
    Failed(Unanswered),
}

/// The queue of one process. Clones share it.
#[derive(Debug)]
pub struct EnrichmentQueue<E>(Arc<Shared<E>>);

#[derive(Debug)]
struct Shared<E> {
    schedule: Mutex<Schedule<Arc<E>>>,
    metrics: WebhookMetrics,
    /// Something may begin.
    changed: Notify,
    /// Something ended.
    freed: Notify,
}

impl<E> Clone for EnrichmentQueue<E> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<E: Enrich> EnrichmentQueue<E> {
    /// An empty queue. Nothing is asked until [`Self::run`] runs.
    pub fn new(limits: QueueLimits, metrics: WebhookMetrics) -> Self {
        Self(Arc::new(Shared {
            schedule: Mutex::new(Schedule::new(limits)),
            metrics,
            changed: Notify::new(),
            freed: Notify::new(),
        }))
    }

    /// Takes in a job at once, or nothing of it. It supersedes the document's job of an older
    /// version, or of the same one: an answer to that is discarded. A job of an older version than
    /// a known one is superseded itself.
    ///
    /// A refused job leaves an older one as it is, whose answer may still be delivered.
    pub fn submit(&self, job: &EnrichmentJob<Arc<E>>) -> Result<(), Overflow> {
        let submitted = {
            let mut schedule = self.0.schedule.lock();
            let submitted = schedule.submit(job, Instant::now());
            self.0.show(&schedule);
            submitted
        };
        match submitted {
            Ok(superseded) => {
                self.0.metrics.ended(JobEnd::Superseded, superseded);
                self.0.freed_and_changed();
                Ok(())
            }
            Err(overflow) => {
                self.0.metrics.ended(JobEnd::Refused, 1);
                tracing::debug!(key = %job.key, webhook = %overflow.webhook, "no room to ask an interpreter webhook");
                Err(overflow)
            }
        }
    }

    /// Cancels a document, such as one whose object was deleted. A result that is being delivered
    /// at this moment still is.
    pub fn cancel(&self, key: &str) {
        self.cancelling(|schedule| schedule.cancel(key));
    }

    /// The same, and waits until no result of it is being delivered any more.
    pub async fn cancel_and_wait(&self, key: &str) {
        self.cancel(key);
        self.until(|schedule| !schedule.is_delivering(key)).await;
    }

    async fn until(&self, is_met: impl Fn(&Schedule<Arc<E>>) -> bool) {
        loop {
            let freed = self.0.freed.notified();
            tokio::pin!(freed);
            // From here on no end is missed.
            freed.as_mut().enable();
            if is_met(&self.0.schedule.lock()) {
                return;
            }
            freed.await;
        }
    }

    /// Cancels the documents that match, such as those of a cluster that was removed.
    pub fn cancel_matching(&self, matches: impl Fn(&str) -> bool) {
        self.cancelling(|schedule| schedule.cancel_matching(matches));
    }

    /// Cancels what other webhooks than these had to answer.
    pub fn retain_webhooks(&self, keep: impl Fn(&str) -> bool) {
        self.cancelling(|schedule| schedule.retain_webhooks(keep));
    }

    /// Forgets that a webhook failed, as when its configuration changed: it is asked again at once.
    pub fn reset_webhook(&self, webhook: &str) {
        self.0.schedule.lock().reset_webhook(webhook);
        self.0.changed.notify_one();
    }

    fn cancelling(&self, cancel: impl FnOnce(&mut Schedule<Arc<E>>) -> usize) {
        let cancelled = {
            let mut schedule = self.0.schedule.lock();
            let cancelled = cancel(&mut schedule);
            self.0.show(&schedule);
            cancelled
        };
        self.0.metrics.ended(JobEnd::Cancelled, cancelled);
        self.0.freed_and_changed();
    }

    /// Waits until these webhooks, and all together, hold at most half of what they may. Between
    /// that and a submission others may submit, so that it can still be refused.
    pub async fn room(&self, webhooks: &[Arc<str>]) {
        self.until(|schedule| schedule.has_room(webhooks)).await;
    }

    /// Whether a webhook may be called now, by its breaker.
    pub fn permits(&self, webhook: &str) -> bool {
        self.0.schedule.lock().permits(webhook, Instant::now())
    }

    /// What is queued or under way.
    pub fn held(&self) -> Held {
        self.0.schedule.lock().held()
    }

    /// Asks webhooks until `stop`. Then calls under way are aborted, and everything is cancelled.
    pub async fn run(&self, stop: CancellationToken) {
        let mut calls = JoinSet::new();
        loop {
            let wake = self.begin_calls(&mut calls);
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(ended) = calls.join_next() => pass_on_panic(ended),
                () = self.0.changed.notified() => {}
                () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {}
            }
        }
        calls.shutdown().await;
        self.cancelling(Schedule::clear);
    }

    /// Begins the calls that may begin. Returns when others may.
    fn begin_calls(&self, calls: &mut JoinSet<()>) -> Option<Instant> {
        let now = Instant::now();
        let mut schedule = self.0.schedule.lock();
        while let Some(call) = schedule.begin(now) {
            let shared = Arc::clone(&self.0);
            calls.spawn(async move { shared.make(call).await });
        }
        schedule.next_wake(now)
    }
}

/// A panic in a call is a defect: it ends the queue's owner rather than leave a document without
/// its result.
fn pass_on_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && let Ok(panic) = error.try_into_panic()
    {
        std::panic::resume_unwind(panic);
    }
}

impl<E: Enrich> Shared<E> {
    async fn make(&self, call: PlannedCall<Arc<E>>) {
        let asked = timeout(ASK_TIMEOUT, call.payload.ask(&call.webhook)).await;
        let result = asked.unwrap_or_else(|_| Err(too_slow()));
        let next_step = self
            .schedule
            .lock()
            .ended(&call, &ended(&result), Instant::now());
        self.changed.notify_one();
        match next_step {
            NextStep::Discard => {
                tracing::debug!(key = %call.key, webhook = %call.webhook, "an answer is not delivered");
            }
            NextStep::Postpone => self.postpone(&call, result).await,
            NextStep::Deliver => self.deliver(&call, result).await,
        }
        self.show(&self.schedule.lock());
        self.freed_and_changed();
    }

    async fn postpone(&self, call: &PlannedCall<Arc<E>>, result: Result<E::Answer, Unanswered>) {
        if let Err(unanswered) = result {
            tracing::debug!(key = %call.key, webhook = %call.webhook, reason = %unanswered.text, "an interpreter webhook failed and will be asked again");
            let postponed = Delivery::Postponed(unanswered.text);
            call.payload.deliver(&call.webhook, postponed).await;
        }
        self.metrics.postponed();
        self.schedule.lock().finished(call);
    }

    async fn deliver(&self, call: &PlannedCall<Arc<E>>, result: Result<E::Answer, Unanswered>) {
        let (delivery, end) = match result {
            Ok(answer) => (Delivery::Answered(answer), JobEnd::Answered),
            Err(unanswered) => (Delivery::Failed(unanswered), JobEnd::Failed),
        };
        call.payload.deliver(&call.webhook, delivery).await;
        self.schedule.lock().finished(call);
        self.metrics.ended(end, 1);
    }

    fn freed_and_changed(&self) {
        self.changed.notify_one();
        self.freed.notify_waiters();
    }

    fn show(&self, schedule: &Schedule<Arc<E>>) {
        let held = schedule.held();
        self.metrics.set_queued(held.parts, held.bytes);
    }
}

fn ended<A>(result: &Result<A, Unanswered>) -> Ended {
    match result {
        Ok(_) => (Contact::Reached, false),
        Err(unanswered) => (unanswered.contact, unanswered.again),
    }
}

fn too_slow() -> Unanswered {
    let seconds = ASK_TIMEOUT.as_secs();
    Unanswered {
        text: format!("the document took longer than {seconds} s").into(),
        contact: Contact::Unreachable { retry_after: None },
        again: true,
    }
}

#[cfg(test)]
mod tests;

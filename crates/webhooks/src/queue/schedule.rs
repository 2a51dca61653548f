//! Which webhook is asked about which document next: a pure state machine, driven by
//! [`super::EnrichmentQueue`].
//!
//! Laws: each part of a submitted job is delivered, superseded or cancelled, exactly one of them.
//! What is held stays within the bounds. A webhook is asked about one version of a document at a
//! time.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
    time::Duration,
};

use fleetdex_core::model::Version;
use tokio::time::Instant;

use super::{
    lane::{Lane, Part, retry_delay},
    room::{Held, QueueLimits, WEBHOOKS},
};
use crate::breaker::{Breaker, Contact, LONGEST_RETRY_AFTER};

/// There is no room for a job. Nothing of it was taken in: submit it again in a later pass over the
/// objects.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the queue for interpreter webhook {webhook} has no room: {} objects with {} bytes wait",
    held.parts, held.bytes
)]
pub struct Overflow {
    /// The webhook whose part has no room.
    pub webhook: Arc<str>,
    /// What is held already, for this webhook or for all.
    pub held: Held,
}

/// A document to ask webhooks about.
#[derive(Clone, Debug)]
pub struct EnrichmentJob<P> {
    /// Identifies the document.
    pub key: Arc<str>,
    /// The version of its object.
    pub version: Version,
    /// The webhooks to ask, by id.
    pub webhooks: Vec<Arc<str>>,
    /// What it occupies in memory, by estimate.
    pub bytes: usize,
    /// What asks the webhooks and takes their answers.
    pub payload: P,
}

#[derive(Clone, Debug)]
pub(super) struct PlannedCall<P> {
    pub(super) webhook: Arc<str>,
    pub(super) key: Arc<str>,
    pub(super) payload: P,
    bytes: usize,
    failures: u32,
}

/// How a call ended, whatever the answer says, and whether to ask again: there is no answer to
/// deliver.
pub(super) type Ended = (Contact, bool);

/// What to do with the result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextStep {
    /// Deliver it. Then call [`Schedule::finished`].
    Deliver,
    /// Deliver that the webhook will be asked again. Then call [`Schedule::finished`].
    Postpone,
    /// Deliver nothing: a newer version is known, the document was cancelled, or this failure was
    /// delivered before.
    Discard,
}

/// The parts of all webhooks.
#[derive(Debug)]
pub(super) struct Schedule<P> {
    limits: QueueLimits,
    lanes: BTreeMap<Arc<str>, Lane<P>>,
    asking: usize,
    /// The webhook that was served last.
    last: Option<Arc<str>>,
}

impl<P: Clone> Schedule<P> {
    pub(super) fn new(limits: QueueLimits) -> Self {
        Self {
            limits,
            lanes: BTreeMap::new(),
            asking: 0,
            last: None,
        }
    }

    pub(super) fn held(&self) -> Held {
        self.lanes.values().fold(Held::default(), |mut sum, lane| {
            sum += lane.held;
            sum
        })
    }

    /// Takes in a job, or nothing of it. Returns how many parts ended as superseded: those of older
    /// versions, or of this one if a newer one is known.
    pub(super) fn submit(
        &mut self,
        job: &EnrichmentJob<P>,
        now: Instant,
    ) -> Result<usize, Overflow> {
        let webhooks: BTreeSet<&Arc<str>> = job.webhooks.iter().collect();
        let newest = self
            .lanes
            .values()
            .filter_map(|lane| lane.version(&job.key));
        if newest.max() > Some(job.version) {
            return Ok(webhooks.len());
        }
        self.drop_idle(now);
        self.check_room(job, &webhooks)?;
        let mut superseded = 0;
        for (_, lane) in self
            .lanes
            .iter_mut()
            .filter(|(webhook, _)| !webhooks.contains(webhook))
        {
            superseded += lane.cancel(&job.key);
        }
        for webhook in webhooks {
            let lane = self.lanes.entry(Arc::clone(webhook)).or_default();
            let part = Part {
                version: job.version,
                bytes: job.bytes,
                payload: job.payload.clone(),
                failures: 0,
            };
            superseded += lane.submit(&job.key, part);
        }
        Ok(superseded)
    }

    fn check_room(
        &self,
        job: &EnrichmentJob<P>,
        webhooks: &BTreeSet<&Arc<str>>,
    ) -> Result<(), Overflow> {
        let mut total = self.held();
        let mut lanes = self.lanes.len();
        for webhook in webhooks {
            let lane = self.lanes.get(*webhook);
            lanes += usize::from(lane.is_none());
            let mut held = lane.map(|lane| lane.held).unwrap_or_default();
            let replaced = lane.map(|lane| lane.replaceable(&job.key));
            held -= replaced.unwrap_or_default();
            total -= replaced.unwrap_or_default();
            let part = Held::of(job.bytes);
            let refused = if !held.fits(part, self.limits.webhook) {
                Some(held)
            } else if !total.fits(part, self.limits.total) || lanes > WEBHOOKS {
                Some(total)
            } else {
                None
            };
            if let Some(held) = refused {
                return Err(Overflow {
                    webhook: Arc::clone(webhook),
                    held,
                });
            }
            total += part;
        }
        Ok(())
    }

    /// Whether these webhooks, and all together, hold at most half of what they may.
    pub(super) fn has_room(&self, webhooks: &[Arc<str>]) -> bool {
        let below_half = |held: Held, most: Held| {
            let half = most.half();
            held.parts <= half.parts && held.bytes <= half.bytes
        };
        let mut lanes = webhooks
            .iter()
            .filter_map(|webhook| self.lanes.get(webhook));
        below_half(self.held(), self.limits.total)
            && lanes.all(|lane| below_half(lane.held, self.limits.webhook))
    }

    /// Forgets a document. Returns how many parts were cancelled.
    pub(super) fn cancel(&mut self, key: &str) -> usize {
        self.lanes.values_mut().map(|lane| lane.cancel(key)).sum()
    }

    /// Whether a result about a document is being delivered.
    pub(super) fn is_delivering(&self, key: &str) -> bool {
        self.lanes.values().any(|lane| lane.is_delivering(key))
    }

    /// Forgets the documents that match. Returns how many parts were cancelled.
    pub(super) fn cancel_matching(&mut self, matches: impl Fn(&str) -> bool) -> usize {
        let lanes = self.lanes.values_mut();
        lanes.map(|lane| lane.cancel_matching(&matches)).sum()
    }

    /// Forgets what the webhooks that are not to be kept had to answer. Returns how many parts were
    /// cancelled.
    pub(super) fn retain_webhooks(&mut self, keep: impl Fn(&str) -> bool) -> usize {
        let mut cancelled = 0;
        for (webhook, lane) in &mut self.lanes {
            if !keep(webhook) {
                cancelled += lane.cancel_matching(|_| true);
            }
        }
        self.lanes
            .retain(|webhook, lane| keep(webhook) || !lane.is_idle());
        cancelled
    }

    /// Forgets that a webhook failed.
    pub(super) fn reset_webhook(&mut self, webhook: &str) {
        if let Some(lane) = self.lanes.get_mut(webhook) {
            lane.breaker = Breaker::default();
            lane.promote_all();
        }
    }

    /// Forgets everything, also what is under way. Returns how many parts were cancelled.
    pub(super) fn clear(&mut self) -> usize {
        let delivering: usize = self.lanes.values().map(Lane::delivering).sum();
        let cancelled = self.cancel_matching(|_| true);
        self.lanes.clear();
        self.asking = 0;
        cancelled + delivering
    }

    /// Whether a webhook may be called now, by its breaker.
    pub(super) fn permits(&self, webhook: &str, now: Instant) -> bool {
        let lane = self.lanes.get(webhook);
        lane.is_none_or(|lane| lane.breaker.permits(now))
    }

    /// The next call to make now. The webhooks take turns.
    pub(super) fn begin(&mut self, now: Instant) -> Option<PlannedCall<P>> {
        let webhook = self.next_webhook(now)?;
        let lane = self.lanes.get_mut(&webhook)?;
        let (key, part) = lane.begin()?;
        self.asking += 1;
        self.last = Some(Arc::clone(&webhook));
        Some(PlannedCall {
            webhook,
            key,
            payload: part.payload,
            bytes: part.bytes,
            failures: part.failures,
        })
    }

    fn next_webhook(&mut self, now: Instant) -> Option<Arc<str>> {
        for lane in self.lanes.values_mut() {
            lane.promote(now);
        }
        let after_last = match &self.last {
            Some(last) => Bound::Excluded(Arc::clone(last)),
            None => Bound::Unbounded,
        };
        self.lanes
            .range((after_last, Bound::Unbounded))
            .chain(&self.lanes)
            .find(|(_, lane)| self.may_begin(lane, now))
            .map(|(webhook, _)| Arc::clone(webhook))
    }

    fn may_begin(&self, lane: &Lane<P>, now: Instant) -> bool {
        let has_slot = lane.asking < self.limits.reserved_calls
            || self.asking < self.limits.calls && lane.asking < self.limits.calls_of_webhook;
        has_slot && lane.has_ready() && lane.breaker.permits(now)
    }

    /// When to call [`Self::begin`] next if nothing is submitted and no call ends.
    pub(super) fn next_wake(&self, now: Instant) -> Option<Instant> {
        let wakes = self.lanes.values().filter_map(wake_of);
        // What is due and did not begin waits for a call to end.
        wakes.filter(|wake| *wake > now).min()
    }

    pub(super) fn ended(&mut self, call: &PlannedCall<P>, ended: &Ended, now: Instant) -> NextStep {
        let (contact, again) = *ended;
        self.asking = self.asking.saturating_sub(1);
        let retries = self.limits.retries;
        let Some(lane) = self.lanes.get_mut(&call.webhook) else {
            return NextStep::Discard;
        };
        lane.asking = lane.asking.saturating_sub(1);
        let closed = lane.breaker.end(contact, now);
        if closed {
            lane.promote_all();
        }
        if !lane.is_wanted(&call.key) {
            lane.finish(&call.key);
            return NextStep::Discard;
        }
        if !again || !lane.fits_retries(call.bytes, retries) {
            lane.deliver(&call.key);
            return NextStep::Deliver;
        }
        let at = now + retry_delay(call.failures, retry_after(contact));
        if call.failures == 0 {
            lane.postpone(&call.key, at);
            return NextStep::Postpone;
        }
        lane.retry(&call.key, at);
        NextStep::Discard
    }

    pub(super) fn finished(&mut self, call: &PlannedCall<P>) {
        if let Some(lane) = self.lanes.get_mut(&call.webhook) {
            lane.finish(&call.key);
        }
    }

    /// Drops the state of webhooks that nothing is queued for and that may be called.
    fn drop_idle(&mut self, now: Instant) {
        if self.lanes.len() >= WEBHOOKS {
            self.lanes
                .retain(|_, lane| !lane.is_idle() || !lane.breaker.permits(now));
        }
    }
}

fn wake_of<P: Clone>(lane: &Lane<P>) -> Option<Instant> {
    let reopened = lane.breaker.opens_until();
    let ready = reopened.filter(|_| lane.has_ready());
    let retry = lane
        .next_retry()
        .map(|at| reopened.map_or(at, |until| until.max(at)));
    ready.into_iter().chain(retry).min()
}

fn retry_after(contact: Contact) -> Option<Duration> {
    match contact {
        Contact::Unreachable { retry_after } => {
            retry_after.map(|pause| pause.min(LONGEST_RETRY_AFTER))
        }
        Contact::Reached | Contact::NotCalled => None,
    }
}

#[cfg(test)]
mod tests;

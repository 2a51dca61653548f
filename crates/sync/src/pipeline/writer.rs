//! Sends batches to one opened store and settles what it answers, item by item.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use fleetdex_core::{
    model::{ClusterName, Shape, fallback},
    planted::{Bug, note_retry, planted},
};
use fleetdex_store::{
    Generation, Store, StoreError,
    bulk::{Verdict, Write, encoded_len},
};
use fleetdex_telemetry::metrics::{BulkOutcome, BulkVerdict};
use tokio::{task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    Job, OpenStore, Pipeline, Unavailable,
    backoff::{Backoff, MAX_DELAY, MAX_UNREACHABLE_DELAY},
    settle_superseded,
};
use crate::pending::{BatchLimits, Key};

/// How long a batch may fill while nothing is in flight, and while something is.
const LINGER_IDLE: Duration = Duration::from_millis(5);
const LINGER_BUSY: Duration = Duration::from_millis(50);
/// How often an idle store is asked whether it is still there.
const HEALTH_INTERVAL: Duration = Duration::from_secs(10);
/// How often checkpoints are written. A restart replays what came after them; each write costs the store one small document for
/// every cluster that changed.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(10);
/// How long the last checkpoints may take when the process stops.
const LAST_CHECKPOINT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the control plane may take to show a Secret.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);
/// A block is lifted by people, who take longer than an overload.
const BLOCKED_PAUSE: Duration = Duration::from_secs(5);

struct Sent {
    jobs: Vec<Job>,
    result: Result<Vec<Verdict>, StoreError>,
}

/// What a look at the store has shown.
struct Check {
    /// Whether credentials or settings are other than those it was opened with.
    changed: bool,
    /// Clusters whose generation is gone, among those that were asked about.
    lost: Result<BTreeSet<ClusterName>, StoreError>,
    asked: Vec<Generation>,
}

/// Why the writer pauses or ends.
enum Next {
    Go,
    Pause(Duration),
    Reopen,
}

/// Writes to one opened store.
pub(super) struct Writer<'p> {
    pipeline: &'p Pipeline,
    store: Arc<dyn Store>,
    opener: &'p Arc<dyn OpenStore>,
    in_flight: JoinSet<Sent>,
    checks: JoinSet<Check>,
    saves: JoinSet<()>,
    limits: BatchLimits,
    backoff: Backoff,
    resume_at: Option<Instant>,
}

impl<'p> Writer<'p> {
    pub(super) fn new(
        pipeline: &'p Pipeline,
        store: Arc<dyn Store>,
        opener: &'p Arc<dyn OpenStore>,
    ) -> Self {
        Self {
            pipeline,
            store,
            opener,
            in_flight: JoinSet::new(),
            checks: JoinSet::new(),
            saves: JoinSet::new(),
            limits: pipeline.0.limits.batch,
            backoff: Backoff::default(),
            resume_at: None,
        }
    }

    pub(super) async fn run(mut self, cancel: &CancellationToken, drain: Duration) {
        self.write_until(cancel, drain).await;
        self.saves.shutdown().await;
        // What is still under way is given up, and the store knows that when this returns.
        self.in_flight.shutdown().await;
        let last =
            tokio::time::timeout(LAST_CHECKPOINT_TIMEOUT, self.pipeline.save_checkpoints()).await;
        if !matches!(last, Ok(Ok(()))) {
            tracing::warn!(store = %self.pipeline.name(), "the last checkpoints were not written; the next start replays more");
        }
    }

    async fn write_until(&mut self, cancel: &CancellationToken, drain: Duration) {
        let mut checkpoints = tokio::time::interval(CHECKPOINT_INTERVAL);
        checkpoints.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut health = tokio::time::interval(HEALTH_INTERVAL);
        health.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut deadline: Option<Instant> = None;
        let mut reopen = false;
        loop {
            if deadline.is_some() && self.pipeline.is_idle() {
                return;
            }
            if reopen && self.in_flight.is_empty() {
                return;
            }
            let may_send = !reopen
                && self.resume_at.is_none()
                && self.in_flight.len() < self.pipeline.0.limits.in_flight;
            let idle = self.in_flight.is_empty();
            let limits = self.limits;
            tokio::select! {
                biased;
                () = cancel.cancelled(), if deadline.is_none() => deadline = Some(Instant::now() + drain),
                () = sleep_until(deadline) => {
                    tracing::warn!(store = %self.pipeline.name(), "stopped with unwritten changes; the next start reads them again");
                    return;
                }
                Some(sent) = self.in_flight.join_next(), if !self.in_flight.is_empty() => {
                    self.pipeline.0.metrics.bulk_in_flight.dec();
                    match sent {
                        Ok(sent) => match self.settle(sent) {
                            Next::Go => {}
                            Next::Pause(pause) => self.resume_at = Some(Instant::now() + pause),
                            Next::Reopen => reopen = true,
                        },
                        Err(error) => tracing::error!(%error, "a bulk request ended without an outcome"),
                    }
                }
                () = sleep_until(self.resume_at) => self.resume_at = None,
                jobs = next_batch(self.pipeline, limits, idle), if may_send => self.send(jobs),
                _ = health.tick(), if deadline.is_none() && self.checks.is_empty() => self.start_check(),
                _ = checkpoints.tick(), if self.saves.is_empty() => self.start_save(),
                Some(_) = self.saves.join_next(), if !self.saves.is_empty() => {}
                Some(check) = self.checks.join_next(), if !self.checks.is_empty() => match check {
                    Ok(check) => reopen |= self.take_check(check),
                    Err(error) => tracing::error!(%error, "a health check ended without an answer"),
                },
            }
        }
    }

    /// Looks after credentials and indices, beside the writing: neither a control plane nor a store that hangs may hold that up.
    fn start_check(&mut self) {
        let opener = Arc::clone(self.opener);
        let store = Arc::clone(&self.store);
        let asked = self.pipeline.generations();
        self.checks.spawn(async move {
            let changed = tokio::time::timeout(CHECK_TIMEOUT, opener.changed())
                .await
                .unwrap_or(false);
            Check {
                changed,
                lost: store.lost(&asked).await,
                asked,
            }
        });
    }

    fn start_save(&mut self) {
        let pipeline = self.pipeline.clone();
        self.saves.spawn(async move {
            if let Err(error) = pipeline.save_checkpoints().await {
                tracing::debug!(store = %pipeline.name(), %error, "checkpoints were not written; the next attempt follows");
            }
        });
    }

    /// Whether the store has to be opened again.
    fn take_check(&self, check: Check) -> bool {
        match check.lost {
            Ok(lost) => {
                for generation in check
                    .asked
                    .iter()
                    .filter(|generation| lost.contains(&generation.cluster))
                {
                    self.pipeline
                        .note_lost(&generation.target, "it is gone, or its aliases are");
                }
                if self.in_flight.is_empty() && self.resume_at.is_none() {
                    self.pipeline.set_available(Ok(()));
                }
                check.changed
            }
            Err(error) => {
                let refused = matches!(error, StoreError::Unauthorized { .. });
                if self.in_flight.is_empty() {
                    self.pipeline.set_available(Err(error.into()));
                }
                check.changed || refused
            }
        }
    }

    fn send(&mut self, jobs: Vec<Job>) {
        if self.pipeline.0.discarded.load(Ordering::Relaxed) || !self.pipeline.0.fence.is_open() {
            return jobs.into_iter().for_each(|job| self.give_up(job));
        }
        if jobs.is_empty() {
            return;
        }
        let metrics = &self.pipeline.0.metrics;
        metrics.bulk_in_flight.inc();
        metrics
            .bulk_bytes
            .inc_by(jobs.iter().map(|job| encoded_len(&job.write) as u64).sum());
        let store = Arc::clone(&self.store);
        let writes: Vec<Write> = jobs.iter().map(|job| job.write.clone()).collect();
        let jobs = if planted(Bug::AcknowledgeBeforeResponse) {
            self.acknowledge(jobs)
        } else {
            jobs
        };
        self.in_flight.spawn(async move {
            let result = store.write(&writes).await;
            Sent { jobs, result }
        });
    }

    /// A planted bug: nothing is left to be settled when the answer comes.
    fn acknowledge(&self, jobs: Vec<Job>) -> Vec<Job> {
        for job in jobs {
            self.done(job, BulkVerdict::Indexed);
        }
        Vec::new()
    }

    fn settle(&mut self, sent: Sent) -> Next {
        let metrics = &self.pipeline.0.metrics;
        let next = match sent.result {
            Ok(verdicts) => {
                metrics.requests(BulkOutcome::Answered).inc();
                self.settle_items(sent.jobs, verdicts)
            }
            Err(error) => {
                metrics.requests(BulkOutcome::Failed).inc();
                self.settle_failure(sent.jobs, error)
            }
        };
        self.pipeline.0.room.notify_waiters();
        self.pipeline.update_gauges();
        next
    }

    fn settle_items(&mut self, jobs: Vec<Job>, verdicts: Vec<Verdict>) -> Next {
        let mut trouble: Option<Unavailable> = None;
        let mut blocked = false;
        for (job, verdict) in jobs.into_iter().zip(verdicts) {
            match verdict {
                Verdict::Indexed => self.done(job, BulkVerdict::Indexed),
                Verdict::Deleted => self.done(job, BulkVerdict::Deleted),
                Verdict::Absent => self.done(job, BulkVerdict::Absent),
                Verdict::Superseded => self.done(job, BulkVerdict::Superseded),
                Verdict::Rejected(_) if planted(Bug::DropRefusedDocument) => {
                    self.done(job, BulkVerdict::Superseded);
                }
                Verdict::Rejected(reason) => self.reject(job, &reason),
                Verdict::Retry(_) if planted(Bug::DropThrottledItem) => {
                    self.done(job, BulkVerdict::Superseded);
                }
                Verdict::Retry(message) => {
                    trouble = Some(Unavailable {
                        reason: "Overloaded",
                        message,
                    });
                    self.retry(job);
                }
                Verdict::Blocked(message) => {
                    blocked = true;
                    trouble = Some(Unavailable {
                        reason: "Blocked",
                        message,
                    });
                    self.retry(job);
                }
                Verdict::IndexMissing(message) => {
                    self.pipeline.note_lost(&job.write.index, &message);
                    self.give_up(job);
                }
            }
        }
        match trouble {
            None => {
                self.backoff = Backoff::default();
                let full = self.pipeline.0.limits.batch;
                self.limits.bytes = (self.limits.bytes * 2).min(full.bytes);
                self.limits.count = (self.limits.count * 2).min(full.count);
                self.pipeline.set_available(Ok(()));
                Next::Go
            }
            Some(trouble) => {
                self.pipeline.set_available(Err(trouble));
                Next::Pause(if blocked {
                    BLOCKED_PAUSE
                } else {
                    self.backoff.next(MAX_DELAY)
                })
            }
        }
    }

    fn settle_failure(&mut self, jobs: Vec<Job>, error: StoreError) -> Next {
        let refused = matches!(
            error,
            StoreError::TooLarge { .. }
                | StoreError::AnswerTooLarge { .. }
                | StoreError::Refused { .. }
        );
        let alone = jobs.len() == 1;
        // What is refused although nothing smaller can be made of it is tried again until the limit is lifted.
        let has_lesser = |job: &Job| job.write.body.is_some() && job.ticket.shape.next().is_some();
        if refused && alone && jobs.iter().all(has_lesser) {
            for job in jobs {
                self.reject(job, &error.to_string());
            }
            return Next::Go;
        }
        if refused && !alone {
            // One of them is the reason; smaller batches find it.
            let bytes: usize = jobs.iter().map(|job| encoded_len(&job.write)).sum();
            self.limits = BatchLimits {
                count: jobs.len() / 2,
                bytes: bytes / 2,
            };
        }
        tracing::debug!(%error, writes = jobs.len(), "a bulk request failed");
        for job in jobs {
            self.retry(job);
        }
        let next = match error {
            StoreError::Unauthorized { .. } => Next::Reopen,
            StoreError::Unreachable { .. } => Next::Pause(self.backoff.next(MAX_UNREACHABLE_DELAY)),
            _ => Next::Pause(self.backoff.next(MAX_DELAY)),
        };
        if !refused || alone {
            self.pipeline.set_available(Err(error.into()));
        }
        next
    }

    fn done(&self, job: Job, verdict: BulkVerdict) {
        let metrics = &self.pipeline.0.metrics;
        let is_fallback = job.ticket.is_partial || job.ticket.shape != Shape::Whole;
        let verdict = if is_fallback && verdict == BulkVerdict::Indexed {
            BulkVerdict::Fallback
        } else {
            verdict
        };
        metrics.items(verdict).inc();
        metrics
            .event_to_ack
            .observe(job.ticket.seen.elapsed().as_secs_f64());
        match verdict {
            BulkVerdict::Indexed | BulkVerdict::Deleted | BulkVerdict::Absent => {
                job.ticket.progress().accept(&job.write.id);
            }
            BulkVerdict::Fallback => job.ticket.progress().reject(&job.write.id),
            _ => {}
        }
        self.pipeline.0.pending.lock().settle(&Key::of(&job.write));
        job.ticket.settle();
    }

    fn retry(&self, job: Job) {
        self.pipeline.0.metrics.items(BulkVerdict::Retried).inc();
        note_retry(&job.write.id);
        settle_superseded(self.pipeline.0.pending.lock().retry(job));
    }

    /// The index that this was for is gone, and with it everything that the write was to be added to; or the plan that it was of.
    fn give_up(&self, job: Job) {
        self.pipeline.0.metrics.items(BulkVerdict::GivenUp).inc();
        self.pipeline.0.pending.lock().settle(&Key::of(&job.write));
        drop(job);
    }

    /// The store will never take this document as it is: it gets a fallback document instead.
    fn reject(&self, mut job: Job, reason: &str) {
        self.pipeline.0.metrics.items(BulkVerdict::Rejected).inc();
        job.ticket.progress().reject(&job.write.id);
        tracing::warn!(id = %job.write.id, index = %job.write.index, %reason, "the store refused a document");
        let lesser = job.write.body.as_ref().zip(job.ticket.shape.next());
        match lesser.map(|(body, shape)| (fallback(body, shape, reason), shape)) {
            Some((Ok(body), shape)) => {
                job.write.body = Some(body);
                job.ticket.shape = shape;
                settle_superseded(self.pipeline.0.pending.lock().retry(job));
            }
            other => {
                tracing::error!(id = %job.write.id, unreadable = other.is_some(), "a document is missing from the index");
                self.pipeline.0.pending.lock().settle(&Key::of(&job.write));
                job.ticket.settle();
            }
        }
    }
}

/// The next batch: full, or as old as it may get.
async fn next_batch(pipeline: &Pipeline, limits: BatchLimits, idle: bool) -> Vec<Job> {
    let mut due: Option<Instant> = None;
    loop {
        let notified = pipeline.0.work.notified();
        let (queued, bytes) = {
            let pending = pipeline.0.pending.lock();
            (pending.queued(), pending.queued_bytes())
        };
        if queued >= limits.count || bytes >= limits.bytes {
            break;
        }
        if queued > 0 && due.is_none() {
            due = Some(Instant::now() + if idle { LINGER_IDLE } else { LINGER_BUSY });
        }
        tokio::select! {
            biased;
            () = notified => {}
            () = sleep_until(due) => break,
        }
    }
    pipeline.0.pending.lock().take(limits)
}

async fn sleep_until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

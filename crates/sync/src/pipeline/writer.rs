//! Sends batches to an open store, and handles the verdict of each item.

use std::{sync::Arc, time::Duration};

use fleetdex_core::planted::{Bug, planted};
use fleetdex_store::{
    IndexWriter, StoreError,
    bulk::{Verdict, Write, encoded_len},
};
use fleetdex_telemetry::{
    metrics::{BulkOutcome, BulkVerdict},
    traces::within,
};
use futures::future::OptionFuture;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    OpenStore, Pipeline, Unavailable,
    health::{HealthChecks, IndexHealth},
    queue::WriteOperation,
    settings_watch::until_changed,
    store_backoff::{MAX_DELAY, MAX_UNREACHABLE_DELAY, StoreBackoff},
};
use crate::{pending::BatchLimits, write_trace};

/// The interval between writes of checkpoints. A restart replays what came after them; a write
/// costs the store one small document for each cluster that changed.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(10);
/// The timeout of the last write of checkpoints when the process stops.
const LAST_CHECKPOINT_TIMEOUT: Duration = Duration::from_secs(5);
/// What a block means, and what to do.
const BLOCK_HINT: &str = "nothing is lost, changes wait until the block is removed; free disk space if OpenSearch set it at the flood-stage watermark (`fleetdex doctor` names blocks and full disks)";
/// The pause while an index is blocked. People lift a block, which takes longer than an overload.
const BLOCKED_PAUSE: Duration = Duration::from_secs(5);

struct CompletedRequest {
    operations: Vec<WriteOperation>,
    result: Result<Vec<Verdict>, StoreError>,
}

/// What the writer does after a batch.
enum AfterBatch {
    Continue,
    Pause(Duration),
    Reopen,
}

/// Writes to one opened store.
pub(super) struct Writer<'p> {
    pipeline: &'p Pipeline,
    store: Arc<dyn IndexWriter>,
    opener: &'p Arc<dyn OpenStore>,
    in_flight: JoinSet<CompletedRequest>,
    health: HealthChecks,
    saves: JoinSet<()>,
    limits: BatchLimits,
    backoff: StoreBackoff,
    resume_at: Option<Instant>,
}

impl<'p> Writer<'p> {
    pub(super) fn new(
        pipeline: &'p Pipeline,
        store: Arc<dyn IndexWriter>,
        opener: &'p Arc<dyn OpenStore>,
    ) -> Self {
        Self {
            pipeline,
            store,
            opener,
            in_flight: JoinSet::new(),
            health: HealthChecks::new(),
            saves: JoinSet::new(),
            limits: pipeline.queue.limits().batch,
            backoff: StoreBackoff::default(),
            resume_at: None,
        }
    }

    pub(super) async fn run(mut self, cancel: &CancellationToken, drain: Duration) {
        self.write_until(cancel, drain).await;
        self.saves.shutdown().await;
        // Requests in flight are aborted, and none is sent after this returns.
        self.in_flight.shutdown().await;
        let last =
            tokio::time::timeout(LAST_CHECKPOINT_TIMEOUT, self.pipeline.checkpoints.save()).await;
        if !matches!(last, Ok(Ok(()))) {
            tracing::warn!(store = %self.pipeline.store.name(), "the last checkpoints were not written; the next start replays more events");
        }
    }

    async fn write_until(&mut self, cancel: &CancellationToken, drain: Duration) {
        let mut checkpoints = tokio::time::interval(CHECKPOINT_INTERVAL);
        checkpoints.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let opener = Arc::clone(self.opener);
        let settings_changed = until_changed(&*opener);
        tokio::pin!(settings_changed);
        let queue = Arc::clone(&self.pipeline.queue);
        let mut deadline: Option<Instant> = None;
        let mut reopen = false;
        loop {
            if deadline.is_some() && self.pipeline.queue.is_idle() {
                return;
            }
            if reopen && self.in_flight.is_empty() {
                return;
            }
            let may_send = !reopen
                && self.resume_at.is_none()
                && self.in_flight.len() < self.pipeline.queue.limits().in_flight;
            let idle = self.in_flight.is_empty();
            let may_check = deadline.is_none() && !self.health.is_running();
            let resumed = OptionFuture::from(self.resume_at.map(sleep_until));
            let limits = self.limits;
            tokio::select! {
                biased;
                () = cancel.cancelled(), if deadline.is_none() => deadline = Some(Instant::now() + drain),
                Some(()) = OptionFuture::from(deadline.map(sleep_until)) => {
                    tracing::warn!(store = %self.pipeline.store.name(), "stopped with pending writes; the next start reads their objects again");
                    return;
                }
                Some(sent) = self.in_flight.join_next(), if !self.in_flight.is_empty() => {
                    self.pipeline.metrics.bulk_requests_in_flight.dec();
                    match sent {
                        Ok(sent) => match self.handle_response(sent) {
                            AfterBatch::Continue => {}
                            AfterBatch::Pause(pause) => self.resume_at = Some(Instant::now() + pause),
                            AfterBatch::Reopen => reopen = true,
                        },
                        Err(error) => tracing::error!(%error, "a bulk request ended without a result"),
                    }
                }
                Some(()) = resumed => self.resume_at = None,
                operations = queue.next_batch(limits, idle), if may_send => self.send(operations),
                () = &mut settings_changed, if deadline.is_none() && !reopen => reopen = true,
                () = sleep_until(self.health.next_at()), if may_check => {
                    self.health.start(&self.store, &self.pipeline.revisions);
                }
                _ = checkpoints.tick(), if self.saves.is_empty() => self.start_save(),
                Some(_) = self.saves.join_next(), if !self.saves.is_empty() => {}
                health = self.health.ended(), if self.health.is_running() => {
                    reopen |= health.is_some_and(|health| self.is_refused(health));
                }
            }
        }
    }

    fn start_save(&mut self) {
        let (checkpoints, store) = (
            Arc::clone(&self.pipeline.checkpoints),
            Arc::clone(&self.pipeline.store),
        );
        self.saves.spawn(async move {
            if let Err(error) = checkpoints.save().await {
                tracing::debug!(store = %store.name(), %error, "checkpoints were not written, retrying");
            }
        });
    }

    /// Handles the result of a health check. Returns whether the store has to be opened again.
    fn is_refused(&mut self, health: IndexHealth) -> bool {
        match health.report_to(&self.pipeline.revisions) {
            Ok(()) => {
                if self.in_flight.is_empty() && self.resume_at.is_none() {
                    self.pipeline.store.set_available(Ok(()));
                }
                false
            }
            Err(error) => {
                let is_refused = is_without_credentials(&error);
                if self.in_flight.is_empty() {
                    self.pipeline.store.set_available(Err(error.into()));
                }
                is_refused
            }
        }
    }

    fn send(&mut self, operations: Vec<WriteOperation>) {
        let queue = &self.pipeline.queue;
        if !queue.may_send() {
            return operations
                .into_iter()
                .for_each(|operation| queue.give_up(operation));
        }
        if operations.is_empty() {
            return;
        }
        let metrics = &self.pipeline.metrics;
        metrics.bulk_requests_in_flight.inc();
        metrics.bulk_bytes.inc_by(
            operations
                .iter()
                .map(|operation| encoded_len(&operation.write) as u64)
                .sum(),
        );
        let store = Arc::clone(&self.store);
        // The clones share the documents' bytes.
        let writes: Vec<Write> = operations
            .iter()
            .map(|operation| operation.write.clone())
            .collect();
        let operations = if planted(Bug::AcknowledgeBeforeResponse) {
            self.acknowledge(operations)
        } else {
            operations
        };
        let traced = operations
            .iter()
            .map(|operation| operation.ticket.trace.as_ref());
        let trace = write_trace::of_batch(traced, operations.len());
        self.in_flight.spawn(async move {
            let result = within(trace.clone(), store.write(&writes)).await;
            if let (Some(trace), Err(error)) = (trace, &result) {
                trace.fail(error.reason());
            }
            CompletedRequest { operations, result }
        });
    }

    /// A planted bug: acknowledges writes before the response arrives.
    fn acknowledge(&self, operations: Vec<WriteOperation>) -> Vec<WriteOperation> {
        for operation in operations {
            self.pipeline.queue.done(operation, BulkVerdict::Indexed);
        }
        Vec::new()
    }

    fn handle_response(&mut self, sent: CompletedRequest) -> AfterBatch {
        let metrics = &self.pipeline.metrics;
        let next = match sent.result {
            Ok(verdicts) => {
                metrics.requests(BulkOutcome::Answered).inc();
                self.handle_verdicts(sent.operations, verdicts)
            }
            Err(error) => {
                metrics.requests(BulkOutcome::Failed).inc();
                self.handle_failure(sent.operations, error)
            }
        };
        self.pipeline.queue.batch_ended();
        next
    }

    fn handle_verdicts(
        &mut self,
        operations: Vec<WriteOperation>,
        verdicts: Vec<Verdict>,
    ) -> AfterBatch {
        let queue = &self.pipeline.queue;
        let mut problem: Option<Unavailable> = None;
        let mut blocked = false;
        for (operation, verdict) in operations.into_iter().zip(verdicts) {
            match verdict {
                Verdict::Indexed => queue.done(operation, BulkVerdict::Indexed),
                Verdict::Deleted => queue.done(operation, BulkVerdict::Deleted),
                Verdict::Absent => queue.done(operation, BulkVerdict::Absent),
                Verdict::Superseded => queue.done(operation, BulkVerdict::Superseded),
                Verdict::Rejected(_) if planted(Bug::DropRefusedDocument) => {
                    queue.done(operation, BulkVerdict::Superseded);
                }
                Verdict::Rejected(reason) => queue.reject(operation, &reason),
                Verdict::Retry(_) if planted(Bug::DropThrottledItem) => {
                    queue.done(operation, BulkVerdict::Superseded);
                }
                Verdict::Retry(message) => {
                    problem = Some(Unavailable {
                        reason: "Overloaded",
                        message,
                    });
                    queue.retry(operation);
                }
                Verdict::Blocked(message) => {
                    blocked = true;
                    problem = Some(Unavailable {
                        reason: "Blocked",
                        message: format!("{message}; {BLOCK_HINT}"),
                    });
                    queue.retry(operation);
                }
                Verdict::IndexMissing(message) => {
                    let revisions = &self.pipeline.revisions;
                    revisions.report_lost(&operation.write.index, &message);
                    queue.give_up(operation);
                }
            }
        }
        self.after_verdicts(problem, blocked)
    }

    fn after_verdicts(&mut self, problem: Option<Unavailable>, blocked: bool) -> AfterBatch {
        match problem {
            None => {
                self.backoff = StoreBackoff::default();
                let full = self.pipeline.queue.limits().batch;
                self.limits.bytes = (self.limits.bytes * 2).min(full.bytes);
                self.limits.count = (self.limits.count * 2).min(full.count);
                self.pipeline.store.set_available(Ok(()));
                AfterBatch::Continue
            }
            Some(problem) => {
                self.pipeline.store.set_available(Err(problem));
                AfterBatch::Pause(if blocked {
                    BLOCKED_PAUSE
                } else {
                    self.backoff.next(MAX_DELAY)
                })
            }
        }
    }

    fn handle_failure(&mut self, operations: Vec<WriteOperation>, error: StoreError) -> AfterBatch {
        let queue = &self.pipeline.queue;
        let refused = matches!(
            error,
            StoreError::TooLarge { .. }
                | StoreError::AnswerTooLarge { .. }
                | StoreError::Refused { .. }
        );
        let alone = operations.len() == 1;
        // A refused write without a smaller fallback is retried until the limit is lifted.
        let has_fallback = |operation: &WriteOperation| {
            operation.write.document.body.is_some() && operation.ticket.shape.next().is_some()
        };
        if refused && alone && operations.iter().all(has_fallback) {
            for operation in operations {
                queue.reject(operation, &error.to_string());
            }
            return AfterBatch::Continue;
        }
        if refused && !alone {
            // One of the writes causes the refusal; smaller batches isolate it.
            let bytes: usize = operations
                .iter()
                .map(|operation| encoded_len(&operation.write))
                .sum();
            self.limits = BatchLimits {
                count: operations.len() / 2,
                bytes: bytes / 2,
            };
        }
        tracing::debug!(%error, writes = operations.len(), "a bulk request failed");
        for operation in operations {
            if !refused {
                operation.ticket.progress().write_abandoned();
            }
            queue.retry(operation);
        }
        let next = match error {
            _ if is_without_credentials(&error) => AfterBatch::Reopen,
            StoreError::Unreachable { .. } | StoreError::Unsigned { .. } => {
                AfterBatch::Pause(self.backoff.next(MAX_UNREACHABLE_DELAY))
            }
            _ => AfterBatch::Pause(self.backoff.next(MAX_DELAY)),
        };
        if !refused || alone {
            self.pipeline.store.set_available(Err(error.into()));
        }
        next
    }
}

/// Whether the store can be used again only with other credentials or settings.
fn is_without_credentials(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Unauthorized { .. } | StoreError::Closed { .. }
    )
}

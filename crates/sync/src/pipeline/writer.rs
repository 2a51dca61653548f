//! Sends batches to an open store, and handles the verdict of each item.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use fleetdex_core::{
    model::{ClusterName, DocumentShape, fallback},
    planted::{Bug, note_retry, planted},
};
use fleetdex_store::{
    IndexRevision, IndexWriter, StoreError,
    bulk::{Verdict, Write, encoded_len},
};
use fleetdex_telemetry::{
    metrics::{BulkOutcome, BulkVerdict},
    traces::within,
};
use tokio::{task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    OpenStore, Pipeline, Unavailable, WriteOperation, acknowledge_superseded,
    settings_watch::until_changed,
    store_backoff::{MAX_DELAY, MAX_UNREACHABLE_DELAY, StoreBackoff},
};
use crate::{
    pending::{BatchLimits, PendingKey},
    write_trace,
};

/// How long a batch may fill while nothing is in flight, and while another batch is.
const LINGER_IDLE: Duration = Duration::from_millis(5);
const LINGER_BUSY: Duration = Duration::from_millis(50);
/// The pause after a health check of the store, as a multiple of the time that the check took: it
/// reads the aliases of every index, of which there may be thousands.
const HEALTH_PAUSE_RATIO: u32 = 50;
/// Its bounds. Until a check finds that an index was deleted, query results lack its documents.
const MIN_HEALTH_PAUSE: Duration = Duration::from_secs(1);
const MAX_HEALTH_PAUSE: Duration = Duration::from_secs(10);
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

/// The result of a health check.
struct HealthCheck {
    /// Clusters whose index revision is gone, among `checked`.
    lost: Result<BTreeSet<ClusterName>, StoreError>,
    /// Clusters whose documents belong elsewhere, among `checked`.
    misplaced: BTreeSet<ClusterName>,
    checked: Vec<IndexRevision>,
    /// How long the check took.
    spent: Duration,
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
    checks: JoinSet<HealthCheck>,
    saves: JoinSet<()>,
    limits: BatchLimits,
    backoff: StoreBackoff,
    resume_at: Option<Instant>,
    /// When the next health check begins.
    check_at: Instant,
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
            checks: JoinSet::new(),
            saves: JoinSet::new(),
            limits: pipeline.0.limits.batch,
            backoff: StoreBackoff::default(),
            resume_at: None,
            check_at: Instant::now(),
        }
    }

    pub(super) async fn run(mut self, cancel: &CancellationToken, drain: Duration) {
        self.write_until(cancel, drain).await;
        self.saves.shutdown().await;
        // Requests in flight are aborted, and none is sent after this returns.
        self.in_flight.shutdown().await;
        let last =
            tokio::time::timeout(LAST_CHECKPOINT_TIMEOUT, self.pipeline.save_checkpoints()).await;
        if !matches!(last, Ok(Ok(()))) {
            tracing::warn!(store = %self.pipeline.name(), "the last checkpoints were not written; the next start replays more events");
        }
    }

    async fn write_until(&mut self, cancel: &CancellationToken, drain: Duration) {
        let mut checkpoints = tokio::time::interval(CHECKPOINT_INTERVAL);
        checkpoints.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let opener = Arc::clone(self.opener);
        let settings_changed = until_changed(&*opener);
        tokio::pin!(settings_changed);
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
                    tracing::warn!(store = %self.pipeline.name(), "stopped with pending writes; the next start reads their objects again");
                    return;
                }
                Some(sent) = self.in_flight.join_next(), if !self.in_flight.is_empty() => {
                    self.pipeline.0.metrics.bulk_requests_in_flight.dec();
                    match sent {
                        Ok(sent) => match self.handle_response(sent) {
                            AfterBatch::Continue => {}
                            AfterBatch::Pause(pause) => self.resume_at = Some(Instant::now() + pause),
                            AfterBatch::Reopen => reopen = true,
                        },
                        Err(error) => tracing::error!(%error, "a bulk request ended without a result"),
                    }
                }
                () = sleep_until(self.resume_at) => self.resume_at = None,
                operations = next_batch(self.pipeline, limits, idle), if may_send => self.send(operations),
                () = &mut settings_changed, if deadline.is_none() && !reopen => reopen = true,
                () = tokio::time::sleep_until(self.check_at), if deadline.is_none() && self.checks.is_empty() => self.start_check(),
                _ = checkpoints.tick(), if self.saves.is_empty() => self.start_save(),
                Some(_) = self.saves.join_next(), if !self.saves.is_empty() => {}
                Some(check) = self.checks.join_next(), if !self.checks.is_empty() => match check {
                    Ok(check) => reopen |= self.handle_check(check),
                    Err(error) => {
                        self.check_at = Instant::now() + MAX_HEALTH_PAUSE;
                        tracing::error!(%error, "a health check ended without a result");
                    }
                },
            }
        }
    }

    /// Checks indices in a task of its own, because a store that hangs must not delay writes.
    fn start_check(&mut self) {
        let started = Instant::now();
        let store = Arc::clone(&self.store);
        let checked = self.pipeline.revisions();
        let movable = self.pipeline.movable_revisions();
        self.checks.spawn(async move {
            let lost = store.lost(&checked).await;
            let misplaced = match (&lost, store.index_sharing()) {
                (Ok(lost), Some(sharing)) if lost.is_empty() => sharing.misplaced(&movable).await,
                _ => Ok(BTreeSet::new()),
            };
            HealthCheck {
                lost,
                misplaced: misplaced.unwrap_or_else(|error| {
                    tracing::debug!(%error, "cannot find out which clusters belong to another index");
                    BTreeSet::new()
                }),
                checked,
                spent: started.elapsed(),
            }
        });
    }

    fn start_save(&mut self) {
        let pipeline = self.pipeline.clone();
        self.saves.spawn(async move {
            if let Err(error) = pipeline.save_checkpoints().await {
                tracing::debug!(store = %pipeline.name(), %error, "checkpoints were not written, retrying");
            }
        });
    }

    /// Returns whether the store has to be opened again.
    fn handle_check(&mut self, check: HealthCheck) -> bool {
        let pause = check.spent * HEALTH_PAUSE_RATIO;
        self.check_at = Instant::now() + pause.clamp(MIN_HEALTH_PAUSE, MAX_HEALTH_PAUSE);
        match check.lost {
            Ok(lost) => {
                for revision in check
                    .checked
                    .iter()
                    .filter(|revision| lost.contains(&revision.cluster))
                {
                    self.pipeline.report_lost_index(
                        &revision.target,
                        "it is gone, or its aliases are, or another revision answers beside it",
                    );
                }
                for revision in check
                    .checked
                    .iter()
                    .filter(|revision| check.misplaced.contains(&revision.cluster))
                {
                    self.pipeline.move_revision(revision);
                }
                if self.in_flight.is_empty() && self.resume_at.is_none() {
                    self.pipeline.set_available(Ok(()));
                }
                false
            }
            Err(error) => {
                let refused = is_without_credentials(&error);
                if self.in_flight.is_empty() {
                    self.pipeline.set_available(Err(error.into()));
                }
                refused
            }
        }
    }

    fn send(&mut self, operations: Vec<WriteOperation>) {
        if self.pipeline.0.discarded.load(Ordering::Relaxed) || !self.pipeline.0.fence.is_open() {
            return operations
                .into_iter()
                .for_each(|operation| self.give_up(operation));
        }
        if operations.is_empty() {
            return;
        }
        let metrics = &self.pipeline.0.metrics;
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
        let traced = operations.iter().map(|operation| operation.ticket.trace());
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
            self.done(operation, BulkVerdict::Indexed);
        }
        Vec::new()
    }

    fn handle_response(&mut self, sent: CompletedRequest) -> AfterBatch {
        let metrics = &self.pipeline.0.metrics;
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
        self.pipeline.0.room.notify_waiters();
        self.pipeline.update_gauges();
        next
    }

    fn handle_verdicts(
        &mut self,
        operations: Vec<WriteOperation>,
        verdicts: Vec<Verdict>,
    ) -> AfterBatch {
        let mut problem: Option<Unavailable> = None;
        let mut blocked = false;
        for (operation, verdict) in operations.into_iter().zip(verdicts) {
            match verdict {
                Verdict::Indexed => self.done(operation, BulkVerdict::Indexed),
                Verdict::Deleted => self.done(operation, BulkVerdict::Deleted),
                Verdict::Absent => self.done(operation, BulkVerdict::Absent),
                Verdict::Superseded => self.done(operation, BulkVerdict::Superseded),
                Verdict::Rejected(_) if planted(Bug::DropRefusedDocument) => {
                    self.done(operation, BulkVerdict::Superseded);
                }
                Verdict::Rejected(reason) => self.reject(operation, &reason),
                Verdict::Retry(_) if planted(Bug::DropThrottledItem) => {
                    self.done(operation, BulkVerdict::Superseded);
                }
                Verdict::Retry(message) => {
                    problem = Some(Unavailable {
                        reason: "Overloaded",
                        message,
                    });
                    self.retry(operation);
                }
                Verdict::Blocked(message) => {
                    blocked = true;
                    problem = Some(Unavailable {
                        reason: "Blocked",
                        message: format!("{message}; {BLOCK_HINT}"),
                    });
                    self.retry(operation);
                }
                Verdict::IndexMissing(message) => {
                    self.pipeline
                        .report_lost_index(&operation.write.index, &message);
                    self.give_up(operation);
                }
            }
        }
        match problem {
            None => {
                self.backoff = StoreBackoff::default();
                let full = self.pipeline.0.limits.batch;
                self.limits.bytes = (self.limits.bytes * 2).min(full.bytes);
                self.limits.count = (self.limits.count * 2).min(full.count);
                self.pipeline.set_available(Ok(()));
                AfterBatch::Continue
            }
            Some(problem) => {
                self.pipeline.set_available(Err(problem));
                AfterBatch::Pause(if blocked {
                    BLOCKED_PAUSE
                } else {
                    self.backoff.next(MAX_DELAY)
                })
            }
        }
    }

    fn handle_failure(&mut self, operations: Vec<WriteOperation>, error: StoreError) -> AfterBatch {
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
                self.reject(operation, &error.to_string());
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
            self.retry(operation);
        }
        let next = match error {
            _ if is_without_credentials(&error) => AfterBatch::Reopen,
            StoreError::Unreachable { .. } | StoreError::Unsigned { .. } => {
                AfterBatch::Pause(self.backoff.next(MAX_UNREACHABLE_DELAY))
            }
            _ => AfterBatch::Pause(self.backoff.next(MAX_DELAY)),
        };
        if !refused || alone {
            self.pipeline.set_available(Err(error.into()));
        }
        next
    }

    fn done(&self, operation: WriteOperation, verdict: BulkVerdict) {
        let metrics = &self.pipeline.0.metrics;
        let is_fallback =
            operation.write.document.is_partial || operation.ticket.shape != DocumentShape::Whole;
        let verdict = if is_fallback && verdict == BulkVerdict::Indexed {
            BulkVerdict::Fallback
        } else {
            verdict
        };
        metrics.items(verdict).inc();
        metrics
            .event_to_ack
            .observe(operation.ticket.received.elapsed().as_secs_f64());
        match verdict {
            BulkVerdict::Indexed | BulkVerdict::Deleted | BulkVerdict::Absent => {
                operation
                    .ticket
                    .progress()
                    .accept(&operation.write.document.id);
            }
            BulkVerdict::Fallback => operation
                .ticket
                .progress()
                .reject(&operation.write.document.id),
            _ => {}
        }
        self.pipeline
            .0
            .pending
            .lock()
            .complete(&PendingKey::of(&operation.write));
        if let Some(trace) = operation.ticket.trace() {
            trace.ended(verdict.as_str());
        }
        operation.ticket.acknowledge();
    }

    fn retry(&self, operation: WriteOperation) {
        self.pipeline.0.metrics.items(BulkVerdict::Retried).inc();
        note_retry(&operation.write.document.id);
        acknowledge_superseded(self.pipeline.0.pending.lock().retry(operation));
    }

    /// Drops an operation whose index is gone, or whose stream was stopped.
    fn give_up(&self, operation: WriteOperation) {
        self.pipeline.0.metrics.items(BulkVerdict::GivenUp).inc();
        self.pipeline
            .0
            .pending
            .lock()
            .complete(&PendingKey::of(&operation.write));
        drop(operation);
    }

    /// Replaces a document that the store refuses by a fallback document. This parses the document
    /// again, on purpose: a pending write holds only its bytes, and few documents are refused.
    fn reject(&self, mut operation: WriteOperation, reason: &str) {
        self.pipeline.0.metrics.items(BulkVerdict::Rejected).inc();
        operation
            .ticket
            .progress()
            .reject(&operation.write.document.id);
        tracing::warn!(id = %operation.write.document.id, index = %operation.write.index, %reason, "the store refused a document");
        let fallback_body = operation
            .write
            .document
            .body
            .as_ref()
            .zip(operation.ticket.shape.next());
        match fallback_body.map(|(body, shape)| (fallback(body, shape, reason), shape)) {
            Some((Ok(body), shape)) => {
                operation.write.document.body = Some(body);
                operation.ticket.shape = shape;
                acknowledge_superseded(self.pipeline.0.pending.lock().retry(operation));
            }
            other => {
                tracing::error!(id = %operation.write.document.id, unreadable = other.is_some(), "a document is missing from the index");
                self.pipeline
                    .0
                    .pending
                    .lock()
                    .complete(&PendingKey::of(&operation.write));
                if let Some(trace) = operation.ticket.trace() {
                    trace.ended(BulkVerdict::Rejected.as_str());
                }
                operation.ticket.acknowledge();
            }
        }
    }
}

/// Whether the store can be used again only with other credentials or settings.
fn is_without_credentials(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Unauthorized { .. } | StoreError::Closed { .. }
    )
}

/// Waits for the next batch, until it is full or has lingered.
async fn next_batch(pipeline: &Pipeline, limits: BatchLimits, idle: bool) -> Vec<WriteOperation> {
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

//! The pending writes of a store: what waits, what is in flight, and what becomes of each write.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use std::time::Duration;

use fleetdex_core::{
    model::{DocumentShape, NameHash, fallback},
    planted::note_retry,
};
use fleetdex_replicas::write_fence::WriteFence;
use fleetdex_store::bulk::Write;
use fleetdex_telemetry::metrics::{BulkVerdict, StoreMetrics};
use futures::future::OptionFuture;
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep_until},
};

use crate::{
    pending::{BatchLimits, Pending, PendingKey, PendingWrite},
    progress::Ticket,
};

/// How much may be queued and in flight for one store.
#[derive(Clone, Copy, Debug)]
pub struct PipelineLimits {
    /// Bytes of writes that may be pending. A watch that exceeds them is closed until there is
    /// room.
    pub pending_bytes: usize,
    /// When a batch is full.
    pub batch: BatchLimits,
    /// Batches in flight.
    pub in_flight: usize,
}

impl Default for PipelineLimits {
    /// Batches of 2 MiB, two in flight: where raw `_bulk` throughput levels off. With more,
    /// OpenSearch writes more and smaller segments, which it has to merge. Four batches may be
    /// pending, those in flight included, so that the next page of a member arrives before they are
    /// written.
    fn default() -> Self {
        Self {
            pending_bytes: 8 << 20,
            batch: BatchLimits {
                count: 2_000,
                bytes: 2 << 20,
            },
            in_flight: 2,
        }
    }
}

/// Documents longer than this need a permit of their own. It is several times the usual length;
/// thousands of streams with one document of up to this length take some tens of megabytes.
const LARGE_BYTES: usize = 32 << 10;
/// What all pending large documents may take, in KiB: four of the largest. They are pending beside
/// the 8 MiB of all others.
const LARGE_KIB: u32 = 32 << 10;
/// How long a batch may fill while nothing is in flight, and while another batch is.
const LINGER_IDLE: Duration = Duration::from_millis(5);
const LINGER_BUSY: Duration = Duration::from_millis(50);

pub(super) type WriteOperation = PendingWrite<Ticket>;

/// The writes that are queued or in flight.
pub struct WriteQueue {
    limits: PipelineLimits,
    /// While it is closed, nothing is sent and pending writes are dropped: until it opens again,
    /// another replica may write newer versions, or delete the documents.
    fence: WriteFence,
    pending: Mutex<Pending<Ticket>>,
    /// Whether pending writes are dropped instead of sent.
    discarded: AtomicBool,
    work: Notify,
    room: Notify,
    /// Permits of large documents, in KiB.
    large_documents: Arc<Semaphore>,
    metrics: StoreMetrics,
}

impl WriteQueue {
    pub(super) fn new(limits: PipelineLimits, fence: WriteFence, metrics: StoreMetrics) -> Self {
        Self {
            limits,
            fence,
            pending: Mutex::default(),
            discarded: AtomicBool::new(false),
            work: Notify::new(),
            room: Notify::new(),
            large_documents: Arc::new(Semaphore::new(LARGE_KIB as usize)),
            metrics,
        }
    }

    pub(super) fn limits(&self) -> PipelineLimits {
        self.limits
    }

    /// Whether a write can be submitted without waiting.
    pub fn has_room(&self) -> bool {
        self.pending.lock().bytes() < self.limits.pending_bytes
    }

    /// Waits until a write can be submitted.
    pub async fn wait_for_room(&self) {
        loop {
            let notified = self.room.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if self.has_room() {
                return;
            }
            notified.await;
        }
    }

    /// Waits for the permit of a large document, to be held until it is written. Watches submit
    /// changes whether or not there is room, which bounds nothing when many of them submit changes
    /// of many megabytes at once.
    pub async fn reserve_large(&self, write: &Write) -> Option<OwnedSemaphorePermit> {
        let length = write.document.body.as_ref().map_or(0, |body| body.len());
        if length <= LARGE_BYTES {
            return None;
        }
        let kibibytes = u32::try_from(length >> 10)
            .unwrap_or(LARGE_KIB)
            .min(LARGE_KIB);
        Arc::clone(&self.large_documents)
            .acquire_many_owned(kibibytes)
            .await
            .ok()
    }

    /// Submits a write, whether or not there is room; a caller that can wait calls
    /// [`Self::wait_for_room`] before. The ticket is acknowledged with the write.
    pub fn submit(&self, write: Write, name: Option<NameHash>, ticket: Ticket) {
        let superseded = self.pending.lock().push(PendingWrite {
            write,
            name,
            ticket,
        });
        acknowledge_superseded(superseded);
        self.work.notify_one();
    }

    /// Drops writes that were not sent yet, and those that are submitted later.
    pub fn discard(&self) {
        self.discarded.store(true, Ordering::Relaxed);
    }

    /// Whether no write is queued or in flight.
    pub fn is_idle(&self) -> bool {
        self.pending.lock().is_empty()
    }

    /// Drops everything. Other streams may wait for the end of these writes although the queue is
    /// still referenced.
    pub(super) fn clear(&self) {
        let dropped = std::mem::take(&mut *self.pending.lock());
        drop(dropped);
    }

    /// Whether writes may be sent.
    pub(super) fn may_send(&self) -> bool {
        !self.discarded.load(Ordering::Relaxed) && self.fence.is_open()
    }

    /// Waits for the next batch, until it is full or has lingered.
    pub(super) async fn next_batch(
        &self,
        limits: BatchLimits,
        is_idle: bool,
    ) -> Vec<WriteOperation> {
        let mut due: Option<Instant> = None;
        loop {
            let notified = self.work.notified();
            let (queued, bytes) = {
                let pending = self.pending.lock();
                (pending.queued(), pending.queued_bytes())
            };
            if queued >= limits.count || bytes >= limits.bytes {
                break;
            }
            if queued > 0 && due.is_none() {
                due = Some(Instant::now() + if is_idle { LINGER_IDLE } else { LINGER_BUSY });
            }
            tokio::select! {
                biased;
                () = notified => {}
                Some(()) = OptionFuture::from(due.map(sleep_until)) => break,
            }
        }
        self.pending.lock().take(limits)
    }

    /// Lets submitters know that a batch has ended.
    pub(super) fn batch_ended(&self) {
        self.room.notify_waiters();
        let pending = self.pending.lock();
        self.metrics.set_pending(pending.len(), pending.bytes());
    }

    /// Ends a write that the store has answered.
    pub(super) fn done(&self, operation: WriteOperation, verdict: BulkVerdict) {
        let is_fallback =
            operation.write.document.is_partial || operation.ticket.shape != DocumentShape::Whole;
        let verdict = if is_fallback && verdict == BulkVerdict::Indexed {
            BulkVerdict::Fallback
        } else {
            verdict
        };
        self.metrics.items(verdict).inc();
        self.metrics
            .event_to_ack
            .observe(operation.ticket.received.elapsed().as_secs_f64());
        let progress = operation.ticket.progress();
        match verdict {
            BulkVerdict::Indexed | BulkVerdict::Deleted | BulkVerdict::Absent => {
                progress.accept(&operation.write.document.id);
            }
            BulkVerdict::Fallback => progress.reject(&operation.write.document.id),
            _ => {}
        }
        self.complete(&operation);
        operation.ticket.end(verdict.as_str());
    }

    /// Queues a write again.
    pub(super) fn retry(&self, operation: WriteOperation) {
        self.metrics.items(BulkVerdict::Retried).inc();
        note_retry(&operation.write.document.id);
        acknowledge_superseded(self.pending.lock().retry(operation));
    }

    /// Drops an operation whose index is gone, or whose stream was stopped.
    pub(super) fn give_up(&self, operation: WriteOperation) {
        self.metrics.items(BulkVerdict::GivenUp).inc();
        self.complete(&operation);
        drop(operation);
    }

    /// Replaces a document that the store refuses by a fallback document. This parses the document
    /// again, on purpose: a pending write holds only its bytes, and few documents are refused.
    pub(super) fn reject(&self, mut operation: WriteOperation, reason: &str) {
        self.metrics.items(BulkVerdict::Rejected).inc();
        let document = &operation.write.document;
        operation.ticket.progress().reject(&document.id);
        tracing::warn!(id = %document.id, index = %operation.write.index, %reason, "the store refused a document");
        let fallback_body = document.body.as_ref().zip(operation.ticket.shape.next());
        match fallback_body.map(|(body, shape)| (fallback(body, shape, reason), shape)) {
            Some((Ok(body), shape)) => {
                operation.write.document.body = Some(body);
                operation.ticket.shape = shape;
                acknowledge_superseded(self.pending.lock().retry(operation));
            }
            other => {
                tracing::error!(id = %document.id, unreadable = other.is_some(), "a document is missing from the index");
                self.complete(&operation);
                operation.ticket.end(BulkVerdict::Rejected.as_str());
            }
        }
    }

    fn complete(&self, operation: &WriteOperation) {
        let key = PendingKey::of(&operation.write);
        self.pending.lock().complete(&key);
    }
}

/// Acknowledges an operation that a newer write of the same document, with its own ticket,
/// replaces.
fn acknowledge_superseded(operation: Option<WriteOperation>) {
    if let Some(operation) = operation {
        operation.ticket.end("coalesced");
    }
}

//! Tickets: each write holds one until it is acknowledged.

use std::sync::Arc;

use fleetdex_core::model::DocumentShape;
use tokio::{sync::OwnedSemaphorePermit, time::Instant};

use super::{Progress, ack_tracker::WriteInFlight};
use crate::write_trace::WriteTrace;

/// Held by a write until it is acknowledged. Dropping it otherwise means that the store never gets
/// the change.
#[derive(Debug)]
pub struct Ticket {
    progress: Arc<Progress>,
    /// When the change was received.
    pub received: Instant,
    /// How much of the object the write holds.
    pub shape: DocumentShape,
    write: WriteInFlight,
    acknowledged: bool,
    permit: Option<OwnedSemaphorePermit>,
    trace: Option<WriteTrace>,
}

impl Ticket {
    fn new(progress: Arc<Progress>) -> Self {
        let received = Instant::now();
        let write = progress.acks.lock().begin(received);
        Self {
            progress,
            received,
            shape: DocumentShape::Whole,
            write,
            acknowledged: false,
            permit: None,
            trace: None,
        }
    }

    /// The same, holding the permit of a large document until the write ends.
    #[must_use]
    pub fn with_permit(mut self, permit: Option<OwnedSemaphorePermit>) -> Self {
        self.permit = permit;
        self
    }

    /// The same, of a write whose trace is recorded.
    #[must_use]
    pub fn with_trace(mut self, trace: Option<WriteTrace>) -> Self {
        self.trace = trace;
        self
    }

    /// The trace of the write, if it is recorded.
    pub fn trace(&self) -> Option<&WriteTrace> {
        self.trace.as_ref()
    }

    /// The unit's progress.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The write is stored, or a newer write of the same document replaces it.
    pub fn acknowledge(mut self) {
        self.acknowledged = true;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        drop(self.permit.take());
        if let Some(trace) = self.trace.take()
            && !self.acknowledged
        {
            trace.lost();
        }
        self.progress.ended(self.write, self.acknowledged);
    }
}

impl Progress {
    /// A ticket for one write.
    pub fn ticket(self: &Arc<Self>) -> Ticket {
        Ticket::new(Arc::clone(self))
    }
}

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
    /// The permit of a large document, until the write ends.
    pub(crate) permit: Option<OwnedSemaphorePermit>,
    /// The trace of the write, if it is recorded.
    pub(crate) trace: Option<WriteTrace>,
}

impl Ticket {
    /// The unit's progress.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Notes in the trace what became of the write, and acknowledges it.
    pub(crate) fn end(self, verdict: &'static str) {
        if let Some(trace) = &self.trace {
            trace.ended(verdict);
        }
        self.acknowledge();
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
        let received = Instant::now();
        Ticket {
            progress: Arc::clone(self),
            received,
            shape: DocumentShape::Whole,
            write: self.acks.lock().begin(received),
            acknowledged: false,
            permit: None,
            trace: None,
        }
    }
}

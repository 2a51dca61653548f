//! Tickets: what a write holds until it is settled.

use std::sync::Arc;

use fleetdex_core::model::Shape;
use tokio::{sync::OwnedSemaphorePermit, time::Instant};

use super::Progress;

/// Held by a write until it is settled. One that is dropped otherwise is a change that the store never gets.
#[derive(Debug)]
pub struct Ticket {
    progress: Arc<Progress>,
    /// When the change was received.
    pub seen: Instant,
    /// What the write holds of the object.
    pub shape: Shape,
    /// Whether the document said from the start that not all of the object can be found by it.
    pub is_partial: bool,
    side: usize,
    settled: bool,
    room: Option<OwnedSemaphorePermit>,
}

impl Ticket {
    pub(super) fn new(progress: Arc<Progress>, side: usize) -> Self {
        Self {
            progress,
            seen: Instant::now(),
            shape: Shape::Whole,
            is_partial: false,
            side,
            settled: false,
            room: None,
        }
    }

    /// The same, which keeps room for a large document until the write is done.
    #[must_use]
    pub fn keeping(mut self, room: Option<OwnedSemaphorePermit>) -> Self {
        self.room = room;
        self
    }

    /// The same, for a document that says whether it holds a part of its object only.
    #[must_use]
    pub fn of_part(mut self, is_partial: bool) -> Self {
        self.is_partial = is_partial;
        self
    }

    /// The unit's progress.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The write is stored, or a newer one of the same document takes its place.
    pub fn settle(mut self) {
        self.settled = true;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        drop(self.room.take());
        self.progress.ended(self.side, self.settled);
    }
}

impl Progress {
    /// A ticket for one write.
    pub fn ticket(self: &Arc<Self>) -> Ticket {
        Ticket::new(Arc::clone(self), self.flow.lock().begin())
    }
}

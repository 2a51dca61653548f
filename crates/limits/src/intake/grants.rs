//! Waits for memory of a budget, in the order of its [queue](super::queue), and returns it.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::queue::{Demand, DemandNumber, MemoryParts, MemoryQueue, Tag};

/// What is free of a budget, and those that wait for it.
pub(super) struct FreeMemory(Mutex<DemandQueue>);

struct DemandQueue {
    queue: MemoryQueue,
    /// Gives each demand that waits what it gets.
    waiting: HashMap<DemandNumber, oneshot::Sender<Granted>>,
}

/// Parts of a budget, returned when this is dropped.
pub(super) struct Granted {
    free: Arc<FreeMemory>,
    parts: MemoryParts,
}

/// A demand that waits. It is given up when this is dropped.
struct WaitingDemand<'a> {
    free: &'a Arc<FreeMemory>,
    last: &'a Mutex<Tag>,
    number: DemandNumber,
}

impl FreeMemory {
    pub(super) fn new(parts: MemoryParts) -> Arc<Self> {
        Arc::new(Self(Mutex::new(DemandQueue {
            queue: MemoryQueue::new(parts),
            waiting: HashMap::new(),
        })))
    }

    /// What a demand of a share gets, whose last one had this tag. Waits its turn. Cancel-safe.
    pub(super) async fn grant(self: &Arc<Self>, last: &Mutex<Tag>, demand: Demand) -> Granted {
        let (sender, receiver) = oneshot::channel();
        let number = {
            let mut state = self.0.lock();
            let number = state.queue.arrive(&mut last.lock(), demand);
            state.waiting.insert(number, sender);
            number
        };
        // Before the first wait, so that a cancelled one returns what it has got.
        let _waiting = WaitingDemand {
            free: self,
            last,
            number,
        };
        self.grant_what_is_free();
        #[expect(
            clippy::expect_used,
            reason = "a sender is dropped after it has sent, or with its demand"
        )]
        receiver.await.expect("an answer to a demand that waits")
    }

    /// Whether anything waits for memory of the shared part.
    pub(super) fn is_waited_for(&self) -> bool {
        self.0.lock().queue.waits_for_shared()
    }

    /// Returns what was granted.
    pub(super) fn give_back(self: &Arc<Self>, parts: MemoryParts) {
        if parts == MemoryParts::default() {
            return;
        }
        self.0.lock().queue.give_back(parts);
        self.grant_what_is_free();
    }

    fn grant_what_is_free(self: &Arc<Self>) {
        loop {
            let (sender, granted) = {
                let mut state = self.0.lock();
                let Some((number, parts)) = state.queue.grant() else {
                    return;
                };
                let free = Arc::clone(self);
                (state.waiting.remove(&number), Granted { free, parts })
            };
            // One that stops waiting now returns it when it is dropped.
            if let Some(sender) = sender {
                let _received = sender.send(granted);
            }
        }
    }
}

impl Granted {
    /// What it is, for a holder that returns it itself.
    pub(super) fn take(mut self) -> MemoryParts {
        std::mem::take(&mut self.parts)
    }

    pub(super) fn is_reserve(&self) -> bool {
        self.parts.reserve > 0
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        self.free.give_back(self.parts);
    }
}

impl Drop for WaitingDemand<'_> {
    fn drop(&mut self) {
        let was_waiting = {
            let mut state = self.free.0.lock();
            state.waiting.remove(&self.number);
            let mut tag = self.last.lock();
            state.queue.abandon(&mut tag, self.number)
        };
        if was_waiting {
            self.free.grant_what_is_free();
        }
    }
}

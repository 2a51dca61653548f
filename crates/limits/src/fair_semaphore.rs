//! A semaphore whose permits flows share fairly: [`queue`] decides which request gets one, and this
//! waits for it. A flow is a user, or an address.

pub mod queue;

use std::{collections::HashMap, fmt, hash::Hash, sync::Arc, time::Duration};

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use tokio::{sync::oneshot, time::timeout};

use self::queue::{Arrival, FairQueue, RequestNumber};

/// A number of permits. Clones share them.
#[derive(Clone)]
pub struct FairSemaphore<F: Hash + Eq + Clone>(Arc<PermitPool<F>>);

struct PermitPool<F> {
    queue: Mutex<WaitQueue<F>>,
    /// Counts the requests that get no permit.
    rejected: Counter,
}

struct WaitQueue<F> {
    queue: FairQueue<F>,
    /// Wakes each request that waits.
    waiting: HashMap<RequestNumber, oneshot::Sender<()>>,
}

/// A permit, returned when it is dropped.
pub struct FairPermit<F: Hash + Eq + Clone> {
    semaphore: FairSemaphore<F>,
    flow: F,
}

impl<F: Hash + Eq + Clone> FairSemaphore<F> {
    /// `permits` permits, and `queue_length` requests that may wait for one; `rejected` counts the
    /// requests that get none.
    pub fn new(permits: usize, queue_length: usize, rejected: Counter) -> Self {
        let queue = Mutex::new(WaitQueue {
            queue: FairQueue::new(permits, queue_length),
            waiting: HashMap::new(),
        });
        Self(Arc::new(PermitPool { queue, rejected }))
    }

    fn permit(&self, flow: F) -> FairPermit<F> {
        FairPermit {
            semaphore: self.clone(),
            flow,
        }
    }

    /// A permit for a request of a flow. Waits its turn; `None` when the queue of the flow is full,
    /// or after `max_wait`, at once if that is zero.
    pub async fn acquire(&self, flow: F, max_wait: Duration) -> Option<FairPermit<F>> {
        if max_wait.is_zero() {
            self.0.rejected.inc();
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        let arrival = {
            let mut state = self.0.queue.lock();
            let arrival = state.queue.arrive(&flow);
            if let Arrival::Queued(number) | Arrival::QueuedInsteadOf { number, .. } = arrival {
                state.waiting.insert(number, sender);
            }
            if let Arrival::QueuedInsteadOf { displaced, .. } = arrival {
                state.waiting.remove(&displaced);
            }
            arrival
        };
        let permit = match arrival {
            Arrival::Admitted => Some(self.permit(flow)),
            Arrival::Refused => None,
            Arrival::Queued(number) | Arrival::QueuedInsteadOf { number, .. } => {
                let mut queued = QueuedRequest {
                    semaphore: self,
                    flow: Some(flow),
                    number,
                    permit: receiver,
                };
                match timeout(max_wait, &mut queued.permit).await {
                    Ok(Ok(())) => queued.flow.take().map(|flow| self.permit(flow)),
                    Ok(Err(_)) | Err(_) => None,
                }
            }
        };
        if permit.is_none() {
            self.0.rejected.inc();
        }
        permit
    }

    /// A permit for a request of a flow that does not wait.
    pub fn try_acquire(&self, flow: F) -> Option<FairPermit<F>> {
        let mut state = self.0.queue.lock();
        let arrival = state.queue.arrive(&flow);
        if arrival == Arrival::Admitted {
            drop(state);
            return Some(self.permit(flow));
        }
        match arrival {
            Arrival::Admitted | Arrival::Refused => {}
            Arrival::Queued(number) => {
                state.queue.abandon(&flow, number);
            }
            // It had to give way.
            Arrival::QueuedInsteadOf { number, displaced } => {
                state.queue.abandon(&flow, number);
                state.waiting.remove(&displaced);
            }
        }
        self.0.rejected.inc();
        None
    }

    fn release(&self, flow: &F) {
        let mut state = self.0.queue.lock();
        for number in state.queue.leave(flow) {
            // A request that stops waiting now returns the permit when it is dropped.
            if let Some(sender) = state.waiting.remove(&number) {
                let _received = sender.send(());
            }
        }
    }
}

impl<F: Hash + Eq + Clone> fmt::Debug for FairSemaphore<F> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("FairSemaphore")
            .field("rejected", &self.0.rejected.get())
            .finish_non_exhaustive()
    }
}

impl<F: Hash + Eq + Clone> fmt::Debug for FairPermit<F> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("FairPermit").finish_non_exhaustive()
    }
}

impl<F: Hash + Eq + Clone> Drop for FairPermit<F> {
    fn drop(&mut self) {
        self.semaphore.release(&self.flow);
    }
}

/// A request that waits. Dropped, it leaves the queue, or returns the permit that it was given
/// meanwhile.
struct QueuedRequest<'s, F: Hash + Eq + Clone> {
    semaphore: &'s FairSemaphore<F>,
    flow: Option<F>,
    number: RequestNumber,
    /// Sent with the permit; closed when another request has its place in the queue.
    permit: oneshot::Receiver<()>,
}

impl<F: Hash + Eq + Clone> Drop for QueuedRequest<'_, F> {
    fn drop(&mut self) {
        let Some(flow) = self.flow.take() else { return };
        let was_waiting = {
            let mut state = self.semaphore.0.queue.lock();
            state.waiting.remove(&self.number);
            state.queue.abandon(&flow, self.number)
        };
        if !was_waiting && self.permit.try_recv().is_ok() {
            self.semaphore.release(&flow);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    const MAX_WAIT: Duration = Duration::from_secs(5);

    fn semaphore(permits: usize, queue_length: usize) -> FairSemaphore<&'static str> {
        FairSemaphore::new(permits, queue_length, Counter::default())
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_waits_for_its_turn_until_the_deadline() {
        let semaphore = semaphore(1, 2);
        let first = semaphore.acquire("a", MAX_WAIT).await.unwrap();
        assert!(
            semaphore.acquire("b", MAX_WAIT).await.is_none(),
            "it waits no longer"
        );
        let waits = tokio::spawn({
            let semaphore = semaphore.clone();
            async move { semaphore.acquire("b", MAX_WAIT).await.is_some() }
        });
        tokio::task::yield_now().await;
        drop(first);
        assert!(waits.await.unwrap());
        assert!(semaphore.acquire("a", Duration::ZERO).await.is_none());
        assert!(semaphore.try_acquire("a").is_some());
        assert_eq!(semaphore.0.rejected.get(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_wait_keeps_no_permit() {
        let semaphore = semaphore(1, 4);
        let first = semaphore.acquire("a", MAX_WAIT).await.unwrap();
        let mut gone = Box::pin(semaphore.acquire("b", MAX_WAIT));
        assert!(gone.as_mut().now_or_never().is_none());
        // It has been given a permit already, and is dropped before it receives it.
        let mut too_late = Box::pin(semaphore.acquire("c", MAX_WAIT));
        assert!(too_late.as_mut().now_or_never().is_none());
        drop(gone);
        drop(first);
        drop(too_late);
        assert!(semaphore.try_acquire("d").is_some());
        assert!(semaphore.0.queue.lock().waiting.is_empty());
    }
}

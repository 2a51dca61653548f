//! Places that flows share fairly: [`queue`] decides who gets one, this waits for it.

pub mod queue;

use std::{collections::HashMap, fmt, hash::Hash, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use prometheus_client::metrics::counter::Counter;
use tokio::{sync::oneshot, time::timeout};

use self::queue::{Arrival, FairQueue, Ticket};

/// Places of one kind. Clones share them.
pub struct Shares<F: Hash + Eq + Clone>(Arc<Shared<F>>);

struct Shared<F> {
    state: Mutex<State<F>>,
    /// Counts those that get none.
    refused: Counter,
}

struct State<F> {
    queue: FairQueue<F>,
    /// Who is told of its place.
    waiting: HashMap<Ticket, oneshot::Sender<()>>,
}

/// A place, until it is dropped.
pub struct Share<F: Hash + Eq + Clone> {
    shares: Shares<F>,
    flow: F,
}

impl<F: Hash + Eq + Clone> Shares<F> {
    /// So many places, and room for so many requests that wait for one; `refused` counts the requests that get none.
    pub fn new(places: usize, room: usize, refused: Counter) -> Self {
        let state = Mutex::new(State {
            queue: FairQueue::new(places, room),
            waiting: HashMap::new(),
        });
        Self(Arc::new(Shared { state, refused }))
    }

    /// A place for a request of a flow, for which it waits its turn; nothing when the queue of its flow is full or it waits too long.
    pub async fn take(&self, flow: F, patience: Duration) -> Option<Share<F>> {
        let (sender, receiver) = oneshot::channel();
        let arrival = {
            let mut state = self.lock();
            let arrival = state.queue.arrive(&flow);
            if let Arrival::Queued(ticket) = arrival {
                state.waiting.insert(ticket, sender);
            }
            arrival
        };
        let share = match arrival {
            Arrival::Admitted => Some(Share {
                shares: self.clone(),
                flow,
            }),
            Arrival::Refused => None,
            Arrival::Queued(ticket) => {
                let mut turn = Turn {
                    shares: self,
                    flow: Some(flow),
                    ticket,
                };
                match timeout(patience, receiver).await {
                    Ok(Ok(())) => turn.flow.take().map(|flow| Share {
                        shares: self.clone(),
                        flow,
                    }),
                    Ok(Err(_)) | Err(_) => None,
                }
            }
        };
        if share.is_none() {
            self.0.refused.inc();
        }
        share
    }

    /// A place for a request of a flow that cannot wait.
    pub fn try_take(&self, flow: F) -> Option<Share<F>> {
        let mut state = self.lock();
        let arrival = state.queue.arrive(&flow);
        if arrival == Arrival::Admitted {
            drop(state);
            return Some(Share {
                shares: self.clone(),
                flow,
            });
        }
        if let Arrival::Queued(ticket) = arrival {
            state.queue.abandon(&flow, ticket);
        }
        self.0.refused.inc();
        None
    }

    fn lock(&self) -> MutexGuard<'_, State<F>> {
        self.0.state.lock()
    }

    fn leave(&self, flow: &F) {
        let mut state = self.lock();
        for ticket in state.queue.leave(flow) {
            // Whoever waits no longer gives the place back when it is dropped.
            if let Some(sender) = state.waiting.remove(&ticket) {
                let _heard = sender.send(());
            }
        }
    }
}

impl<F: Hash + Eq + Clone> Clone for Shares<F> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<F: Hash + Eq + Clone> fmt::Debug for Shares<F> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Shares")
            .field("refused", &self.0.refused.get())
            .finish_non_exhaustive()
    }
}

impl<F: Hash + Eq + Clone> fmt::Debug for Share<F> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Share").finish_non_exhaustive()
    }
}

impl<F: Hash + Eq + Clone> Drop for Share<F> {
    fn drop(&mut self) {
        self.shares.leave(&self.flow);
    }
}

/// One that waits. When it stops waiting it leaves the queue, or gives back the place that it has got meanwhile.
struct Turn<'s, F: Hash + Eq + Clone> {
    shares: &'s Shares<F>,
    flow: Option<F>,
    ticket: Ticket,
}

impl<F: Hash + Eq + Clone> Drop for Turn<'_, F> {
    fn drop(&mut self) {
        let Some(flow) = self.flow.take() else { return };
        let was_waiting = {
            let mut state = self.shares.lock();
            state.waiting.remove(&self.ticket);
            state.queue.abandon(&flow, self.ticket)
        };
        if !was_waiting {
            self.shares.leave(&flow);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(5);

    fn shares(places: usize, room: usize) -> Shares<&'static str> {
        Shares::new(places, room, Counter::default())
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_waits_for_its_turn_and_no_longer_than_it_may() {
        let shares = shares(1, 2);
        let first = shares.take("a", PATIENCE).await.unwrap();
        assert!(shares.take("b", PATIENCE).await.is_none(), "in time");
        let waits = tokio::spawn({
            let shares = shares.clone();
            async move { shares.take("b", PATIENCE).await.is_some() }
        });
        tokio::task::yield_now().await;
        drop(first);
        assert!(waits.await.unwrap());
        assert!(shares.try_take("a").is_some());
        assert_eq!(shares.0.refused.get(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_goes_away_while_it_waits_takes_nothing_along() {
        let shares = shares(1, 4);
        let first = shares.take("a", PATIENCE).await.unwrap();
        let mut gone = Box::pin(shares.take("b", PATIENCE));
        assert!(gone.as_mut().now_or_never().is_none());
        // It has its place already, and goes before it hears of that.
        let mut too_late = Box::pin(shares.take("c", PATIENCE));
        assert!(too_late.as_mut().now_or_never().is_none());
        drop(gone);
        drop(first);
        drop(too_late);
        assert!(shares.try_take("d").is_some());
        assert!(shares.lock().waiting.is_empty());
    }
}

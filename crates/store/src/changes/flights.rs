//! Which writes are under way, so that somebody can wait for the end of those that are now.

use std::{collections::BTreeSet, sync::Arc};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

/// Writes under way. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flights(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    under_way: Mutex<UnderWay>,
    ended: Notify,
}

#[derive(Debug, Default)]
struct UnderWay {
    last: u64,
    numbers: BTreeSet<u64>,
}

/// A write that is under way until this is dropped.
#[derive(Debug)]
pub(crate) struct Flight {
    flights: Flights,
    number: u64,
}

impl Flights {
    fn lock(&self) -> MutexGuard<'_, UnderWay> {
        self.0.under_way.lock()
    }

    pub(crate) fn start(&self) -> Flight {
        let mut under_way = self.lock();
        under_way.last += 1;
        let number = under_way.last;
        under_way.numbers.insert(number);
        Flight {
            flights: self.clone(),
            number,
        }
    }

    /// Whether no write is under way.
    pub(crate) fn are_over(&self) -> bool {
        self.lock().numbers.is_empty()
    }

    /// Waits until all have ended that are under way now.
    pub(crate) async fn earlier_end(&self) {
        let last = self.lock().last;
        loop {
            let ended = self.0.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if self
                .lock()
                .numbers
                .first()
                .is_none_or(|oldest| *oldest > last)
            {
                return;
            }
            ended.await;
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.flights.lock().numbers.remove(&self.number);
        self.flights.0.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_earlier_requests_are_waited_for() {
        let flights = Flights::default();
        flights.earlier_end().await;
        let (first, second) = (flights.start(), flights.start());
        let waits = tokio::spawn({
            let flights = flights.clone();
            async move { flights.earlier_end().await }
        });
        tokio::task::yield_now().await;
        let _later = flights.start();
        drop(second);
        assert!(
            timeout(Duration::from_secs(1), flights.earlier_end())
                .await
                .is_err()
        );
        assert!(!waits.is_finished());
        drop(first);
        waits.await.unwrap();
    }
}

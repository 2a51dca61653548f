//! The writes in flight, so that a caller can wait for the end of those that began earlier.

use std::{collections::BTreeSet, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The writes in flight. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct InFlightWrites(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<InFlightNumbers>,
    ended: Notify,
}

#[derive(Debug, Default)]
struct InFlightNumbers {
    last: u64,
    numbers: BTreeSet<u64>,
}

/// A write that is in flight until this is dropped.
#[derive(Debug)]
pub(crate) struct InFlightWrite {
    writes: InFlightWrites,
    number: u64,
}

impl InFlightWrites {
    pub(crate) fn start(&self) -> InFlightWrite {
        let mut state = self.0.state.lock();
        state.last += 1;
        let number = state.last;
        state.numbers.insert(number);
        InFlightWrite {
            writes: self.clone(),
            number,
        }
    }

    /// Whether no write is in flight.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.state.lock().numbers.is_empty()
    }

    /// Waits until every write that is in flight now has ended.
    pub(crate) async fn wait_for_earlier(&self) {
        let last = self.0.state.lock().last;
        loop {
            let ended = self.0.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if self
                .0
                .state
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

impl Drop for InFlightWrite {
    fn drop(&mut self) {
        self.writes.0.state.lock().numbers.remove(&self.number);
        self.writes.0.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waiting_covers_only_writes_that_began_earlier() {
        let writes = InFlightWrites::default();
        writes.wait_for_earlier().await;
        let (first, second) = (writes.start(), writes.start());
        let waits = tokio::spawn({
            let writes = writes.clone();
            async move { writes.wait_for_earlier().await }
        });
        tokio::task::yield_now().await;
        let _later = writes.start();
        drop(second);
        assert!(
            timeout(Duration::from_secs(1), writes.wait_for_earlier())
                .await
                .is_err()
        );
        assert!(!waits.is_finished());
        drop(first);
        waits.await.unwrap();
    }
}

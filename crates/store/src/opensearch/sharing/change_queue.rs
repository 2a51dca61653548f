//! Makes the changes of several callers together.
//!
//! Every change of a shared index waits for the one before, and each takes OpenSearch some
//! milliseconds, or hundreds where there are thousands of aliases. With one request for each change
//! the first lists of a thousand clusters would wait for minutes.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Changes that wait for their turn. What waits while one request is under way is made by the next
/// one; nothing waits for others to come.
pub(crate) struct ChangeQueue<T, R> {
    waiting: Mutex<VecDeque<(T, oneshot::Sender<R>)>>,
}

impl<T, R> Default for ChangeQueue<T, R> {
    fn default() -> Self {
        Self {
            waiting: Mutex::default(),
        }
    }
}

impl<T: Clone, R> ChangeQueue<T, R> {
    /// Makes a change in turn, together with others that wait, and returns its result. `make` makes
    /// up to `limit` changes and returns a result for each, in order. `turn` is held meanwhile.
    ///
    /// The caller that gets the turn makes the changes of the others. If it is cancelled, they
    /// submit theirs again, of which the outcome is unknown then.
    pub(crate) async fn submit<F: Future<Output = Vec<R>>>(
        &self,
        turn: &tokio::sync::Mutex<()>,
        limit: usize,
        change: T,
        make: impl Fn(Vec<T>) -> F,
    ) -> R {
        loop {
            let (sender, mut result) = oneshot::channel();
            self.waiting.lock().push_back((change.clone(), sender));
            loop {
                tokio::select! {
                    biased;
                    result = &mut result => match result {
                        Ok(result) => return result,
                        Err(_) => break,
                    },
                    _turn = turn.lock() => {
                        let (changes, senders) = self.take(limit);
                        for (sender, result) in senders.into_iter().zip(make(changes).await) {
                            // A caller that is gone needs no result.
                            let _unsent = sender.send(result);
                        }
                    }
                }
            }
        }
    }

    /// The changes that have waited longest; those whose callers are gone are dropped.
    fn take(&self, limit: usize) -> (Vec<T>, Vec<oneshot::Sender<R>>) {
        let mut waiting = self.waiting.lock();
        waiting.retain(|(_, sender)| !sender.is_closed());
        let taken = waiting.len().min(limit);
        waiting.drain(..taken).unzip()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::future::join_all;
    use tokio::time::{sleep, timeout};

    use super::*;

    type Batches = Mutex<Vec<Vec<u32>>>;

    async fn make(batches: &Batches, changes: Vec<u32>) -> Vec<u32> {
        batches.lock().push(changes.clone());
        sleep(Duration::from_secs(1)).await;
        changes.iter().map(|change| 10 * change).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_meanwhile_is_made_by_the_next_request() {
        let (queue, turn, batches) = (
            ChangeQueue::default(),
            tokio::sync::Mutex::default(),
            Batches::default(),
        );
        let submit = |change| queue.submit(&turn, 3, change, |changes| make(&batches, changes));
        let results = join_all((1..=5).map(submit)).await;
        assert_eq!(results, [10, 20, 30, 40, 50]);
        assert_eq!(*batches.lock(), [vec![1], vec![2, 3, 4], vec![5]]);
    }

    #[tokio::test(start_paused = true)]
    async fn changes_of_a_cancelled_request_are_made_again() {
        let (queue, turn, batches) = (
            ChangeQueue::default(),
            tokio::sync::Mutex::default(),
            Batches::default(),
        );
        let submit = |change| queue.submit(&turn, 3, change, |changes| make(&batches, changes));
        let second = async {
            sleep(Duration::from_millis(100)).await;
            timeout(Duration::from_millis(1_400), submit(2)).await
        };
        let third = async {
            sleep(Duration::from_millis(200)).await;
            submit(3).await
        };
        let (first, second, third) = tokio::join!(submit(1), second, third);
        assert_eq!((first, second.is_err(), third), (10, true, 30));
        assert_eq!(*batches.lock(), [vec![1], vec![2, 3], vec![3]]);
    }
}

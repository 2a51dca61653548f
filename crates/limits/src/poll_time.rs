//! How long one step of a task keeps a thread that serves.

use std::{
    cell::Cell,
    future::poll_fn,
    pin::pin,
    sync::atomic::AtomicU64,
    time::{Duration, Instant},
};

use prometheus_client::metrics::gauge::Gauge;

thread_local! {
    /// What this thread has done while another one served in its place.
    static BESIDE: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// The longest step of some tasks since the start, in seconds. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct LongestPoll(Gauge<f64, AtomicU64>);

impl LongestPoll {
    /// Shown by this gauge.
    pub fn new(gauge: Gauge<f64, AtomicU64>) -> Self {
        Self(gauge)
    }

    /// Does one step.
    pub fn step<T>(&self, step: impl FnOnce() -> T) -> T {
        let (beside, begun) = (BESIDE.get(), Instant::now());
        let done = step();
        let taken = begun
            .elapsed()
            .saturating_sub(BESIDE.get().saturating_sub(beside))
            .as_secs_f64();
        // A longer step that ends at the same moment may be lost: the next one of its kind shows.
        if taken > self.0.get() {
            self.0.set(taken);
        }
        done
    }

    /// Runs a task.
    pub async fn of<F: Future>(self, task: F) -> F::Output {
        let mut task = pin!(task);
        poll_fn(move |context| self.step(|| task.as_mut().poll(context))).await
    }
}

/// Does something while another thread serves in place of this one.
pub(crate) fn beside<T>(work: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let done = work();
    BESIDE.set(BESIDE.get() + begun.elapsed());
    done
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;

    use super::*;

    #[tokio::test]
    async fn the_longest_step_counts_without_what_is_done_beside() {
        let longest = LongestPoll::default();
        let long = Duration::from_millis(500);
        let task = async {
            beside(|| sleep(long));
            tokio::task::yield_now().await;
        };
        longest.clone().of(task).await;
        assert!(longest.0.get() < long.as_secs_f64());
        longest.clone().of(async { sleep(long) }).await;
        assert!(longest.0.get() >= long.as_secs_f64());
    }
}

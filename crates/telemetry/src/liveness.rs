//! Whether the threads that serve requests make progress.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::time::sleep;

/// The time between two beats.
const INTERVAL: Duration = Duration::from_millis(500);
/// Threads that have not run a beat for so long do not serve. Work is cut into pieces of
/// milliseconds, and a machine that is overloaded still runs each thread several times a second.
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// The last beat of a task that runs where requests are served. Clones share it.
#[derive(Clone, Debug)]
pub struct Liveness {
    started: Instant,
    /// Milliseconds from the start.
    last_beat: Arc<AtomicU64>,
}

impl Liveness {
    /// Beats for ever. This belongs on the threads that serve requests.
    pub async fn beat(self) -> Infallible {
        loop {
            let passed = u64::try_from(self.started.elapsed().as_millis());
            self.last_beat
                .store(passed.unwrap_or(u64::MAX), Ordering::Relaxed);
            sleep(INTERVAL).await;
        }
    }

    /// For how long nothing was served, if that is too long.
    pub fn stalled(&self) -> Option<Duration> {
        let last = Duration::from_millis(self.last_beat.load(Ordering::Relaxed));
        let pause = self.started.elapsed().saturating_sub(last);
        Some(pause).filter(|pause| *pause > MAX_PAUSE)
    }

    /// Liveness whose last beat is so long ago, for tests.
    #[cfg(test)]
    pub(crate) fn since(pause: Duration) -> Self {
        let mut liveness = Self::default();
        if let Some(started) = liveness.started.checked_sub(pause) {
            liveness.started = started;
        }
        liveness
    }
}

impl Default for Liveness {
    /// A first beat now.
    fn default() -> Self {
        Self {
            started: Instant::now(),
            last_beat: Arc::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn threads_without_a_beat_are_stalled_until_the_next_one() {
        let liveness = Liveness::since(Duration::from_mins(1));
        let pause = liveness.stalled().unwrap();
        assert!(pause >= Duration::from_mins(1));
        let beats = tokio::spawn(liveness.clone().beat());
        while liveness.stalled().is_some() {
            tokio::task::yield_now().await;
        }
        beats.abort();
        assert!(Liveness::default().stalled().is_none());
    }
}

//! Whether requests are under way on a connection, and since when none is.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, sleep_until};

/// How long a peer may take until its first request has arrived: line and headers, and before them the preface of HTTP/2.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection is kept on which no request is under way. Over HTTP/1.1 the time to send the next head is shorter.
const IDLE_TIMEOUT: Duration = Duration::from_mins(5);

/// The requests of one connection.
#[derive(Debug)]
pub struct Activity(Mutex<Uses>);

#[derive(Debug)]
struct Uses {
    under_way: usize,
    /// When the last one began or ended.
    changed: Instant,
    has_served: bool,
}

/// A request that is under way until this is dropped.
#[derive(Debug)]
pub struct UnderWay(Arc<Activity>);

impl Activity {
    /// A connection that begins now.
    pub fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Uses { under_way: 0, changed: Instant::now(), has_served: false })))
    }

    /// A request has arrived.
    pub fn begin(self: &Arc<Self>) -> UnderWay {
        let mut uses = self.lock();
        uses.under_way += 1;
        uses.has_served = true;
        uses.changed = Instant::now();
        UnderWay(Arc::clone(self))
    }

    /// Since when no request is under way; nothing while one is.
    pub fn idle_since(&self) -> Option<Instant> {
        let uses = self.lock();
        (uses.under_way == 0).then_some(uses.changed)
    }

    /// Waits until the connection has been idle for too long.
    pub async fn idles(&self) {
        loop {
            let limit = if self.lock().has_served { IDLE_TIMEOUT } else { FIRST_REQUEST_TIMEOUT };
            let now = Instant::now();
            let ends = self.idle_since().unwrap_or(now) + limit;
            if ends <= now {
                return;
            }
            sleep_until(ends).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Uses> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut uses = self.0.lock();
        uses.under_way -= 1;
        uses.changed = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_request_idles_soon_and_one_that_was_used_later() {
        let begun = Instant::now();
        Activity::new().idles().await;
        assert_eq!(begun.elapsed(), FIRST_REQUEST_TIMEOUT);
        let (begun, activity) = (Instant::now(), Activity::new());
        let request = activity.begin();
        let idles = tokio::spawn({
            let activity = Arc::clone(&activity);
            async move { activity.idles().await }
        });
        sleep(2 * IDLE_TIMEOUT).await;
        assert!(!idles.is_finished() && activity.idle_since().is_none());
        drop(request);
        idles.await.unwrap();
        assert_eq!(begun.elapsed(), 3 * IDLE_TIMEOUT);
    }
}

//! Whether a connection is busy, and since when it is not.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep_until};

/// How long a peer may take until its first request has arrived: line and headers, and before them the preface of HTTP/2.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection is kept on which no request is under way. Over HTTP/1.1 the time to send the next head is shorter.
const IDLE_TIMEOUT: Duration = Duration::from_mins(5);

/// How long a piece of an answer may wait for its peer until the connection counts as idle. A peer that reads takes a piece of 64 KiB within this time
/// over 0.5 Mbit/s.
const TAKING_PATIENCE: Duration = Duration::from_secs(1);

/// The requests of one connection.
#[derive(Debug)]
pub struct Activity(Mutex<Uses>);

#[derive(Debug)]
struct Uses {
    /// Those under way, by their numbers.
    requests: HashMap<u64, Use>,
    last: u64,
    /// When the last one began or ended.
    changed: Instant,
    /// When the last one ended whose caller was known; or else when the connection began.
    used: Instant,
    has_served: bool,
}

#[derive(Debug, Default)]
struct Use {
    is_caller_known: bool,
    /// Since when a piece of the answer waits to be taken.
    waits_since: Option<Instant>,
}

/// A request that is under way until this is dropped.
#[derive(Debug)]
pub struct UnderWay(Arrived);

/// A request that has arrived on a connection, as an extension of the request.
#[derive(Clone, Debug)]
pub struct Arrived {
    activity: Arc<Activity>,
    number: u64,
}

impl Activity {
    /// A connection that begins now.
    pub fn new() -> Arc<Self> {
        let now = Instant::now();
        let uses = Uses {
            requests: HashMap::new(),
            last: 0,
            changed: now,
            used: now,
            has_served: false,
        };
        Arc::new(Self(Mutex::new(uses)))
    }

    /// A request has arrived.
    pub fn begin(self: &Arc<Self>) -> UnderWay {
        let mut uses = self.lock();
        uses.last += 1;
        let number = uses.last;
        uses.requests.insert(number, Use::default());
        uses.has_served = true;
        uses.changed = Instant::now();
        UnderWay(Arrived {
            activity: Arc::clone(self),
            number,
        })
    }

    /// Since when the connection may end for another one; nothing while it is busy. It is busy while a request of a known caller is under way, unless its
    /// answer has been waiting for the peer for [`TAKING_PATIENCE`]: whoever has no credentials, or does not read, keeps nobody out.
    pub fn idle_since(&self) -> Option<Instant> {
        let (uses, now) = (self.lock(), Instant::now());
        let mut since = uses.used;
        for request in uses
            .requests
            .values()
            .filter(|request| request.is_caller_known)
        {
            let waits_since = request
                .waits_since
                .filter(|since| now.duration_since(*since) >= TAKING_PATIENCE)?;
            since = since.max(waits_since);
        }
        Some(since)
    }

    /// Since when no request is under way, whoever sent it; nothing while one is.
    fn quiet_since(&self) -> Option<Instant> {
        let uses = self.lock();
        uses.requests.is_empty().then_some(uses.changed)
    }

    /// Waits until the connection has been idle for too long.
    pub async fn idles(&self) {
        loop {
            let limit = if self.lock().has_served {
                IDLE_TIMEOUT
            } else {
                FIRST_REQUEST_TIMEOUT
            };
            let now = Instant::now();
            let ends = self.quiet_since().unwrap_or(now) + limit;
            if ends <= now {
                return;
            }
            sleep_until(ends).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Uses> {
        self.0.lock()
    }
}

impl UnderWay {
    /// What the request says of itself to whoever answers it.
    pub fn arrived(&self) -> Arrived {
        self.0.clone()
    }

    /// A piece of the answer waits to be taken from now on.
    pub fn waits(&self) {
        self.0
            .change(|request| request.waits_since = Some(Instant::now()));
    }

    /// What waited has been taken.
    pub fn goes_on(&self) {
        self.0.change(|request| request.waits_since = None);
    }
}

impl Arrived {
    /// The server knows who sent the request: the connection is busy with it from now on.
    pub fn caller_is_known(&self) {
        self.change(|request| request.is_caller_known = true);
    }

    fn change(&self, change: impl FnOnce(&mut Use)) {
        if let Some(request) = self.activity.lock().requests.get_mut(&self.number) {
            change(request);
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut uses = self.0.activity.lock();
        let now = Instant::now();
        uses.changed = now;
        if uses
            .requests
            .remove(&self.0.number)
            .is_some_and(|request| request.is_caller_known)
        {
            uses.used = now;
        }
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
        assert!(!idles.is_finished());
        drop(request);
        idles.await.unwrap();
        assert_eq!(begun.elapsed(), 3 * IDLE_TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_known_caller_who_takes_the_answer_keeps_a_connection_busy() {
        let (begun, activity) = (Instant::now(), Activity::new());
        sleep(Duration::from_secs(5)).await;
        let (unknown, known) = (activity.begin(), activity.begin());
        assert_eq!(activity.idle_since(), Some(begun), "nobody is known yet");
        known.arrived().caller_is_known();
        assert_eq!(activity.idle_since(), None);
        drop(unknown);
        known.waits();
        let waits_since = Instant::now();
        sleep(TAKING_PATIENCE / 2).await;
        assert_eq!(activity.idle_since(), None, "a peer may take a moment");
        sleep(TAKING_PATIENCE).await;
        assert_eq!(activity.idle_since(), Some(waits_since));
        let other = activity.begin();
        other.arrived().caller_is_known();
        assert_eq!(
            activity.idle_since(),
            None,
            "one that is not taken does not make others idle"
        );
        drop(other);
        known.goes_on();
        assert_eq!(activity.idle_since(), None);
        drop(known);
        assert_eq!(activity.idle_since(), Some(Instant::now()));
        let late = activity.begin();
        let arrived = late.arrived();
        drop(late);
        arrived.caller_is_known();
        assert!(
            activity.idle_since().is_some(),
            "what is over changes nothing"
        );
    }
}

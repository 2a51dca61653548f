//! Tracks the requests of a connection, to decide whether it is idle.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

/// How long a client may take to send its first request: line and headers, and before them the
/// preface of HTTP/2.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection without a request in flight stays open. For HTTP/1.1 the timeout of the
/// next request's head is shorter.
const IDLE_TIMEOUT: Duration = Duration::from_mins(5);
/// How long a piece of a response may stay unread until the connection counts as idle. A client
/// that reads takes a piece of 64 KiB within this time over 0.5 Mbit/s.
const UNREAD_TOLERANCE: Duration = Duration::from_secs(1);

/// The requests of one connection.
#[derive(Debug)]
pub struct Activity(Mutex<RequestTimes>);

#[derive(Debug)]
struct RequestTimes {
    /// The requests in flight, by number.
    requests: HashMap<u64, ActiveRequest>,
    last: u64,
    /// When the last request began or ended.
    changed: Instant,
    /// When the last request of an authenticated caller ended; before that, when the connection
    /// was opened.
    used: Instant,
    has_served: bool,
}

#[derive(Debug, Default)]
struct ActiveRequest {
    is_authenticated: bool,
    /// Since when a piece of the response is unread.
    unread_since: Option<Instant>,
}

/// Keeps a request in flight until it is dropped.
#[derive(Debug)]
pub struct RequestGuard(RequestHandle);

/// The connection's record of a request, as an extension of the request.
#[derive(Clone, Debug)]
pub struct RequestHandle {
    activity: Arc<Activity>,
    number: u64,
}

impl Activity {
    /// A connection that is opened now.
    pub fn new() -> Arc<Self> {
        let now = Instant::now();
        let uses = RequestTimes {
            requests: HashMap::new(),
            last: 0,
            changed: now,
            used: now,
            has_served: false,
        };
        Arc::new(Self(Mutex::new(uses)))
    }

    /// Records a new request.
    pub fn begin(self: &Arc<Self>) -> RequestGuard {
        let mut uses = self.0.lock();
        uses.last += 1;
        let number = uses.last;
        uses.requests.insert(number, ActiveRequest::default());
        uses.has_served = true;
        uses.changed = Instant::now();
        RequestGuard(RequestHandle {
            activity: Arc::clone(self),
            number,
        })
    }

    /// Since when another connection may evict this one; `None` while it is busy. It is busy
    /// while a request of an authenticated caller is in flight, unless its response has been unread
    /// for [`UNREAD_TOLERANCE`]: clients that have no credentials, or do not read, block no other.
    pub fn idle_since(&self) -> Option<Instant> {
        let (uses, now) = (self.0.lock(), Instant::now());
        let mut since = uses.used;
        let requests = uses.requests.values();
        for request in requests.filter(|request| request.is_authenticated) {
            let is_unread = |since: &Instant| now.duration_since(*since) >= UNREAD_TOLERANCE;
            let unread_since = request.unread_since.filter(is_unread)?;
            since = since.max(unread_since);
        }
        Some(since)
    }

    /// Since when no request is in flight, authenticated or not; `None` while one is.
    fn quiet_since(&self) -> Option<Instant> {
        let uses = self.0.lock();
        uses.requests.is_empty().then_some(uses.changed)
    }

    /// Waits until the connection has been idle for too long.
    pub async fn idles(&self) {
        loop {
            let limit = if self.0.lock().has_served {
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
}

impl RequestGuard {
    /// The handle for the request's extensions.
    pub fn handle(&self) -> RequestHandle {
        self.0.clone()
    }

    /// A piece of the response is unread from now on.
    pub fn piece_unread(&self) {
        self.0
            .change(|request| request.unread_since = Some(Instant::now()));
    }

    /// The client has read the piece.
    pub fn piece_read(&self) {
        self.0.change(|request| request.unread_since = None);
    }
}

impl RequestHandle {
    /// The caller is authenticated: the connection is busy with the request from now on.
    pub fn mark_authenticated(&self) {
        self.change(|request| request.is_authenticated = true);
    }

    fn change(&self, change: impl FnOnce(&mut ActiveRequest)) {
        if let Some(request) = self.activity.0.lock().requests.get_mut(&self.number) {
            change(request);
        }
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let mut uses = self.0.activity.0.lock();
        let now = Instant::now();
        uses.changed = now;
        let request = uses.requests.remove(&self.0.number);
        if request.is_some_and(|request| request.is_authenticated) {
            uses.used = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_unused_connection_becomes_idle_earlier_than_a_used_one() {
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
    async fn only_an_authenticated_caller_that_reads_keeps_a_connection_busy() {
        let (begun, activity) = (Instant::now(), Activity::new());
        sleep(Duration::from_secs(5)).await;
        let (unknown, known) = (activity.begin(), activity.begin());
        assert_eq!(
            activity.idle_since(),
            Some(begun),
            "no caller is authenticated yet"
        );
        known.handle().mark_authenticated();
        assert_eq!(activity.idle_since(), None);
        drop(unknown);
        known.piece_unread();
        let unread_since = Instant::now();
        sleep(UNREAD_TOLERANCE / 2).await;
        assert_eq!(activity.idle_since(), None, "a client may pause");
        sleep(UNREAD_TOLERANCE).await;
        assert_eq!(activity.idle_since(), Some(unread_since));
        let other = activity.begin();
        other.handle().mark_authenticated();
        assert_eq!(
            activity.idle_since(),
            None,
            "an unread response does not make other requests idle"
        );
        drop(other);
        known.piece_read();
        assert_eq!(activity.idle_since(), None);
        drop(known);
        assert_eq!(activity.idle_since(), Some(Instant::now()));
        let late = activity.begin();
        let handle = late.handle();
        drop(late);
        handle.mark_authenticated();
        assert!(
            activity.idle_since().is_some(),
            "a request that has ended changes nothing"
        );
    }
}

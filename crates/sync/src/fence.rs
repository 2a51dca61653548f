//! Whether this replica may still write.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

/// Closed as soon as the Lease of this replica has not been renewed for too long, be it that the control plane does not answer or that the
/// process was stopped for some time. Clones are the same fence.
#[derive(Clone, Debug)]
pub struct Fence(Option<Arc<Limit>>);

#[derive(Debug)]
struct Limit {
    since: Instant,
    /// Milliseconds from then on.
    until: AtomicU64,
}

impl Fence {
    /// One that is never closed: there is one replica only.
    pub const OPEN: Self = Self(None);

    /// One that is closed until it is held open.
    pub fn closed() -> Self {
        Self(Some(Arc::new(Limit {
            since: Instant::now(),
            until: AtomicU64::new(0),
        })))
    }

    /// Holds it open for some time from `start` on.
    pub fn hold_open(&self, start: Instant, time: Duration) {
        if let Some(limit) = &self.0 {
            let until = (start + time).saturating_duration_since(limit.since);
            limit.until.store(
                u64::try_from(until.as_millis()).unwrap_or(u64::MAX),
                Ordering::Release,
            );
        }
    }

    /// Closes it now.
    pub fn close(&self) {
        if let Some(limit) = &self.0 {
            limit.until.store(0, Ordering::Release);
        }
    }

    /// Whether anything may be written now.
    pub fn is_open(&self) -> bool {
        self.0.as_ref().is_none_or(|limit| {
            let now = u64::try_from(limit.since.elapsed().as_millis()).unwrap_or(u64::MAX);
            now < limit.until.load(Ordering::Acquire)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_closes_by_itself_when_it_is_not_held_open() {
        let fence = Fence::closed();
        assert!(!fence.is_open());
        fence.hold_open(Instant::now(), Duration::from_secs(7));
        tokio::time::advance(Duration::from_secs(6)).await;
        assert!(fence.clone().is_open());
        fence.hold_open(Instant::now(), Duration::from_secs(7));
        tokio::time::advance(Duration::from_secs(7)).await;
        assert!(!fence.is_open());
        assert!(Fence::OPEN.is_open());
    }
}

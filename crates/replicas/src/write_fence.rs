//! Decides whether this replica may still write.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

/// Closes when the Lease of this replica was not renewed for too long, because the control plane
/// does not answer or because the process was suspended. Clones share the fence.
#[derive(Clone, Debug, Default)]
pub struct WriteFence(Option<Arc<FenceDeadline>>);

#[derive(Debug)]
struct FenceDeadline {
    epoch: Instant,
    /// Milliseconds after `epoch`.
    until: AtomicU64,
}

impl WriteFence {
    /// A fence that never closes, for a single replica.
    pub const OPEN: Self = Self(None);

    /// A fence that is closed until it is extended.
    pub fn closed() -> Self {
        Self(Some(Arc::new(FenceDeadline {
            epoch: Instant::now(),
            until: AtomicU64::new(0),
        })))
    }

    /// Opens the fence for a duration from `start` on.
    pub fn extend(&self, start: Instant, duration: Duration) {
        if let Some(deadline) = &self.0 {
            let until = (start + duration).saturating_duration_since(deadline.epoch);
            deadline.until.store(
                u64::try_from(until.as_millis()).unwrap_or(u64::MAX),
                Ordering::Release,
            );
        }
    }

    /// Closes the fence now.
    pub fn close(&self) {
        if let Some(deadline) = &self.0 {
            deadline.until.store(0, Ordering::Release);
        }
    }

    /// Whether this replica may write now.
    pub fn is_open(&self) -> bool {
        self.0.as_ref().is_none_or(|deadline| {
            let now = u64::try_from(deadline.epoch.elapsed().as_millis()).unwrap_or(u64::MAX);
            now < deadline.until.load(Ordering::Acquire)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_fence_closes_when_it_is_not_extended() {
        let fence = WriteFence::closed();
        assert!(!fence.is_open());
        fence.extend(Instant::now(), Duration::from_secs(7));
        tokio::time::advance(Duration::from_secs(6)).await;
        assert!(fence.clone().is_open());
        fence.extend(Instant::now(), Duration::from_secs(7));
        tokio::time::advance(Duration::from_secs(7)).await;
        assert!(!fence.is_open());
        assert!(WriteFence::OPEN.is_open());
    }
}

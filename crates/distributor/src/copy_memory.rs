//! What is held of members, counted in bytes and bounded.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use fleetdex_clusters::watch::{FaultKind, StreamFault};

/// What all reflectors of a process may hold of members, in bytes of JSON text.
#[derive(Clone, Debug)]
pub struct CopyMemory {
    held: Arc<AtomicUsize>,
    limit: usize,
    /// What this is a share of.
    whole: Option<Arc<CopyMemory>>,
}

impl CopyMemory {
    /// So many bytes altogether.
    pub fn limited_to(limit: usize) -> Self {
        Self {
            held: Arc::default(),
            limit,
            whole: None,
        }
    }

    /// A share of it: what one member can make this process hold is no other one's.
    #[must_use]
    pub fn share(&self, limit: usize) -> Self {
        Self {
            held: Arc::default(),
            limit,
            whole: Some(Arc::new(self.clone())),
        }
    }

    /// Begins to take, with nothing taken yet.
    pub fn taking(&self) -> Taken<'_> {
        Taken(self, 0)
    }

    fn take(&self, bytes: usize) -> bool {
        let before = self.held.fetch_add(bytes, Ordering::Relaxed);
        let fits = before.saturating_add(bytes) <= self.limit
            && self.whole.as_ref().is_none_or(|whole| whole.take(bytes));
        if !fits {
            self.held.fetch_sub(bytes, Ordering::Relaxed);
        }
        fits
    }

    /// Gives back what was kept.
    pub fn give_back(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(whole) = &self.whole {
            whole.give_back(bytes);
        }
    }
}

/// Bytes that are given back unless they are kept.
pub struct Taken<'h>(&'h CopyMemory, usize);

impl Taken<'_> {
    /// Takes so many bytes, if they fit.
    pub fn takes(&mut self, bytes: usize) -> bool {
        let fits = self.0.take(bytes);
        if fits {
            self.1 += bytes;
        }
        fits
    }

    /// Gives back a part of what was taken.
    pub fn give_back(&mut self, bytes: usize) {
        self.0.give_back(bytes);
        self.1 -= bytes;
    }

    /// Takes so many bytes; an error: they do not fit.
    pub fn take(&mut self, bytes: usize) -> Result<(), StreamFault> {
        if !self.takes(bytes) {
            return Err(StreamFault {
                kind: FaultKind::TooLarge,
                message: format!(
                    "what Fleetdex holds of this cluster, or of all, takes more than its bound of {} MiB",
                    self.0.limit >> 20
                ),
            });
        }
        Ok(())
    }

    /// Keeps what was taken.
    pub fn keep(&mut self) {
        self.1 = 0;
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.give_back(self.1);
    }
}

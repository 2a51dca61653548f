//! How old the writes in flight are.

use tokio::time::Instant;

/// Bounds the age of the oldest write in flight without a time for each write.
///
/// The writes are of two generations. The older one gets no more writes, so it ends; then the newer
/// one becomes the older. The bound is too high by at most the time in which a generation was
/// filled.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WriteAges {
    in_flight: [u64; 2],
    began: [Option<Instant>; 2],
    newer: usize,
}

impl WriteAges {
    /// Begins a write. Returns its generation.
    pub(super) fn begin(&mut self, now: Instant) -> usize {
        let other = 1 - self.newer;
        if self.in_flight[other] == 0 {
            self.newer = other;
            self.began[other] = Some(now);
        }
        self.in_flight[self.newer] += 1;
        self.newer
    }

    /// Ends a write of a generation.
    pub(super) fn end(&mut self, generation: usize) {
        self.in_flight[generation] -= 1;
        if self.in_flight[generation] == 0 {
            self.began[generation] = None;
        }
    }

    /// No write in flight is older than this; `None` if there is none.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.began.into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_bound_follows_the_writes_although_some_are_always_in_flight() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut ages = WriteAges::default();
        assert_eq!(ages.oldest(), None);
        let mut earlier = ages.begin(at(0));
        assert_eq!(ages.oldest(), Some(at(0)));
        for second in 1..100 {
            let later = ages.begin(at(second));
            ages.end(earlier);
            earlier = later;
            let bound = ages.oldest().unwrap();
            assert!(bound <= at(second) && bound >= at(second) - Duration::from_secs(1));
        }
        ages.end(earlier);
        assert_eq!(ages.oldest(), None);
    }

    #[test]
    fn a_write_that_never_ends_is_the_oldest() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut ages = WriteAges::default();
        ages.begin(at(0));
        for second in 1..10 {
            let generation = ages.begin(at(second));
            ages.end(generation);
        }
        assert_eq!(ages.oldest(), Some(at(0)));
    }
}

//! Room for objects that rules, redactions and fields read as trees: on all threads together, one
//! of the largest, or many usual ones.

use std::sync::LazyLock;

use fleetdex_core::model::{MAX_PARSED_BYTES, MAX_PARSED_RATIO};
use parking_lot::{Condvar, Mutex};

/// Trees of up to this size take no room.
const SMALL_BYTES: usize = 1 << 20;

static TAKEN: LazyLock<Taken> = LazyLock::new(Taken::default);

#[derive(Default)]
struct Taken {
    bytes: Mutex<usize>,
    less: Condvar,
}

/// Room for an object, returned when it is dropped.
pub(crate) struct ObjectRoom(usize);

impl ObjectRoom {
    /// Waits for room for the tree of a text of `bytes`. It blocks the thread, for as long as others
    /// take to make their documents: nothing is awaited, and no more is taken, while it is held.
    pub(crate) fn wait(bytes: usize) -> Self {
        let most = bytes.saturating_mul(MAX_PARSED_RATIO).min(MAX_PARSED_BYTES);
        if most <= SMALL_BYTES {
            return Self(0);
        }
        let mut taken = TAKEN.bytes.lock();
        while *taken + most > MAX_PARSED_BYTES {
            TAKEN.less.wait(&mut taken);
        }
        *taken += most;
        Self(most)
    }
}

impl Drop for ObjectRoom {
    fn drop(&mut self) {
        if self.0 > 0 {
            *TAKEN.bytes.lock() -= self.0;
            TAKEN.less.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        thread,
    };

    use super::*;

    #[test]
    fn large_objects_have_room_one_after_the_other() {
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let _room = ObjectRoom::wait(8 << 20);
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    thread::yield_now();
                    now.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        assert_eq!(most.load(Ordering::SeqCst), 1);
        let usual: Vec<_> = (0..40).map(|_| ObjectRoom::wait(10_000)).collect();
        assert!(*TAKEN.bytes.lock() <= MAX_PARSED_BYTES);
        drop(usual);
        assert_eq!(*TAKEN.bytes.lock(), 0);
    }
}

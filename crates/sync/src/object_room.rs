//! Room for objects that rules, redactions and fields read as trees: on all threads together, one
//! of the largest, or many usual ones.

use fleetdex_core::model::{MAX_PARSED_BYTES, MAX_PARSED_RATIO};
use parking_lot::{Condvar, Mutex};

/// Trees of up to this size take no room.
const SMALL_BYTES: usize = 1 << 20;

/// That of this process.
static OBJECT_ROOMS: ObjectRooms = ObjectRooms::new();

/// What all objects have that are read as trees.
struct ObjectRooms {
    taken: Mutex<usize>,
    less: Condvar,
}

/// Room for an object, returned when it is dropped.
pub(crate) struct ObjectRoom {
    of: &'static ObjectRooms,
    bytes: usize,
}

impl ObjectRoom {
    /// Waits for room for the tree of a text of `bytes`. It blocks the thread, for as long as
    /// others take to make their documents: nothing is awaited, and no more is taken, while it is
    /// held.
    pub(crate) fn wait(bytes: usize) -> Self {
        OBJECT_ROOMS.wait(bytes)
    }
}

impl ObjectRooms {
    const fn new() -> Self {
        Self {
            taken: Mutex::new(0),
            less: Condvar::new(),
        }
    }

    fn wait(&'static self, bytes: usize) -> ObjectRoom {
        let most = bytes.saturating_mul(MAX_PARSED_RATIO).min(MAX_PARSED_BYTES);
        let bytes = if most > SMALL_BYTES { most } else { 0 };
        if bytes > 0 {
            let mut taken = self.taken.lock();
            while *taken + bytes > MAX_PARSED_BYTES {
                self.less.wait(&mut taken);
            }
            *taken += bytes;
        }
        ObjectRoom { of: self, bytes }
    }
}

impl Drop for ObjectRoom {
    fn drop(&mut self) {
        if self.bytes > 0 {
            *self.of.taken.lock() -= self.bytes;
            self.of.less.notify_all();
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

    static ROOMS: ObjectRooms = ObjectRooms::new();

    #[test]
    fn large_objects_have_room_one_after_the_other() {
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let _room = ROOMS.wait(8 << 20);
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    thread::yield_now();
                    now.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        assert_eq!(most.load(Ordering::SeqCst), 1);
        let usual: Vec<_> = (0..40).map(|_| ROOMS.wait(10_000)).collect();
        assert!(*ROOMS.taken.lock() <= MAX_PARSED_BYTES);
        drop(usual);
        assert_eq!(*ROOMS.taken.lock(), 0);
    }
}

//! How many objects a unit has.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;

use super::ack_tracker::SelectionCounts;

/// Counts an object that was added or deleted for these selections.
pub fn count_selected(counts: &mut SelectionCounts, selections: &[&Arc<str>], added: bool) {
    if selections.is_empty() {
        return;
    }
    let counts = Arc::make_mut(counts);
    for selection in selections {
        let count = counts.entry(Arc::clone(selection)).or_default();
        *count = if added {
            *count + 1
        } else {
            count.saturating_sub(1)
        };
    }
}

/// The objects of a unit, and how many of them each selection has.
#[derive(Debug, Default)]
pub(super) struct ObjectCounts {
    all: AtomicU64,
    selected: Mutex<SelectionCounts>,
    skipped: AtomicU64,
}

impl ObjectCounts {
    pub(super) fn all(&self) -> u64 {
        self.all.load(Ordering::Relaxed)
    }

    pub(super) fn selected(&self) -> SelectionCounts {
        Arc::clone(&self.selected.lock())
    }

    /// Objects that cannot be identified.
    pub(super) fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, all: u64, selected: SelectionCounts) {
        self.all.store(all, Ordering::Relaxed);
        *self.selected.lock() = selected;
    }

    /// Counts an object that was added or deleted.
    pub(super) fn added(&self, added: bool, selections: &[&Arc<str>]) {
        if !selections.is_empty() {
            let mut selected = self.selected.lock();
            count_selected(&mut selected, selections, added);
        }
        let update = |count: u64| {
            if added {
                count + 1
            } else {
                count.saturating_sub(1)
            }
        };
        self.all
            .update(Ordering::Relaxed, Ordering::Relaxed, update);
    }

    /// Counts an object that cannot be identified.
    pub(super) fn skip(&self) {
        self.skipped.fetch_add(1, Ordering::Relaxed);
    }

    /// Sets how many objects of a list cannot be identified. Returns whether that differs.
    pub(super) fn set_skipped(&self, count: u64) -> bool {
        self.skipped.swap(count, Ordering::Relaxed) != count
    }
}

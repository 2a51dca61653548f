//! The documents that a stream deletes while a pass reads.
//!
//! All pages of a list show the state of its first page, and a pass may wait for minutes between
//! two of them. An object on a page may have been deleted meanwhile, and its document with it:
//! nothing would delete a document that an answer brings back.

use ahash::AHashSet;
use parking_lot::Mutex;

/// Deletions that are remembered: some 10 MB of ids. A pass during which there are more begins
/// again.
pub(super) const MAX_DELETIONS: usize = 100_000;

/// The ids of the documents that the stream has deleted since the pass under way requested its
/// first page. `None`: no pass is under way, or not every deletion is known, so that the pass has
/// to begin again.
#[derive(Debug, Default)]
pub(super) struct DeletionRecord(Mutex<Option<AHashSet<Box<str>>>>);

impl DeletionRecord {
    /// Begins an empty record.
    pub(super) fn begin(&self) {
        *self.0.lock() = Some(AHashSet::new());
    }

    /// Ends the record, and with it the pass that it is of.
    pub(super) fn end(&self) {
        *self.0.lock() = None;
    }

    /// Adds a document that is to be deleted. Ends a record that is full.
    pub(super) fn add(&self, id: &str) {
        let mut record = self.0.lock();
        let Some(deleted) = record.as_mut() else {
            return;
        };
        if deleted.len() < MAX_DELETIONS {
            deleted.insert(id.into());
        } else {
            *record = None;
            tracing::debug!(
                deletions = MAX_DELETIONS,
                "a pass begins again: too many objects were deleted since it began"
            );
        }
    }

    /// Whether it has every deletion since it was begun.
    pub(super) fn is_complete(&self) -> bool {
        self.0.lock().is_some()
    }

    /// Whether the stream has deleted this document.
    pub(super) fn contains(&self, id: &str) -> bool {
        let record = self.0.lock();
        record.as_ref().is_some_and(|deleted| deleted.contains(id))
    }
}

/// Ends a record when its pass ends, however that ends.
pub(super) struct RecordGuard<'r>(pub(super) &'r DeletionRecord);

impl Drop for RecordGuard<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

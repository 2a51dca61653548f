//! The state of a list in progress.

use crate::progress::SelectionCounts;
use crate::relist::StoredDocuments;

/// A list in progress.
#[derive(Default)]
pub(super) struct Listing {
    /// The documents that were stored when it began.
    pub(super) stored: StoredDocuments,
    /// Selected objects that it has shown.
    pub(super) objects: u64,
    /// How many of them each selection has; those without any are absent.
    pub(super) selected: SelectionCounts,
    /// Objects that it has shown and that cannot be identified.
    pub(super) unidentified: u64,
}

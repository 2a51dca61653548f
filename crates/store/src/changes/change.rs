//! A change of one object, and the changes of one step.

use std::sync::Arc;

use crate::document::StoredDocument;

/// A change of one object.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) before: Option<Arc<StoredDocument>>,
    pub(crate) after: Option<Arc<StoredDocument>>,
}

impl Change {
    /// The newest state of the object, before its deletion if it was deleted.
    pub(crate) fn document(&self) -> Option<&Arc<StoredDocument>> {
        self.after.as_ref().or(self.before.as_ref())
    }
}

/// Changes that were added in one step.
pub(super) struct Batch {
    /// Sequence number of the first change.
    pub(super) first: u64,
    pub(super) changes: Vec<Change>,
    /// Whether another replica made the changes.
    pub(super) is_replicated: bool,
    /// Bytes of their documents.
    pub(super) bytes: usize,
}

impl Batch {
    pub(super) fn last(&self) -> u64 {
        self.first + self.changes.len() as u64 - 1
    }
}

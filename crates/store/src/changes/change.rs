//! A change of one object, and those that were made in one step.

use std::sync::Arc;

use crate::document::Document;

/// A change of one object.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) before: Option<Arc<Document>>,
    pub(crate) after: Option<Arc<Document>>,
}

impl Change {
    /// The object, whether it is there or was.
    pub(crate) fn document(&self) -> Option<&Arc<Document>> {
        self.after.as_ref().or(self.before.as_ref())
    }
}

/// Changes that were made in one step.
pub(super) struct Batch {
    /// Number of the first.
    pub(super) first: u64,
    pub(super) changes: Vec<Change>,
    /// Whether another replica has made them.
    pub(super) is_foreign: bool,
    /// Bytes of the documents in them.
    pub(super) bytes: usize,
}

impl Batch {
    pub(super) fn last(&self) -> u64 {
        self.first + self.changes.len() as u64 - 1
    }
}

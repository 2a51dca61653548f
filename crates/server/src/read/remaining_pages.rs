//! The pages of a list that have not been read yet.

use fleetdex_core::query::Cursor;
use fleetdex_store::merged::Merged;

/// The cursor of the next page of a list. Dropping it closes the snapshot that it reads from,
/// unless the client has a continue token: a list that is cancelled, cut short or abandoned keeps
/// nothing open.
pub(super) struct RemainingPages {
    stores: Merged,
    cursor: Option<Cursor>,
}

impl RemainingPages {
    /// The remaining pages; none without a cursor.
    pub(super) fn new(stores: Merged, cursor: Option<Cursor>) -> Self {
        Self { stores, cursor }
    }

    /// For a list that is read to its end without a token: its snapshot is not superseded by other
    /// lists of the user.
    pub(super) fn pinned(self) -> Self {
        if let Some(cursor) = &self.cursor {
            self.stores.pin(cursor);
        }
        self
    }

    /// The cursor of the next page.
    pub(super) fn cursor(&self) -> Option<&Cursor> {
        self.cursor.as_ref()
    }

    /// Sets the cursor after a page was read; the stores close their snapshots after the last page.
    pub(super) fn advance(&mut self, next: Option<Cursor>) {
        self.cursor = next;
    }

    /// Leaves the remaining pages to the client, which has a continue token.
    pub(super) fn leave(&mut self) {
        self.cursor = None;
    }
}

impl Drop for RemainingPages {
    fn drop(&mut self) {
        if let Some(cursor) = &self.cursor {
            self.stores.release(cursor);
        }
    }
}

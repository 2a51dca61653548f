//! What of an answer has not been read yet.

use fleetdex_core::query::Cursor;
use fleetdex_store::merged::Merged;

/// Where the next page of an answer starts. The view that it is read from is closed when this is dropped, unless the client was told where it
/// is: a list that is cancelled, cut short or left alone keeps nothing open.
pub(super) struct Rest {
    stores: Merged,
    cursor: Option<Cursor>,
}

impl Rest {
    /// The rest of an answer, if there is any.
    pub(super) fn new(stores: Merged, cursor: Option<Cursor>) -> Self {
        Self { stores, cursor }
    }

    /// The same for an answer that is read to its end without a token: its view does not end for other lists of its user.
    pub(super) fn pinned(self) -> Self {
        if let Some(cursor) = &self.cursor {
            self.stores.pin(cursor);
        }
        self
    }

    /// Where it starts.
    pub(super) fn cursor(&self) -> Option<&Cursor> {
        self.cursor.as_ref()
    }

    /// Says where it starts after a further page was read; the stores have closed their views after the last one.
    pub(super) fn advance(&mut self, next: Option<Cursor>) {
        self.cursor = next;
    }

    /// Leaves the rest to the client, who has the whole answer.
    pub(super) fn leave(&mut self) {
        self.cursor = None;
    }
}

impl Drop for Rest {
    fn drop(&mut self) {
        if let Some(cursor) = &self.cursor {
            self.stores.release(cursor);
        }
    }
}

//! Packs documents again when there is a better dictionary: a few with each write, so that no write
//! takes long, and nothing is locked meanwhile but the document itself.

use super::MemoryState;
use crate::compressed::{Compressor, Decompressor};

/// Documents to pack again for each that is written. Each dictionary follows after twice as many
/// documents as the one before, so all documents are packed with the newest one long before the
/// next.
const FOR_EACH_WRITE: usize = 4;

impl MemoryState {
    /// Continues packing again, after this many writes.
    pub(super) fn compress_again(&self, writes: usize, compressor: &mut Compressor) {
        let Some(mut repacking) = self.codec.take_repacking() else {
            return;
        };
        let documents = self.read().next_documents(
            &repacking.resource,
            &mut repacking.position,
            writes * FOR_EACH_WRITE,
        );
        if documents.is_empty() {
            return;
        }
        let mut decompressor = Decompressor::new();
        for document in documents {
            if let Err(error) =
                document.compress_again(&repacking.dictionary, compressor, &mut decompressor)
            {
                tracing::debug!(id = %document.id(), %error, "cannot pack a document again; it stays packed as it was");
            }
        }
        self.codec.put_back(repacking);
    }
}

//! Packs documents again when there is a better dictionary: a few with each write, so that no write takes long, and nothing is locked
//! meanwhile but the document itself.

use super::Shared;
use crate::packed::{Packer, Unpacker};

/// Documents packed again for each that is written. Dictionaries come after twice as many documents each: that all are packed with the newest
/// one is long before the next.
const FOR_EACH_WRITE: usize = 4;

impl Shared {
    /// Goes on with packing again, after so many writes.
    pub(super) fn pack_again(&self, writes: usize, packer: &mut Packer) {
        let Some(mut repacking) = self.codec.take_repacking() else {
            return;
        };
        let documents = self.read().next_documents(
            &repacking.resource,
            &mut repacking.walk,
            writes * FOR_EACH_WRITE,
        );
        if documents.is_empty() {
            return;
        }
        let mut unpacker = Unpacker::new();
        for document in documents {
            if let Err(error) = document.pack_again(&repacking.dictionary, packer, &mut unpacker) {
                tracing::debug!(id = %document.id(), %error, "a document stays as it was packed");
            }
        }
        self.codec.put_back(repacking);
    }
}

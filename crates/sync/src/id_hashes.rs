//! Ids in 16 bytes.

use ahash::RandomState;

/// Ids as hashes of 128 bits: a document costs 32 bytes in a map from these to versions, whatever its id.
#[derive(Clone, Debug)]
pub struct IdHashes([RandomState; 2]);

impl Default for IdHashes {
    fn default() -> Self {
        // Fixed seeds would let objects be named so that their hashes are equal.
        Self([RandomState::new(), RandomState::new()])
    }
}

impl IdHashes {
    /// The hash of an id; another one in every `IdHashes` that is no clone.
    pub fn of(&self, id: &str) -> u128 {
        let [high, low] = &self.0;
        u128::from(high.hash_one(id)) << 64 | u128::from(low.hash_one(id))
    }
}

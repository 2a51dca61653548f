//! Which documents of a unit are fallback documents.

use std::{collections::BTreeSet, sync::Arc};

use ahash::AHashSet;

use crate::id_hashes::IdHashes;

/// Fallback documents that a unit counts. Each takes 16 bytes and some room in a table, 300 KiB for all of them; a member can make as many as it has
/// objects.
pub const MOST_REJECTED: u64 = 10_000;
/// Ids that are kept whole, of at most 512 bytes: one is shown, the others take its place when its document is mended.
const EXAMPLES: usize = 5;

/// The fallback documents of a unit: how many, up to [`MOST_REJECTED`], and some of their ids.
#[derive(Debug, Default)]
pub(super) struct Rejected {
    ids: IdHashes,
    known: AHashSet<u128>,
    examples: BTreeSet<Arc<str>>,
}

impl Rejected {
    /// Counts a document. Returns whether that made a difference.
    pub(super) fn add(&mut self, id: &Arc<str>) -> bool {
        if self.count() == MOST_REJECTED || !self.known.insert(self.ids.of(id)) {
            return false;
        }
        if self.examples.len() < EXAMPLES {
            self.examples.insert(Arc::clone(id));
        }
        true
    }

    /// Counts a document no more. Returns whether that made a difference.
    pub(super) fn remove(&mut self, id: &str) -> bool {
        if self.known.is_empty() || !self.known.remove(&self.ids.of(id)) {
            return false;
        }
        self.examples.remove(id);
        true
    }

    /// How many are counted.
    pub(super) fn count(&self) -> u64 {
        self.known.len() as u64
    }

    /// One of them, unless all that were kept whole are counted no more.
    pub(super) fn example(&self) -> Option<Arc<str>> {
        self.examples.first().cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_counted_once_and_no_further_than_there_is_room() {
        let mut rejected = Rejected::default();
        let ids: Vec<Arc<str>> = (0..=MOST_REJECTED)
            .map(|number| format!("v1/Pod/{number}").into())
            .collect();
        assert!(rejected.add(&ids[7]) && !rejected.add(&ids[7]));
        assert_eq!(
            (rejected.count(), rejected.example()),
            (1, Some(Arc::clone(&ids[7])))
        );
        assert!(!rejected.remove(&ids[8]) && rejected.remove(&ids[7]) && !rejected.remove(&ids[7]));
        assert_eq!((rejected.count(), rejected.example()), (0, None));
        for id in &ids {
            rejected.add(id);
        }
        assert_eq!(
            (rejected.count(), rejected.examples.len()),
            (MOST_REJECTED, EXAMPLES)
        );
    }
}

//! Counts the fallback documents of a unit.

use std::{collections::BTreeSet, sync::Arc};

use ahash::AHashSet;
use fleetdex_core::model::IdHash;

/// The most fallback documents that a unit counts. Each takes 16 bytes and some room in a table,
/// 300 KiB for all of them; a member can cause as many as it has objects.
pub const MAX_REJECTED: u64 = 10_000;
/// Ids of at most 512 bytes that are retained: one is shown, the others replace it when its
/// document is whole again.
const EXAMPLES: usize = 5;

/// The fallback documents of a unit: how many, up to [`MAX_REJECTED`], and some of their ids.
#[derive(Debug, Default)]
pub(super) struct RejectedDocuments {
    hashes: AHashSet<IdHash>,
    examples: BTreeSet<Arc<str>>,
}

impl RejectedDocuments {
    /// Counts a document. Returns whether the count changed.
    pub(super) fn add(&mut self, id: &Arc<str>) -> bool {
        if self.count() == MAX_REJECTED || !self.hashes.insert(IdHash::new(id)) {
            return false;
        }
        if self.examples.len() < EXAMPLES {
            self.examples.insert(Arc::clone(id));
        }
        true
    }

    /// Removes a document from the count. Returns whether the count changed.
    pub(super) fn remove(&mut self, id: &str) -> bool {
        if self.hashes.is_empty() || !self.hashes.remove(&IdHash::new(id)) {
            return false;
        }
        self.examples.remove(id);
        true
    }

    /// How many are counted.
    pub(super) fn count(&self) -> u64 {
        self.hashes.len() as u64
    }

    /// One of the documents, unless all retained ids were removed.
    pub(super) fn example(&self) -> Option<Arc<str>> {
        self.examples.first().cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_counted_once_and_up_to_the_limit() {
        let mut rejected = RejectedDocuments::default();
        let ids: Vec<Arc<str>> = (0..=MAX_REJECTED)
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
            (MAX_REJECTED, EXAMPLES)
        );
    }
}

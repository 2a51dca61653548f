//! What is stored against what a list shows: what to write, what to delete, and whether the member's history went back.

use ahash::{AHashMap, RandomState};

use crate::model::Version;

/// What is to be done about an object of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// It is not stored, or in an older version: write it.
    Write,
    /// It is stored as it is: nothing to do.
    Same,
    /// A later version of it is stored than a later list shows. That cannot be, unless the member's etcd was restored.
    WentBack,
}

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

/// The documents that a unit had before a list, by id. What is left at the end of the list is no longer there.
#[derive(Debug, Default)]
pub struct Known {
    versions: AHashMap<u128, Version>,
    ids: IdHashes,
}

impl Known {
    /// A document was stored when the list was about to begin.
    pub fn add(&mut self, id: &str, version: Version) {
        let key = self.ids.of(id);
        self.versions.insert(key, version);
    }

    /// The list shows an object that is wanted.
    pub fn listed(&mut self, id: &str, version: Version) -> Listed {
        let key = self.ids.of(id);
        match self.versions.remove(&key) {
            Some(stored) if stored == version => Listed::Same,
            Some(stored) if stored > version => Listed::WentBack,
            _ => Listed::Write,
        }
    }

    /// The list shows an object that is not wanted: the version of its document, if it has one.
    pub fn unwanted(&mut self, id: &str) -> Option<Version> {
        let key = self.ids.of(id);
        self.versions.remove(&key)
    }

    /// Whether a document of this version was stored and has not been listed.
    pub fn is_absent(&self, id: &str, version: Version) -> bool {
        self.versions.get(&self.ids.of(id)) == Some(&version)
    }

    /// Documents that have not been listed.
    pub fn absent(&self) -> usize {
        self.versions.len()
    }

    /// The latest version of a document that has not been listed.
    pub fn latest_absent(&self) -> Option<Version> {
        self.versions.values().max().copied()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn version(number: u64) -> Version {
        number.to_string().parse().unwrap()
    }

    #[test]
    fn a_stored_version_above_the_listed_one_means_that_history_went_back() {
        let mut known = Known::default();
        known.add("a", version(9));
        known.add("b", version(12));
        assert_eq!(known.listed("a", version(5)), Listed::WentBack);
        assert_eq!(known.latest_absent(), Some(version(12)));
    }

    proptest! {
        #[test]
        fn what_is_done_makes_the_stored_documents_those_of_the_list(
            stored in prop::collection::btree_map("[a-e]{1,2}", 1_u64..20, 0..20),
            listed in prop::collection::btree_map("[a-e]{1,2}", 20_u64..40, 0..20),
            kept in prop::collection::vec(any::<bool>(), 20),
        ) {
            // Some of the listed objects are those that are stored already.
            let listed: BTreeMap<String, u64> = listed
                .into_iter()
                .zip(kept)
                .map(|((id, number), keep)| { let same = stored.get(&id).filter(|_| keep).copied(); (id, same.unwrap_or(number)) })
                .collect();
            let mut known = Known::default();
            for (id, number) in &stored {
                known.add(id, version(*number));
            }
            let mut result = stored.clone();
            let mut written = 0;
            for (id, number) in &listed {
                if known.listed(id, version(*number)) == Listed::Write {
                    result.insert(id.clone(), *number);
                    written += 1;
                }
            }
            let absent = stored.iter().filter(|(id, number)| known.is_absent(id, version(**number)));
            let absent: Vec<String> = absent.map(|(id, _)| id.clone()).collect();
            prop_assert_eq!(absent.len(), known.absent());
            for id in absent {
                result.remove(&id);
            }
            let changed = listed.iter().filter(|(id, number)| stored.get(*id) != Some(number)).count();
            prop_assert_eq!(result, listed);
            prop_assert_eq!(written, changed);
        }
    }
}

//! What is stored against what a list shows: what to write, what to delete, and whether the member's history went back.

use std::sync::Arc;

use ahash::{AHashMap, AHashSet};
use fleetdex_core::model::{NameHash, Version, uuid};

/// What is to be done about an object of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// It is not stored: write it, after what was stored under its name is deleted.
    New,
    /// It is stored in an older version: write it.
    Write,
    /// It is stored as it is: nothing to do.
    Same,
    /// A later version of it is stored than a later list shows. That cannot be, unless the member's etcd was restored.
    WentBack,
}

/// The id of a document. Almost always it follows from 16 bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Id {
    /// It is the prefix of the unit's ids and this UUID.
    Uuid([u8; 16]),
    Whole(Box<str>),
}

/// The documents that a unit had before a list. What is left at the end of the list is no longer there. Each takes some 80 bytes.
#[derive(Debug, Default)]
pub struct Known {
    /// What the unit's ids begin with.
    prefix: Box<str>,
    /// Those that have not been listed.
    versions: AHashMap<Id, Version>,
    /// All, in the order in which they came.
    documents: Vec<(Id, Option<NameHash>)>,
    /// Positions in that by names, once somebody has asked.
    by_name: Option<Vec<u32>>,
    /// Names of which no document is left.
    looked_up: AHashSet<NameHash>,
}

impl Known {
    /// Nothing is stored of a unit whose ids begin with `prefix`.
    pub fn new(prefix: &str) -> Self {
        Self {
            prefix: prefix.into(),
            ..Self::default()
        }
    }

    /// A document was stored when the list was about to begin. `name` is nothing where the store does not tell it.
    pub fn add(&mut self, id: &str, version: Version, name: Option<NameHash>) {
        let id = self.id(id);
        self.versions.insert(id.clone(), version);
        self.documents.push((id, name));
    }

    /// The list shows an object that is wanted.
    pub fn listed(&mut self, id: &str, version: Version) -> Listed {
        match self.versions.remove(&self.id(id)) {
            Some(stored) if stored == version => Listed::Same,
            Some(stored) if stored > version => Listed::WentBack,
            Some(_) => Listed::Write,
            None => Listed::New,
        }
    }

    /// The list shows an object that is not wanted: the version of its document, if it has one.
    pub fn unwanted(&mut self, id: &str) -> Option<Version> {
        self.versions.remove(&self.id(id))
    }

    /// Documents that have not been listed, and whose name a listed object has that is not stored: their objects are gone. They count as listed then.
    pub fn namesakes(&mut self, name: NameHash) -> Vec<(Arc<str>, Version)> {
        if self.versions.is_empty() || self.looked_up.contains(&name) {
            return Vec::new();
        }
        let documents = &self.documents;
        let name_of = |position: &u32| documents[*position as usize].1;
        let by_name = self.by_name.get_or_insert_with(|| {
            let mut positions: Vec<u32> = (0_u32..)
                .zip(documents)
                .map(|(position, _)| position)
                .collect();
            positions.sort_by_key(name_of);
            positions
        });
        let begin = by_name.partition_point(|position| name_of(position) < Some(name));
        let alike = by_name[begin..]
            .iter()
            .take_while(|position| name_of(position) == Some(name));
        let absent = alike
            .filter_map(|position| self.versions.remove_entry(&documents[*position as usize].0));
        let found: Vec<_> = absent
            .map(|(id, version)| (id.text(&self.prefix), version))
            .collect();
        if !found.is_empty() {
            self.looked_up.insert(name);
        }
        found
    }

    /// The latest version of a document that has not been listed.
    pub fn latest_absent(&self) -> Option<Version> {
        self.versions.values().max().copied()
    }

    /// The documents that have not been listed.
    pub fn into_absent(self) -> Vec<(Arc<str>, Version, Option<NameHash>)> {
        let Self {
            prefix,
            mut versions,
            documents,
            ..
        } = self;
        let absent = documents
            .into_iter()
            .filter_map(|(id, name)| Some((versions.remove(&id)?, id, name)));
        absent
            .map(|(version, id, name)| (id.text(&prefix), version, name))
            .collect()
    }

    fn id(&self, text: &str) -> Id {
        let uuid = text.strip_prefix(&*self.prefix).and_then(uuid::parse);
        uuid.map_or_else(|| Id::Whole(text.into()), Id::Uuid)
    }
}

impl Id {
    fn text(&self, prefix: &str) -> Arc<str> {
        match self {
            Self::Uuid(bytes) => format!("{prefix}{}", uuid::text(*bytes)).into(),
            Self::Whole(text) => Arc::from(&**text),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const PREFIX: &str = "v1/Pod/";

    fn version(number: u64) -> Version {
        number.to_string().parse().unwrap()
    }

    fn named(name: &str) -> NameHash {
        NameHash::new(PREFIX, "web", name)
    }

    #[test]
    fn a_stored_version_above_the_listed_one_means_that_history_went_back() {
        let mut known = Known::new(PREFIX);
        known.add("a", version(9), Some(named("a")));
        known.add("b", version(12), None);
        assert_eq!(known.listed("a", version(5)), Listed::WentBack);
        assert_eq!(known.latest_absent(), Some(version(12)));
    }

    #[test]
    fn documents_whose_name_another_object_has_now_are_told() {
        let uuid = "v1/Pod/6f1c2e4a-0b3d-4c5e-8f70-123456789abc";
        let mut known = Known::new(PREFIX);
        for (id, name) in [
            (uuid, "a"),
            ("v1/Pod/odd", "a"),
            ("v1/Pod/other", "b"),
            ("v1/Pod/listed", "a"),
        ] {
            known.add(id, version(3), Some(named(name)));
        }
        assert_eq!(known.listed("v1/Pod/listed", version(3)), Listed::Same);
        let mut found: Vec<String> = known
            .namesakes(named("a"))
            .into_iter()
            .map(|(id, _)| id.to_string())
            .collect();
        found.sort();
        assert_eq!(found, [uuid, "v1/Pod/odd"]);
        assert!(known.namesakes(named("a")).is_empty());
        assert!(
            known
                .into_absent()
                .into_iter()
                .map(|(id, ..)| id)
                .eq([Arc::from("v1/Pod/other")])
        );
    }

    proptest! {
        #[test]
        fn what_is_done_makes_the_stored_documents_those_of_the_list(
            stored in prop::collection::btree_map("[a-e]{1,2}", 1_u64..20, 0..20),
            listed in prop::collection::btree_map("[a-e]{1,2}", 20_u64..40, 0..20),
            kept in prop::collection::vec(any::<bool>(), 20),
        ) {
            // Some of the listed objects are those that are stored already. Ids that begin alike have one name; at most one of them is listed.
            let name = |id: &str| id[..1].to_owned();
            let mut names = std::collections::BTreeSet::new();
            let listed: BTreeMap<String, u64> = listed
                .into_iter()
                .filter(|(id, _)| names.insert(name(id)))
                .zip(kept)
                .map(|((id, number), keep)| { let same = stored.get(&id).filter(|_| keep).copied(); (id, same.unwrap_or(number)) })
                .collect();
            let mut known = Known::new(PREFIX);
            for (id, number) in &stored {
                known.add(id, version(*number), Some(named(&name(id))));
            }
            let mut result = stored.clone();
            let mut written = 0;
            for (id, number) in &listed {
                let outcome = known.listed(id, version(*number));
                if outcome == Listed::New {
                    for (other, _) in known.namesakes(named(&name(id))) {
                        result.remove(&*other);
                    }
                    prop_assert!(result.keys().all(|other| name(other) != name(id)));
                }
                if matches!(outcome, Listed::New | Listed::Write) {
                    result.insert(id.clone(), *number);
                    written += 1;
                }
            }
            for (id, stored_version, _) in known.into_absent() {
                prop_assert_eq!(Some(stored_version), stored.get(&*id).map(|number| version(*number)));
                result.remove(&*id);
            }
            let changed = listed.iter().filter(|(id, number)| stored.get(*id) != Some(number)).count();
            prop_assert_eq!(result, listed);
            prop_assert_eq!(written, changed);
        }
    }
}

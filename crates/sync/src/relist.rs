//! Compares the stored documents with a list: what to write, what to delete, and whether the
//! member's history went back.

use std::sync::Arc;

use ahash::{AHashMap, AHashSet};
use fleetdex_core::model::{NameHash, Version, uuid};

/// What to do about a listed object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListedAction {
    /// It is not stored: write it after the documents of its name are deleted.
    Create,
    /// It is stored in an older version: write it.
    Update,
    /// It is stored in this version: nothing to do.
    Unchanged,
    /// A later version is stored than a later list shows. That happens only when the member's etcd
    /// was restored.
    HistoryWentBack,
}

/// The id of a document. Almost every id takes 16 bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum DocumentId {
    /// The prefix of the unit's ids and this UUID.
    Uuid([u8; 16]),
    Whole(Box<str>),
}

/// The documents that were stored before a list. Those that the list does not show are gone from
/// the member. Each takes some 80 bytes.
#[derive(Debug, Default)]
pub struct StoredDocuments {
    /// The prefix of the unit's ids.
    prefix: Box<str>,
    /// The documents that were not listed yet.
    versions: AHashMap<DocumentId, Version>,
    /// All documents, in the order in which they were added.
    documents: Vec<(DocumentId, Option<NameHash>)>,
    /// Positions in `documents`, sorted by name; made when it is first used.
    by_name: Option<Vec<u32>>,
    /// Names whose unlisted documents were removed.
    names_removed: AHashSet<NameHash>,
}

impl StoredDocuments {
    /// No documents, of a unit whose ids begin with `prefix`.
    pub fn new(prefix: &str) -> Self {
        Self {
            prefix: prefix.into(),
            ..Self::default()
        }
    }

    /// Adds a document. `name` is `None` where the store does not return it.
    pub fn add(&mut self, id: &str, version: Version, name: Option<NameHash>) {
        let id = self.id(id);
        self.versions.insert(id.clone(), version);
        self.documents.push((id, name));
    }

    /// Compares a listed object that is selected with its document, which counts as listed then.
    pub fn listed(&mut self, id: &str, version: Version) -> ListedAction {
        match self.versions.remove(&self.id(id)) {
            Some(stored) if stored == version => ListedAction::Unchanged,
            Some(stored) if stored > version => ListedAction::HistoryWentBack,
            Some(_) => ListedAction::Update,
            None => ListedAction::Create,
        }
    }

    /// Removes the document of a listed object that is not selected. Returns its version.
    pub fn remove_unselected(&mut self, id: &str) -> Option<Version> {
        self.versions.remove(&self.id(id))
    }

    /// Removes and returns the unlisted documents whose name a listed object has that is not
    /// stored: their objects are gone.
    pub fn remove_namesakes(&mut self, name: NameHash) -> Vec<(Arc<str>, Version)> {
        if self.versions.is_empty() || self.names_removed.contains(&name) {
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
            self.names_removed.insert(name);
        }
        found
    }

    /// The latest version of an unlisted document.
    pub fn latest_unlisted(&self) -> Option<Version> {
        self.versions.values().max().copied()
    }

    /// The unlisted documents.
    pub fn into_unlisted(self) -> Vec<(Arc<str>, Version, Option<NameHash>)> {
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

    fn id(&self, text: &str) -> DocumentId {
        let uuid = text.strip_prefix(&*self.prefix).and_then(uuid::parse);
        uuid.map_or_else(|| DocumentId::Whole(text.into()), DocumentId::Uuid)
    }
}

impl DocumentId {
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
        let mut known = StoredDocuments::new(PREFIX);
        known.add("a", version(9), Some(named("a")));
        known.add("b", version(12), None);
        assert_eq!(known.listed("a", version(5)), ListedAction::HistoryWentBack);
        assert_eq!(known.latest_unlisted(), Some(version(12)));
    }

    #[test]
    fn documents_whose_name_another_object_has_are_removed() {
        let uuid = "v1/Pod/6f1c2e4a-0b3d-4c5e-8f70-123456789abc";
        let mut known = StoredDocuments::new(PREFIX);
        for (id, name) in [
            (uuid, "a"),
            ("v1/Pod/odd", "a"),
            ("v1/Pod/other", "b"),
            ("v1/Pod/listed", "a"),
        ] {
            known.add(id, version(3), Some(named(name)));
        }
        assert_eq!(
            known.listed("v1/Pod/listed", version(3)),
            ListedAction::Unchanged
        );
        let mut found: Vec<String> = known
            .remove_namesakes(named("a"))
            .into_iter()
            .map(|(id, _)| id.to_string())
            .collect();
        found.sort();
        assert_eq!(found, [uuid, "v1/Pod/odd"]);
        assert!(known.remove_namesakes(named("a")).is_empty());
        assert!(
            known
                .into_unlisted()
                .into_iter()
                .map(|(id, ..)| id)
                .eq([Arc::from("v1/Pod/other")])
        );
    }

    proptest! {
        #[test]
        fn the_actions_make_the_stored_documents_equal_to_the_list(
            stored in prop::collection::btree_map("[a-e]{1,2}", 1_u64..20, 0..20),
            listed in prop::collection::btree_map("[a-e]{1,2}", 20_u64..40, 0..20),
            kept in prop::collection::vec(any::<bool>(), 20),
        ) {
            // Some of the listed objects are those that are stored already. Ids that begin alike
            // have one name; at most one of them is listed.
            let name = |id: &str| id[..1].to_owned();
            let mut names = std::collections::BTreeSet::new();
            let listed: BTreeMap<String, u64> = listed
                .into_iter()
                .filter(|(id, _)| names.insert(name(id)))
                .zip(kept)
                .map(|((id, number), keep)| { let same = stored.get(&id).filter(|_| keep).copied(); (id, same.unwrap_or(number)) })
                .collect();
            let mut known = StoredDocuments::new(PREFIX);
            for (id, number) in &stored {
                known.add(id, version(*number), Some(named(&name(id))));
            }
            let mut result = stored.clone();
            let mut written = 0;
            for (id, number) in &listed {
                let outcome = known.listed(id, version(*number));
                if outcome == ListedAction::Create {
                    for (other, _) in known.remove_namesakes(named(&name(id))) {
                        result.remove(&*other);
                    }
                    prop_assert!(result.keys().all(|other| name(other) != name(id)));
                }
                if matches!(outcome, ListedAction::Create | ListedAction::Update) {
                    result.insert(id.clone(), *number);
                    written += 1;
                }
            }
            for (id, stored_version, _) in known.into_unlisted() {
                prop_assert_eq!(Some(stored_version), stored.get(&*id).map(|number| version(*number)));
                result.remove(&*id);
            }
            let changed = listed.iter().filter(|(id, number)| stored.get(*id) != Some(number)).count();
            prop_assert_eq!(result, listed);
            prop_assert_eq!(written, changed);
        }
    }
}

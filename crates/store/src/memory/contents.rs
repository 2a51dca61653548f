//! The documents of one revision of one cluster, with the version order of OpenSearch
//! (`external_gte`).

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use ahash::{AHashMap, RandomState};
use fleetdex_core::{model::Version, query::ResourceName};
use hashbrown::HashTable;
use tokio::time::Instant;

use super::{
    order::{Chunk, entries},
    table::DocumentTable,
};
use crate::{
    bulk::Verdict,
    changes::Change,
    compressed_document::CompressedDocument,
    document::{Origin, StoredDocument},
};

/// How long a deletion is remembered, as the OpenSearch indices remember it (`index.gc_deletes`).
const TOMBSTONE_AGE: Duration = Duration::from_mins(15);
/// How many deletions are remembered at most, some 100 bytes each. A write that was in flight while
/// this many deletions were made is corrected by the next audit.
const TOMBSTONES: usize = 65_536;

/// Where a document is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Address {
    table: u32,
    position: u32,
}

#[derive(Default)]
pub(super) struct Contents {
    tables: Vec<DocumentTable>,
    by_resource: BTreeMap<ResourceName, u32>,
    origins: AHashMap<Box<str>, Arc<Origin>>,
    ids: HashTable<Address>,
    hasher: RandomState,
    tombstones: Tombstones,
}

impl Contents {
    /// Stores a document unless a newer version of it is, or was, stored.
    pub(super) fn index(
        &mut self,
        id: &str,
        compressed: CompressedDocument,
    ) -> (Verdict, Option<Change>) {
        let version = compressed.content.version;
        let found = self.find(id);
        let before = found.and_then(|address| self.at(address)).cloned();
        let newest = before
            .as_ref()
            .map(|document| document.version)
            .or_else(|| self.tombstones.get(id));
        if newest.is_some_and(|newest| newest > version) {
            return (Verdict::Superseded, None);
        }
        // A replay: no change, and usually nothing to do.
        let replayed = before
            .as_ref()
            .filter(|before| before.equals(version, compressed.content.fingerprint));
        let is_replay = replayed.is_some();
        if replayed.is_some_and(|before| before.terms().eq(compressed.content.terms.numbers())) {
            return (Verdict::Indexed, None);
        }
        if let Some(address) = found {
            self.take(id, address);
        }
        self.tombstones.forget(id);
        let after = self.put(id, compressed);
        (
            Verdict::Indexed,
            (!is_replay).then_some(Change { before, after }),
        )
    }

    /// Deletes a document unless a newer version is stored. Remembers the deletion either way.
    pub(super) fn delete(&mut self, id: &Arc<str>, version: Version) -> (Verdict, Option<Change>) {
        let Some(address) = self.find(id) else {
            if self
                .tombstones
                .get(id)
                .is_some_and(|newest| newest > version)
            {
                return (Verdict::Superseded, None);
            }
            self.tombstones.put(id, version);
            return (Verdict::Absent, None);
        };
        if self
            .at(address)
            .is_some_and(|document| document.version > version)
        {
            return (Verdict::Superseded, None);
        }
        let before = self.take(id, address);
        self.tombstones.put(id, version);
        let after = None;
        (Verdict::Deleted, Some(Change { before, after }))
    }

    pub(super) fn tables(&self) -> impl Iterator<Item = &DocumentTable> {
        self.tables.iter()
    }

    pub(super) fn table(&self, resource: &ResourceName) -> Option<&DocumentTable> {
        self.tables.get(*self.by_resource.get(resource)? as usize)
    }

    /// Every document, frozen.
    pub(super) fn freeze(&self) -> Vec<Arc<Chunk>> {
        self.tables.iter().flat_map(DocumentTable::freeze).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The changes from other contents to these; deletions first, as another object may have the
    /// name now.
    pub(super) fn changes_since(&self, before: Option<&Self>) -> Vec<Change> {
        let mut changes = Vec::new();
        let chunks = before.map(Self::freeze).unwrap_or_default();
        for entry in entries(&chunks, None) {
            if self.find(&entry.document.id()).is_none() {
                changes.push(Change {
                    before: Some(Arc::clone(&entry.document)),
                    after: None,
                });
            }
        }
        for entry in entries(&self.freeze(), None) {
            let id = entry.document.id();
            let old = before
                .and_then(|before| before.at(before.find(&id)?))
                .cloned();
            let document = &entry.document;
            let is_other = old
                .as_ref()
                .is_none_or(|old| !old.equals(document.version, document.fingerprint));
            if is_other {
                changes.push(Change {
                    before: old,
                    after: Some(Arc::clone(&entry.document)),
                });
            }
        }
        changes
    }

    fn find(&self, id: &str) -> Option<Address> {
        let is_it = |address: &Address| self.at(*address).is_some_and(|document| document.is(id));
        self.ids.find(self.hasher.hash_one(id), is_it).copied()
    }

    fn at(&self, address: Address) -> Option<&Arc<StoredDocument>> {
        self.tables
            .get(address.table as usize)?
            .get(address.position)
    }

    fn put(&mut self, id: &str, compressed: CompressedDocument) -> Option<Arc<StoredDocument>> {
        let CompressedDocument { origin, content } = compressed;
        let origin = self.shared(origin);
        let table = match self.by_resource.get(&origin.resource) {
            Some(table) => *table,
            None => {
                let table = u32::try_from(self.tables.len()).ok()?;
                self.tables
                    .push(DocumentTable::new(Arc::clone(&origin.vocabulary)));
                self.by_resource.insert(origin.resource.clone(), table);
                table
            }
        };
        let position = self.tables[table as usize].insert(origin, content);
        let (tables, hasher) = (&self.tables, &self.hasher);
        let hash_of = |address: &Address| {
            let document = tables
                .get(address.table as usize)
                .and_then(|table| table.get(address.position));
            document.map_or(0, |document| hasher.hash_one(&*document.id()))
        };
        let address = Address { table, position };
        self.ids
            .insert_unique(hasher.hash_one(id), address, hash_of);
        self.at(address).cloned()
    }

    fn take(&mut self, id: &str, address: Address) -> Option<Arc<StoredDocument>> {
        let hash = self.hasher.hash_one(id);
        if let Ok(entry) = self.ids.find_entry(hash, |other| *other == address) {
            entry.remove();
        }
        self.tables
            .get_mut(address.table as usize)?
            .remove(address.position)
    }

    /// The shared copy of an origin.
    fn shared(&mut self, origin: Origin) -> Arc<Origin> {
        match self.origins.get(&origin.id_prefix) {
            Some(known) if **known == origin => Arc::clone(known),
            _ => {
                let origin = Arc::new(origin);
                self.origins
                    .insert(origin.id_prefix.clone(), Arc::clone(&origin));
                origin
            }
        }
    }
}

/// Deletions, so that a late older write does not bring an object back.
#[derive(Default)]
struct Tombstones {
    versions: AHashMap<Arc<str>, (Version, Instant)>,
    /// In the order of their times.
    ages: VecDeque<(Instant, Arc<str>)>,
}

impl Tombstones {
    fn get(&self, id: &str) -> Option<Version> {
        let (version, since) = self.versions.get(id)?;
        (since.elapsed() < TOMBSTONE_AGE).then_some(*version)
    }

    fn put(&mut self, id: &Arc<str>, version: Version) {
        let now = Instant::now();
        self.versions.insert(Arc::clone(id), (version, now));
        self.ages.push_back((now, Arc::clone(id)));
        while let Some((since, _)) = self.ages.front()
            && (self.ages.len() > TOMBSTONES || since.elapsed() >= TOMBSTONE_AGE)
        {
            let Some((since, id)) = self.ages.pop_front() else {
                return;
            };
            if self
                .versions
                .get(&id)
                .is_some_and(|(_, newest)| *newest == since)
            {
                self.versions.remove(&id);
            }
        }
    }

    fn forget(&mut self, id: &str) {
        self.versions.remove(id);
    }
}

//! The documents of one resource of one revision: by position, in order, by name, by term.

use std::sync::Arc;

use ahash::RandomState;
use fleetdex_core::{
    model::{ClusterName, DEPENDS_ON, MAX_FIELD_VALUE_BYTES},
    query::{Relation, RelativesQuery, Sort},
};
use hashbrown::HashTable;
use roaring::RoaringBitmap;

use super::{
    cancellation::Cancellation,
    order::{Chunk, Entry, Order, entries, sort},
    table_selection::TableSelection,
};
use crate::{
    StoreError,
    compressed::Decompressor,
    content::Content,
    document::{Origin, StoredDocument},
    postings::Postings,
    query_filter::{Filter, FilterCondition, Test},
    terms::{OWNER, TermDictionary},
    text_index::TextIndex,
};

/// The cost of fetching and sorting a document, relative to skipping one in the order.
const SORTING_COST: usize = 8;

pub(super) struct DocumentTable {
    documents: Vec<Option<Arc<StoredDocument>>>,
    /// Free positions.
    free: Vec<u32>,
    pub(super) used: RoaringBitmap,
    order: Order,
    names: HashTable<u32>,
    /// The names by position, for words.
    pub(super) names_text: TextIndex,
    /// When each document was created, by position: `StoredDocument::created`.
    created: Vec<u32>,
    pub(super) postings: Postings,
    pub(super) vocabulary: Arc<TermDictionary>,
    hasher: RandomState,
}

/// Selected documents of a table, frozen, in the standard order.
pub(super) struct SelectedDocuments {
    pub(super) chunks: Vec<Arc<Chunk>>,
    /// Only these positions; absent: all.
    pub(super) positions: Option<RoaringBitmap>,
    pub(super) count: usize,
}

impl SelectedDocuments {
    /// Keeps only documents whose objects match a filter, too. Call it while nothing is locked:
    /// each object is unpacked.
    pub(super) fn narrowed(
        self,
        filter: &Filter,
        cancellation: &Cancellation,
    ) -> Result<Self, StoreError> {
        if !filter.needs_object() {
            return Ok(self);
        }
        let mut decompressor = Decompressor::new();
        let mut chunk = Chunk::new();
        for entry in entries(&self.chunks, self.positions.as_ref()) {
            cancellation.check()?;
            if filter.matches_object(&entry.document, &mut decompressor) {
                chunk.push(entry.clone());
            }
        }
        Ok(Self::of(chunk))
    }

    fn of(chunk: Chunk) -> Self {
        let count = chunk.len();
        let chunk = Some(chunk).filter(|chunk| !chunk.is_empty());
        Self {
            chunks: chunk.map(Arc::new).into_iter().collect(),
            positions: None,
            count,
        }
    }
}

impl DocumentTable {
    /// An empty table.
    pub(super) fn new(vocabulary: Arc<TermDictionary>) -> Self {
        Self {
            documents: Vec::new(),
            free: Vec::new(),
            used: RoaringBitmap::new(),
            order: Order::default(),
            names: HashTable::new(),
            names_text: TextIndex::default(),
            created: Vec::new(),
            postings: Postings::default(),
            vocabulary,
            hasher: RandomState::default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.documents.len() - self.free.len()
    }

    pub(super) fn get(&self, position: u32) -> Option<&Arc<StoredDocument>> {
        self.documents.get(position as usize)?.as_ref()
    }

    /// Adds a document that is not stored yet; returns its position.
    pub(super) fn insert(&mut self, origin: Arc<Origin>, content: Content) -> u32 {
        let Some(position) = self
            .free
            .pop()
            .or_else(|| u32::try_from(self.documents.len()).ok())
        else {
            // Four billion objects of one kind in one cluster do not fit into any memory.
            return u32::MAX;
        };
        let document = StoredDocument::new(origin, content);
        self.postings
            .add(&self.vocabulary.read(), document.terms(), position);
        self.store(position, document);
        position
    }

    fn store(&mut self, position: u32, document: StoredDocument) {
        let document = Arc::new(document);
        let hash = self.hasher.hash_one(document.name());
        let (documents, hasher) = (&self.documents, &self.hasher);
        self.names.insert_unique(hash, position, |other| {
            hash_of_name(documents, hasher, *other)
        });
        self.used.insert(position);
        // Documents do not index longer names.
        if document.name().len() <= MAX_FIELD_VALUE_BYTES {
            self.names_text.insert(position, &[document.name()]);
        }
        self.order.insert(Entry {
            position,
            document: Arc::clone(&document),
        });
        let (slot, created) = (position as usize, document.created);
        if slot == self.documents.len() {
            self.documents.push(Some(document));
            self.created.push(created);
        } else {
            self.documents[slot] = Some(document);
            self.created[slot] = created;
        }
    }

    /// Removes a document.
    pub(super) fn remove(&mut self, position: u32) -> Option<Arc<StoredDocument>> {
        let document = Arc::clone(self.get(position)?);
        self.postings
            .remove(&self.vocabulary.read(), document.terms(), position);
        let hash = self.hasher.hash_one(document.name());
        if let Ok(entry) = self.names.find_entry(hash, |other| *other == position) {
            entry.remove();
        }
        self.used.remove(position);
        self.names_text.remove(position);
        self.order.remove(&document);
        self.documents[position as usize] = None;
        self.free.push(position);
        Some(document)
    }

    /// When the document at a position was created.
    pub(super) fn created(&self, position: u32) -> u32 {
        self.created
            .get(position as usize)
            .copied()
            .unwrap_or_default()
    }

    /// Every document, in order.
    pub(super) fn freeze(&self) -> Vec<Arc<Chunk>> {
        self.order.freeze()
    }

    /// The documents from a position on.
    pub(super) fn from(&self, position: u32) -> impl Iterator<Item = Entry> + '_ {
        let end = u32::try_from(self.documents.len()).unwrap_or(u32::MAX);
        (position..end).filter_map(|position| self.entry(position))
    }

    fn entry(&self, position: u32) -> Option<Entry> {
        let document = Arc::clone(self.get(position)?);
        Some(Entry { position, document })
    }

    /// The documents of this cluster that a relatives query selects by name or owner.
    pub(super) fn relatives(
        &self,
        query: &RelativesQuery,
        cluster: &ClusterName,
    ) -> Vec<&Arc<StoredDocument>> {
        let positions: RoaringBitmap = match &query.relation {
            Relation::Named { names, .. } => {
                names.iter().flat_map(|name| self.named(name)).collect()
            }
            Relation::OwnedBy(owners) => {
                let uids = owners.of_cluster(cluster);
                self.postings.with_value(
                    &self.vocabulary.read(),
                    OWNER,
                    uids.iter().map(String::as_str),
                )
            }
            Relation::DependsOn(terms) => self.postings.with_value(
                &self.vocabulary.read(),
                DEPENDS_ON,
                terms.iter().map(String::as_str),
            ),
        };
        let is_requested = |document: &&Arc<StoredDocument>| {
            let namespace = document.namespace();
            let of_kind = match &query.relation {
                Relation::Named {
                    resource: Some(resource),
                    ..
                } => document.origin.resource == *resource,
                _ => true,
            };
            let inside = query.namespaces.is_empty()
                || namespace.is_empty()
                || query
                    .namespaces
                    .iter()
                    .any(|name| name.as_str() == namespace);
            of_kind && inside && query.permitted.allows(cluster.as_str(), namespace)
        };
        positions
            .iter()
            .filter_map(|position| self.get(position))
            .filter(is_requested)
            .collect()
    }

    /// The documents that match a filter. `limit`: how many of them the first page shows.
    pub(super) fn select(&self, selection: &TableSelection<'_>, limit: usize) -> SelectedDocuments {
        let filter = selection.filter;
        if filter.conditions.is_empty() && filter.words().is_empty() {
            return SelectedDocuments {
                chunks: self.order.freeze(),
                positions: None,
                count: self.len(),
            };
        }
        let found = self.find(selection);
        let count = usize::try_from(found.len()).unwrap_or(usize::MAX);
        // Few documents are sorted by themselves; of many, the first are soon found in the order of
        // all.
        if count.saturating_mul(count) <= self.len().saturating_mul(limit) / SORTING_COST {
            return SelectedDocuments::of(self.ordered(&found));
        }
        SelectedDocuments {
            chunks: self.order.freeze(),
            positions: Some(found),
            count,
        }
    }

    fn ordered(&self, found: &RoaringBitmap) -> Chunk {
        let entry = |position| self.entry(position);
        let mut chunk: Chunk = found.iter().filter_map(entry).collect();
        sort(&mut chunk, &Sort::standard());
        chunk
    }

    /// The documents for which the conditions of a filter hold.
    pub(super) fn with_conditions(&self, filter: &Filter) -> RoaringBitmap {
        let mut found: Option<RoaringBitmap> = None;
        // Required conditions first: they leave less for the others.
        let (required, others): (Vec<&FilterCondition>, Vec<&FilterCondition>) = filter
            .conditions
            .iter()
            .partition(|condition| !condition.negated);
        for condition in required {
            let with = self.with(&condition.test);
            found = Some(found.map_or_else(|| with.clone(), |found| found & &with));
        }
        let mut found = found.unwrap_or_else(|| self.used.clone());
        for condition in others {
            let refused = self.with(&condition.test);
            let excepted = condition
                .or_else
                .as_ref()
                .map(|test| self.with(test))
                .unwrap_or_default();
            found -= refused - excepted;
        }
        found
    }

    fn with(&self, test: &Test) -> RoaringBitmap {
        match test {
            Test::Value { key, values } => self.postings.with_value(
                &self.vocabulary.read(),
                key,
                values.iter().map(String::as_str),
            ),
            Test::NotEmpty(key) if key == "metadata.name" => self.used.clone(),
            Test::Key(key)
            | Test::NotEmpty(key)
            | Test::IntegerAbove(key, _)
            | Test::IntegerBelow(key, _)
            | Test::Compares(key, ..) => {
                let accepts = |value: &str| test.accepts(value);
                self.postings
                    .with_value_that(&self.vocabulary.read(), key, accepts)
            }
            Test::Name(names) => names.iter().flat_map(|name| self.named(name)).collect(),
            Test::Created(since, before) => {
                let is_in = |position: &u32| {
                    self.get(*position)
                        .is_some_and(|document| document.is_created_in(*since, *before))
                };
                self.used.iter().filter(is_in).collect()
            }
            Test::Nothing => RoaringBitmap::new(),
        }
    }

    fn named<'t>(&'t self, name: &'t str) -> impl Iterator<Item = u32> + 't {
        let positions = self.names.iter_hash(self.hasher.hash_one(name)).copied();
        positions.filter(move |position| {
            self.get(*position)
                .is_some_and(|document| document.name() == name)
        })
    }
}

fn hash_of_name(
    documents: &[Option<Arc<StoredDocument>>],
    hasher: &RandomState,
    position: u32,
) -> u64 {
    let document = documents.get(position as usize).and_then(Option::as_ref);
    document.map_or(0, |document| hasher.hash_one(document.name()))
}

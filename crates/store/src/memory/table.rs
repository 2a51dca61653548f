//! The documents of one resource of one generation: by position, in order, by name, by term.

use std::sync::Arc;

use ahash::RandomState;
use fleetdex_core::{
    model::ClusterName,
    query::{Relation, Relatives},
};
use hashbrown::HashTable;
use roaring::RoaringBitmap;

use super::{
    asked::Asked,
    order::{Chunk, Entry, Order},
};
use crate::{
    StoreError,
    content::Content,
    document::{Document, Origin},
    filter::{Condition, Filter, Test, compares, is_over, is_under},
    packed::Unpacker,
    terms::{OWNER, Postings, Vocabulary},
};

/// How much longer it takes to find a document and put it in order than to pass one over in the order.
const SORTING_COST: usize = 8;

pub(super) struct Table {
    documents: Vec<Option<Arc<Document>>>,
    /// Positions that nothing has.
    free: Vec<u32>,
    used: RoaringBitmap,
    order: Order,
    names: HashTable<u32>,
    postings: Postings,
    vocabulary: Arc<Vocabulary>,
    hasher: RandomState,
}

/// Documents of a table, as they are now, in the standard order.
pub(super) struct Selected {
    pub(super) chunks: Vec<Arc<Chunk>>,
    /// Only these positions; absent: all.
    pub(super) positions: Option<RoaringBitmap>,
    pub(super) count: usize,
}

impl Selected {
    /// Those for whose objects a filter holds, too. To be asked while nothing is locked: each object is unpacked.
    pub(super) fn narrowed(self, filter: &Filter, asked: &Asked) -> Result<Self, StoreError> {
        if !filter.asks_object() {
            return Ok(self);
        }
        let mut unpacker = Unpacker::new();
        let entries = self.chunks.iter().flat_map(|chunk| chunk.iter());
        let is_in = |entry: &&Entry| {
            self.positions
                .as_ref()
                .is_none_or(|positions| positions.contains(entry.position))
        };
        let mut chunk = Chunk::new();
        for entry in entries.filter(is_in) {
            asked.still()?;
            if filter.matches_object(&entry.document, &mut unpacker) {
                chunk.push(entry.clone());
            }
        }
        let count = chunk.len();
        Ok(Self {
            chunks: if chunk.is_empty() {
                Vec::new()
            } else {
                vec![Arc::new(chunk)]
            },
            positions: None,
            count,
        })
    }
}

impl Table {
    /// Without any document.
    pub(super) fn new(vocabulary: Arc<Vocabulary>) -> Self {
        Self {
            documents: Vec::new(),
            free: Vec::new(),
            used: RoaringBitmap::new(),
            order: Order::default(),
            names: HashTable::new(),
            postings: Postings::default(),
            vocabulary,
            hasher: RandomState::default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.documents.len() - self.free.len()
    }

    pub(super) fn get(&self, position: u32) -> Option<&Arc<Document>> {
        self.documents.get(position as usize)?.as_ref()
    }

    /// Adds a document that is not there.
    pub(super) fn insert(&mut self, origin: Arc<Origin>, content: Content) -> u32 {
        let Some(position) = self
            .free
            .pop()
            .or_else(|| u32::try_from(self.documents.len()).ok())
        else {
            // Four thousand million objects of one kind in one cluster do not fit into any memory.
            return u32::MAX;
        };
        let document = Document::new(origin, content);
        self.postings
            .add(&self.vocabulary.read(), document.terms(), position);
        self.place(position, document);
        position
    }

    fn place(&mut self, position: u32, document: Document) {
        let document = Arc::new(document);
        let hash = self.hasher.hash_one(document.name());
        let (documents, hasher) = (&self.documents, &self.hasher);
        self.names.insert_unique(hash, position, |other| {
            hash_of_name(documents, hasher, *other)
        });
        self.used.insert(position);
        self.order.insert(Entry {
            position,
            document: Arc::clone(&document),
        });
        let slot = position as usize;
        if slot == self.documents.len() {
            self.documents.push(Some(document));
        } else {
            self.documents[slot] = Some(document);
        }
    }

    /// Takes a document out.
    pub(super) fn remove(&mut self, position: u32) -> Option<Arc<Document>> {
        let document = Arc::clone(self.get(position)?);
        self.postings
            .remove(&self.vocabulary.read(), document.terms(), position);
        let hash = self.hasher.hash_one(document.name());
        if let Ok(entry) = self.names.find_entry(hash, |other| *other == position) {
            entry.remove();
        }
        self.used.remove(position);
        self.order.remove(&document);
        self.documents[position as usize] = None;
        self.free.push(position);
        Some(document)
    }

    /// Every document, in order.
    pub(super) fn freeze(&self) -> Vec<Arc<Chunk>> {
        self.order.freeze()
    }

    /// The documents from a position on.
    pub(super) fn from(&self, position: u32) -> impl Iterator<Item = Entry> + '_ {
        let end = u32::try_from(self.documents.len()).unwrap_or(u32::MAX);
        (position..end).filter_map(|position| {
            Some(Entry {
                position,
                document: Arc::clone(self.get(position)?),
            })
        })
    }

    /// The documents of this cluster that are asked for by names or owners.
    pub(super) fn relatives(
        &self,
        asked: &Relatives,
        cluster: &ClusterName,
    ) -> Vec<&Arc<Document>> {
        let positions: RoaringBitmap = match &asked.relation {
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
        };
        let is_asked = |document: &&Arc<Document>| {
            let namespace = document.namespace();
            let of_kind = match &asked.relation {
                Relation::Named {
                    resource: Some(resource),
                    ..
                } => document.origin.resource == *resource,
                _ => true,
            };
            let inside = asked.namespaces.is_empty()
                || namespace.is_empty()
                || asked
                    .namespaces
                    .iter()
                    .any(|name| name.as_str() == namespace);
            of_kind && inside && asked.permitted.allows(cluster.as_str(), namespace)
        };
        positions
            .iter()
            .filter_map(|position| self.get(position))
            .filter(is_asked)
            .collect()
    }

    /// The documents for which a filter holds. `limit`: how many of them are asked for first.
    pub(super) fn select(&self, filter: &Filter, limit: usize) -> Selected {
        if filter.conditions().is_empty() {
            return Selected {
                chunks: self.order.freeze(),
                positions: None,
                count: self.len(),
            };
        }
        let found = self.find(filter);
        let count = usize::try_from(found.len()).unwrap_or(usize::MAX);
        // Few ones are put in order by themselves; of many ones the first are soon met in the order of all.
        if count.saturating_mul(count) <= self.len().saturating_mul(limit) / SORTING_COST {
            let chunk = self.ordered(&found);
            return Selected {
                chunks: if chunk.is_empty() {
                    Vec::new()
                } else {
                    vec![Arc::new(chunk)]
                },
                positions: None,
                count,
            };
        }
        Selected {
            chunks: self.order.freeze(),
            positions: Some(found),
            count,
        }
    }

    fn ordered(&self, found: &RoaringBitmap) -> Chunk {
        let entry = |position| {
            Some(Entry {
                position,
                document: Arc::clone(self.get(position)?),
            })
        };
        let mut chunk: Chunk = found.iter().filter_map(entry).collect();
        let standard = fleetdex_core::query::Sort::standard();
        chunk.sort_by(|left, right| {
            left.document
                .place()
                .compare(&right.document.place(), &standard)
        });
        chunk
    }

    fn find(&self, filter: &Filter) -> RoaringBitmap {
        let mut found: Option<RoaringBitmap> = None;
        // What is required first: it leaves less to go on with.
        let (required, others): (Vec<&Condition>, Vec<&Condition>) = filter
            .conditions()
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
        let with_value_that = |key: &str, holds: &dyn Fn(&str) -> bool| {
            self.postings
                .with_value_that(&self.vocabulary.read(), key, holds)
        };
        match test {
            Test::Value { key, values } => self.postings.with_value(
                &self.vocabulary.read(),
                key,
                values.iter().map(String::as_str),
            ),
            Test::Key(key) => with_value_that(key, &|_| true),
            Test::NotEmpty(key) if key == "metadata.name" => self.used.clone(),
            Test::NotEmpty(key) => with_value_that(key, &|value| !value.is_empty()),
            Test::Over(key, bound) => with_value_that(key, &|value| is_over(value, *bound)),
            Test::Under(key, bound) => with_value_that(key, &|value| is_under(value, *bound)),
            Test::Name(names) => names.iter().flat_map(|name| self.named(name)).collect(),
            Test::Compares(key, comparison, bound) => {
                with_value_that(key, &|value| compares(value, *comparison, *bound))
            }
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

fn hash_of_name(documents: &[Option<Arc<Document>>], hasher: &RandomState, position: u32) -> u64 {
    let document = documents.get(position as usize).and_then(Option::as_ref);
    document.map_or(0, |document| hasher.hash_one(document.name()))
}

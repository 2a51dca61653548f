//! What the watches of a log share: an index of the newest changes by term, and the unpacked
//! objects.
//!
//! A thousand watches, each of a small part of the changes, look up their part instead of reading
//! every change; and an object that several of them send is unpacked once.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use ahash::RandomState;
use fleetdex_core::query::ResourceName;
use parking_lot::Mutex;

use super::{Change, EventObject, change::Batch};
use crate::{
    document::StoredDocument,
    query_filter::{Filter, Test},
    terms::NAME,
};

/// Changes to index; some 50 terms each, in 16 bytes.
const INDEXED: usize = 2_048;
/// Bytes of unpacked objects to hold: several watches send the same object at about the same time.
const SHOWN_BYTES: usize = 1 << 20;

/// Index and unpacked objects of the newest changes of a log.
#[derive(Default)]
pub(super) struct RecentChanges {
    hasher: RandomState,
    state: Mutex<RecentState>,
}

#[derive(Default)]
struct RecentState {
    /// By the number of the first change, in ascending order.
    indices: VecDeque<(u64, Arc<TermIndex>)>,
    /// Changes in them.
    indexed: usize,
    /// By the number of the change, and whether it is the state before it.
    objects: BTreeMap<(u64, bool), Arc<EventObject>>,
    bytes: usize,
}

/// The positions of a batch's changes by the terms of their objects, before or after: pairs of term
/// hash and position, in ascending order. Two terms of one hash only cause extra reads.
struct TermIndex {
    entries: Vec<(u64, u32)>,
    /// How many changes are indexed.
    changes: usize,
}

impl RecentChanges {
    /// The term hashes by which changes are found that may concern a filter; each such change has
    /// one of them.
    pub(super) fn term_hashes(&self, resource: &ResourceName, filter: &Filter) -> Vec<u64> {
        let required = filter
            .conditions
            .iter()
            .filter(|condition| !condition.negated && condition.or_else.is_none());
        let values = required.filter_map(|condition| match &condition.test {
            Test::Value { key, values } => Some((key.as_str(), values)),
            Test::Name(names) => Some((NAME, names)),
            _ => None,
        });
        match values.min_by_key(|(_, values)| values.len()) {
            Some((key, values)) => values
                .iter()
                .map(|value| self.hash(resource, key, value))
                .collect(),
            None => vec![self.hash(resource, "", "")],
        }
    }

    fn hash(&self, resource: &ResourceName, key: &str, value: &str) -> u64 {
        self.hasher.hash_one((resource, key, value))
    }

    /// The positions of changes that have one of these hashes, in ascending order; `None` if every
    /// change has to be read.
    pub(super) fn positions(&self, batch: &Batch, term_hashes: &[u64]) -> Option<Vec<u32>> {
        if term_hashes.len() > batch.changes.len() || batch.changes.len() > INDEXED {
            return None;
        }
        let index = self.index(batch)?;
        let mut positions: Vec<u32> = term_hashes
            .iter()
            .flat_map(|term_hash| index.with(*term_hash))
            .collect();
        if term_hashes.len() > 1 {
            positions.sort_unstable();
            positions.dedup();
        }
        Some(positions)
    }

    /// The index of a batch. Only the newest batches get one: a watch that is behind must not evict
    /// those of the others.
    fn index(&self, batch: &Batch) -> Option<Arc<TermIndex>> {
        {
            let state = self.state.lock();
            let found = state
                .indices
                .binary_search_by_key(&batch.first, |(first, _)| *first);
            if let Ok(found) = found {
                return state.indices.get(found).map(|(_, index)| Arc::clone(index));
            }
            if state
                .indices
                .back()
                .is_some_and(|(newest, _)| *newest > batch.first)
            {
                return None;
            }
        }
        let index = Arc::new(self.build(&batch.changes));
        let mut state = self.state.lock();
        // Another watch may have been faster.
        if state
            .indices
            .back()
            .is_none_or(|(newest, _)| *newest < batch.first)
        {
            state.indices.push_back((batch.first, Arc::clone(&index)));
            state.forget();
        }
        Some(index)
    }

    fn build(&self, changes: &[Change]) -> TermIndex {
        let mut entries = Vec::new();
        for (position, change) in (0_u32..).zip(changes) {
            for document in change.before.iter().chain(&change.after) {
                self.add(document, position, &mut entries);
            }
        }
        entries.sort_unstable();
        entries.dedup();
        TermIndex {
            entries,
            changes: changes.len(),
        }
    }

    fn add(&self, document: &StoredDocument, position: u32, entries: &mut Vec<(u64, u32)>) {
        let resource = &document.origin.resource;
        let vocabulary = document.origin.vocabulary.read();
        let terms = document
            .terms()
            .filter_map(|number| vocabulary.term(number))
            .map(|term| (term.key(), term.value()));
        let others = [("", ""), (NAME, document.name())];
        entries.extend(
            terms
                .chain(others)
                .map(|(key, value)| (self.hash(resource, key, value), position)),
        );
    }

    /// The object of an event, the same one for all watches.
    pub(super) fn object(
        &self,
        number: u64,
        is_before: bool,
        make: impl FnOnce() -> EventObject,
    ) -> Arc<EventObject> {
        let mut state = self.state.lock();
        if let Some(known) = state.objects.get(&(number, is_before)) {
            return Arc::clone(known);
        }
        let object = Arc::new(make());
        state.keep((number, is_before), &object);
        object
    }
}

impl TermIndex {
    /// The positions of the changes with a term.
    fn with(&self, term_hash: u64) -> impl Iterator<Item = u32> {
        let begin = self.entries.partition_point(|(hash, _)| *hash < term_hash);
        self.entries[begin..]
            .iter()
            .take_while(move |(hash, _)| *hash == term_hash)
            .map(|(_, position)| *position)
    }
}

impl RecentState {
    /// Drops the index of changes that are no longer among the newest.
    fn forget(&mut self) {
        self.indexed = self.indices.iter().map(|(_, index)| index.changes).sum();
        while self.indexed > INDEXED && self.indices.len() > 1 {
            let oldest = self.indices.pop_front();
            self.indexed -= oldest.map_or(0, |(_, index)| index.changes);
        }
    }

    fn keep(&mut self, key: (u64, bool), object: &Arc<EventObject>) {
        if self.objects.insert(key, Arc::clone(object)).is_none() {
            self.bytes += object.bytes();
        }
        while self.bytes > SHOWN_BYTES
            && let Some((_, oldest)) = self.objects.pop_first()
        {
            self.bytes -= oldest.bytes();
        }
    }
}

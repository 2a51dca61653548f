//! What those who follow have in common: which of the newest changes may concern whom, and the objects in them, unpacked.
//!
//! A thousand who follow, each a small part of what changes, look up their part instead of looking at all of it; and an object that several of
//! them are told of is unpacked once.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use ahash::RandomState;
use fleetdex_core::query::ResourceName;
use parking_lot::{Mutex, MutexGuard};

use super::{Change, Shown, change::Batch};
use crate::{
    document::Document,
    filter::{Filter, Test},
    terms::NAME,
};

/// Changes of which is known whom they concern; some 50 terms each, in 16 bytes.
const INDEXED: usize = 2_048;
/// Bytes of the objects that are kept unpacked: what several follow is told to all of them within a moment.
const SHOWN_BYTES: usize = 1 << 20;

/// What is known of the newest changes of a log.
#[derive(Default)]
pub(super) struct Recent {
    hasher: RandomState,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    /// By the number of the first change, in ascending order.
    indices: VecDeque<(u64, Arc<Index>)>,
    /// Changes in them.
    indexed: usize,
    /// By the number of the change; whether it is the object as it was before.
    shown: BTreeMap<(u64, bool), Arc<Shown>>,
    bytes: usize,
}

/// Where those changes of a batch are whose objects have a term, before or after: hashes of terms with positions, in ascending order. A hash that
/// two terms have only makes somebody look at more.
struct Index {
    entries: Vec<(u64, u32)>,
    /// How many changes there are.
    changes: usize,
}

impl Recent {
    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock()
    }

    /// By what changes are found that may concern a filter; one of these is in each of them.
    pub(super) fn handles(&self, resource: &ResourceName, filter: &Filter) -> Vec<u64> {
        let required = filter
            .conditions()
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

    /// The positions of changes that have one of these, in ascending order; nothing if all have to be looked at.
    pub(super) fn positions(&self, batch: &Batch, handles: &[u64]) -> Option<Vec<u32>> {
        if handles.len() > batch.changes.len() || batch.changes.len() > INDEXED {
            return None;
        }
        let index = self.index(batch)?;
        let mut positions: Vec<u32> = handles
            .iter()
            .flat_map(|handle| index.with(*handle))
            .collect();
        if handles.len() > 1 {
            positions.sort_unstable();
            positions.dedup();
        }
        Some(positions)
    }

    /// The index of a batch, which is made for the newest ones only: whoever is behind must not take the place of those who are not.
    fn index(&self, batch: &Batch) -> Option<Arc<Index>> {
        {
            let held = self.lock();
            let found = held
                .indices
                .binary_search_by_key(&batch.first, |(first, _)| *first);
            if let Ok(found) = found {
                return held.indices.get(found).map(|(_, index)| Arc::clone(index));
            }
            if held
                .indices
                .back()
                .is_some_and(|(newest, _)| *newest > batch.first)
            {
                return None;
            }
        }
        let index = Arc::new(self.made(&batch.changes));
        let mut held = self.lock();
        // Somebody else may have been faster.
        if held
            .indices
            .back()
            .is_none_or(|(newest, _)| *newest < batch.first)
        {
            held.indices.push_back((batch.first, Arc::clone(&index)));
            held.forget();
        }
        Some(index)
    }

    fn made(&self, changes: &[Change]) -> Index {
        let mut entries = Vec::new();
        for (position, change) in (0_u32..).zip(changes) {
            for document in change.before.iter().chain(&change.after) {
                self.add(document, position, &mut entries);
            }
        }
        entries.sort_unstable();
        entries.dedup();
        Index {
            entries,
            changes: changes.len(),
        }
    }

    fn add(&self, document: &Document, position: u32, entries: &mut Vec<(u64, u32)>) {
        let resource = &document.origin.resource;
        let words = document.origin.vocabulary.read();
        let terms = document
            .terms()
            .filter_map(|number| words.term(number))
            .map(|term| (term.key(), term.value()));
        let others = [("", ""), (NAME, document.name())];
        entries.extend(
            terms
                .chain(others)
                .map(|(key, value)| (self.hash(resource, key, value), position)),
        );
    }

    /// An object as those who follow are told of it, unpacked by the first one who needs it.
    pub(super) fn shown<E>(
        &self,
        number: u64,
        is_before: bool,
        unpack: impl FnOnce() -> Result<Shown, E>,
    ) -> Result<Arc<Shown>, E> {
        if let Some(known) = self.lock().shown.get(&(number, is_before)) {
            return Ok(Arc::clone(known));
        }
        let shown = Arc::new(unpack()?);
        self.lock().keep((number, is_before), &shown);
        Ok(shown)
    }
}

impl Index {
    /// The positions of the changes with a term.
    fn with(&self, handle: u64) -> impl Iterator<Item = u32> {
        let begin = self.entries.partition_point(|(hash, _)| *hash < handle);
        self.entries[begin..]
            .iter()
            .take_while(move |(hash, _)| *hash == handle)
            .map(|(_, position)| *position)
    }
}

impl Held {
    /// Forgets what is known of changes that are not among the newest any more.
    fn forget(&mut self) {
        self.indexed = self.indices.iter().map(|(_, index)| index.changes).sum();
        while self.indexed > INDEXED && self.indices.len() > 1 {
            let oldest = self.indices.pop_front();
            self.indexed -= oldest.map_or(0, |(_, index)| index.changes);
        }
    }

    fn keep(&mut self, key: (u64, bool), shown: &Arc<Shown>) {
        if self.shown.insert(key, Arc::clone(shown)).is_none() {
            self.bytes += shown.bytes();
        }
        while self.bytes > SHOWN_BYTES
            && let Some((_, oldest)) = self.shown.pop_first()
        {
            self.bytes -= oldest.bytes();
        }
    }
}

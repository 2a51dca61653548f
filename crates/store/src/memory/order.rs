//! Documents in the standard order, in chunks that frozen views share with the live order until it
//! changes them.

use std::{cmp::Ordering, sync::Arc};

use fleetdex_core::query::Sort;

use crate::{document::StoredDocument, sort_position::SortPosition};

/// Documents of a chunk. A write copies at most one chunk, if a view holds it.
const CHUNK: usize = 256;

/// A document, and its position in its table.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) position: u32,
    pub(super) document: Arc<StoredDocument>,
}

pub(super) type Chunk = Vec<Entry>;

/// The documents of one table, by namespace, name, UID and apiVersion.
pub(super) struct Order {
    chunks: Vec<Arc<Chunk>>,
    standard: Vec<Sort>,
}

impl Default for Order {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            standard: Sort::standard(),
        }
    }
}

impl Order {
    /// A frozen copy.
    pub(super) fn freeze(&self) -> Vec<Arc<Chunk>> {
        self.chunks.clone()
    }

    pub(super) fn insert(&mut self, entry: Entry) {
        let sort_position = entry.document.sort_position();
        let before = |other: &Entry| {
            other
                .document
                .sort_position()
                .compare(&sort_position, &self.standard)
                == Ordering::Less
        };
        let after_last = self
            .chunks
            .partition_point(|chunk| chunk.last().is_some_and(&before));
        if after_last == self.chunks.len() {
            drop(sort_position);
            self.append(entry);
            return;
        }
        let at = self.chunks[after_last].partition_point(&before);
        drop(sort_position);
        let chunk = Arc::make_mut(&mut self.chunks[after_last]);
        chunk.insert(at, entry);
        if chunk.len() > CHUNK {
            let second = chunk.split_off(CHUNK / 2);
            chunk.shrink_to_fit();
            self.chunks.insert(after_last + 1, Arc::new(second));
        }
    }

    /// Lists arrive in this order, so most chunks are filled to the end.
    fn append(&mut self, entry: Entry) {
        match self.chunks.last_mut().filter(|chunk| chunk.len() < CHUNK) {
            Some(chunk) => Arc::make_mut(chunk).push(entry),
            None => self.chunks.push(Arc::new(vec![entry])),
        }
    }

    pub(super) fn remove(&mut self, document: &Arc<StoredDocument>) {
        let sort_position = document.sort_position();
        let before = |other: &Entry| {
            other
                .document
                .sort_position()
                .compare(&sort_position, &self.standard)
                == Ordering::Less
        };
        let chunk = self
            .chunks
            .partition_point(|chunk| chunk.last().is_some_and(&before));
        let Some(at) = self
            .chunks
            .get(chunk)
            .map(|entries| entries.partition_point(&before))
        else {
            return;
        };
        if self.chunks[chunk]
            .get(at)
            .is_none_or(|entry| !Arc::ptr_eq(&entry.document, document))
        {
            return;
        }
        let entries = Arc::make_mut(&mut self.chunks[chunk]);
        entries.remove(at);
        if entries.is_empty() {
            self.chunks.remove(chunk);
        }
    }
}

/// Where the entries after a sort position begin, in chunks that are ordered by `sorts`.
pub(super) fn seek(
    chunks: &[Arc<Chunk>],
    after: &SortPosition<'_>,
    sorts: &[Sort],
) -> (usize, usize) {
    let not_after =
        |entry: &Entry| entry.document.sort_position().compare(after, sorts) != Ordering::Greater;
    let chunk = chunks.partition_point(|chunk| chunk.last().is_some_and(not_after));
    let entry = chunks
        .get(chunk)
        .map_or(0, |chunk| chunk.partition_point(not_after));
    (chunk, entry)
}

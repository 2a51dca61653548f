//! Documents in the standard order, in chunks that frozen views share with the live order until it
//! changes them.

use std::{cmp::Ordering, sync::Arc};

use fleetdex_core::query::Sort;
use roaring::RoaringBitmap;

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
        let before = |other: &Entry| self.is_before(other, &sort_position);
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

    fn is_before(&self, entry: &Entry, position: &SortPosition<'_>) -> bool {
        entry
            .document
            .sort_position()
            .compare(position, &self.standard)
            == Ordering::Less
    }

    pub(super) fn remove(&mut self, document: &Arc<StoredDocument>) {
        let sort_position = document.sort_position();
        let before = |other: &Entry| self.is_before(other, &sort_position);
        let chunk = self
            .chunks
            .partition_point(|chunk| chunk.last().is_some_and(&before));
        let Some(entries) = self.chunks.get(chunk) else {
            return;
        };
        let at = entries.partition_point(&before);
        let is_it = |entry: &Entry| Arc::ptr_eq(&entry.document, document);
        if !entries.get(at).is_some_and(is_it) {
            return;
        }
        let entries = Arc::make_mut(&mut self.chunks[chunk]);
        entries.remove(at);
        if entries.is_empty() {
            self.chunks.remove(chunk);
        }
    }
}

/// The entries of chunks whose positions are among some; `None`: all.
pub(super) fn entries<'c>(
    chunks: &'c [Arc<Chunk>],
    positions: Option<&'c RoaringBitmap>,
) -> impl Iterator<Item = &'c Entry> {
    let is_in = move |entry: &&Entry| positions.is_none_or(|some| some.contains(entry.position));
    chunks.iter().flat_map(|chunk| chunk.iter()).filter(is_in)
}

pub(super) fn sort(chunk: &mut [Entry], sorts: &[Sort]) {
    chunk.sort_by(|left, right| {
        let other = right.document.sort_position();
        left.document.sort_position().compare(&other, sorts)
    });
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

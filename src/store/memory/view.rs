//! Frozen views: what a query's answer is made of, page after page, whatever is written meanwhile.

use std::{
    borrow::Cow,
    cmp::Ordering,
    collections::{BinaryHeap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use roaring::RoaringBitmap;
use serde_json::Value;
use tokio::time::Instant;

use super::{
    order::{Chunk, Entry, seek},
    table::Selected,
};
use crate::{
    query::{Cursor, Sort, SortKey},
    store::document::{Document, Place, SortTexts},
};

/// How long a view outlives its last page, as a point in time of OpenSearch does.
const KEEP_ALIVE: Duration = Duration::from_mins(5);
/// Views at one time. The one that was not asked for the longest goes first.
const VIEWS: usize = 1_024;
/// What views may keep of documents that are replaced or deleted already; beyond it the oldest views end.
const RETAINED_BYTES: u64 = 64 << 20;

/// Documents for which the vocabulary is held at once.
const AT_ONCE: usize = 4_096;

/// Documents in order, as they were at one moment.
pub(super) struct View {
    parts: Vec<Part>,
    sorts: Vec<Sort>,
    /// How many documents there are in all.
    pub(super) count: usize,
    /// Number of the last change that it shows.
    pub(super) sequence: u64,
}

/// Those of one cluster.
struct Part {
    chunks: Vec<Arc<Chunk>>,
    positions: Option<RoaringBitmap>,
    /// What the documents sort by, where that is more than their places: one for each entry of the only chunk.
    texts: Vec<SortTexts>,
}

/// One page of a view.
pub(super) struct ViewPage {
    pub(super) documents: Vec<Arc<Document>>,
    /// The place of the last document, as a cursor holds it, if there are more.
    pub(super) after: Option<Vec<Value>>,
}

impl View {
    pub(super) fn new(selected: Vec<Selected>, sorts: Vec<Sort>, sequence: u64) -> Self {
        let count = selected.iter().map(|selected| selected.count).sum();
        let is_standard = sorts == Sort::standard();
        let part = |selected: Selected| {
            let part = Part { chunks: selected.chunks, positions: selected.positions, texts: Vec::new() };
            if is_standard { part } else { part.sorted(&sorts) }
        };
        let parts = selected.into_iter().filter(|selected| selected.count > 0).map(part).collect();
        Self { parts, sorts, count, sequence }
    }

    /// The next documents after a place that are still part of the answer, `limit` at most.
    pub(super) fn page(&self, after: Option<&Place<'_>>, limit: usize, mut is_in: impl FnMut(&Document) -> bool) -> ViewPage {
        let mut runs: Vec<Run<'_>> = self.parts.iter().map(|part| part.run(after, &self.sorts)).collect();
        let mut heads = BinaryHeap::new();
        for (number, run) in runs.iter_mut().enumerate() {
            heads.extend(run.next().map(|place| Head { place, run: number, sorts: &self.sorts }));
        }
        let mut documents = Vec::with_capacity(limit.min(self.count));
        let mut last = None;
        while let Some(Head { place: (document, place), run, .. }) = heads.pop() {
            if is_in(document) {
                if documents.len() == limit {
                    return ViewPage { documents, after: last.map(|place: Place<'_>| place.to_cursor()) };
                }
                documents.push(Arc::clone(document));
                last = Some(place);
            }
            heads.extend(runs[run].next().map(|place| Head { place, run, sorts: &self.sorts }));
        }
        ViewPage { documents, after: None }
    }
}

impl Part {
    /// The same in another order.
    fn sorted(self, sorts: &[Sort]) -> Self {
        let is_in = |entry: &&Entry| self.positions.as_ref().is_none_or(|positions| positions.contains(entry.position));
        let mut chunk: Chunk = self.chunks.iter().flat_map(|chunk| chunk.iter()).filter(is_in).cloned().collect();
        if sorts.iter().all(|sort| !matches!(sort.key, SortKey::Field(..))) {
            chunk.sort_by(|left, right| left.document.place().compare(&right.document.place(), sorts));
            return Self { chunks: vec![Arc::new(chunk)], positions: None, texts: Vec::new() };
        }
        let mut with_texts: Vec<(Entry, SortTexts)> = Vec::with_capacity(chunk.len());
        for some in chunk.chunks(AT_ONCE) {
            // Not longer than a write should wait.
            let Some(words) = some.first().map(|entry| entry.document.origin.vocabulary.read()) else { break };
            with_texts.extend(some.iter().map(|entry| (entry.clone(), entry.document.sort_keys(sorts, &words))));
        }
        with_texts.sort_by(|left, right| place_of(&left.0, &left.1).compare(&place_of(&right.0, &right.1), sorts));
        let (chunk, texts): (Chunk, Vec<SortTexts>) = with_texts.into_iter().unzip();
        Self { chunks: vec![Arc::new(chunk)], positions: None, texts }
    }

    fn texts(&self, entry: usize) -> &[Option<String>] {
        self.texts.get(entry).map_or(&[], |texts| texts)
    }

    fn run(&self, after: Option<&Place<'_>>, sorts: &[Sort]) -> Run<'_> {
        let (chunk, entry) = match after {
            None => (0, 0),
            Some(after) if self.texts.is_empty() => seek(&self.chunks, after, sorts),
            Some(after) => (0, self.seek(after, sorts)),
        };
        Run { part: self, chunk, entry }
    }

    /// Where the entries after a place begin, in the only chunk.
    fn seek(&self, after: &Place<'_>, sorts: &[Sort]) -> usize {
        let entries = self.chunks.first().map_or(&[][..], |chunk| chunk.as_slice());
        let (mut from, mut to) = (0, entries.len());
        while from < to {
            let middle = usize::midpoint(from, to);
            let order = place_of(&entries[middle], self.texts(middle)).compare(after, sorts);
            if order == Ordering::Greater { to = middle } else { from = middle + 1 }
        }
        from
    }
}

/// A document, and its place in the order.
type Placed<'v> = (&'v Arc<Document>, Place<'v>);

fn place_of<'v>(entry: &'v Entry, texts: &'v [Option<String>]) -> Place<'v> {
    Place { texts: Cow::Borrowed(texts), ..entry.document.place() }
}

/// A part that is read.
struct Run<'v> {
    part: &'v Part,
    chunk: usize,
    entry: usize,
}

impl<'v> Iterator for Run<'v> {
    type Item = Placed<'v>;

    fn next(&mut self) -> Option<Self::Item> {
        let Part { chunks, positions, .. } = self.part;
        loop {
            let chunk = chunks.get(self.chunk)?;
            let Some(entry) = chunk.get(self.entry) else {
                (self.chunk, self.entry) = (self.chunk + 1, 0);
                continue;
            };
            self.entry += 1;
            if positions.as_ref().is_none_or(|positions| positions.contains(entry.position)) {
                return Some((&entry.document, place_of(entry, self.part.texts(self.entry - 1))));
            }
        }
    }
}

/// The next document of a run. The greatest is the one that comes first.
struct Head<'v> {
    place: Placed<'v>,
    run: usize,
    sorts: &'v [Sort],
}

impl Ord for Head<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.place.1.compare(&self.place.1, self.sorts)
    }
}

impl PartialOrd for Head<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Head<'_> {}

/// The views that further pages are read from.
#[derive(Default)]
pub(super) struct Views {
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    /// By what cursors name them: 128 random bits, which nobody guesses and no other process gives.
    views: HashMap<u128, Kept>,
    /// Bytes of documents that were replaced or deleted since the start.
    retired: u64,
}

struct Kept {
    view: Arc<View>,
    used: Instant,
    /// [`Open::retired`] when it was opened.
    retired: u64,
}

impl Views {
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a view; the text that a cursor names it by.
    pub(super) fn keep(&self, view: Arc<View>) -> String {
        let mut open = self.lock();
        open.expire();
        while open.views.len() >= VIEWS {
            let Some(oldest) = open.views.iter().min_by_key(|(_, kept)| kept.used).map(|(id, _)| *id) else { break };
            open.views.remove(&oldest);
        }
        let id: u128 = rand::random();
        let retired = open.retired;
        open.views.insert(id, Kept { view, used: Instant::now(), retired });
        format!("{id:032x}")
    }

    /// The view of a cursor, if it is still there.
    pub(super) fn find(&self, cursor: &Cursor) -> Option<Arc<View>> {
        let mut open = self.lock();
        open.expire();
        let kept = open.views.get_mut(&id(cursor)?)?;
        kept.used = Instant::now();
        Some(Arc::clone(&kept.view))
    }

    /// Ends the view of a cursor.
    pub(super) fn close(&self, cursor: &Cursor) {
        if let Some(id) = id(cursor) {
            self.lock().views.remove(&id);
        }
    }

    /// Says that documents of so many bytes are kept by nothing but views from now on.
    pub(super) fn retire(&self, bytes: usize) {
        let mut open = self.lock();
        open.retired += bytes as u64;
        if !open.views.is_empty() {
            open.expire();
        }
    }
}

fn id(cursor: &Cursor) -> Option<u128> {
    u128::from_str_radix(&cursor.snapshot, 16).ok()
}

impl Open {
    fn expire(&mut self) {
        let retired = self.retired;
        self.views.retain(|_, kept| kept.used.elapsed() < KEEP_ALIVE && retired - kept.retired <= RETAINED_BYTES);
    }
}

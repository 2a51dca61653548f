//! Frozen views: the documents of a query, page after page, whatever is written meanwhile.

use std::{borrow::Cow, cmp::Ordering, collections::BinaryHeap, sync::Arc};

use fleetdex_core::query::{Sort, SortKey, merge::OrderKey};
use roaring::RoaringBitmap;
use serde_json::Value;

use super::{
    cancellation::Cancellation,
    order::{Chunk, Entry, entries, seek, sort},
    table::SelectedDocuments,
};
use crate::{
    StoreError,
    document::{SortTexts, StoredDocument},
    sort_position::SortPosition,
};

/// Bytes of the objects of a page, as in the OpenSearch store. The next page has the rest.
pub(super) const PAGE_BYTES: usize = 32 << 20;
/// Documents for which the vocabulary is locked at once.
const AT_ONCE: usize = 4_096;

/// Sorted documents, frozen at one point.
pub(super) struct View {
    parts: Vec<ClusterPart>,
    pub(super) sorts: Vec<Sort>,
    /// How many documents there are in all.
    pub(super) count: usize,
    /// Number of the last change that it shows.
    pub(super) sequence: u64,
}

/// The documents of one cluster.
struct ClusterPart {
    chunks: Vec<Arc<Chunk>>,
    positions: Option<RoaringBitmap>,
    /// What the documents sort by, where that is more than their fixed keys: one for each entry of
    /// the only chunk.
    texts: Vec<SortTexts>,
}

/// One page of a view.
pub(super) struct ViewPage {
    pub(super) documents: Vec<Arc<StoredDocument>>,
    /// The sort position of the last document, as a cursor holds it, if there are more.
    pub(super) after: Option<Vec<Value>>,
}

/// Where a document is in the order: its order keys, and the cursor after it.
pub(super) type SortPlace = (Vec<Option<OrderKey>>, Vec<Value>);

impl View {
    pub(super) fn new(
        selected: Vec<SelectedDocuments>,
        sorts: Vec<Sort>,
        sequence: u64,
        cancellation: &Cancellation,
    ) -> Result<Self, StoreError> {
        let count = selected.iter().map(|selected| selected.count).sum();
        let is_standard = sorts == Sort::standard();
        let part = |selected: SelectedDocuments| {
            let part = ClusterPart {
                chunks: selected.chunks,
                positions: selected.positions,
                texts: Vec::new(),
            };
            if is_standard {
                Ok(part)
            } else {
                part.sorted(&sorts, cancellation)
            }
        };
        let parts = selected
            .into_iter()
            .filter(|selected| selected.count > 0)
            .map(part)
            .collect::<Result<_, _>>()?;
        Ok(Self {
            parts,
            sorts,
            count,
            sequence,
        })
    }

    /// Bytes that are allocated only for this view.
    pub(super) fn own_bytes(&self) -> usize {
        self.parts.iter().map(ClusterPart::own_bytes).sum()
    }

    /// The next documents after a sort position that are still selected, `limit` at most, and no
    /// more than [`PAGE_BYTES`] unless it is a single one. `visit` gets their sort positions.
    pub(super) fn page(
        &self,
        after: Option<&SortPosition<'_>>,
        limit: usize,
        cancellation: &Cancellation,
        mut is_in: impl FnMut(&StoredDocument) -> bool,
        mut visit: impl FnMut(&SortPosition<'_>),
    ) -> Result<ViewPage, StoreError> {
        let mut cursors: Vec<PartCursor<'_>> = self
            .parts
            .iter()
            .map(|part| part.run(after, &self.sorts))
            .collect();
        let mut next = BinaryHeap::new();
        for (number, run) in cursors.iter_mut().enumerate() {
            next.extend(run.next().map(|position| NextDocument {
                position,
                run: number,
                sorts: &self.sorts,
            }));
        }
        let mut documents = Vec::with_capacity(limit.min(self.count));
        let mut bytes = 0;
        let mut last = None;
        while let Some(NextDocument {
            position: (document, position),
            run,
            ..
        }) = next.pop()
        {
            cancellation.check()?;
            if is_in(document) {
                bytes += document.object_len();
                if documents.len() == limit || bytes > PAGE_BYTES && !documents.is_empty() {
                    return Ok(ViewPage {
                        documents,
                        after: last.map(|position: SortPosition<'_>| position.to_cursor()),
                    });
                }
                documents.push(Arc::clone(document));
                visit(&position);
                last = Some(position);
            }
            next.extend(cursors[run].next().map(|position| NextDocument {
                position,
                run,
                sorts: &self.sorts,
            }));
        }
        Ok(ViewPage {
            documents,
            after: None,
        })
    }
}

impl ClusterPart {
    /// The same in another order.
    fn sorted(self, sorts: &[Sort], cancellation: &Cancellation) -> Result<Self, StoreError> {
        cancellation.check()?;
        let selected = entries(&self.chunks, self.positions.as_ref());
        let mut chunk: Chunk = selected.cloned().collect();
        let is_field = |sort: &Sort| matches!(sort.key, SortKey::Field(..));
        if !sorts.iter().any(is_field) {
            sort(&mut chunk, sorts);
            return Ok(Self::of(chunk, Vec::new()));
        }
        let mut with_texts: Vec<(Entry, SortTexts)> = Vec::with_capacity(chunk.len());
        for some in chunk.chunks(AT_ONCE) {
            cancellation.check()?;
            // No longer than a write should wait.
            let Some(vocabulary) = some
                .first()
                .map(|entry| entry.document.origin.vocabulary.read())
            else {
                break;
            };
            with_texts.extend(
                some.iter()
                    .map(|entry| (entry.clone(), entry.document.sort_keys(sorts, &vocabulary))),
            );
        }
        with_texts.sort_by(|left, right| {
            position_of(&left.0, &left.1).compare(&position_of(&right.0, &right.1), sorts)
        });
        let (chunk, texts) = with_texts.into_iter().unzip();
        Ok(Self::of(chunk, texts))
    }

    fn of(chunk: Chunk, texts: Vec<SortTexts>) -> Self {
        Self {
            chunks: vec![Arc::new(chunk)],
            positions: None,
            texts,
        }
    }

    /// Bytes that are there only for this view.
    fn own_bytes(&self) -> usize {
        let own = |chunk: &&Arc<Chunk>| Arc::strong_count(chunk) == 1;
        let entries: usize = self
            .chunks
            .iter()
            .filter(own)
            .map(|chunk| chunk.len())
            .sum();
        let texts: usize = self.texts.iter().flatten().flatten().map(String::len).sum();
        let positions = self
            .positions
            .as_ref()
            .map_or(0, RoaringBitmap::serialized_size);
        entries * size_of::<Entry>()
            + self.texts.len() * size_of::<SortTexts>()
            + texts
            + positions
            + self.chunks.len() * 8
    }

    fn texts(&self, entry: usize) -> &[Option<String>] {
        self.texts.get(entry).map_or(&[], |texts| texts)
    }

    fn run(&self, after: Option<&SortPosition<'_>>, sorts: &[Sort]) -> PartCursor<'_> {
        let (chunk, entry) = match after {
            None => (0, 0),
            Some(after) if self.texts.is_empty() => seek(&self.chunks, after, sorts),
            Some(after) => (0, self.seek(after, sorts)),
        };
        PartCursor {
            part: self,
            chunk,
            entry,
        }
    }

    /// Where the entries after a sort position begin, in the only chunk.
    fn seek(&self, after: &SortPosition<'_>, sorts: &[Sort]) -> usize {
        let entries = self
            .chunks
            .first()
            .map_or(&[][..], |chunk| chunk.as_slice());
        let (mut from, mut to) = (0, entries.len());
        while from < to {
            let middle = usize::midpoint(from, to);
            let order = position_of(&entries[middle], self.texts(middle)).compare(after, sorts);
            if order == Ordering::Greater {
                to = middle;
            } else {
                from = middle + 1;
            }
        }
        from
    }
}

/// A document, and its sort position.
type DocumentAt<'v> = (&'v Arc<StoredDocument>, SortPosition<'v>);

fn position_of<'v>(entry: &'v Entry, texts: &'v [Option<String>]) -> SortPosition<'v> {
    SortPosition {
        texts: Cow::Borrowed(texts),
        ..entry.document.sort_position()
    }
}

/// A position in a part that is being read.
struct PartCursor<'v> {
    part: &'v ClusterPart,
    chunk: usize,
    entry: usize,
}

impl<'v> Iterator for PartCursor<'v> {
    type Item = DocumentAt<'v>;

    fn next(&mut self) -> Option<Self::Item> {
        let ClusterPart {
            chunks, positions, ..
        } = self.part;
        loop {
            let chunk = chunks.get(self.chunk)?;
            let Some(entry) = chunk.get(self.entry) else {
                (self.chunk, self.entry) = (self.chunk + 1, 0);
                continue;
            };
            self.entry += 1;
            if positions
                .as_ref()
                .is_none_or(|positions| positions.contains(entry.position))
            {
                return Some((
                    &entry.document,
                    position_of(entry, self.part.texts(self.entry - 1)),
                ));
            }
        }
    }
}

/// The next document of a part. The greatest is the one that comes first.
struct NextDocument<'v> {
    position: DocumentAt<'v>,
    run: usize,
    sorts: &'v [Sort],
}

impl Ord for NextDocument<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.position.1.compare(&self.position.1, self.sorts)
    }
}

impl PartialOrd for NextDocument<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for NextDocument<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for NextDocument<'_> {}

//! Frozen views: what a query's answer is made of, page after page, whatever is written meanwhile.

use std::{
    borrow::Cow,
    cmp::Ordering,
    collections::{BinaryHeap, HashMap},
    sync::Arc,
    time::Duration,
};

use fleetdex_core::query::{Cursor, Requester, Sort, SortKey, merge::OrderKey};
use parking_lot::{Mutex, MutexGuard};
use roaring::RoaringBitmap;
use serde_json::Value;
use tokio::time::Instant;

use super::{
    asked::Asked,
    order::{Chunk, Entry, seek},
    table::Selected,
};
use crate::{
    StoreError,
    document::{Document, Place, SortTexts},
    quota::{Full, Ledger, Shares},
};

/// What users' views may take, in units of [`UNIT_BYTES`]: a view that shares everything with what is stored is one, and the largest ones count as
/// all that one user may have. So 16 users have their full share at the same time, which is 64 lists each or 4 MiB of orders of their own.
const SHARES: Shares = Shares {
    user: 64,
    users: 1_024,
    keep_alive: Duration::from_mins(5),
};
/// Bytes of a view's own that count as much as a view.
const UNIT_BYTES: usize = 64 << 10;
/// Bytes of the objects of a page, as in an answer of OpenSearch. The next page has the rest.
const PAGE_BYTES: usize = 32 << 20;
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

/// A page, and where each of its documents stands: what it sorts by, and the cursor behind it.
pub(super) struct PlacedViewPage {
    pub(super) documents: Vec<Arc<Document>>,
    pub(super) places: Vec<(Vec<Option<OrderKey>>, Vec<Value>)>,
    /// Whether there are more.
    pub(super) more: bool,
}

impl View {
    pub(super) fn new(
        selected: Vec<Selected>,
        sorts: Vec<Sort>,
        sequence: u64,
        asked: &Asked,
    ) -> Result<Self, StoreError> {
        let count = selected.iter().map(|selected| selected.count).sum();
        let is_standard = sorts == Sort::standard();
        let part = |selected: Selected| {
            let part = Part {
                chunks: selected.chunks,
                positions: selected.positions,
                texts: Vec::new(),
            };
            if is_standard {
                Ok(part)
            } else {
                part.sorted(&sorts, asked)
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

    /// What it takes of a user's share.
    fn cost(&self) -> u64 {
        let bytes: usize = self.parts.iter().map(Part::own_bytes).sum();
        ((1 + bytes / UNIT_BYTES) as u64).min(SHARES.user)
    }

    /// The same as [`View::page`], with the places.
    pub(super) fn placed_page(
        &self,
        after: Option<&Place<'_>>,
        limit: usize,
        asked: &Asked,
        is_in: impl FnMut(&Document) -> bool,
    ) -> Result<PlacedViewPage, StoreError> {
        let mut places = Vec::new();
        let page = self.read(after, limit, asked, is_in, |place| {
            places.push((place.order(&self.sorts), place.to_cursor()));
        })?;
        Ok(PlacedViewPage {
            documents: page.documents,
            places,
            more: page.after.is_some(),
        })
    }

    /// The next documents after a place that are still part of the answer, `limit` at most, and with no more than [`PAGE_BYTES`] unless it is one.
    pub(super) fn page(
        &self,
        after: Option<&Place<'_>>,
        limit: usize,
        asked: &Asked,
        is_in: impl FnMut(&Document) -> bool,
    ) -> Result<ViewPage, StoreError> {
        self.read(after, limit, asked, is_in, |_| {})
    }

    fn read(
        &self,
        after: Option<&Place<'_>>,
        limit: usize,
        asked: &Asked,
        mut is_in: impl FnMut(&Document) -> bool,
        mut visit: impl FnMut(&Place<'_>),
    ) -> Result<ViewPage, StoreError> {
        let mut runs: Vec<Run<'_>> = self
            .parts
            .iter()
            .map(|part| part.run(after, &self.sorts))
            .collect();
        let mut heads = BinaryHeap::new();
        for (number, run) in runs.iter_mut().enumerate() {
            heads.extend(run.next().map(|place| Head {
                place,
                run: number,
                sorts: &self.sorts,
            }));
        }
        let mut documents = Vec::with_capacity(limit.min(self.count));
        let mut bytes = 0;
        let mut last = None;
        while let Some(Head {
            place: (document, place),
            run,
            ..
        }) = heads.pop()
        {
            asked.still()?;
            if is_in(document) {
                bytes += document.object_len();
                if documents.len() == limit || bytes > PAGE_BYTES && !documents.is_empty() {
                    return Ok(ViewPage {
                        documents,
                        after: last.map(|place: Place<'_>| place.to_cursor()),
                    });
                }
                documents.push(Arc::clone(document));
                visit(&place);
                last = Some(place);
            }
            heads.extend(runs[run].next().map(|place| Head {
                place,
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

impl Part {
    /// The same in another order.
    fn sorted(self, sorts: &[Sort], asked: &Asked) -> Result<Self, StoreError> {
        asked.still()?;
        let is_in = |entry: &&Entry| {
            self.positions
                .as_ref()
                .is_none_or(|positions| positions.contains(entry.position))
        };
        let mut chunk: Chunk = self
            .chunks
            .iter()
            .flat_map(|chunk| chunk.iter())
            .filter(is_in)
            .cloned()
            .collect();
        if sorts
            .iter()
            .all(|sort| !matches!(sort.key, SortKey::Field(..)))
        {
            chunk.sort_by(|left, right| {
                left.document
                    .place()
                    .compare(&right.document.place(), sorts)
            });
            return Ok(Self {
                chunks: vec![Arc::new(chunk)],
                positions: None,
                texts: Vec::new(),
            });
        }
        let mut with_texts: Vec<(Entry, SortTexts)> = Vec::with_capacity(chunk.len());
        for some in chunk.chunks(AT_ONCE) {
            asked.still()?;
            // Not longer than a write should wait.
            let Some(words) = some
                .first()
                .map(|entry| entry.document.origin.vocabulary.read())
            else {
                break;
            };
            with_texts.extend(
                some.iter()
                    .map(|entry| (entry.clone(), entry.document.sort_keys(sorts, &words))),
            );
        }
        with_texts.sort_by(|left, right| {
            place_of(&left.0, &left.1).compare(&place_of(&right.0, &right.1), sorts)
        });
        let (chunk, texts): (Chunk, Vec<SortTexts>) = with_texts.into_iter().unzip();
        Ok(Self {
            chunks: vec![Arc::new(chunk)],
            positions: None,
            texts,
        })
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

    fn run(&self, after: Option<&Place<'_>>, sorts: &[Sort]) -> Run<'_> {
        let (chunk, entry) = match after {
            None => (0, 0),
            Some(after) if self.texts.is_empty() => seek(&self.chunks, after, sorts),
            Some(after) => (0, self.seek(after, sorts)),
        };
        Run {
            part: self,
            chunk,
            entry,
        }
    }

    /// Where the entries after a place begin, in the only chunk.
    fn seek(&self, after: &Place<'_>, sorts: &[Sort]) -> usize {
        let entries = self
            .chunks
            .first()
            .map_or(&[][..], |chunk| chunk.as_slice());
        let (mut from, mut to) = (0, entries.len());
        while from < to {
            let middle = usize::midpoint(from, to);
            let order = place_of(&entries[middle], self.texts(middle)).compare(after, sorts);
            if order == Ordering::Greater {
                to = middle;
            } else {
                from = middle + 1;
            }
        }
        from
    }
}

/// A document, and its place in the order.
type Placed<'v> = (&'v Arc<Document>, Place<'v>);

fn place_of<'v>(entry: &'v Entry, texts: &'v [Option<String>]) -> Place<'v> {
    Place {
        texts: Cow::Borrowed(texts),
        ..entry.document.place()
    }
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
        let Part {
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
                    place_of(entry, self.part.texts(self.entry - 1)),
                ));
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
pub(super) struct Views {
    ledger: Ledger,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    /// By what cursors name them: 128 random bits, which nobody guesses and no other process gives.
    views: HashMap<Arc<str>, Kept>,
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
    pub(super) fn new() -> Self {
        Self {
            ledger: Ledger::new(SHARES),
            open: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock()
    }

    /// Keeps a view for a user; the text that a cursor names it by.
    pub(super) fn keep(
        &self,
        view: Arc<View>,
        requester: &Requester,
    ) -> Result<String, StoreError> {
        let id: Arc<str> = format!("{:032x}", rand::random::<u128>()).into();
        let mut open = self.lock();
        self.expire(&mut open);
        if let Requester::User(user) = requester {
            let cost = view.cost();
            let (number, ended) = self.ledger.reserve(user, cost).map_err(crowded)?;
            self.ledger.opened(number, Arc::clone(&id), cost);
            for ended in ended {
                open.views.remove(&ended);
            }
        }
        let retired = open.retired;
        open.views.insert(
            Arc::clone(&id),
            Kept {
                view,
                used: Instant::now(),
                retired,
            },
        );
        Ok(id.to_string())
    }

    /// The view of a cursor, if it is still there.
    pub(super) fn find(&self, cursor: &Cursor) -> Result<Arc<View>, StoreError> {
        let mut open = self.lock();
        self.expire(&mut open);
        let name = cursor.snapshot.as_str();
        let gone = || {
            if self.ledger.has_ended(name) {
                StoreError::Superseded
            } else {
                StoreError::Expired
            }
        };
        let kept = open.views.get_mut(name).ok_or_else(gone)?;
        kept.used = Instant::now();
        self.ledger.used(name);
        Ok(Arc::clone(&kept.view))
    }

    /// Keeps the view of a cursor from ending for another one.
    pub(super) fn pin(&self, cursor: &Cursor) {
        self.ledger.pin(&cursor.snapshot);
    }

    /// Ends a view.
    pub(super) fn close(&self, name: &str) {
        self.lock().views.remove(name);
        self.ledger.closed(name);
    }

    /// Says that documents of so many bytes are kept by nothing but views from now on.
    pub(super) fn retire(&self, bytes: usize) {
        let mut open = self.lock();
        open.retired += bytes as u64;
        if !open.views.is_empty() {
            self.expire(&mut open);
        }
    }

    fn expire(&self, open: &mut Open) {
        let retired = open.retired;
        open.views.retain(|name, kept| {
            let stays =
                kept.used.elapsed() < SHARES.keep_alive && retired - kept.retired <= RETAINED_BYTES;
            if !stays {
                self.ledger.closed(name);
            }
            stays
        });
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().views.len()
    }
}

fn crowded(full: Full) -> StoreError {
    let Shares { user, users, .. } = SHARES;
    StoreError::Crowded(match full {
        Full::User => {
            format!(
                "your lists that are under way hold as many views as one user may ({user}); try again when one has ended"
            )
        }
        Full::Users => format!(
            "lists in pages hold as many views as they may ({users}); try again, or list without a limit"
        ),
    })
}

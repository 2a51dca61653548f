//! Several stores as one: each covers its part of the clusters and namespaces, and no two parts
//! overlap.

mod part;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_core::{
    model::StoreName,
    query::{
        Cursor, GroupKey, Groups, Hit, Page, Query, Relative, RelativesQuery,
        aggregate::GroupCounts,
        merge::{SortedHit, StorePosition, merge},
    },
};
use futures::future::try_join_all;
use serde_json::json;

pub use self::part::StorePart;
use self::part::{OpenView, PageRest, ReadPage};
use super::{
    IndexReader, StoreError,
    changes::{Log, MergedWatch, WatchError},
};

/// Stores that are queried together.
#[derive(Clone)]
pub struct Merged {
    parts: Vec<StorePart>,
    /// Every store, for owner searches: owners are of any kind, so the parts of one kind are not
    /// enough.
    others: Vec<Arc<dyn IndexReader>>,
}

impl Merged {
    /// Merges stores whose parts do not overlap. `others`: every store, for owner searches.
    pub fn new(parts: Vec<StorePart>, others: Vec<Arc<dyn IndexReader>>) -> Self {
        Self { parts, others }
    }

    /// The parts.
    pub fn parts(&self) -> &[StorePart] {
        &self.parts
    }

    /// Whether another one returns the same results: of the same stores, each with the same part.
    pub fn is_like(&self, other: &Self) -> bool {
        let is_alike = |(left, right): (&StorePart, &StorePart)| {
            left.name == right.name && left.area == right.area
        };
        self.parts.len() == other.parts.len() && self.parts.iter().zip(&other.parts).all(is_alike)
    }

    /// The names of the stores, for messages.
    pub fn names(&self) -> String {
        self.parts
            .iter()
            .map(|part| part.name.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// The logs of the parts, in the order of the parts.
    pub async fn logs(&self) -> Result<Vec<Arc<Log>>, StoreError> {
        try_join_all(self.parts.iter().map(|part| part.store.change_log())).await
    }

    /// The first page, and the number up to which it is sure to show the changes of every log.
    pub async fn first_page(&self, query: &Query) -> Result<(Page, u64), StoreError> {
        if let [only] = self.parts.as_slice() {
            return only.store.first_page(&only.query(query)).await;
        }
        let asked = self.parts.iter().map(async |part| {
            // Before the page is read, which may show more.
            let visible = part.store.visible_sequence(&query.resource).await?;
            let page = part.page(query, None).await?;
            Ok::<_, StoreError>((page, part.store.change_log().await?.reaches_to(visible)))
        });
        let (pages, visible): (Vec<ReadPage>, Vec<u64>) =
            try_join_all(asked).await?.into_iter().unzip();
        let page = self.merged(query, &vec![None; pages.len()], pages).await?;
        Ok((page, visible.into_iter().min().unwrap_or_default()))
    }

    /// The first objects of a query, and whether there are more. Opens no view and no change log:
    /// for a result that is neither continued nor watched.
    pub async fn first_objects(&self, query: &Query) -> Result<(Vec<Hit>, bool), StoreError> {
        let asked = self
            .parts
            .iter()
            .map(async |part| part.page(query, None).await);
        let pages = try_join_all(asked).await?;
        let items = pages
            .into_iter()
            .map(|ReadPage { page, .. }| (page.items, page.more));
        let items: Vec<(Vec<SortedHit>, bool)> = items.collect();
        let found: usize = items.iter().map(|(items, _)| items.len()).sum();
        let more = items.iter().any(|(_, more)| *more);
        let (items, _) = merge(items, &query.sort, query.limit);
        let has_more = more || found > items.len();
        Ok((items, has_more))
    }

    /// A further page.
    pub async fn search(&self, query: &Query, from: &Cursor) -> Result<Page, StoreError> {
        if let [only] = self.parts.as_slice() {
            // A cursor from when the objects were in several stores.
            let is_merged = from.snapshot.is_empty();
            return if is_merged {
                Err(StoreError::Expired)
            } else {
                only.store.search(&only.query(query), Some(from)).await
            };
        }
        let positions = self.positions(from).ok_or(StoreError::Expired)?;
        let asked = self
            .parts
            .iter()
            .zip(&positions)
            .map(async |(part, from)| match from {
                Some(from) => part.page(query, Some(from)).await,
                None => Ok(ReadPage::default()),
            });
        let pages = try_join_all(asked).await?;
        self.merged(query, &positions, pages).await
    }

    /// The position of each part that is not at its end; `None` if the cursor is of other stores.
    fn positions(&self, cursor: &Cursor) -> Option<Vec<Option<StorePosition>>> {
        let mut left: BTreeMap<String, StorePosition> = BTreeMap::new();
        for value in &cursor.after {
            let position: StorePosition = serde_json::from_value(value.clone()).ok()?;
            left.insert(position.store.clone(), position);
        }
        let positions = self
            .parts
            .iter()
            .map(|part| left.remove(part.name.as_str()))
            .collect();
        left.is_empty().then_some(positions)
    }

    async fn merged(
        &self,
        query: &Query,
        from: &[Option<StorePosition>],
        pages: Vec<ReadPage>,
    ) -> Result<Page, StoreError> {
        let mut rests = Vec::with_capacity(pages.len());
        let mut items = Vec::with_capacity(pages.len());
        for ReadPage { page, view } in pages {
            rests.push(PageRest {
                count: page.items.len(),
                view,
                more: page.more,
                remaining: page.remaining,
            });
            items.push((page.items, page.more));
        }
        let (items, taken) = merge(items, &query.sort, query.limit);
        let (mut positions, mut views) = (Vec::new(), Vec::new());
        for (((part, from), rest), taken) in self.parts.iter().zip(from).zip(rests).zip(taken) {
            if let Some((position, view)) = part.rest(query, from.as_ref(), rest, taken).await? {
                positions.push(position);
                views.push(view);
            }
        }
        // From here on the cursor owns them.
        views.into_iter().for_each(OpenView::keep);
        if positions.is_empty() {
            return Ok(Page {
                items,
                ..Page::default()
            });
        }
        let remaining = positions
            .iter()
            .map(|position| position.left)
            .sum::<Option<u64>>();
        let after = positions.iter().map(|position| json!(position)).collect();
        Ok(Page {
            items,
            next: Some(Cursor {
                snapshot: String::new(),
                after,
                remaining,
            }),
            remaining,
        })
    }

    /// The cursor of each store; that of a part at its end has no view.
    pub fn split(&self, cursor: &Cursor) -> BTreeMap<StoreName, Cursor> {
        if let [only] = self.parts.as_slice() {
            return [(only.name.clone(), cursor.clone())].into();
        }
        let positions = self.positions(cursor).unwrap_or_default();
        let of_part = |(part, position): (&StorePart, Option<StorePosition>)| {
            let ended = || Cursor {
                snapshot: String::new(),
                after: Vec::new(),
                remaining: Some(0),
            };
            let cursor = position.map_or_else(ended, |position| Cursor {
                snapshot: position.view,
                after: position.after,
                remaining: position.left,
            });
            (part.name.clone(), cursor)
        };
        self.parts.iter().zip(positions).map(of_part).collect()
    }

    /// Joins cursors that were [split](Self::split); `None` if they are of other stores.
    pub fn join(&self, mut cursors: BTreeMap<StoreName, Cursor>) -> Option<Cursor> {
        let is_of_these = cursors.len() == self.parts.len()
            && self
                .parts
                .iter()
                .all(|part| cursors.contains_key(&part.name));
        if !is_of_these {
            return None;
        }
        if let [only] = self.parts.as_slice() {
            return cursors.remove(&only.name);
        }
        let left = cursors
            .into_iter()
            .filter(|(_, cursor)| !cursor.snapshot.is_empty());
        let position = |(store, cursor): (StoreName, Cursor)| {
            json!(StorePosition {
                store: store.to_string(),
                view: cursor.snapshot,
                after: cursor.after,
                left: cursor.remaining
            })
        };
        Some(Cursor {
            snapshot: String::new(),
            after: left.map(position).collect(),
            remaining: None,
        })
    }

    /// Protects the views of a cursor, which are being read to their end.
    pub fn pin(&self, cursor: &Cursor) {
        for (part, cursor) in self.open_views(cursor) {
            part.store.pin(&cursor);
        }
    }

    /// Closes the views of a cursor that is read no further. Does not wait.
    pub fn release(&self, cursor: &Cursor) {
        for (part, cursor) in self.open_views(cursor) {
            part.store.release(&cursor);
        }
    }

    fn open_views(&self, cursor: &Cursor) -> Vec<(&StorePart, Cursor)> {
        let mut cursors = self.split(cursor);
        let open = self
            .parts
            .iter()
            .filter_map(|part| Some((part, cursors.remove(&part.name)?)));
        open.filter(|(_, cursor)| !cursor.snapshot.is_empty())
            .collect()
    }

    /// Finds objects of any kind by the keys of owner searches. An object in several stores is
    /// found once.
    pub async fn relatives(
        &self,
        query: &RelativesQuery,
    ) -> Result<BTreeSet<Relative>, StoreError> {
        let found = try_join_all(self.others.iter().map(|store| store.relatives(query))).await?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Counts the objects of a query in groups, exactly.
    pub async fn aggregate(
        &self,
        query: &Query,
        by: &[GroupKey],
        top: usize,
    ) -> Result<Groups, StoreError> {
        if let [only] = self.parts.as_slice() {
            return only.store.aggregate(&only.query(query), by, top).await;
        }
        let counted = self.parts.iter().map(async |part| {
            part.store
                .aggregate(&part.query(query), by, usize::MAX)
                .await
        });
        tallied(try_join_all(counted).await?, top)
    }

    /// The groups that the objects of a query are in, with approximate counts. Opens no views.
    pub async fn groups(&self, query: &Query, by: &[GroupKey]) -> Result<Groups, StoreError> {
        let found = self
            .parts
            .iter()
            .map(async |part| part.store.groups(&part.query(query), by).await);
        tallied(try_join_all(found).await?, usize::MAX)
    }

    /// Follows the changes of a query's objects after `after`, after the writes in flight whose
    /// objects a list may already have shown.
    pub async fn watch(
        &self,
        logs: &[Arc<Log>],
        query: &Query,
        after: u64,
    ) -> Result<MergedWatch, WatchError> {
        let parts = self.parts.iter().zip(logs);
        let queries = parts.map(|(part, log)| (Arc::clone(log), vec![part.query(query)]));
        MergedWatch::begin(&queries.collect::<Vec<_>>(), after).await
    }
}

/// The largest groups of several stores together.
fn tallied(parts: Vec<Groups>, top: usize) -> Result<Groups, StoreError> {
    let mut tally = GroupCounts::default();
    for group in parts.into_iter().flat_map(|groups| groups.groups) {
        tally.add(group.values, group.count)?;
    }
    Ok(tally.largest(top))
}

/// The number up to which every list shows the changes of all logs from now on; `None` if there are
/// none.
pub fn visible(logs: &[Arc<Log>]) -> Option<u64> {
    match logs {
        [only] => Some(only.visible()),
        several => several
            .iter()
            .map(|log| log.reaches_to(log.visible()))
            .min(),
    }
}

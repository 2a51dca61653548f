//! Several stores that are asked as one: each answers for its part of the clusters and namespaces, and no two parts overlap.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_core::{
    model::{ClusterName, FleetVersion, StoreName},
    query::{
        Cursor, Grant, GroupKey, Groups, Page, Query, Relative, Relatives, Selectable,
        aggregate::Tally,
        merge::{PlacedPage, Position, Taken, merge},
    },
};
use futures::future::try_join_all;
use serde_json::json;

use super::{
    Store, StoreError,
    changes::{Log, MergedWatch, WatchError},
};

/// The part that one store has of an answer.
#[derive(Clone)]
pub struct Part {
    /// The store's name.
    pub name: StoreName,
    /// The store.
    pub store: Arc<dyn Store>,
    /// What field selectors may name there.
    pub selectable: Selectable,
    /// What it answers for; absent: for everything that it holds.
    pub area: Option<Vec<Grant>>,
}

/// Stores that answer together.
#[derive(Clone)]
pub struct Merged {
    parts: Vec<Part>,
    /// What owners are looked for in: they are of any kind, so that the parts of one kind are not enough.
    others: Vec<Arc<dyn Store>>,
}

impl Part {
    /// What this store is asked of a query.
    pub fn query(&self, query: &Query) -> Query {
        let mut own = Query {
            selectable: self.selectable.clone(),
            ..query.clone()
        };
        let Some(area) = &self.area else { return own };
        let is_asked =
            |name: &&ClusterName| query.clusters.is_empty() || query.clusters.contains(name);
        let clusters: BTreeSet<&ClusterName> = area
            .iter()
            .flat_map(|grant| &grant.clusters)
            .flatten()
            .filter(is_asked)
            .collect();
        if area.iter().any(|grant| grant.namespaces.is_some()) || clusters.is_empty() {
            own.permitted = query.permitted.within(area);
        }
        if !clusters.is_empty() {
            own.clusters = clusters.into_iter().cloned().collect();
        }
        own
    }

    async fn page(&self, query: &Query, from: Option<&Position>) -> Result<ReadPage, StoreError> {
        let cursor = from.map(|from| Cursor {
            snapshot: from.view.clone(),
            after: from.after.clone(),
            remaining: from.left,
        });
        let mut page = self
            .store
            .placed_page(&self.query(query), cursor.as_ref())
            .await?;
        let view = page.view.take().map(|name| OpenView {
            store: Arc::clone(&self.store),
            name,
            is_new: from.is_none(),
        });
        Ok(ReadPage { page, view })
    }

    /// Where the next page begins, if anything is left: `count` objects of the page have been taken, the last one of them with `after`.
    async fn rest(
        &self,
        query: &Query,
        from: Option<&Position>,
        page: Rest,
        taken: Taken,
    ) -> Result<Option<(Position, OpenView)>, StoreError> {
        let unused = page.count - taken.count;
        if unused == 0 && !page.more {
            if let Some(view) = page.view {
                view.close();
            }
            return Ok(None);
        }
        let view = match page.view {
            Some(view) => view,
            None => {
                let name = self.store.open_view(&self.query(query)).await?;
                OpenView {
                    store: Arc::clone(&self.store),
                    name,
                    is_new: true,
                }
            }
        };
        let after = taken
            .after
            .or_else(|| from.map(|from| from.after.clone()))
            .unwrap_or_default();
        let behind = if page.more { page.remaining } else { Some(0) };
        let left = behind.map(|behind| behind + unused as u64);
        Ok(Some((
            Position {
                store: self.name.to_string(),
                view: view.name.clone(),
                after,
                left,
            },
            view,
        )))
    }
}

/// A page of one store, and the view that it was read from.
#[derive(Default)]
struct ReadPage {
    page: PlacedPage,
    view: Option<OpenView>,
}

/// The open view of one store. One that was opened for an answer that is not made, because another store fails or the request ends, is closed when this is
/// dropped; one that the client knows from an earlier page stays open for the next attempt.
struct OpenView {
    store: Arc<dyn Store>,
    name: String,
    is_new: bool,
}

impl OpenView {
    /// Leaves it open for the next page.
    fn keep(mut self) {
        self.is_new = false;
    }

    /// Closes it, as nothing more is read from it.
    fn close(mut self) {
        self.is_new = true;
    }
}

impl Drop for OpenView {
    fn drop(&mut self) {
        if self.is_new {
            self.store.release(&Cursor {
                snapshot: std::mem::take(&mut self.name),
                after: Vec::new(),
                remaining: None,
            });
        }
    }
}

/// What of a page is needed once its objects are merged.
struct Rest {
    count: usize,
    view: Option<OpenView>,
    more: bool,
    remaining: Option<u64>,
}

impl Merged {
    /// Stores with parts that do not overlap. `others`: every store in which owners are looked for.
    pub fn new(parts: Vec<Part>, others: Vec<Arc<dyn Store>>) -> Self {
        Self { parts, others }
    }

    /// The parts.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Whether another one gives the same answers to the same questions: of the same stores, each with the same part.
    pub fn is_like(&self, other: &Self) -> bool {
        let is_alike =
            |(left, right): (&Part, &Part)| left.name == right.name && left.area == right.area;
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

    /// The logs of the parts' changes, in the order of the parts.
    pub async fn logs(&self) -> Result<Vec<Arc<Log>>, StoreError> {
        try_join_all(self.parts.iter().map(|part| part.store.changes())).await
    }

    /// The first page, and the number up to which it is sure to show the changes of every log.
    pub async fn first_page(&self, query: &Query) -> Result<(Page, u64), StoreError> {
        if let [only] = self.parts.as_slice() {
            return only.store.first_page(&only.query(query)).await;
        }
        let asked = self.parts.iter().map(async |part| {
            // Before the page is read, which may show more.
            let moment = part.store.moment(&query.resource).await?;
            let page = part.page(query, None).await?;
            Ok::<_, StoreError>((page, part.store.changes().await?.reaches_to(moment)))
        });
        let (pages, moments): (Vec<ReadPage>, Vec<u64>) =
            try_join_all(asked).await?.into_iter().unzip();
        let page = self.merged(query, &vec![None; pages.len()], pages).await?;
        Ok((page, moments.into_iter().min().unwrap_or_default()))
    }

    /// A further page.
    pub async fn search(&self, query: &Query, from: &Cursor) -> Result<Page, StoreError> {
        if let [only] = self.parts.as_slice() {
            // Of several stores, before all of it came to be in one.
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

    /// Where each part is, if it is not at its end; nothing if the cursor is one of other stores.
    fn positions(&self, cursor: &Cursor) -> Option<Vec<Option<Position>>> {
        let mut left: BTreeMap<String, Position> = BTreeMap::new();
        for value in &cursor.after {
            let position: Position = serde_json::from_value(value.clone()).ok()?;
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
        from: &[Option<Position>],
        pages: Vec<ReadPage>,
    ) -> Result<Page, StoreError> {
        let mut rests = Vec::with_capacity(pages.len());
        let mut items = Vec::with_capacity(pages.len());
        for ReadPage { page, view } in pages {
            let PlacedPage {
                items: placed,
                view: _,
                more,
                remaining,
            } = page;
            rests.push(Rest {
                count: placed.len(),
                view,
                more,
                remaining,
            });
            items.push((placed, more));
        }
        let (items, taken) = merge(items, &query.sort, query.limit);
        let (mut positions, mut views) = (Vec::new(), Vec::new());
        for (((part, from), rest), taken) in self.parts.iter().zip(from).zip(rests).zip(taken) {
            if let Some((position, view)) = part.rest(query, from.as_ref(), rest, taken).await? {
                positions.push(position);
                views.push(view);
            }
        }
        // From here on it is the cursor that knows them.
        views.into_iter().for_each(OpenView::keep);
        if positions.is_empty() {
            return Ok(Page {
                items,
                next: None,
                remaining: None,
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

    /// The cursor of each store, in which a part that is at its end has one without a view.
    pub fn split(&self, cursor: &Cursor) -> BTreeMap<StoreName, Cursor> {
        if let [only] = self.parts.as_slice() {
            return [(only.name.clone(), cursor.clone())].into();
        }
        let positions = self.positions(cursor).unwrap_or_default();
        let of_part = |(part, position): (&Part, Option<Position>)| {
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

    /// The cursor that was [split](Self::split); nothing if it is one of other stores.
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
            let Cursor {
                snapshot,
                after,
                remaining,
            } = cursor;
            json!(Position {
                store: store.to_string(),
                view: snapshot,
                after,
                left: remaining
            })
        };
        Some(Cursor {
            snapshot: String::new(),
            after: left.map(position).collect(),
            remaining: None,
        })
    }

    /// Says that an answer is being read to its end from the views of a cursor.
    pub fn pin(&self, cursor: &Cursor) {
        for (part, cursor) in self.open_views(cursor) {
            part.store.pin(&cursor);
        }
    }

    /// Closes the views of a cursor, as nothing more is read from them. Does not wait.
    pub fn release(&self, cursor: &Cursor) {
        for (part, cursor) in self.open_views(cursor) {
            part.store.release(&cursor);
        }
    }

    fn open_views(&self, cursor: &Cursor) -> Vec<(&Part, Cursor)> {
        let mut cursors = self.split(cursor);
        let open = self
            .parts
            .iter()
            .filter_map(|part| Some((part, cursors.remove(&part.name)?)));
        open.filter(|(_, cursor)| !cursor.snapshot.is_empty())
            .collect()
    }

    /// Finds objects of any kind by what owner searches go by. An object that several stores hold is found once.
    pub async fn relatives(&self, asked: &Relatives) -> Result<BTreeSet<Relative>, StoreError> {
        let found = try_join_all(self.others.iter().map(|store| store.relatives(asked))).await?;
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

    /// The groups that the objects of a query are in, and about how many each has. No store keeps anything open for it.
    pub async fn groups(&self, query: &Query, by: &[GroupKey]) -> Result<Groups, StoreError> {
        let found = self
            .parts
            .iter()
            .map(async |part| part.store.groups(&part.query(query), by).await);
        tallied(try_join_all(found).await?, usize::MAX)
    }

    /// Follows the changes of what a query selects, from the one after `after`, once everything is settled that an answer may have shown.
    pub async fn watch(
        &self,
        logs: &[Arc<Log>],
        query: &Query,
        after: u64,
    ) -> Result<MergedWatch, WatchError> {
        let mut watches = Vec::with_capacity(logs.len());
        let is_one = logs.len() == 1;
        for (part, log) in self.parts.iter().zip(logs) {
            let own = part.query(query);
            watches.push(if is_one {
                log.watch_settled(&own, after).await?
            } else {
                log.watch_behind(&own, after).await?
            });
        }
        let sequence = logs
            .first()
            .map(|log| log.sequence().clone())
            .unwrap_or_default();
        Ok(MergedWatch::new(watches, sequence, after))
    }
}

/// The largest groups of several stores together.
fn tallied(parts: Vec<Groups>, top: usize) -> Result<Groups, StoreError> {
    let mut tally = Tally::default();
    for group in parts.into_iter().flat_map(|groups| groups.groups) {
        tally
            .add(group.values, group.count)
            .map_err(|error| StoreError::Invalid(error.to_string()))?;
    }
    Ok(tally.largest(top))
}

/// The number of the last change of several logs up to which everything is in every answer from now on, as a version.
pub fn version(logs: &[Arc<Log>]) -> Option<FleetVersion> {
    let number = logs.iter().map(|log| log.reaches_to(log.visible())).min()?;
    match logs {
        [only] => Some(only.version()),
        [first, ..] => Some(first.sequence().version(number)),
        [] => None,
    }
}

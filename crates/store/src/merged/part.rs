//! One store's part of a merged list.

use std::{collections::BTreeSet, sync::Arc};

use fleetdex_core::{
    model::{ClusterName, StoreName},
    query::{
        Cursor, Grant, Query, Selectable,
        merge::{SortedPage, StorePosition, TakenHits},
    },
};

use crate::{IndexReader, StoreError};

/// The part of a list that one store covers.
#[derive(Clone)]
pub struct StorePart {
    /// The store's name.
    pub name: StoreName,
    /// The store.
    pub store: Arc<dyn IndexReader>,
    /// What field selectors may name in this store.
    pub selectable: Selectable,
    /// What it covers; absent: everything that it holds.
    pub area: Option<Vec<Grant>>,
}

impl StorePart {
    /// The query for this store.
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

    pub(super) async fn page(
        &self,
        query: &Query,
        from: Option<&StorePosition>,
    ) -> Result<ReadPage, StoreError> {
        let cursor = from.map(|from| Cursor {
            snapshot: from.view.clone(),
            after: from.after.clone(),
            remaining: from.left,
        });
        let mut page = self
            .store
            .sorted_page(&self.query(query), cursor.as_ref())
            .await?;
        let view = page.view.take().map(|name| OpenView {
            store: Arc::clone(&self.store),
            name,
            is_new: from.is_none(),
        });
        Ok(ReadPage { page, view })
    }

    /// Where the next page begins, if anything is left: `taken.count` objects of the page were
    /// used, the last one of them with `taken.after`.
    pub(super) async fn rest(
        &self,
        query: &Query,
        from: Option<&StorePosition>,
        page: PageRest,
        taken: TakenHits,
    ) -> Result<Option<(StorePosition, OpenView)>, StoreError> {
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
            StorePosition {
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
pub(super) struct ReadPage {
    pub(super) page: SortedPage,
    pub(super) view: Option<OpenView>,
}

/// The open view of one store. A view that was opened for a list that is not completed, because
/// another store fails or the request ends, is closed when this is dropped; one that the client
/// knows from an earlier page stays open for the next attempt.
pub(super) struct OpenView {
    store: Arc<dyn IndexReader>,
    name: String,
    is_new: bool,
}

impl OpenView {
    /// Leaves it open for the next page.
    pub(super) fn keep(mut self) {
        self.is_new = false;
    }

    /// Closes a view that is read no further.
    pub(super) fn close(mut self) {
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

/// The rest of a page once its objects are merged.
pub(super) struct PageRest {
    pub(super) count: usize,
    pub(super) view: Option<OpenView>,
    pub(super) more: bool,
    pub(super) remaining: Option<u64>,
}

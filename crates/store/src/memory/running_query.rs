//! Queries of the embedded store: on threads of their own, few at a time, and only for as long as a
//! client waits.
//!
//! A query may have to read every object of a kind. Guarantees:
//! - users share the threads fairly
//!   ([`FairSemaphore`](fleetdex_limits::fair_semaphore::FairSemaphore)): one user has half of them
//!   at most, whatever and however many queries wait;
//! - a query that is cancelled (its client has gone away, or it timed out) frees its thread before
//!   the next object is unpacked, or when the order of one cluster that is being sorted is
//!   complete;
//! - a view that was opened for a result that is no longer wanted is closed.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use fleetdex_core::{
    fuel::Fuel,
    query::{
        Cursor, GroupKey, Groups, HeldMemory, Hit, Page, Query, QueryError, Relative,
        RelativesQuery, Requester, aggregate::resolve_group_keys, merge::SortedPage,
        owners::MAX_OWNERS,
    },
};
use fleetdex_limits::{fair_semaphore::FairPermit, request::UserRequest};

use super::{
    Memory, MemoryState,
    aggregate::Counter,
    blocking,
    cancellation::Cancellation,
    table::SelectedDocuments,
    view::{SortPlace, View, ViewPage},
};
use crate::{
    StoreError, compressed::Decompressor, document::StoredDocument, query_filter::Filter,
    sort_position::SortPosition,
};

/// How long a query waits for a thread, and for memory, unless its request ends before.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// A query that runs.
pub(super) struct RunningQuery {
    pub(super) shared: Arc<MemoryState>,
    pub(super) cancellation: Cancellation,
    /// The view that was opened for the result.
    pub(super) opened: Option<OpenedView>,
    /// `None`: its request waits for nothing, as it has the reserve of the memory.
    _thread: Option<FairPermit<Requester>>,
}

/// A view that is closed unless its result is sent.
pub(super) struct OpenedView {
    shared: Arc<MemoryState>,
    name: Option<String>,
}

impl OpenedView {
    pub(super) fn keep(mut self) {
        self.name = None;
    }
}

impl Drop for OpenedView {
    fn drop(&mut self) {
        if let Some(view) = self.name.take() {
            self.shared.views.close(&view);
        }
    }
}

/// The documents of a page, and what else is known of it.
pub(super) type PageDocuments<T> = (Vec<Arc<StoredDocument>>, T);

impl Memory {
    /// Runs a read of a requester on a reader thread, in turn.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        requester: &Requester,
        work: impl FnOnce(&mut RunningQuery) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let thread = match requester {
            Requester::User(_) if UserRequest::current().memory().has_reserve() => None,
            _ => {
                let thread = self.shared.readers.acquire(requester.clone(), PATIENCE);
                Some(thread.await.ok_or_else(too_many_queries)?)
            }
        };
        let cancellation = Cancellation::default();
        let _cancels = cancellation.0.clone().drop_guard();
        let mut running = RunningQuery {
            shared: Arc::clone(&self.shared),
            cancellation,
            opened: None,
            _thread: thread,
        };
        let (answer, mut running) = blocking(move || {
            let answer = running
                .cancellation
                .check()
                .and_then(|()| work(&mut running));
            (answer, running)
        })
        .await?;
        if answer.is_ok()
            && let Some(opened) = running.opened.take()
        {
            opened.keep();
        }
        answer
    }
}

impl RunningQuery {
    pub(super) fn page(
        &mut self,
        query: &Query,
        from: Option<&Cursor>,
    ) -> Result<PageDocuments<(Page, u64)>, StoreError> {
        match from {
            None => self.first_page(query),
            Some(cursor) => self.next_page(query, cursor),
        }
    }

    fn freeze(&self, query: &Query) -> Result<Arc<View>, StoreError> {
        let filter = Filter::new(query)?;
        let (selected, sequence) = {
            let revisions = self.shared.read();
            (revisions.select(query, &filter), self.shared.log.newest())
        };
        let selected = self.narrowed(selected, &filter)?;
        Ok(Arc::new(View::new(
            selected,
            query.sort.clone(),
            sequence,
            &self.cancellation,
        )?))
    }

    fn first_page(&mut self, query: &Query) -> Result<PageDocuments<(Page, u64)>, StoreError> {
        let view = self.freeze(query)?;
        let sequence = view.sequence;
        let ViewPage { documents, after } =
            view.page(None, query.limit, &self.cancellation, |_| true, |_| {})?;
        let remaining = after
            .as_ref()
            .map(|_| (view.count - documents.len()) as u64);
        let next = match after {
            Some(after) => Some(Cursor {
                snapshot: self.keep(view, &query.requester)?,
                after,
                remaining,
            }),
            None => None,
        };
        let page = Page {
            items: Vec::new(),
            next,
            remaining,
        };
        Ok((documents, (page, sequence)))
    }

    pub(super) fn count(
        &self,
        query: &Query,
        by: &[GroupKey],
        top: usize,
    ) -> Result<Groups, StoreError> {
        let filter = Filter::new(query)?;
        let keys = resolve_group_keys(query, by)?;
        let selected = self.shared.read().select(query, &filter);
        let selected = self.narrowed(selected, &filter)?;
        Counter::new(&keys).count(&selected, top, &self.cancellation)
    }

    pub(super) fn relatives(
        &self,
        query: &RelativesQuery,
    ) -> Result<BTreeSet<Relative>, StoreError> {
        let found = self.shared.read().relatives(query);
        if found.len() > MAX_OWNERS {
            let (what, found) = ("owners", found.len());
            let limit = MAX_OWNERS;
            return Err(QueryError::TooLarge { what, found, limit }.into());
        }
        Ok(found)
    }

    pub(super) fn sorted_page(
        &mut self,
        query: &Query,
        from: Option<&Cursor>,
    ) -> Result<PageDocuments<(Vec<SortPlace>, SortedPage)>, StoreError> {
        let (view, name) = match from {
            None => (self.freeze(query)?, None),
            Some(cursor) => (
                self.shared.views.find(cursor)?,
                Some(cursor.snapshot.clone()),
            ),
        };
        let after = match from.map(|cursor| cursor.after.as_slice()) {
            None | Some([]) => None,
            Some(values) => Some(SortPosition::from_cursor(values).ok_or(StoreError::Expired)?),
        };
        let filter = Filter::new(query)?;
        let is_first = from.is_none();
        let is_in = |document: &StoredDocument| is_first || selects(query, &filter, document);
        let mut places = Vec::new();
        let place = |at: &SortPosition<'_>| places.push((at.order(&view.sorts), at.to_cursor()));
        let page = view.page(
            after.as_ref(),
            query.limit,
            &self.cancellation,
            is_in,
            place,
        )?;
        let (documents, more) = (page.documents, page.after.is_some());
        let left = from.map_or(Some(view.count as u64), |cursor| cursor.remaining);
        let remaining = left
            .map(|left| left.saturating_sub(documents.len() as u64))
            .filter(|_| more);
        let name = match name {
            None if more => Some(self.keep(view, &query.requester)?),
            known => known,
        };
        let page = SortedPage {
            items: Vec::new(),
            view: name,
            more,
            remaining,
        };
        Ok((documents, (places, page)))
    }

    fn next_page(
        &self,
        query: &Query,
        cursor: &Cursor,
    ) -> Result<PageDocuments<(Page, u64)>, StoreError> {
        let view = self.shared.views.find(cursor)?;
        let after = SortPosition::from_cursor(&cursor.after).ok_or(StoreError::Expired)?;
        // A view was filtered for the first page. Whether its objects still match this query is not
        // for a cursor to say.
        let filter = Filter::new(query)?;
        let is_in = |document: &StoredDocument| selects(query, &filter, document);
        let ViewPage { documents, after } =
            view.page(Some(&after), query.limit, &self.cancellation, is_in, |_| {})?;
        let remaining = cursor
            .remaining
            .map(|left| left.saturating_sub(documents.len() as u64))
            .filter(|_| after.is_some());
        let next = after.map(|after| Cursor {
            snapshot: cursor.snapshot.clone(),
            after,
            remaining,
        });
        let page = Page {
            items: Vec::new(),
            next,
            remaining,
        };
        Ok((documents, (page, view.sequence)))
    }

    pub(super) fn open_view(&mut self, query: &Query) -> Result<String, StoreError> {
        let view = self.freeze(query)?;
        self.keep(view, &query.requester)
    }

    fn keep(&mut self, view: Arc<View>, requester: &Requester) -> Result<String, StoreError> {
        let name = self.shared.views.keep(view, requester)?;
        self.opened = Some(OpenedView {
            shared: Arc::clone(&self.shared),
            name: Some(name.clone()),
        });
        Ok(name)
    }

    fn narrowed(
        &self,
        selected: Vec<SelectedDocuments>,
        filter: &Filter,
    ) -> Result<Vec<SelectedDocuments>, StoreError> {
        selected
            .into_iter()
            .map(|part| part.narrowed(filter, &self.cancellation))
            .collect()
    }

    /// The objects of documents, which hold memory together.
    pub(super) fn hits(
        &self,
        documents: &[Arc<StoredDocument>],
        memory: &HeldMemory,
    ) -> Result<Vec<Hit>, StoreError> {
        let mut decompressor = Decompressor::new();
        let hit = |document: &Arc<StoredDocument>| {
            self.cancellation.check()?;
            let hit = document.hit(&mut decompressor)?;
            let memory = memory.clone();
            Ok(Hit { memory, ..hit })
        };
        documents.iter().map(hit).collect()
    }
}

fn too_many_queries() -> StoreError {
    StoreError::Crowded(
        "too many queries of the embedded store wait for a thread; try again later".to_owned(),
    )
}

/// Whether a query selects a document; `filter` holds its conditions.
fn selects(query: &Query, filter: &Filter, document: &StoredDocument) -> bool {
    let origin = &document.origin;
    let is_requested = query.clusters.is_empty() || query.clusters.contains(&origin.cluster);
    // This thread is the user's share of the embedded store, and each document was selected before.
    let matches = || filter.matches(document, &Fuel::unbounded()) == Ok(true);
    is_requested && origin.resource == query.resource && matches()
}

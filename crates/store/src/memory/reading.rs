//! Reading from the embedded store: on threads of their own, few at a time, and only as long as somebody waits for the answer.
//!
//! A question may have to look at every object of a kind. Guarantees:
//! - users share the threads fairly ([`Shares`](fleetdex_limits::shares::Shares)): one user has half of them at most, whatever questions and however
//!   many of them wait;
//! - a question that is withdrawn (a client that has gone away, a timeout) frees its thread before the next object is unpacked, or when the order that
//!   is being made for one cluster is made;
//! - a view that was opened for an answer that is not taken any more is closed.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use fleetdex_core::query::{
    Cursor, GroupKey, Groups, Hit, Page, Query, QueryError, Relative, Relatives, Requester,
    aggregate::grouped,
    merge::{Placed, PlacedPage},
    owners::MAX_OWNERS,
};
use fleetdex_limits::shares::Share;

use super::{
    Memory, Shared,
    aggregate::Counter,
    asked::Asked,
    blocking,
    table::Selected,
    view::{PlacedViewPage, View, ViewPage},
};
use crate::{
    StoreError,
    document::{Document, Place},
    filter::Filter,
    packed::Unpacker,
};

/// How long a question waits for a thread, unless its request ends before.
const PATIENCE: Duration = Duration::from_secs(30);

/// One question that is answered.
pub(super) struct Reading {
    shared: Arc<Shared>,
    pub(super) asked: Asked,
    /// The view that was opened for the answer.
    opened: Option<String>,
    _place: Share<Requester>,
}

impl Memory {
    /// Reads on a thread on behalf of somebody, in turn.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        requester: &Requester,
        work: impl FnOnce(&mut Reading) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let place = self
            .shared
            .readers
            .take(requester.clone(), PATIENCE)
            .await
            .ok_or_else(crowded)?;
        let asked = Asked::default();
        let _withdraws = asked.0.clone().drop_guard();
        let mut reading = Reading {
            shared: Arc::clone(&self.shared),
            asked,
            opened: None,
            _place: place,
        };
        let (answer, mut reading) = blocking(move || {
            let answer = reading.asked.still().and_then(|()| work(&mut reading));
            (answer, reading)
        })
        .await?;
        if answer.is_ok() {
            reading.opened = None;
        }
        answer
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if let Some(view) = self.opened.take() {
            self.shared.views.close(&view);
        }
    }
}

impl Reading {
    pub(super) fn page(
        &mut self,
        query: &Query,
        from: Option<&Cursor>,
    ) -> Result<(Page, u64), StoreError> {
        match from {
            None => self.first_page(query),
            Some(cursor) => self.next_page(query, cursor),
        }
    }

    fn freeze(&self, query: &Query) -> Result<Arc<View>, StoreError> {
        let filter = Filter::new(query).map_err(|error| invalid(&error))?;
        let (selected, sequence) = {
            let generations = self.shared.read();
            (generations.select(query, &filter), self.shared.log.newest())
        };
        let selected = self.narrowed(selected, &filter)?;
        Ok(Arc::new(View::new(
            selected,
            query.sort.clone(),
            sequence,
            &self.asked,
        )?))
    }

    fn first_page(&mut self, query: &Query) -> Result<(Page, u64), StoreError> {
        let view = self.freeze(query)?;
        let sequence = view.sequence;
        let ViewPage { documents, after } = view.page(None, query.limit, &self.asked, |_| true)?;
        let remaining = after
            .as_ref()
            .map(|_| (view.count - documents.len()) as u64);
        let items = self.hits(&documents)?;
        let next = match after {
            Some(after) => Some(Cursor {
                snapshot: self.keep(view, &query.requester)?,
                after,
                remaining,
            }),
            None => None,
        };
        Ok((
            Page {
                items,
                next,
                remaining,
            },
            sequence,
        ))
    }

    pub(super) fn count(
        &self,
        query: &Query,
        by: &[GroupKey],
        top: usize,
    ) -> Result<Groups, StoreError> {
        let filter = Filter::new(query).map_err(|error| invalid(&error))?;
        let keys = grouped(query, by).map_err(|error| invalid(&error))?;
        let selected = self.shared.read().select(query, &filter);
        let selected = self.narrowed(selected, &filter)?;
        Counter::new(&keys).count(&selected, top, &self.asked)
    }

    pub(super) fn relatives(&self, asked: &Relatives) -> Result<BTreeSet<Relative>, StoreError> {
        let found = self.shared.read().relatives(asked);
        if found.len() > MAX_OWNERS {
            return Err(invalid(&QueryError::TooLarge {
                what: "owners",
                found: found.len(),
                limit: MAX_OWNERS,
            }));
        }
        Ok(found)
    }

    pub(super) fn placed_page(
        &mut self,
        query: &Query,
        from: Option<&Cursor>,
    ) -> Result<PlacedPage, StoreError> {
        let (view, name) = match from {
            None => (self.freeze(query)?, None),
            Some(cursor) => (
                self.shared.views.find(cursor)?,
                Some(cursor.snapshot.clone()),
            ),
        };
        let after = match from.map(|cursor| cursor.after.as_slice()) {
            None | Some([]) => None,
            Some(values) => Some(Place::from_cursor(values).ok_or(StoreError::Expired)?),
        };
        let filter = Filter::new(query).map_err(|error| invalid(&error))?;
        let is_first = from.is_none();
        let is_in = |document: &Document| is_first || selects(query, &filter, document);
        let PlacedViewPage {
            documents,
            places,
            more,
        } = view.placed_page(after.as_ref(), query.limit, &self.asked, is_in)?;
        let left = from.map_or(Some(view.count as u64), |cursor| cursor.remaining);
        let mut items = Vec::with_capacity(documents.len());
        for (hit, (order, after)) in self.hits(&documents)?.into_iter().zip(places) {
            items.push(Placed { hit, order, after });
        }
        let remaining = left
            .map(|left| left.saturating_sub(items.len() as u64))
            .filter(|_| more);
        let name = match name {
            None if more => Some(self.keep(view, &query.requester)?),
            known => known,
        };
        Ok(PlacedPage {
            items,
            view: name,
            more,
            remaining,
        })
    }

    fn next_page(&self, query: &Query, cursor: &Cursor) -> Result<(Page, u64), StoreError> {
        let view = self.shared.views.find(cursor)?;
        let after = Place::from_cursor(&cursor.after).ok_or(StoreError::Expired)?;
        // What a view is made of was right for the first page. Whether it still is for this question is not for a cursor to say.
        let filter = Filter::new(query).map_err(|error| invalid(&error))?;
        let ViewPage { documents, after } =
            view.page(Some(&after), query.limit, &self.asked, |document| {
                selects(query, &filter, document)
            })?;
        let remaining = cursor
            .remaining
            .map(|left| left.saturating_sub(documents.len() as u64))
            .filter(|_| after.is_some());
        let next = after.map(|after| Cursor {
            snapshot: cursor.snapshot.clone(),
            after,
            remaining,
        });
        if next.is_none() {
            self.shared.views.close(&cursor.snapshot);
        }
        Ok((
            Page {
                items: self.hits(&documents)?,
                next,
                remaining,
            },
            view.sequence,
        ))
    }

    pub(super) fn open_view(&mut self, query: &Query) -> Result<String, StoreError> {
        let view = self.freeze(query)?;
        self.keep(view, &query.requester)
    }

    fn keep(&mut self, view: Arc<View>, requester: &Requester) -> Result<String, StoreError> {
        let name = self.shared.views.keep(view, requester)?;
        self.opened = Some(name.clone());
        Ok(name)
    }

    fn narrowed(
        &self,
        selected: Vec<Selected>,
        filter: &Filter,
    ) -> Result<Vec<Selected>, StoreError> {
        selected
            .into_iter()
            .map(|part| part.narrowed(filter, &self.asked))
            .collect()
    }

    fn hits(&self, documents: &[Arc<Document>]) -> Result<Vec<Hit>, StoreError> {
        let mut unpacker = Unpacker::new();
        let hit = |document: &Arc<Document>| {
            self.asked
                .still()
                .and_then(|()| document.hit(&mut unpacker))
        };
        documents.iter().map(hit).collect()
    }
}

fn crowded() -> StoreError {
    StoreError::Crowded(
        "too many questions to the embedded store wait for their turn; try again later".to_owned(),
    )
}

fn invalid(error: &QueryError) -> StoreError {
    StoreError::Invalid(error.to_string())
}

/// Whether a document is part of the answer to a query, whose conditions the filter holds.
fn selects(query: &Query, filter: &Filter, document: &Document) -> bool {
    let origin = &document.origin;
    let is_asked = query.clusters.is_empty() || query.clusters.contains(&origin.cluster);
    is_asked && origin.resource == query.resource && filter.matches(document)
}

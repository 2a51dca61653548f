//! The objects of an answer, read from the stores page by page as they are taken.

use std::{time::Duration, vec};

use fleetdex_core::query::{Cursor, Hit, Page, Query, ResourceName};
use fleetdex_store::merged::Merged;
use tokio::time::timeout;

use super::{page_memory::PageMemory, rest::Rest, status::ApiError, target::PAGE};

/// How long the stores may take for one page.
pub(super) const PAGE_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes that are collected before they are sent: few writes, little memory.
pub(super) const CHUNK_BYTES: usize = 64 * 1024;
/// A page of fewer bytes than that is followed by one of more objects again, where pages have fewer than usual because of their length.
const SHORT_PAGE_BYTES: usize = 4 << 20;

/// What of an answer has not been taken yet.
pub(super) struct Reading {
    stores: Merged,
    query: Query,
    hits: vec::IntoIter<Hit>,
    /// What follows the objects that are here.
    rest: Rest,
    /// Whether that is left to the client.
    is_one_page: bool,
    memory: PageMemory,
}

impl Reading {
    /// Begins with the first page, or whichever the client has asked for. `is_continued`: the client has a token, and can ask for this page again;
    /// `is_one_page`: the next one is left to the client.
    pub(super) async fn begin(
        stores: Merged,
        query: Query,
        first: Page,
        is_continued: bool,
        is_one_page: bool,
    ) -> Result<Self, ApiError> {
        let mut memory = PageMemory::of(&query.requester);
        let rest = Rest::new(stores.clone(), first.next);
        let mut rest = if is_one_page { rest } else { rest.pinned() };
        if let Err(error) = memory.take(bytes_of(&first.items)).await {
            if is_continued {
                rest.leave();
            }
            return Err(error);
        }
        let query = Query {
            limit: next_limit(PAGE, &first.items),
            ..query
        };
        Ok(Self {
            stores,
            query,
            hits: first.items.into_iter(),
            rest,
            is_one_page,
            memory,
        })
    }

    /// What objects they are.
    pub(super) fn resource(&self) -> &ResourceName {
        &self.query.resource
    }

    /// Where the next page starts, if there is one.
    pub(super) fn cursor(&self) -> Option<&Cursor> {
        self.rest.cursor()
    }

    /// Whether all objects that will be given are here.
    pub(super) fn is_whole(&self) -> bool {
        self.is_one_page || self.cursor().is_none()
    }

    /// Bytes of the objects that are here.
    pub(super) fn bytes(&self) -> usize {
        bytes_of(self.hits.as_slice())
    }

    /// How many objects are here.
    pub(super) fn len(&self) -> usize {
        self.hits.len()
    }

    /// The next object, from the next page where one begins.
    pub(super) async fn next(&mut self) -> Result<Option<Hit>, ApiError> {
        loop {
            if let Some(hit) = self.hits.next() {
                return Ok(Some(hit));
            }
            let Some(cursor) = self.cursor().filter(|_| !self.is_one_page) else {
                return Ok(None);
            };
            let page = read(&self.stores, &self.query, cursor).await?;
            self.memory.take(bytes_of(&page.items)).await?;
            self.query.limit = next_limit(self.query.limit, &page.items);
            self.hits = page.items.into_iter();
            self.rest.advance(page.next);
        }
    }

    /// The client has taken so many bytes since the last call. An error if that is slow, and others wait for memory.
    pub(super) fn keep_pace(&mut self, bytes: usize) -> Result<(), ApiError> {
        self.memory.keep_pace(bytes)
    }

    /// Leaves what follows to the client, who has the whole answer.
    pub(super) fn leave(&mut self) {
        self.rest.leave();
    }
}

/// One page.
pub(super) async fn read(stores: &Merged, query: &Query, from: &Cursor) -> Result<Page, ApiError> {
    let answered = timeout(PAGE_TIMEOUT, stores.search(query, from)).await;
    Ok(answered.map_err(|_| ApiError::Timeout(PAGE_TIMEOUT.as_secs()))??)
}

/// How many objects to ask for after a page. One that has fewer than was asked for was too long with more: so would be the next one.
fn next_limit(asked: usize, page: &[Hit]) -> usize {
    let found = page.len().clamp(1, asked.max(1));
    if bytes_of(page) < SHORT_PAGE_BYTES {
        (2 * found).min(PAGE)
    } else {
        found
    }
}

fn bytes_of(page: &[Hit]) -> usize {
    page.iter().map(|hit| hit.object.get().len()).sum()
}

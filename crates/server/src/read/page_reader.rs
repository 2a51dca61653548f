//! Reads the objects of a response from the stores, page by page as the client reads them. The next
//! page is read while one is being sent, if there is memory for both.

use std::{time::Duration, vec};

use fleetdex_core::query::{Cursor, Hit, Page, Query, Requester, ResourceName};
use fleetdex_limits::request::{SMALL_PAGE_BYTES, UserRequest};
use fleetdex_store::merged::Merged;

use tokio_util::task::AbortOnDropHandle;

use super::query_plan::PAGE;
use crate::{api_error::ApiError, store_timeout::in_time};

/// Timeout of one page.
pub(crate) const PAGE_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes that are collected before they are sent: few writes and little memory.
pub(crate) const CHUNK_BYTES: usize = 64 * 1024;
/// After a page of fewer bytes, the next one asks for more objects again, where large objects had
/// reduced the page's limit.
const SHORT_PAGE_BYTES: usize = 4 << 20;

/// The objects of a response that have not been sent yet.
pub(crate) struct PageReader {
    stores: Merged,
    query: Query,
    hits: vec::IntoIter<Hit>,
    /// What follows the current page.
    rest: RemainingPages,
    /// Whether the client continues after this page.
    is_one_page: bool,
    /// The objects of the current page that are left when the next one is requested.
    ahead_from: usize,
    /// The next page; `None` in it if it could not be read.
    ahead: Option<AbortOnDropHandle<Option<Page>>>,
}

/// The cursor of the next page of a list. Dropping it closes the snapshot that it reads from,
/// unless the client has a continue token: a list that is cancelled, cut short or abandoned keeps
/// nothing open.
struct RemainingPages {
    stores: Merged,
    cursor: Option<Cursor>,
}

impl Drop for RemainingPages {
    fn drop(&mut self) {
        if let Some(cursor) = &self.cursor {
            self.stores.release(cursor);
        }
    }
}

impl PageReader {
    /// Starts with the first page, or the one that the client requests. `is_one_page`: the client
    /// requests the next page.
    pub(crate) fn begin(stores: Merged, query: Query, first: Page, is_one_page: bool) -> Self {
        if let Some(cursor) = first.next.as_ref().filter(|_| !is_one_page) {
            // Without a token, the snapshot is not superseded by other lists of the user.
            stores.pin(cursor);
        }
        let rest = RemainingPages {
            stores: stores.clone(),
            cursor: first.next,
        };

        let query = Query {
            limit: next_limit(PAGE, &first.items),
            ..query
        };
        Self {
            stores,
            query,
            // A client that reads nothing of a response of large pages has no second one in memory.
            ahead_from: first.items.len() - first.items.len() / 8,
            hits: first.items.into_iter(),
            rest,
            is_one_page,
            ahead: None,
        }
    }

    /// The resource of the objects.
    pub(crate) fn resource(&self) -> &ResourceName {
        &self.query.resource
    }

    /// Where the next page starts, if there is one.
    pub(crate) fn cursor(&self) -> Option<&Cursor> {
        self.rest.cursor.as_ref()
    }

    /// Whether all objects of the response are loaded.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_one_page || self.cursor().is_none()
    }

    /// Bytes of the loaded objects.
    pub(crate) fn bytes(&self) -> usize {
        bytes_of(self.hits.as_slice())
    }

    /// The number of loaded objects.
    pub(crate) fn len(&self) -> usize {
        self.hits.len()
    }

    /// The next object; loads the next page where the current one ends.
    pub(crate) async fn next(&mut self) -> Result<Option<Hit>, ApiError> {
        loop {
            if let Some(hit) = self.hits.next() {
                if self.hits.len() == self.ahead_from {
                    self.read_ahead();
                }
                return Ok(Some(hit));
            }
            let Some(cursor) = self.rest.cursor.as_ref().filter(|_| !self.is_one_page) else {
                return Ok(None);
            };
            let ahead = match self.ahead.take() {
                Some(ahead) => ahead.await.ok().flatten(),
                None => None,
            };
            let page = match ahead {
                Some(page) => page,
                None => read(&self.stores, &self.query, cursor).await?,
            };
            self.query.limit = next_limit(self.query.limit, &page.items);
            // The client reads, or it would not have got here.
            self.ahead_from = page.items.len().saturating_sub(1);
            self.hits = page.items.into_iter();
            // The stores close their snapshots after the last page.
            self.rest.cursor = page.next;
        }
    }

    /// Reads the next page, if there is one, and room for it. What fails is tried again when the
    /// page is needed.
    fn read_ahead(&mut self) {
        let Some(cursor) = self.cursor().filter(|_| !self.is_one_page).cloned() else {
            return;
        };
        let (request, bytes) = (UserRequest::current(), self.bytes());
        let is_counted = bytes > SMALL_PAGE_BYTES && self.query.requester != Requester::Operator;
        if is_counted && !request.memory().has_room_for(bytes) {
            return;
        }
        let (stores, query) = (self.stores.clone(), self.query.clone());
        let read_next = async move { read(&stores, &query, &cursor).await.ok() };
        let page = tokio::spawn(request.scope(read_next));
        self.ahead = Some(AbortOnDropHandle::new(page));
    }

    /// Leaves the next pages to the client, which has the whole response.
    pub(crate) fn leave(&mut self) {
        self.rest.cursor = None;
    }
}

/// Bytes of the texts of objects.
fn bytes_of(page: &[Hit]) -> usize {
    page.iter().map(|hit| hit.object.get().len()).sum()
}

/// Reads one page.
pub(crate) async fn read(stores: &Merged, query: &Query, from: &Cursor) -> Result<Page, ApiError> {
    in_time(PAGE_TIMEOUT, stores.search(query, from)).await
}

/// The limit of the page after `page`. A page with fewer objects than its limit was reduced because
/// more would be too large; the next one would be, too.
fn next_limit(limit: usize, page: &[Hit]) -> usize {
    let found = page.len().clamp(1, limit.max(1));
    if bytes_of(page) < SHORT_PAGE_BYTES {
        (2 * found).min(PAGE)
    } else {
        found
    }
}

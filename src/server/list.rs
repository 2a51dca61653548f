//! The answer to a list: stored objects, spliced as they are into `<Kind>List`, or shown as another
//! [representation](super::representation) wants it.
//!
//! With a limit the answer is one page and a token for the next. Without one it is everything: pages are read from the store
//! one after another, as fast as the client takes them, so that one request never holds more than one page of
//! [`PAGE`](super::target::PAGE) objects. An error of the first page is a `Status`; one of a later page comes too late for
//! that and cuts the connection, which every HTTP client notices.

use std::{time::Duration, vec};

use axum::{body::Body, http::HeaderValue};
use bytes::Bytes;
use futures::{Stream, stream::try_unfold};
use jiff::Timestamp;
use serde_json::json;
use tokio::time::timeout;

use super::{
    caller::Caller,
    continue_token::{self, Bound, Continuation, Keys, TokenError},
    etag, moment,
    page_memory::{PageMemory, SMALL_PAGE_BYTES},
    representation::{Representation, Sheet},
    request::ListRequest,
    rest::Rest,
    status::ApiError,
    target::Target,
};
use crate::{
    model::{FleetVersion, with_fleet_version},
    query::{Cursor, Hit, Page, Query},
    store::merged::Merged,
};

/// How long the store may take for one page.
const PAGE_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes that are collected before they are sent: few writes, little memory.
const CHUNK_BYTES: usize = 64 * 1024;
/// Objects of an answer that is made as a whole before it is sent, so that it can have a hash: bounds what hashing costs a request that
/// nobody repeats, to about half a millisecond.
const TAGGED_BYTES: usize = SMALL_PAGE_BYTES;
/// A page of fewer bytes than that is followed by one of more objects again, where pages have fewer than usual because of their length.
const SHORT_PAGE_BYTES: usize = 4 << 20;
/// What is set aside for what stands around the objects of such an answer.
const HEAD_BYTES: usize = 4 * 1024;

/// The answer to a list.
#[derive(Debug)]
pub struct Answer {
    /// Its bytes, or what makes them.
    pub body: Body,
    /// Their media type.
    pub media_type: &'static str,
    /// The hash of an answer that is in memory as a whole.
    pub tag: Option<HeaderValue>,
}

/// Asks the store for the first page, and makes an answer of it and what follows. `caller` is who gets it, and alone may ask for the next page.
pub async fn answer(
    target: Target,
    request: &ListRequest,
    representation: Representation,
    caller: &Caller,
    keys: &Keys,
) -> Result<Answer, ApiError> {
    let permitted = target.query.permitted.clone();
    let bound = Bound { caller, request, permitted: &permitted };
    let from = request.continue_token.as_deref().map(|text| continued(text, &target.stores, &bound, keys)).transpose()?;
    let layout = target.layout(representation);
    let mut pages = Pages { stores: target.stores.clone(), query: target.query };
    let mut memory = PageMemory::of(&caller.name);
    let (first, version) = match &from {
        _ if target.nothing_to_ask => (Page::default(), moment::now(&pages.stores).await?),
        Some((cursor, version)) => (pages.read(cursor).await?, *version),
        None => moment::first_page(&pages.stores, &pages.query, &request.follow, PAGE_TIMEOUT).await?,
    };
    let one_page = request.limit.is_some();
    let rest = Rest::new(pages.stores.clone(), first.next);
    memory.take(bytes_of(&first.items)).await?;
    let mut metadata = json!({ "resourceVersion": version.to_string() });
    if let Some(cursor) = rest.cursor().filter(|_| one_page) {
        let cursors = target.stores.split(cursor);
        metadata["continue"] = token(&Continuation { version, cursors }, &bound, keys)?.into();
        if let Some(remaining) = first.remaining.filter(|_| !request.options.without_remaining_count) {
            metadata["remainingItemCount"] = remaining.into();
        }
    }
    if !target.as_of.is_empty() {
        metadata["asOf"] = json!(target.as_of);
    }
    let sheet = layout.sheet(&metadata);
    let media_type = sheet.media_type();
    let is_whole = one_page || rest.cursor().is_none();
    let is_small = is_whole && bytes_of(&first.items) <= TAGGED_BYTES;
    pages.query.limit = next_limit(super::target::PAGE, &first.items);
    let rewritten_to = request.rewrites_version.then_some(version);
    let list = Unsent {
        sheet,
        hits: first.items.into_iter(),
        rest: if is_whole { rest } else { rest.pinned() },
        is_whole,
        pages,
        memory,
        rewritten_to,
    };
    if is_small {
        let bytes = list.whole()?;
        return Ok(Answer { tag: Some(etag::of(&bytes)), body: Body::from(bytes), media_type });
    }
    Ok(Answer { body: Body::from_stream(list.chunks()), media_type, tag: None })
}

/// Where a token goes on in the stores that answer, and the version that the first page showed.
fn continued(text: &str, stores: &Merged, bound: &Bound<'_>, keys: &Keys) -> Result<(Cursor, FleetVersion), ApiError> {
    let opened = continue_token::open(keys, text, bound, Timestamp::now().as_second());
    let Continuation { version, cursors } = opened.map_err(refused_token)?;
    // A registry that has moved to another store meanwhile.
    let cursor = stores.join(cursors).ok_or(ApiError::Expired)?;
    Ok((cursor, version))
}

fn refused_token(error: TokenError) -> ApiError {
    match error {
        TokenError::OtherPermission => ApiError::PermissionChanged,
        TokenError::Expired => ApiError::Expired,
        TokenError::Malformed | TokenError::OtherCaller | TokenError::OtherQuery => {
            ApiError::bad_request(format!("parameter continue: {error}"))
        }
    }
}

fn token(continuation: &Continuation, bound: &Bound<'_>, keys: &Keys) -> Result<String, ApiError> {
    let token = continue_token::seal(keys, continuation, bound, Timestamp::now().as_second())
        .map_err(|error| ApiError::Internal(error.to_string()))?;
    if token.len() > continue_token::MAX_BYTES {
        return Err(ApiError::bad_request(format!(
            "parameter limit: so many indices are searched that the continue token would have {} bytes, and a URI has room for {}; name fewer clusters, or list without a limit",
            token.len(),
            continue_token::MAX_BYTES
        )));
    }
    Ok(token)
}

/// How many objects to ask for after a page. One that has fewer than was asked for was too long with more: so would be the next one.
fn next_limit(asked: usize, page: &[Hit]) -> usize {
    let found = page.len().clamp(1, asked.max(1));
    if bytes_of(page) < SHORT_PAGE_BYTES { (2 * found).min(super::target::PAGE) } else { found }
}

fn bytes_of(page: &[Hit]) -> usize {
    page.iter().map(|hit| hit.object.get().len()).sum()
}

struct Pages {
    stores: Merged,
    query: Query,
}

impl Pages {
    async fn read(&mut self, from: &Cursor) -> Result<Page, ApiError> {
        let answered = timeout(PAGE_TIMEOUT, self.stores.search(&self.query, from)).await;
        Ok(answered.map_err(|_| ApiError::Timeout(PAGE_TIMEOUT.as_secs()))??)
    }
}

/// What of a list is still to be sent.
struct Unsent {
    sheet: Sheet,
    hits: vec::IntoIter<Hit>,
    /// What follows the objects that are here.
    rest: Rest,
    /// Whether that is left to the client.
    is_whole: bool,
    pages: Pages,
    memory: PageMemory,
    /// The version that objects have in place of their member's.
    rewritten_to: Option<FleetVersion>,
}

impl Unsent {
    /// All of a list whose only page is here.
    fn whole(mut self) -> Result<Bytes, ApiError> {
        let objects: usize = self.hits.as_slice().iter().map(|hit| hit.object.get().len() + 1).sum();
        let mut bytes = Vec::with_capacity(objects + HEAD_BYTES);
        while let Some(hit) = self.hits.next() {
            self.write(&mut bytes, hit)?;
        }
        self.sheet.finish(&mut bytes)?;
        self.rest.leave();
        Ok(bytes.into())
    }

    fn chunks(self) -> impl Stream<Item = Result<Bytes, ApiError>> {
        try_unfold(Some((self, 0)), async |state| {
            let Some((mut list, taken)) = state else { return Ok(None) };
            list.memory.keep_pace(taken)?;
            let (chunk, is_last) = list.chunk().await?;
            let taken = chunk.len();
            Ok(Some((chunk, (!is_last).then_some((list, taken)))))
        })
    }

    /// The next bytes, and whether they are the last.
    async fn chunk(&mut self) -> Result<(Bytes, bool), ApiError> {
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        while chunk.len() < CHUNK_BYTES {
            let Some(hit) = self.next_hit().await? else {
                self.sheet.finish(&mut chunk)?;
                self.rest.leave();
                return Ok((chunk.into(), true));
            };
            self.write(&mut chunk, hit)?;
        }
        Ok((chunk.into(), false))
    }

    fn write(&mut self, out: &mut Vec<u8>, hit: Hit) -> Result<(), ApiError> {
        let Some(version) = self.rewritten_to else { return self.sheet.write(out, &hit) };
        let object = with_fleet_version(&hit.object, version);
        self.sheet.write(out, &Hit { object, ..hit })
    }

    async fn next_hit(&mut self) -> Result<Option<Hit>, ApiError> {
        loop {
            if let Some(hit) = self.hits.next() {
                return Ok(Some(hit));
            }
            let Some(cursor) = self.rest.cursor().filter(|_| !self.is_whole) else { return Ok(None) };
            let page = match self.pages.read(cursor).await {
                Ok(page) => self.memory.take(bytes_of(&page.items)).await.map(|()| page),
                failed => failed,
            };
            let page = page.inspect_err(|error| {
                tracing::warn!(%error, resource = %self.pages.query.resource.plural, "a list was cut short");
            })?;
            self.pages.query.limit = next_limit(self.pages.query.limit, &page.items);
            self.hits = page.items.into_iter();
            self.rest.advance(page.next);
        }
    }
}

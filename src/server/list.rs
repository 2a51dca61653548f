//! The answer to a list: stored objects, spliced as they are into `<Kind>List`.
//!
//! With a limit the answer is one page and a token for the next. Without one it is everything: pages are read from the store
//! one after another, as fast as the client takes them, so that one request never holds more than one page of
//! [`PAGE`](super::target::PAGE) objects. An error of the first page is a `Status`; one of a later page comes too late for
//! that and cuts the connection, which every HTTP client notices.

use std::{sync::Arc, time::Duration, vec};

use axum::body::Body;
use bytes::{BufMut, Bytes, BytesMut};
use futures::{Stream, stream::try_unfold};
use serde_json::json;
use tokio::time::timeout;

use super::{moment, request::ListRequest, status::ApiError, target::Target};
use crate::{
    model::FleetVersion,
    query::{
        Cursor, Hit, Page, Query,
        continue_token::{self, TokenError},
    },
    store::Store,
};

/// How long the store may take for one page.
const PAGE_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes that are collected before they are sent: few writes, little memory.
const CHUNK_BYTES: usize = 64 * 1024;

/// Asks the store for the first page, and makes a body of it and what follows.
pub async fn answer(target: Target, request: &ListRequest) -> Result<Body, ApiError> {
    let token = request.continue_token.as_deref().map(split_token).transpose()?;
    let from = token.map(|(text, _)| continue_token::decode(text, &target.query)).transpose();
    let cursor = from.map_err(refused_token)?;
    let mut pages = Pages { store: target.store, query: target.query };
    let (first, version) = match (&cursor, token) {
        _ if target.nothing_to_ask => (Page::default(), moment::now(&*pages.store).await?),
        (Some(cursor), Some((_, version))) => (pages.read(Some(cursor)).await?, version),
        _ => moment::first_page(&*pages.store, &pages.query, &request.follow, PAGE_TIMEOUT).await?,
    };
    let one_page = request.limit.is_some();
    let metadata = page_metadata(&first, version, &pages.query, one_page);
    let head = format!(
        r#"{{"kind":{kind},"apiVersion":{version},"metadata":{metadata},"items":["#,
        kind = json!(format!("{}List", target.kind.kind)),
        version = json!(target.kind.api_version()),
    );
    let next = if one_page { None } else { first.next };
    pages.query.limit = super::target::PAGE;
    let list = Unsent { head: Some(head), hits: first.items.into_iter(), first_item: true, next, pages };
    Ok(Body::from_stream(list.chunks()))
}

fn refused_token(error: TokenError) -> ApiError {
    match error {
        TokenError::OtherPermission => ApiError::PermissionChanged,
        error => ApiError::bad_request(format!("parameter continue: {error}")),
    }
}

/// Our tokens carry the version that the first page showed, as all further ones do.
fn split_token(token: &str) -> Result<(&str, FleetVersion), ApiError> {
    let malformed =
        || ApiError::bad_request("parameter continue: the continue token is malformed; start the list again without it");
    let (text, version) = token.split_once('.').ok_or_else(malformed)?;
    Ok((text, version.parse().map_err(|_| malformed())?))
}

fn page_metadata(page: &Page, version: FleetVersion, query: &Query, one_page: bool) -> serde_json::Value {
    let mut metadata = json!({ "resourceVersion": version.to_string() });
    if let Some(cursor) = page.next.as_ref().filter(|_| one_page) {
        metadata["continue"] = format!("{}.{version}", continue_token::encode(cursor, query)).into();
        if let Some(remaining) = page.remaining {
            metadata["remainingItemCount"] = remaining.into();
        }
    }
    metadata
}

struct Pages {
    store: Arc<dyn Store>,
    query: Query,
}

impl Pages {
    async fn read(&mut self, from: Option<&Cursor>) -> Result<Page, ApiError> {
        let answered = timeout(PAGE_TIMEOUT, self.store.search(&self.query, from)).await;
        Ok(answered.map_err(|_| ApiError::Timeout(PAGE_TIMEOUT.as_secs()))??)
    }
}

/// What of a list is still to be sent.
struct Unsent {
    /// Everything before the first item, until it is sent.
    head: Option<String>,
    hits: vec::IntoIter<Hit>,
    first_item: bool,
    next: Option<Cursor>,
    pages: Pages,
}

impl Unsent {
    fn chunks(self) -> impl Stream<Item = Result<Bytes, ApiError>> {
        try_unfold(Some(self), async |state| {
            let Some(mut list) = state else { return Ok(None) };
            let (chunk, is_last) = list.chunk().await?;
            Ok(Some((chunk, (!is_last).then_some(list))))
        })
    }

    /// The next bytes, and whether they are the last.
    async fn chunk(&mut self) -> Result<(Bytes, bool), ApiError> {
        let mut chunk = BytesMut::new();
        if let Some(head) = self.head.take() {
            chunk.put(head.as_bytes());
        }
        while chunk.len() < CHUNK_BYTES {
            let Some(hit) = self.next_hit().await? else {
                chunk.put_slice(b"]}\n");
                return Ok((chunk.freeze(), true));
            };
            if !self.first_item {
                chunk.put_u8(b',');
            }
            self.first_item = false;
            chunk.put(hit.object.get().as_bytes());
        }
        Ok((chunk.freeze(), false))
    }

    async fn next_hit(&mut self) -> Result<Option<Hit>, ApiError> {
        loop {
            if let Some(hit) = self.hits.next() {
                return Ok(Some(hit));
            }
            let Some(cursor) = self.next.take() else { return Ok(None) };
            let page = self.pages.read(Some(&cursor)).await.inspect_err(|error| {
                tracing::warn!(%error, resource = %self.pages.query.resource.plural, "a list was cut short");
            })?;
            self.hits = page.items.into_iter();
            self.next = page.next;
        }
    }
}

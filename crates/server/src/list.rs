//! The answer to a list: stored objects, spliced as they are into `<Kind>List`, or shown as another
//! [representation](super::representation) wants it.
//!
//! With a limit the answer is one page and a token for the next. Without one it is everything: pages are read from the store
//! one after another, as fast as the client takes them, so that one request never holds more than one page of
//! [`PAGE`](super::target::PAGE) objects. An error of the first page is a `Status`; one of a later page comes too late for
//! that and cuts the connection, which every HTTP client notices.

use axum::{body::Body, http::HeaderValue};
use bytes::Bytes;
use fleetdex_core::{
    model::{FleetVersion, with_fleet_version},
    query::{Cursor, Hit, Page},
};
use fleetdex_store::merged::Merged;
use futures::{Stream, stream::try_unfold};
use jiff::Timestamp;
use serde_json::json;

use super::{
    caller::Caller,
    continue_token::{self, Bound, Continuation, Keys, TokenError},
    etag, moment,
    page_memory::SMALL_PAGE_BYTES,
    reading::{self, CHUNK_BYTES, PAGE_TIMEOUT, Reading},
    representation::{Representation, Sheet},
    request::ListRequest,
    status::ApiError,
    target::Target,
};

/// Objects of an answer that is made as a whole before it is sent, so that it can have a hash: bounds what hashing costs a request that
/// nobody repeats, to about half a millisecond.
const TAGGED_BYTES: usize = SMALL_PAGE_BYTES;
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
    let bound = Bound {
        caller,
        request,
        permitted: &permitted,
    };
    let from = request
        .continue_token
        .as_deref()
        .map(|text| continued(text, &target.stores, &bound, keys))
        .transpose()?;
    let layout = target.layout(representation);
    let (stores, query) = (target.stores.clone(), target.query);
    let (first, version) = match &from {
        _ if target.nothing_to_ask => (Page::default(), moment::now(&stores).await?),
        Some((cursor, version)) => (reading::read(&stores, &query, cursor).await?, *version),
        None => moment::first_page(&stores, &query, &request.follow, PAGE_TIMEOUT).await?,
    };
    let one_page = request.limit.is_some();
    let remaining = first.remaining;
    let reading = Reading::begin(stores, query, first, from.is_some(), one_page).await?;
    let mut metadata = json!({ "resourceVersion": version.to_string() });
    if let Some(cursor) = reading.cursor().filter(|_| one_page) {
        let cursors = target.stores.split(cursor);
        metadata["continue"] = token(&Continuation { version, cursors }, &bound, keys)?.into();
        if let Some(remaining) = remaining.filter(|_| !request.options.without_remaining_count) {
            metadata["remainingItemCount"] = remaining.into();
        }
    }
    if !target.as_of.is_empty() {
        metadata["asOf"] = json!(target.as_of);
    }
    let sheet = layout.sheet(&metadata);
    let media_type = sheet.media_type();
    let is_small = reading.is_whole() && reading.bytes() <= TAGGED_BYTES;
    let list = Unsent {
        sheet,
        reading,
        rewritten_to: request.rewrites_version.then_some(version),
    };
    if is_small {
        let bytes = list.whole().await?;
        return Ok(Answer {
            tag: Some(etag::of(&bytes)),
            body: Body::from(bytes),
            media_type,
        });
    }
    Ok(Answer {
        body: Body::from_stream(list.chunks()),
        media_type,
        tag: None,
    })
}

/// Where a token goes on in the stores that answer, and the version that the first page showed.
fn continued(
    text: &str,
    stores: &Merged,
    bound: &Bound<'_>,
    keys: &Keys,
) -> Result<(Cursor, FleetVersion), ApiError> {
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

/// What of a list is still to be sent.
struct Unsent {
    sheet: Sheet,
    reading: Reading,
    /// The version that objects have in place of their member's.
    rewritten_to: Option<FleetVersion>,
}

impl Unsent {
    /// All of a list whose only page is here.
    async fn whole(mut self) -> Result<Bytes, ApiError> {
        let mut bytes = Vec::with_capacity(self.reading.bytes() + self.reading.len() + HEAD_BYTES);
        while !self.write_next(&mut bytes).await? {}
        Ok(bytes.into())
    }

    fn chunks(self) -> impl Stream<Item = Result<Bytes, ApiError>> {
        try_unfold(Some((self, 0)), async |state| {
            let Some((mut list, taken)) = state else {
                return Ok(None);
            };
            let chunk = match list.reading.keep_pace(taken) {
                Ok(()) => list.chunk().await,
                Err(error) => Err(error),
            };
            let (chunk, is_last) = chunk.inspect_err(|error| {
                let resource = &list.reading.resource().plural;
                tracing::warn!(%error, %resource, "a list was cut short");
            })?;
            let taken = chunk.len();
            Ok(Some((chunk, (!is_last).then_some((list, taken)))))
        })
    }

    /// The next bytes, and whether they are the last.
    async fn chunk(&mut self) -> Result<(Bytes, bool), ApiError> {
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        let mut is_last = false;
        while !is_last && chunk.len() < CHUNK_BYTES {
            is_last = self.write_next(&mut chunk).await?;
        }
        Ok((chunk.into(), is_last))
    }

    /// Writes the next object, or the end of the list. Whether it was the end.
    async fn write_next(&mut self, out: &mut Vec<u8>) -> Result<bool, ApiError> {
        let Some(hit) = self.reading.next().await? else {
            self.sheet.finish(out)?;
            self.reading.leave();
            return Ok(true);
        };
        match self.rewritten_to {
            None => self.sheet.write(out, &hit)?,
            Some(version) => self.sheet.write(
                out,
                &Hit {
                    object: with_fleet_version(&hit.object, version),
                    ..hit
                },
            )?,
        }
        Ok(false)
    }
}

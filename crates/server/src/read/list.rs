//! Responses to lists: stored objects, spliced as they are into `<Kind>List`, or encoded in another
//! [representation](crate::render::representation).
//!
//! With a limit the response is one page and a continue token. Without one it is the whole list:
//! pages are read from the store one after another, as fast as the client takes them, so that one
//! request never holds more than one page of [`PAGE`](super::query_plan::PAGE) objects. An error of
//! the first page is a `Status`; one of a later page comes too late for that and cuts the
//! connection, which every HTTP client notices.

use axum::{body::Body, http::HeaderValue};
use bytes::Bytes;
use fleetdex_core::{
    model::{FleetVersion, with_fleet_version},
    query::{Cursor, Hit, Page},
};
use fleetdex_limits::{
    computing::UserComputing,
    request::{SMALL_PAGE_BYTES, UserRequest},
};
use fleetdex_query_api::{answer::ListMetadata, question::ListRequest};
use fleetdex_store::merged::Merged;
use futures::{Stream, stream::try_unfold};
use jiff::Timestamp;

use super::{
    counted_bytes::CountedBytes,
    page_reader::{self, CHUNK_BYTES, PageReader},
    query_plan::QueryPlan,
    snapshot,
    store_moves::PlannedCatalog,
};
use crate::{
    api_error::ApiError,
    auth::{
        caller::Caller,
        continue_token::{self, Continuation, SealingKeys, TokenBinding, TokenError},
    },
    render::{
        etag,
        representation::{ListEncoder, Representation},
    },
};

/// Bytes of objects in a response that is buffered whole, so that it can have an `ETag`. The bound
/// keeps hashing below about half a millisecond for requests that are never repeated.
const TAGGED_BYTES: usize = SMALL_PAGE_BYTES;
/// Room for the last object of a piece.
const USUAL_OBJECT_BYTES: usize = 16 * 1024;
/// Room for what surrounds the objects of a buffered response.
const HEAD_BYTES: usize = 4 * 1024;

/// The response to a list.
#[derive(Debug)]
pub struct ListResponse {
    /// The encoded list, buffered or streamed.
    pub body: Body,
    /// The media type of the body.
    pub media_type: &'static str,
    /// The `ETag` of a buffered body.
    pub tag: Option<HeaderValue>,
}

/// Reads the first page and makes the response. `plan` was made from `catalog`. The continue token
/// is bound to `caller`.
pub async fn respond(
    catalog: &PlannedCatalog,
    plan: QueryPlan,
    request: &ListRequest,
    representation: Representation,
    caller: &Caller,
    keys: &SealingKeys,
) -> Result<ListResponse, ApiError> {
    let permitted = plan.query.permitted.clone();
    let bound = TokenBinding {
        caller,
        request,
        permitted: &permitted,
    };
    let from = request.continue_token.as_deref();
    let from = from
        .map(|text| continued(text, &plan.stores, &bound, keys))
        .transpose()?;
    let object_encoder = plan.encoder(representation);
    let (stores, query) = (plan.stores.clone(), plan.query);
    let (first, version) = match &from {
        _ if plan.is_empty => (
            Page::default(),
            snapshot::current_version(catalog, &stores, request).await?,
        ),
        Some((cursor, version)) => (page_reader::read(&stores, &query, cursor).await?, *version),
        None => snapshot::first_page(catalog, &stores, &query, request).await?,
    };
    let one_page = request.limit.is_some();
    let remaining = first.remaining;
    let reader = PageReader::begin(stores, query, first, one_page);
    let next = reader.cursor().filter(|_| one_page);
    let next = next.map(|cursor| Continuation {
        version: Some(version),
        cursors: plan.stores.split(cursor),
    });
    let counts = next.is_some() && !request.options.without_remaining_count;
    let next = next.map(|next| token(&next, &bound, keys)).transpose()?;
    let encoder = object_encoder.list(&ListMetadata {
        resource_version: version.to_string(),
        continue_token: next.unwrap_or_default(),
        remaining_item_count: remaining.filter(|_| counts),
        as_of: plan.as_of,
        ..ListMetadata::default()
    });
    let media_type = representation.encoding.media_type();
    let is_small = reader.is_whole() && reader.bytes() <= TAGGED_BYTES;
    let list = ListStream {
        encoder,
        reader,
        rewritten_to: request.rewrites_version.then_some(version),
        computing: UserRequest::current().computing(),
    };
    if is_small {
        let bytes = list.whole().await?;
        return Ok(ListResponse {
            tag: Some(etag::of(&bytes)),
            body: Body::from(bytes),
            media_type,
        });
    }
    Ok(ListResponse {
        body: Body::from_stream(list.chunks()),
        media_type,
        tag: None,
    })
}

/// The cursor and the resource version of a continue token.
fn continued(
    text: &str,
    stores: &Merged,
    bound: &TokenBinding<'_>,
    keys: &SealingKeys,
) -> Result<(Cursor, FleetVersion), ApiError> {
    let opened = continue_token::open(keys, text, bound, Timestamp::now().as_second());
    let Continuation { version, cursors } = opened.map_err(refused_token)?;
    // The registry may have moved to another store.
    let cursor = stores.join(cursors).ok_or(ApiError::Expired)?;
    Ok((cursor, version.ok_or(ApiError::Expired)?))
}

pub(super) fn refused_token(error: TokenError) -> ApiError {
    match error {
        TokenError::OtherPermission => ApiError::PermissionChanged,
        TokenError::Expired => ApiError::Expired,
        TokenError::Malformed | TokenError::OtherCaller | TokenError::OtherQuery => {
            ApiError::bad_request(format!("parameter continue: {error}"))
        }
    }
}

pub(super) fn token(
    continuation: &Continuation,
    bound: &TokenBinding<'_>,
    keys: &SealingKeys,
) -> Result<String, ApiError> {
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

/// A list on its way to the client.
struct ListStream {
    encoder: ListEncoder,
    reader: PageReader,
    /// The resource version of the fleet that replaces those of members.
    rewritten_to: Option<FleetVersion>,
    computing: UserComputing,
}

impl ListStream {
    /// The whole list, whose only page is in memory.
    async fn whole(mut self) -> Result<Bytes, ApiError> {
        let mut list = CountedBytes::new();
        list.bytes
            .reserve(self.reader.bytes() + self.reader.len() + HEAD_BYTES);
        while !self.write_next(&mut list).await? {}
        Ok(list.finish())
    }

    fn chunks(self) -> impl Stream<Item = Result<Bytes, ApiError>> {
        try_unfold(Some(self), async |state| {
            let Some(mut list) = state else {
                return Ok(None);
            };
            let (chunk, is_last) = list.chunk().await.inspect_err(|error| {
                let resource = &list.reader.resource().plural;
                tracing::warn!(%error, %resource, "a list was cut short");
            })?;
            Ok(Some((chunk, (!is_last).then_some(list))))
        })
    }

    /// The next bytes, and whether they are the last.
    async fn chunk(&mut self) -> Result<(Bytes, bool), ApiError> {
        let mut chunk = CountedBytes::new();
        chunk.bytes.reserve(CHUNK_BYTES + USUAL_OBJECT_BYTES);
        let mut is_last = false;
        while !is_last && chunk.bytes.len() < CHUNK_BYTES {
            is_last = self.write_next(&mut chunk).await?;
        }
        Ok((chunk.finish(), is_last))
    }

    /// Writes the next object, or the end of the list. Returns whether it was the end.
    async fn write_next(&mut self, list: &mut CountedBytes) -> Result<bool, ApiError> {
        let Some(hit) = self.reader.next().await? else {
            self.encoder.finish(&mut list.bytes)?;
            self.reader.leave();
            return Ok(true);
        };
        let bytes = hit.object.get().len();
        list.make_room(self.encoder.needed(&hit)).await?;
        let (encoder, rewritten_to) = (&mut self.encoder, self.rewritten_to);
        let out = &mut list.bytes;
        let write = || match rewritten_to {
            None => encoder.write(out, &hit),
            Some(version) => {
                let object = with_fleet_version(&hit.object, version);
                encoder.write(out, &Hit { object, ..hit })
            }
        };
        let written = self.computing.run(bytes, write).await;
        written.ok_or(ApiError::TooManyRequests)??;
        Ok(false)
    }
}

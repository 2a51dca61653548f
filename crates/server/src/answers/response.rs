//! Responses: JSON, documents, refusals, and the headers for `ETag`s, methods and warnings.

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use bytes::Bytes;
use fleetdex_query_api::warning;
use serde_json::value::RawValue;

use crate::{
    api_error::{ApiError, RETRY_AFTER_SECONDS},
    read::{counted_bytes::CountedBytes, list},
    render::{
        etag::{self, IfNoneMatch},
        representation::Representation,
    },
};

/// Extension of a response that may be compressed.
#[derive(Clone, Copy, Debug)]
pub struct Compressible;

/// Unknown parameters that warnings name: as many as the head of a response has room for.
const MAX_NAMED: usize = 16;
/// Characters of the name of a parameter that a warning repeats.
const MAX_NAME: usize = 64;

pub(crate) fn json(code: StatusCode, body: Body) -> Response {
    typed(code, "application/json", body)
}

/// A response of a media type.
pub(crate) fn typed(code: StatusCode, media_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    let media_type = HeaderValue::from_static(media_type);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, media_type);
    response
}

/// A document of this server itself, in the representation that the client wants.
pub(crate) fn document(
    json_text: &RawValue,
    representation: Representation,
) -> Result<Response, ApiError> {
    let bytes = representation.document(json_text.get())?;
    Ok(whole(bytes.into(), representation))
}

/// A document of what the fleet has, within the memory of the request.
pub(crate) async fn counted_document(
    json_text: &str,
    representation: Representation,
) -> Result<Response, ApiError> {
    let mut shown = CountedBytes::new();
    shown.make_room(representation.needed(json_text)).await?;
    shown.bytes = representation.document(json_text)?;
    Ok(whole(shown.finish(), representation))
}

fn whole(bytes: Bytes, representation: Representation) -> Response {
    let tag = Some(etag::of(&bytes));
    tagged(list::ListResponse {
        body: Body::from(bytes),
        media_type: representation.encoding.media_type(),
        tag,
    })
}

pub(crate) fn tagged(list: list::ListResponse) -> Response {
    let mut response = typed(StatusCode::OK, list.media_type, list.body);
    let headers = response.headers_mut();
    headers.insert(header::VARY, HeaderValue::from_static("accept"));
    headers.extend(list.tag.map(|tag| (header::ETAG, tag)));
    response.extensions_mut().insert(Compressible);
    response
}

/// Replaces a response that the client has already by 304.
pub(crate) fn not_modified(known: &IfNoneMatch, mut response: Response) -> Response {
    let tag = response.headers().get(header::ETAG);
    if tag.is_some_and(|tag| known.has(tag)) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response.headers_mut().remove(header::CONTENT_TYPE);
        *response.body_mut() = Body::empty();
    }
    response
}

pub(crate) fn refusal(error: &ApiError) -> Response {
    let code = StatusCode::from_u16(error.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = serde_json::to_vec(&error.status()).unwrap_or_default();
    let mut response = json(code, Body::from(body));
    let (name, value) = match error {
        ApiError::Unauthorized | ApiError::Unauthenticated => {
            (header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
        }
        ApiError::MethodNotAllowed { allowed, .. } => {
            (header::ALLOW, HeaderValue::from_static(allowed))
        }
        ApiError::Busy(_) | ApiError::Crowded(_) | ApiError::TooManyRequests => {
            (header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_SECONDS))
        }
        _ => return response,
    };
    response.headers_mut().insert(name, value);
    response
}

/// The response to OPTIONS.
pub(crate) fn options(allowed: &'static str) -> Response {
    allowing(StatusCode::NO_CONTENT, allowed)
}

/// A response that says which methods are served.
pub(crate) fn allowing(code: StatusCode, allowed: &'static str) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = code;
    let allowed = HeaderValue::from_static(allowed);
    response.headers_mut().insert(header::ALLOW, allowed);
    response
}

/// Warnings about ignored parameters.
pub(crate) fn unknown_parameters(names: &[String]) -> Vec<String> {
    let short = |name: &String| name.chars().take(MAX_NAME).collect::<String>();
    let named = names
        .iter()
        .take(MAX_NAMED)
        .map(|name| format!("unknown parameter {:?} is ignored", short(name)));
    let others = names.len().saturating_sub(MAX_NAMED);
    named
        .chain((others > 0).then(|| format!("{others} more unknown parameters are ignored")))
        .collect()
}

pub(crate) fn with_warnings(mut response: Response, warnings: &[String]) -> Response {
    for text in warnings {
        if let Ok(value) = HeaderValue::try_from(warning::header_value(text)) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    response
}

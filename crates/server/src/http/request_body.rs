//! Bodies of requests that this server reads itself.

use axum::{body::to_bytes, extract::Request};
use bytes::Bytes;
use fleetdex_core::model::causes;
use http::header;
use http_body_util::LengthLimitError;

use super::limits::MAX_BODY_BYTES;
use crate::request::api_error::ApiError;

/// The JSON of a request.
pub(crate) async fn json_body(request: Request) -> Result<Bytes, ApiError> {
    let media_type = request.headers().get(header::CONTENT_TYPE);
    let media_type = media_type.map(|value| value.to_str().unwrap_or_default());
    let essence = media_type.map(|text| text.split(';').next().unwrap_or_default().trim());
    if essence.is_some_and(|essence| !essence.eq_ignore_ascii_case("application/json")) {
        return Err(ApiError::UnsupportedMediaType(format!(
            "bodies of media type {:?} are not supported here; send JSON with Content-Type: application/json",
            media_type.unwrap_or_default()
        )));
    }
    to_bytes(request.into_body(), MAX_BODY_BYTES)
        .await
        .map_err(unread)
}

/// The refusal of a body that was not read to its end.
pub(crate) fn unread(error: axum::Error) -> ApiError {
    match error.into_inner() {
        limited if limited.is::<LengthLimitError>() => ApiError::TooLarge(MAX_BODY_BYTES),
        broken => ApiError::bad_request(format!(
            "the body of the request cannot be read: {}",
            causes(broken.as_ref())
        )),
    }
}

//! Bodies of requests that this server reads itself, within the memory for them.

use axum::{body::Body, extract::Request};
use bytes::Bytes;
use fleetdex_core::model::causes;
use fleetdex_limits::{intake::IntakeError, request::UserRequest};
use http::header;
use http_body_util::LengthLimitError;
use tokio::time::timeout;

use crate::{
    api_error::ApiError,
    limits::{MAX_BODY_BYTES, RequestLimits, no_memory},
};

/// The JSON of a request. Its memory counts until the last clone of it is dropped.
pub(crate) async fn json_body(limits: &RequestLimits, request: Request) -> Result<Bytes, ApiError> {
    let media_type = request.headers().get(header::CONTENT_TYPE);
    let media_type = media_type.map(|value| value.to_str().unwrap_or_default());
    let essence = media_type.map(|text| text.split(';').next().unwrap_or_default().trim());
    if essence.is_some_and(|essence| !essence.eq_ignore_ascii_case("application/json")) {
        return Err(ApiError::UnsupportedMediaType(format!(
            "bodies of media type {:?} are not supported here; send JSON with Content-Type: application/json",
            media_type.unwrap_or_default()
        )));
    }
    read_body(limits, request.into_body()).await
}

/// A body. The request timeout applies to the bodies of long-running requests, too. Its memory
/// counts until the last clone of it is dropped.
pub(crate) async fn read_body(limits: &RequestLimits, body: Body) -> Result<Bytes, ApiError> {
    let patience = limits.request_timeout;
    let request = UserRequest::current();
    let intake = request.memory();
    let read = timeout(patience, intake.read(body, MAX_BODY_BYTES)).await;
    read.map_err(|_| ApiError::RequestTimeout(patience.as_secs()))?
        .map_err(unread)
}

/// The refusal of a body that was not read to its end.
fn unread(error: IntakeError) -> ApiError {
    match error {
        IntakeError::Slow => {
            ApiError::Busy("the body came too slowly while others waited for memory".to_owned())
        }
        IntakeError::Broken(error) => {
            let error = match error.downcast::<axum::Error>() {
                Ok(error) => error.into_inner(),
                Err(other) => other,
            };
            if error.is::<LengthLimitError>() {
                return ApiError::TooLarge(MAX_BODY_BYTES);
            }
            ApiError::bad_request(format!(
                "the body of the request cannot be read: {}",
                causes(error.as_ref())
            ))
        }
        other => no_memory(&other),
    }
}

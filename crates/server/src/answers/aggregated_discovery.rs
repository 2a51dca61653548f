//! Aggregated discovery of the server's own groups, for clients that prefer it.

use axum::{
    body::Body,
    extract::Request,
    http::{HeaderValue, StatusCode, header},
    response::Response,
};

use crate::{answers::response::json, render::group_discovery};

/// Whether a client prefers aggregated discovery.
pub(crate) fn wants_aggregated(request: &Request) -> bool {
    let ranges = request
        .headers()
        .get_all(header::ACCEPT)
        .iter()
        .map(|value| value.to_str().unwrap_or_default());
    group_discovery::wants_aggregated(&ranges.collect::<Vec<_>>().join(","))
}

/// The response to aggregated discovery of the server's own groups.
pub(crate) fn aggregated_discovery() -> Response {
    let mut response = json(
        StatusCode::OK,
        Body::from(group_discovery::aggregated().to_string()),
    );
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static(group_discovery::AGGREGATED_TYPE),
    );
    response
        .headers_mut()
        .insert(header::VARY, HeaderValue::from_static("accept"));
    response
}

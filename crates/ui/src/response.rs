//! Addresses of the page, and responses with the headers that protect it.

use axum::{body::Body, response::Response};
use http::{HeaderValue, StatusCode, header};

/// Where the page is served.
pub const ROOT: &str = "/ui";
/// Where a token is entered, and where one-time links point.
pub const LOGIN_PATH: &str = "/ui/login";
/// Where the session ends.
pub const LOGOUT_PATH: &str = "/ui/logout";
/// What a view may load: files of this server, and nothing else. No frame may show it, and forms go
/// to this server only.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// A page.
pub(crate) fn html_response(status: StatusCode, text: String) -> Response {
    text_response(status, "text/html; charset=utf-8", text)
}

/// A text of a media type.
pub(crate) fn text_response(
    status: StatusCode,
    media_type: &'static str,
    text: impl Into<Body>,
) -> Response {
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    let mut response = secured(response);
    let media_type = HeaderValue::from_static(media_type);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, media_type);
    response
}

/// Adds the headers that every response of the page has.
pub fn secured(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "same-origin"),
        (header::X_FRAME_OPTIONS, "DENY"),
        // What one user was shown is not kept for the next.
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    for name in ["cross-origin-opener-policy", "cross-origin-resource-policy"] {
        headers.insert(name, HeaderValue::from_static("same-origin"));
    }
    response
}

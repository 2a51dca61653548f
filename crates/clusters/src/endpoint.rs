//! Addresses of API servers.

use http::Uri;

/// Parses a URL of an API server, such as `https://HOST:PORT`; `None` if it has another scheme, a
/// user, a query or a fragment.
pub(super) fn parse(url: &str) -> Option<Uri> {
    let uri: Uri = url.parse().ok()?;
    let is_web = matches!(uri.scheme_str(), Some("http" | "https"));
    (is_web && !url.contains(['@', '?', '#'])).then_some(uri)
}

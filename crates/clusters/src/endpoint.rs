//! Addresses of API servers.

use http::Uri;

/// An address that requests can be sent to: `https://HOST:PORT`, without user, query and fragment.
pub(super) fn parse(url: &str) -> Option<Uri> {
    let uri: Uri = url.parse().ok()?;
    let is_web = matches!(uri.scheme_str(), Some("http" | "https"));
    (is_web && !url.contains(['@', '?', '#'])).then_some(uri)
}

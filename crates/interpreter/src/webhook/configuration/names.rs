//! Names as Kubernetes validates them.
//!
//! Source: `k8s.io/apimachinery/pkg/util/validation`.

/// A DNS-1123 label: lower-case letters, digits and `-`, which stands neither first nor last; at
/// most 63.
pub(super) fn is_label(text: &str) -> bool {
    text.len() <= 63 && is_part(text)
}

/// A DNS-1035 label: a DNS-1123 label that starts with a letter.
pub(super) fn is_version_label(text: &str) -> bool {
    is_label(text) && text.starts_with(|first: char| first.is_ascii_lowercase())
}

/// A DNS-1123 subdomain: parts with dots between them, of at most 253 bytes in all. As in
/// Kubernetes, a part has no limit of its own.
pub(super) fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_part)
}

/// A domain name of at least two labels. A dot at the end is allowed.
pub(super) fn is_qualified(text: &str) -> bool {
    let name = text.strip_suffix('.').unwrap_or(text);
    name.len() <= 253 && name.contains('.') && name.split('.').all(is_label)
}

fn is_part(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

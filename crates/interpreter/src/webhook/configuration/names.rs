//! Names as Kubernetes validates them.
//!
//! Source: `k8s.io/apimachinery/pkg/util/validation`.

use fleetdex_core::model::is_dns_label;

/// A DNS-1035 label: a DNS-1123 label that starts with a letter.
pub(super) fn is_version_label(text: &str) -> bool {
    is_dns_label(text) && text.starts_with(|first: char| first.is_ascii_lowercase())
}

/// A domain name of at least two labels. A dot at the end is allowed.
pub(super) fn is_qualified(text: &str) -> bool {
    let name = text.strip_suffix('.').unwrap_or(text);
    name.len() <= 253 && name.contains('.') && name.split('.').all(is_dns_label)
}

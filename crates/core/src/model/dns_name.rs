//! Names of the domain name system, as Kubernetes validates them.
//!
//! Source: `k8s.io/apimachinery/pkg/util/validation`.

/// Whether it is a DNS-1123 label: lower-case letters, digits and `-`, which stands neither first
/// nor last; at most 63. Safe in a path.
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && is_part(text)
}

/// Whether it is a DNS-1123 subdomain: parts with dots between them, of at most 253 bytes in all.
/// As in Kubernetes, a part has no limit of its own.
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_part)
}

fn is_part(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(is_inner) && !text.starts_with('-') && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_have_lower_case_letters_digits_and_hyphens() {
        for name in ["a", "shop-2", "0", &"a".repeat(63)] {
            assert!(is_dns_label(name) && is_dns_subdomain(name), "{name}");
        }
        let long = "a".repeat(64);
        for other in [
            "", "-a", "a-", "A", "a.b", "a/b", "..", "a?b", "\u{fc}", &long,
        ] {
            assert!(!is_dns_label(other), "{other}");
        }
    }

    #[test]
    fn subdomains_have_parts() {
        let longest = format!("{}.b", "a".repeat(251));
        for name in ["a.b", "a-1.b.c", &longest] {
            assert!(is_dns_subdomain(name), "{name}");
        }
        for other in ["a..b", ".a", "a.", "a.-b", "a_b.c", &format!("{longest}c")] {
            assert!(!is_dns_subdomain(other), "{other}");
        }
    }
}

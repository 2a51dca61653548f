//! `ETag`s of responses, so that a client that repeats a request gets 304.
//!
//! Source of the rules: <https://www.rfc-editor.org/rfc/rfc9110#section-8.8.3>

use fleetdex_core::model::hex;
use http::{HeaderMap, HeaderValue, header};

/// Bytes of the hash in a tag: no two responses share them by chance.
const TAG_BYTES: usize = 16;

/// The tag of a response. It is weak, because the same response may be sent compressed or not.
///
/// The hash is a cryptographic one: with another, a member could make an object that has the tag of
/// an older one, and clients would not see it.
pub fn of(body: &[u8]) -> HeaderValue {
    let hash = blake3::hash(body);
    let tag = format!("W/\"{}\"", hex(&hash.as_bytes()[..TAG_BYTES]));
    HeaderValue::from_str(&tag).unwrap_or(HeaderValue::from_static("W/\"\""))
}

/// The header `If-None-Match`: the tags of responses that a client has already.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IfNoneMatch(Vec<String>);

impl IfNoneMatch {
    /// Reads the header of a request.
    pub fn of(headers: &HeaderMap) -> Self {
        let lines = headers.get_all(header::IF_NONE_MATCH).iter();
        let lines = lines.filter_map(|value| value.to_str().ok());
        let tags = lines.flat_map(|line| line.split(','));
        Self(tags.map(|tag| opaque(tag).to_owned()).collect())
    }

    /// Whether the client has the response with this tag.
    pub fn has(&self, tag: &HeaderValue) -> bool {
        let Ok(tag) = tag.to_str() else { return false };
        let mut known = self.0.iter();
        known.any(|known| known == "*" || known == opaque(tag))
    }
}

/// Weak and strong tags are compared alike.
fn opaque(tag: &str) -> &str {
    let tag = tag.trim();
    tag.strip_prefix("W/").unwrap_or(tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_matches_weak_and_strong_spellings_lists_and_the_wildcard() {
        let tag = of(b"answer");
        assert_eq!((&tag, tag.len()), (&of(b"answer"), 2 + 2 + 2 * TAG_BYTES));
        assert_ne!(tag, of(b"another"));
        let text = tag.to_str().unwrap();
        let has = |value: &str| {
            let headers = HeaderMap::from_iter([(
                header::IF_NONE_MATCH,
                HeaderValue::from_str(value).unwrap(),
            )]);
            IfNoneMatch::of(&headers).has(&tag)
        };
        assert!(
            has(text)
                && has("*")
                && has(&format!("\"x\" , {text}"))
                && has(text.strip_prefix("W/").unwrap())
        );
        assert!(!has("\"x\"") && !has("") && !IfNoneMatch::default().has(&tag));
    }
}

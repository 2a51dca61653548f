//! Hashes of answers, so that a client that asks again need not be sent the same.
//!
//! Source of the rules: <https://www.rfc-editor.org/rfc/rfc9110#section-8.8.3>

use aws_lc_rs::digest::{SHA256, digest};
use fleetdex_core::model::hex;
use http::{HeaderMap, HeaderValue, header};

/// Bytes of the hash that are told: no two answers share them by chance.
const TOLD_BYTES: usize = 16;

/// The tag of an answer. It is weak, because the same answer may be sent compressed or not.
pub fn of(answer: &[u8]) -> HeaderValue {
    let hash = digest(&SHA256, answer);
    let tag = format!("W/\"{}\"", hex(&hash.as_ref()[..TOLD_BYTES]));
    HeaderValue::from_str(&tag).unwrap_or(HeaderValue::from_static("W/\"\""))
}

/// The answers that a client has already, by its header `If-None-Match`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known(Vec<String>);

impl Known {
    /// Those that a request names.
    pub fn of(headers: &HeaderMap) -> Self {
        let lines = headers
            .get_all(header::IF_NONE_MATCH)
            .iter()
            .filter_map(|value| value.to_str().ok());
        Self(
            lines
                .flat_map(|line| line.split(','))
                .map(|tag| opaque(tag).to_owned())
                .collect(),
        )
    }

    /// Whether one of them is the answer with this tag.
    pub fn has(&self, tag: &HeaderValue) -> bool {
        let Ok(tag) = tag.to_str() else { return false };
        self.0
            .iter()
            .any(|known| known == "*" || known == opaque(tag))
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
    fn an_answer_is_known_by_its_tag_however_it_is_written() {
        let tag = of(b"answer");
        assert_eq!((&tag, tag.len()), (&of(b"answer"), 2 + 2 + 2 * TOLD_BYTES));
        assert_ne!(tag, of(b"another"));
        let text = tag.to_str().unwrap();
        let has = |value: &str| {
            let headers = HeaderMap::from_iter([(
                header::IF_NONE_MATCH,
                HeaderValue::from_str(value).unwrap(),
            )]);
            Known::of(&headers).has(&tag)
        };
        assert!(
            has(text)
                && has("*")
                && has(&format!("\"x\" , {text}"))
                && has(text.strip_prefix("W/").unwrap())
        );
        assert!(!has("\"x\"") && !has("") && !Known::default().has(&tag));
    }
}

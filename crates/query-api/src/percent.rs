//! Strict percent-encoding: malformed text is an error.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The text is not percent-encoded UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PercentError {
    /// A percent sign without two hexadecimal digits behind it.
    #[error("{0:?} has a '%' that two hexadecimal digits do not follow")]
    Digits(String),
    /// The decoded bytes are not UTF-8.
    #[error("{0:?} does not decode to UTF-8")]
    Utf8(String),
}

/// Decodes one segment of a path.
pub fn decode_segment(text: &str) -> Result<Cow<'_, str>, PercentError> {
    decode(text, false)
}

/// Decodes a key or a value of a query, where `+` is a space.
pub fn decode_query(text: &str) -> Result<Cow<'_, str>, PercentError> {
    decode(text, true)
}

fn decode(text: &str, plus_is_space: bool) -> Result<Cow<'_, str>, PercentError> {
    let is_encoded = text.contains('%') || (plus_is_space && text.contains('+'));
    if !is_encoded {
        return Ok(Cow::Borrowed(text));
    }
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'%' => {
                let Some((digits, behind)) = after.split_at_checked(2) else {
                    return Err(PercentError::Digits(text.to_owned()));
                };
                decoded.push(
                    hexadecimal(digits).ok_or_else(|| PercentError::Digits(text.to_owned()))?,
                );
                rest = behind;
            }
            b'+' if plus_is_space => decoded.push(b' '),
            plain => decoded.push(plain),
        }
    }
    String::from_utf8(decoded)
        .map(Cow::Owned)
        .map_err(|_| PercentError::Utf8(text.to_owned()))
}

fn hexadecimal(digits: &[u8]) -> Option<u8> {
    digits.iter().try_fold(0, |value: u8, &digit| {
        let number = char::from(digit).to_digit(16)?;
        u8::try_from(u32::from(value) * 16 + number).ok()
    })
}

/// Characters that need no encoding anywhere in a URL.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Encodes text so that it is one segment of a path, or one key or value of a query.
pub fn encode(text: &str) -> String {
    utf8_percent_encode(text, UNRESERVED).to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_plus_is_a_space_only_in_a_query() {
        assert_eq!(decode_query("a+b%2Bc").unwrap(), "a b+c");
        assert_eq!(decode_segment("a+b%2fc").unwrap(), "a+b/c");
    }

    #[test]
    fn malformed_text_is_refused() {
        for malformed in ["%", "a%2", "%zz", "%+1", "%e"] {
            assert_eq!(
                decode_query(malformed),
                Err(PercentError::Digits(malformed.to_owned()))
            );
        }
        assert_eq!(
            decode_query("%ff"),
            Err(PercentError::Utf8("%ff".to_owned()))
        );
    }

    proptest! {
        #[test]
        fn whatever_is_encoded_decodes_to_itself(text in ".*") {
            let encoded = encode(&text);
            prop_assert_eq!(decode_query(&encoded).unwrap(), &*text);
            prop_assert_eq!(decode_segment(&encoded).unwrap(), text);
        }
    }
}

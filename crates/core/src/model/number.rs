//! Formats numbers as keywords that sort like the numbers.

use std::borrow::Cow;

/// The fixed-width text of a number: the order of these texts is the order of the numbers.
pub fn ordered(number: i64) -> String {
    let shifted = number.cast_unsigned() ^ (1 << 63);
    format!("{shifted:020}")
}

/// Parses an integer as Go's `strconv.ParseInt(text, 10, 64)` does, which Kubernetes uses for `>`
/// and `<`.
pub fn parse_integer(text: &str) -> Option<i64> {
    text.parse().ok()
}

/// The term of a label's number in `search.numbers`. The terms of one label sort like the numbers.
pub fn label_term(key: &str, number: i64) -> String {
    format!("label {key}={}", ordered(number))
}

/// The longest prefix of `text` with at most `limit` bytes.
pub fn cut(text: &str, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit {
        return Cow::Borrowed(text);
    }
    let end = (0..=limit)
        .rev()
        .find(|position| text.is_char_boundary(*position))
        .unwrap_or(0);
    Cow::Borrowed(&text[..end])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn texts_are_ordered_as_the_numbers_are(a: i64, b: i64) {
            prop_assert_eq!(a.cmp(&b), ordered(a).cmp(&ordered(b)));
        }
    }

    #[test]
    fn integers_are_read_as_go_reads_them() {
        assert_eq!(parse_integer("+5"), Some(5));
        assert_eq!(parse_integer("007"), Some(7));
        for refused in ["", " 1", "1e3", "1_000", "0x1", "9223372036854775808"] {
            assert_eq!(parse_integer(refused), None, "{refused:?}");
        }
    }

    #[test]
    fn a_cut_never_splits_a_character() {
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("abc", 3), "abc");
    }
}

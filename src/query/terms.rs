//! The keywords under which documents are found. The writer of documents and the translation of queries share these functions,
//! so that they cannot disagree.

use std::borrow::Cow;

/// Field values are compared up to this many bytes; a query with a longer one is refused.
pub const MAX_VALUE_BYTES: usize = 1024;

/// Stands at the end of a value that was cut, and makes it longer than any value in a query.
const CUT: &str = "…(cut)";

/// The term of a label in `search.labels`.
pub fn label_term(key: &str, value: &str) -> String {
    format!("{key}={value}")
}

/// The term of a selectable field in `search.fields`.
///
/// A value over [`MAX_VALUE_BYTES`] is cut and marked, so that it equals no value that a query can name.
pub fn field_term(path: &str, value: &str) -> String {
    format!("{path}={}", cut(value))
}

/// The term of a number in `search.numbers`: 20 digits, in the order of the numbers for one name.
pub fn number_term(name: &str, number: i64) -> String {
    let shifted = number.cast_unsigned() ^ (1 << 63);
    format!("{name}={shifted:020}")
}

/// The term of a numeric label in `search.numbers`. No path has a blank in it, so that labels and fields stay apart.
pub fn label_number_term(key: &str, number: i64) -> String {
    number_term(&format!("label {key}"), number)
}

/// The number that `>` and `<` compare, by the rules of Go's `strconv.ParseInt(value, 10, 64)`.
pub fn parse_number(value: &str) -> Option<i64> {
    value.parse().ok()
}

/// Both terms of a label: for `search.labels`, and for `search.numbers` if it is a number.
pub fn label_terms(key: &str, value: &str) -> (String, Option<String>) {
    (label_term(key, value), parse_number(value).map(|number| label_number_term(key, number)))
}

/// Both terms of a selectable field: for `search.fields`, and for `search.numbers` if it is a number.
pub fn field_terms(path: &str, value: &str) -> (String, Option<String>) {
    (field_term(path, value), parse_number(value).map(|number| number_term(path, number)))
}

fn cut(value: &str) -> Cow<'_, str> {
    if value.len() <= MAX_VALUE_BYTES {
        return Cow::Borrowed(value);
    }
    let kept = value.floor_char_boundary(MAX_VALUE_BYTES);
    Cow::Owned(format!("{}{CUT}", &value[..kept]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_number_has_twenty_digits_and_zero_stands_in_the_middle() {
        assert_eq!(number_term("n", i64::MIN), "n=00000000000000000000");
        assert_eq!(number_term("n", -1), "n=09223372036854775807");
        assert_eq!(label_number_term("app/n", 0), "label app/n=09223372036854775808");
        assert_eq!(number_term("n", i64::MAX), "n=18446744073709551615");
    }

    #[test]
    fn a_label_is_a_number_where_the_apiserver_parses_one() {
        assert_eq!(label_terms("k", "007"), ("k=007".into(), Some("label k=09223372036854775815".into())));
        for word in ["", "1.0", "1e3", "x", "9223372036854775808", "1_000", "+"] {
            assert_eq!(label_terms("k", word).1, None, "{word:?}");
        }
    }

    #[test]
    fn a_cut_value_equals_no_value_of_a_query() {
        for length in 1020..1030 {
            let stored = field_term("p", &"é".repeat(length));
            assert!(stored.len() > "p=".len() + MAX_VALUE_BYTES);
            assert!(stored.starts_with("p=éé") && stored.ends_with(CUT));
        }
        let longest = "x".repeat(MAX_VALUE_BYTES);
        assert_eq!(field_term("p", &longest), format!("p={longest}"));
    }

    proptest! {
        #[test]
        fn terms_of_numbers_are_ordered_as_the_numbers(left: i64, right: i64) {
            prop_assert_eq!(number_term("n", left).cmp(&number_term("n", right)), left.cmp(&right));
        }
    }
}

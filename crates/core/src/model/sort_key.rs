//! Sort keys: the texts by which documents are sorted and grouped, one for each selectable field.

use std::borrow::Cow;

use super::{FieldPath, FieldType, MAX_FIELD_VALUE_BYTES, Quantity, number};

/// The key of a field in `search.sort`. It has one level, so that a mapping can have both `spec.a`
/// and `spec.a.b` of two kinds: a dot becomes a slash, and a slash two.
pub fn sort_field(path: &FieldPath) -> String {
    path.as_str().replace('/', "//").replace('.', "/")
}

/// The sort key of a value: `#<ordered>=3` for the number 3, `=web` for the text `web`. Numbers
/// sort before texts. The value follows the first `=`.
pub fn encode_sort_key(kind: FieldType, value: &str) -> String {
    OrderedValue::of(kind, value).with_key_parts(|parts| parts.concat())
}

/// A value as it sorts: values compare as the texts of their sort keys do.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OrderedValue<'v> {
    /// A number, and how it is written.
    Number(Quantity, Cow<'v, str>),
    /// A text.
    Text(Cow<'v, str>),
}

impl<'v> OrderedValue<'v> {
    /// A value of a field of a kind.
    pub fn of(kind: FieldType, value: &'v str) -> Self {
        let value = number::cut(value, MAX_FIELD_VALUE_BYTES);
        let quantity = kind.holds_numbers().then(|| Quantity::parse(&value));
        match quantity.flatten() {
            Some(quantity) => Self::Number(quantity, value),
            None => Self::Text(value),
        }
    }

    /// The value.
    pub fn value(&self) -> &str {
        match self {
            Self::Number(_, value) | Self::Text(value) => value,
        }
    }

    /// What a function makes of the parts of its sort key.
    pub fn with_key_parts<R>(&self, make: impl FnOnce(&[&str]) -> R) -> R {
        match self {
            Self::Number(quantity, value) => make(&["#", &quantity.ordered(), "=", value]),
            Self::Text(value) => make(&["=", value]),
        }
    }
}

/// The value in a sort key of [`encode_sort_key`].
pub fn decode_sort_key(text: &str) -> &str {
    text.split_once('=').map_or(text, |(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_sort_as_numbers_and_values_can_be_read_back() {
        let mut values = ["10", "9", "b", "500m", "2Gi", "-1", "a=b", ""]
            .map(|value| encode_sort_key(FieldType::Optional, value));
        values.sort();
        let order: Vec<&str> = values.iter().map(|value| decode_sort_key(value)).collect();
        assert_eq!(order, ["-1", "500m", "9", "10", "2Gi", "", "a=b", "b"]);
        assert_eq!(encode_sort_key(FieldType::Text, "10"), "=10");
    }

    #[test]
    fn a_field_has_one_name_without_dots() {
        let name = |path: &str| sort_field(&FieldPath::new(path));
        assert_eq!(name("status.phase"), "status/phase");
        assert_eq!(
            name("metadata.annotations['a.b/c']"),
            "metadata/annotations['a/b//c']"
        );
    }
}

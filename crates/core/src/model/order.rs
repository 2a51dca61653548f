//! The values by which documents are sorted and grouped: one text for each selectable field.

use super::{FieldPath, FieldType, MAX_FIELD_VALUE_BYTES, Quantity, number};

/// The key of a field in `search.sort`. It has one level, so that a mapping can have both `spec.a` and `spec.a.b` of two kinds: a dot becomes a
/// slash, and a slash two.
pub fn sort_field(path: &FieldPath) -> String {
    path.as_str().replace('/', "//").replace('.', "/")
}

/// The text by which a value sorts, numbers before texts. The value follows the first `=`.
pub fn sort_value(kind: FieldType, value: &str) -> String {
    let value = number::cut(value, MAX_FIELD_VALUE_BYTES);
    let quantity = kind
        .holds_numbers()
        .then(|| Quantity::parse(&value))
        .flatten();
    quantity.map_or_else(
        || format!("={value}"),
        |quantity| format!("#{}={value}", quantity.ordered()),
    )
}

/// The value in a text of [`sort_value`].
pub fn sorted_value(text: &str) -> &str {
    text.split_once('=').map_or(text, |(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_sort_as_numbers_and_values_can_be_read_back() {
        let mut values = ["10", "9", "b", "500m", "2Gi", "-1", "a=b", ""]
            .map(|value| sort_value(FieldType::Optional, value));
        values.sort();
        let order: Vec<&str> = values.iter().map(|value| sorted_value(value)).collect();
        assert_eq!(order, ["-1", "500m", "9", "10", "2Gi", "", "a=b", "b"]);
        assert_eq!(sort_value(FieldType::Text, "10"), "=10");
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

//! The values that documents are ordered and grouped by: one text for each selectable field.

use super::{FieldPath, FieldType, MAX_FIELD_VALUE_BYTES, Quantity, number};

/// The name of a field's value in `search.sort`. One level, so that `spec.a` and `spec.a.b` of two kinds can both be there: a dot becomes
/// a slash, and a slash two.
pub fn sort_field(path: &FieldPath) -> String {
    path.as_str().replace('/', "//").replace('.', "/")
}

/// What a value sorts by: numbers before texts. The value stands behind the first `=`.
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

/// The value of which [`sort_value`] has made a text.
pub fn sorted_value(text: &str) -> &str {
    text.split_once('=').map_or(text, |(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_sort_as_numbers_where_they_are_some_and_come_back() {
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

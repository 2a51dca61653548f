//! The `_search` for the values of several resources' objects.

use fleetdex_core::query::{
    QueryError, ValueField, ValuePrefix, ValuesQuery,
    values::{MAX_EXACT_VALUES, MAX_VALUES},
};
use serde_json::{Map, Value, json};

use super::{selections::selected, words::with_backslashes};

/// The body of the `_search` for values of several resources' objects. It asks for no object; its
/// aggregations are named by the positions of the prefixes.
pub fn values_body(values: &ValuesQuery) -> Result<Value, QueryError> {
    let prefixes = values.prefixes.iter().enumerate();
    let counts: Map<String, Value> = prefixes
        .map(|(position, prefix)| (position.to_string(), frequent_terms(prefix)))
        .collect();
    Ok(json!({
        "size": 0,
        "track_total_hits": false,
        "query": selected(&values.checked()?)?,
        "aggs": counts,
    }))
}

fn frequent_terms(prefix: &ValuePrefix) -> Value {
    let mut terms = json!({
        "field": prefix.field.field(),
        "size": MAX_VALUES,
        "shard_size": MAX_EXACT_VALUES,
        "order": [{ "_count": "desc" }, { "_key": "asc" }],
    });
    if let Some(expression) = regular_expression(prefix) {
        terms["include"] = expression.into();
    }
    json!({ "terms": terms })
}

/// The regular expression of the indexed terms of these values, in the syntax of Lucene; `None`:
/// all terms of the field. <https://docs.opensearch.org/latest/query-dsl/regex-syntax/>
fn regular_expression(prefix: &ValuePrefix) -> Option<String> {
    let mut expression = String::new();
    if let ValueField::Label(key) = &prefix.field {
        push_escaped(&mut expression, key);
        push_escaped(&mut expression, "=");
    } else if prefix.text().is_empty() {
        return None;
    }
    for (position, start) in prefix.omitted().iter().enumerate() {
        expression.push(if position == 0 { '(' } else { '|' });
        push_escaped(&mut expression, start);
    }
    if !prefix.omitted().is_empty() {
        expression.push_str(")?");
    }
    for letter in prefix.text().chars() {
        if letter.is_ascii_alphabetic() {
            let cases = [letter.to_ascii_lowercase(), letter.to_ascii_uppercase()];
            expression.push('[');
            expression.extend(cases);
            expression.push(']');
        } else {
            push_escaped(&mut expression, letter.encode_utf8(&mut [0; 4]));
        }
    }
    expression.push_str(".*");
    Some(expression)
}

/// Appends a text as it is. In Lucene's syntax a backslash before anything but a letter or a digit
/// takes its meaning away.
fn push_escaped(expression: &mut String, text: &str) {
    let is_special = |character: char| character.is_ascii() && !character.is_ascii_alphanumeric();
    expression.push_str(&with_backslashes(text, is_special));
}

#[cfg(test)]
mod tests {
    use fleetdex_core::query::values::{
        MAX_LABEL_KEY_BYTES, MAX_LABEL_VALUE_BYTES, MAX_PREFIX_BYTES,
    };

    use super::*;

    fn prefix(field: ValueField, text: &str) -> ValuePrefix {
        ValuePrefix::new(field, text).unwrap()
    }

    fn label(key: &str) -> ValueField {
        ValueField::Label(key.to_owned())
    }

    #[test]
    fn regular_expressions_take_every_text_as_it_is_and_letters_in_any_case() {
        let expression = |field, text: &str| regular_expression(&prefix(field, text));
        assert_eq!(expression(ValueField::Namespace, ""), None);
        for (field, text, expected) in [
            (ValueField::Namespace, "w-1", r"[wW]\-1.*"),
            (ValueField::Reason, ".*#\"ä", r#"\.\*\#\"ä.*"#),
            (
                label("app.kubernetes.io/name"),
                "",
                r"app\.kubernetes\.io\/name\=.*",
            ),
            (label("app"), "We", r"app\=[wW][eE].*"),
        ] {
            assert_eq!(expression(field, text).as_deref(), Some(expected), "{text}");
        }
        let image = prefix(ValueField::Image, "n").or_behind(&["docker.io/", "docker.io/library/"]);
        assert_eq!(
            regular_expression(&image).as_deref(),
            Some(r"(docker\.io\/|docker\.io\/library\/)?[nN].*")
        );
    }

    #[test]
    fn regular_expressions_are_never_longer_than_opensearch_accepts() {
        let longest = |field, bytes| prefix(field, &"a".repeat(bytes));
        let omitted = &["docker.io/", "docker.io/library/"];
        for prefix in [
            longest(ValueField::Image, MAX_PREFIX_BYTES).or_behind(omitted),
            longest(
                label(&"-".repeat(MAX_LABEL_KEY_BYTES)),
                MAX_LABEL_VALUE_BYTES,
            ),
        ] {
            assert!(regular_expression(&prefix).unwrap().len() <= 1_000);
        }
        let too_long = |field, bytes| ValuePrefix::new(field, &"a".repeat(bytes)).is_none();
        assert!(too_long(ValueField::Image, MAX_PREFIX_BYTES + 1));
        assert!(too_long(label("app"), MAX_LABEL_VALUE_BYTES + 1));
        assert!(too_long(label(&"k".repeat(MAX_LABEL_KEY_BYTES + 1)), 0));
    }
}

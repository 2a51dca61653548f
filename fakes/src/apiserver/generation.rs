//! `metadata.generation`, which counts the changes of `spec`.

use serde_json::{Map, Value};

/// Sets the generation of an object that has a `spec`.
pub(super) fn count(object: &mut Map<String, Value>, before: Option<&Value>) {
    let Some(spec) = object.get("spec") else {
        return;
    };
    let generation = before.map_or(1, |before| {
        let known = before["metadata"]["generation"].as_i64().unwrap_or(0);
        known + i64::from(before["spec"] != *spec)
    });
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("generation".to_owned(), generation.into());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn generations_count_changes_of_the_spec_and_of_nothing_else() {
        let before = json!({ "metadata": { "generation": 3 }, "spec": { "a": 1 } });
        for (object, before, expected) in [
            (json!({ "metadata": {}, "spec": {} }), None, json!(1)),
            (
                json!({ "metadata": {}, "spec": { "a": 1 } }),
                Some(&before),
                json!(3),
            ),
            (
                json!({ "metadata": {}, "spec": { "a": 2 } }),
                Some(&before),
                json!(4),
            ),
            (
                json!({ "metadata": {}, "data": {} }),
                Some(&before),
                Value::Null,
            ),
        ] {
            let mut members = object.as_object().unwrap().clone();
            count(&mut members, before);
            assert_eq!(members["metadata"]["generation"], expected, "{object}");
        }
    }
}

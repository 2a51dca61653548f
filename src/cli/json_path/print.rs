//! Values as kubectl prints them, which is how Go prints them.

use std::collections::BTreeMap;

use serde_json::Value;

/// A value in a template's output: texts bare, lists and maps as JSON with sorted keys.
pub fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(_) | Value::Object(_) => {
            let mut sorted = value.clone();
            sorted.sort_all_objects();
            // These letters are written so in JSON that may stand in a web page, which is what Go's encoder assumes.
            sorted.to_string().replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e")
        }
        other => other.to_string(),
    }
}

/// A value in a custom column: lists and maps in Go's own notation.
pub fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Array(elements) => format!("[{}]", elements.iter().map(go_text).collect::<Vec<_>>().join(" ")),
        Value::Object(entries) => {
            // By the key alone: in `key:value` the colon would count, too.
            let sorted: BTreeMap<&String, &Value> = entries.iter().collect();
            let pairs: Vec<String> = sorted.into_iter().map(|(key, value)| format!("{key}:{}", go_text(value))).collect();
            format!("map[{}]", pairs.join(" "))
        }
        other => text(other),
    }
}

//! Values as Go prints them, which is how kubectl and API servers print what paths find.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::json::{Json, Scalar};

/// A value that a path found: texts bare, lists and maps as JSON with sorted keys.
pub fn text<T: Json>(value: &T) -> String {
    if let Some(scalar) = value.scalar() {
        return scalar_text(scalar);
    }
    let mut sorted = json!(value);
    sorted.sort_all_objects();
    // These letters are written so in JSON that may stand in a web page, which is what Go's encoder assumes.
    sorted
        .to_string()
        .replace('&', "\\u0026")
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
}

pub(super) fn scalar_text(scalar: Scalar<'_>) -> String {
    match scalar {
        Scalar::Null => "null".to_owned(),
        Scalar::Flag(flag) => flag.to_string(),
        Scalar::Integer(number) => number.to_string(),
        Scalar::Float(number) => float_text(number),
        Scalar::Text(text) => text.to_owned(),
    }
}

/// The shortest form, with an exponent from 10⁶ up and below 10⁻⁴.
fn float_text(number: f64) -> String {
    let magnitude = number.abs();
    if magnitude == 0.0 || (1e-4..1e6).contains(&magnitude) {
        return number.to_string();
    }
    let scientific = format!("{number:e}");
    match scientific.split_once('e') {
        Some((digits, exponent)) => match exponent.strip_prefix('-') {
            Some(negative) => format!("{digits}e-{negative:0>2}"),
            None => format!("{digits}e+{exponent:0>2}"),
        },
        None => scientific,
    }
}

/// A value in a custom column of kubectl: lists and maps in Go's own notation.
pub fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Array(elements) => format!(
            "[{}]",
            elements.iter().map(go_text).collect::<Vec<_>>().join(" ")
        ),
        Value::Object(entries) => {
            // By the key alone: in `key:value` the colon would count, too.
            let sorted: BTreeMap<&String, &Value> = entries.iter().collect();
            let pairs: Vec<String> = sorted
                .into_iter()
                .map(|(key, value)| format!("{key}:{}", go_text(value)))
                .collect();
            format!("map[{}]", pairs.join(" "))
        }
        other => text(other),
    }
}

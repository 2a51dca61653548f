//! Reads members of objects. A member of another type than the expected one is as good as absent.

use serde_json::{Map, Value};

static EMPTY: Vec<Value> = Vec::new();

/// The value at a path; null if there is none.
pub fn at<'v>(value: &'v Value, path: &[&str]) -> &'v Value {
    path.iter()
        .fold(value, |value, key| value.get(key).unwrap_or(&Value::Null))
}

/// The text at a path; empty if there is none.
pub fn text<'v>(value: &'v Value, path: &[&str]) -> &'v str {
    at(value, path).as_str().unwrap_or_default()
}

/// The integer at a path. A number with a fraction of zero counts as one.
pub fn integer(value: &Value, path: &[&str]) -> Option<i64> {
    as_integer(at(value, path))
}

/// A value as an integer. A number with a fraction of zero counts as one.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the fraction is zero, and `as` saturates"
)]
pub fn as_integer(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| {
        value
            .as_f64()
            .filter(|number| number.fract() == 0.0)
            .map(|number| number as i64)
    })
}

/// The boolean at a path; false if there is none.
pub fn flag(value: &Value, path: &[&str]) -> bool {
    at(value, path).as_bool().unwrap_or_default()
}

/// The items of the list at a path; none if there is none.
pub fn list<'v>(value: &'v Value, path: &[&str]) -> &'v [Value] {
    at(value, path).as_array().unwrap_or(&EMPTY)
}

/// The members of the map at a path.
pub fn map<'v>(value: &'v Value, path: &[&str]) -> Option<&'v Map<String, Value>> {
    at(value, path).as_object()
}

/// The group of an object's `apiVersion`; empty for the core group.
pub fn group(object: &Value) -> &str {
    fleetdex_core::model::split_api_version(text(object, &["apiVersion"])).0
}

/// The version of an object's `apiVersion`.
pub fn version(object: &Value) -> &str {
    fleetdex_core::model::split_api_version(text(object, &["apiVersion"])).1
}

/// The condition of a type in `status.conditions`.
pub fn condition<'v>(object: &'v Value, kind: &str) -> Option<&'v Value> {
    list(object, &["status", "conditions"])
        .iter()
        .find(|condition| text(condition, &["type"]) == kind)
}

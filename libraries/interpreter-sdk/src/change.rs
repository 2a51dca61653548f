//! Changes to objects by way of a type that knows only some of their fields.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::failure::{InterpreterFailure, InterpreterResult};

/// Reads an object of a request; `member` is where it is.
pub(crate) fn decoded<T: DeserializeOwned>(member: &str, object: &Value) -> InterpreterResult<T> {
    T::deserialize(object)
        .map_err(|error| InterpreterFailure::bad_request(format!("cannot read {member}: {error}")))
}

/// An object that is about to be changed.
pub(crate) struct TypedChange<'a> {
    received: &'a Value,
    /// The object as its type writes it.
    before: Value,
}

impl<'a> TypedChange<'a> {
    /// A change of the object of a request, and the object as its type reads it.
    pub(crate) fn of<T>(received: &'a Value) -> InterpreterResult<(Self, T)>
    where
        T: DeserializeOwned + Serialize,
    {
        let typed = decoded("request.object", received)?;
        let before = serde_json::to_value(&typed)?;
        Ok((Self { received, before }, typed))
    }

    /// The received object with what is different after the change.
    pub(crate) fn to<T: Serialize>(&self, changed: &T) -> InterpreterResult<Value> {
        let after = serde_json::to_value(changed)?;
        Ok(merged(self.received, &self.before, &after))
    }
}

/// The received value with all differences between the other two. The recursion is no deeper than
/// the received value.
fn merged(received: &Value, before: &Value, after: &Value) -> Value {
    if before == after {
        return received.clone();
    }
    match (received, before, after) {
        (Value::Object(received), Value::Object(before), Value::Object(after)) => {
            Value::Object(merged_members(received, before, after))
        }
        (Value::Array(received), Value::Array(before), Value::Array(after))
            if received.len() == before.len() && before.len() == after.len() =>
        {
            let pairs = before.iter().zip(after);
            let items = received.iter().zip(pairs);
            items
                .map(|(received, (before, after))| merged(received, before, after))
                .collect()
        }
        _ => after.clone(),
    }
}

fn merged_members(
    received: &Map<String, Value>,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
) -> Map<String, Value> {
    let mut members = Map::new();
    for (key, value) in received {
        let member = match (before.get(key), after.get(key)) {
            (Some(before), Some(after)) => merged(value, before, after),
            (None, Some(after)) => after.clone(),
            (None, None) => value.clone(),
            (Some(_), None) => continue,
        };
        members.insert(key.clone(), member);
    }
    for (key, value) in after {
        // A default that the type writes is no change.
        if !received.contains_key(key) && before.get(key) != Some(value) {
            members.insert(key.clone(), value.clone());
        }
    }
    members
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn only_differences_reach_the_received_object() {
        for (received, before, after, expected) in [
            // Unknown to the type.
            (
                json!({"a": 1, "x": 2}),
                json!({"a": 1}),
                json!({"a": 3}),
                json!({"a": 3, "x": 2}),
            ),
            // Defaults that the type writes.
            (
                json!({"a": {}}),
                json!({"a": {"b": 0, "c": 0}, "d": null}),
                json!({"a": {"b": 0, "c": 5}, "d": null}),
                json!({"a": {"c": 5}}),
            ),
            // Removed, added, and added although it was received.
            (
                json!({"a": 1, "x": 2, "y": 3}),
                json!({"a": 1}),
                json!({"b": 4, "x": 5}),
                json!({"x": 5, "y": 3, "b": 4}),
            ),
            // Lists of one length keep unknown fields of their items.
            (
                json!([{"a": 1, "x": 2}, 7]),
                json!([{"a": 1}, 7]),
                json!([{"a": 2}, 7]),
                json!([{"a": 2, "x": 2}, 7]),
            ),
            (
                json!([{"a": 1, "x": 2}]),
                json!([{"a": 1}]),
                json!([{"a": 1}, {"a": 2}]),
                json!([{"a": 1}, {"a": 2}]),
            ),
            // Other types.
            (
                json!({"a": "1"}),
                json!({"a": 1}),
                json!({"a": 2}),
                json!({"a": 2}),
            ),
            (
                json!({"a": null}),
                json!({"a": {}}),
                json!({"a": {"b": 1}}),
                json!({"a": {"b": 1}}),
            ),
        ] {
            assert_eq!(
                merged(&received, &before, &after),
                expected,
                "{received} {before} {after}"
            );
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            (0..3_i64).prop_map(Value::from),
            "[ab]{0,1}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[abc]{0,1}", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn without_a_change_the_received_object_stays(received in any_json(), typed in any_json()) {
            prop_assert_eq!(merged(&received, &typed, &typed), received);
        }

        #[test]
        fn a_type_that_knows_all_fields_decides_all(received in any_json(), after in any_json()) {
            prop_assert_eq!(merged(&received, &received, &after), after);
        }
    }
}

//! Whether a cluster has what an object says.

use fleetdex_interpreter::native::quantity;
use serde_json::Value;

/// Members with quantities by name: a server stores `1000m` as `1`.
const QUANTITIES: &[&str] = &[
    "capacity",
    "default",
    "defaultRequest",
    "divisor",
    "hard",
    "limits",
    "max",
    "min",
    "podFixed",
    "requests",
    "sizeLimit",
];

/// Whether a value has all that another one has. A null is as good as absent; items with names,
/// such as containers, may have others beside them; quantities are compared by their amounts.
pub fn contains(found: &Value, wanted: &Value) -> bool {
    has(found, wanted, false)
}

fn has(found: &Value, wanted: &Value, is_quantity: bool) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => wanted.iter().all(|(name, wanted)| {
            let is_quantity = is_quantity || QUANTITIES.contains(&name.as_str());
            let found = found.get(name).unwrap_or(&Value::Null);
            has(found, wanted, is_quantity)
        }),
        (Value::Array(found), Value::Array(wanted)) => has_items(found, wanted, is_quantity),
        (found, wanted) => found == wanted || (is_quantity && is_same_amount(found, wanted)),
    }
}

fn has_items(found: &[Value], wanted: &[Value], is_quantity: bool) -> bool {
    let name = |item: &Value| item.get("name").and_then(Value::as_str).map(str::to_owned);
    if !wanted.is_empty() && wanted.iter().all(|item| name(item).is_some()) {
        return wanted.iter().all(|wanted| {
            let named = found.iter().find(|found| name(found) == name(wanted));
            named.is_some_and(|found| has(found, wanted, is_quantity))
        });
    }
    found.len() == wanted.len()
        && found
            .iter()
            .zip(wanted)
            .all(|(found, wanted)| has(found, wanted, is_quantity))
}

fn is_same_amount(found: &Value, wanted: &Value) -> bool {
    let amount = |value: &Value| match value {
        Value::String(text) => quantity::to_number(text).ok(),
        Value::Number(number) => number.as_f64(),
        _ => None,
    };
    let amount_found = amount(found);
    amount_found.is_some() && amount_found == amount(wanted)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cluster_may_have_more_and_may_write_quantities_in_another_way() {
        for (found, wanted, expected) in [
            (json!({"a": 1, "b": 2}), json!({"a": 1}), true),
            (json!({"a": 1}), json!({"a": 1, "b": null}), true),
            (json!({"a": 1}), json!({"a": 2}), false),
            (
                json!([{"name": "x"}, {"name": "a", "b": 1}]),
                json!([{"name": "a"}]),
                true,
            ),
            (json!([1, 2]), json!([1]), false),
            (
                json!({"requests": {"cpu": "1"}}),
                json!({"requests": {"cpu": "1000m"}}),
                true,
            ),
            (
                json!({"limits": {"cpu": "1"}}),
                json!({"limits": {"cpu": 1}}),
                true,
            ),
            (
                json!({"requests": {"cpu": "1"}}),
                json!({"requests": {"cpu": "2"}}),
                false,
            ),
            (
                json!({"requests": {"memory": "1Gi"}}),
                json!({"requests": {"memory": "1024Mi"}}),
                true,
            ),
            (
                json!({"data": {"cpu": "1"}}),
                json!({"data": {"cpu": "1000m"}}),
                false,
            ),
        ] {
            assert_eq!(contains(&found, &wanted), expected, "{found} {wanted}");
        }
    }
}

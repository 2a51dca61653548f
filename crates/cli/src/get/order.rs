//! The order of `--sort-by`: numbers and quantities by size, texts so that `a2` comes before `a10`.

use std::cmp::Ordering;

use fleetdex_core::{
    json_path::{JsonPathError, Path},
    model::Quantity,
};
use serde_json::{Value, value::RawValue};

use super::error::OutputError;

/// What an object is sorted by.
#[derive(Clone, Debug, PartialEq)]
pub struct Key(Option<Value>);

impl Key {
    /// Of the first value at a path; objects without one come first.
    pub fn of(object: &RawValue, path: &Path) -> Result<Self, OutputError> {
        let value: Value = serde_json::from_str(object.get()).map_err(OutputError::NoObject)?;
        let found = path.find(&value)?;
        match found.first() {
            Some(Value::Array(_) | Value::Object(_)) => Err(JsonPathError::Incompatible(
                "lists and maps".to_owned(),
                "what has an order".to_owned(),
            )
            .into()),
            first => Ok(Self(first.map(|value| (*value).clone()))),
        }
    }

    /// The order in which kubectl shows them.
    pub fn compare(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Some(left), Some(right)) => values(left, right),
            (left, right) => left.is_some().cmp(&right.is_some()),
        }
    }
}

fn values(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::String(left), Value::String(right)) => {
            match (Quantity::parse(left), Quantity::parse(right)) {
                (Some(left), Some(right)) => left.cmp(&right),
                _ => left.cmp(right),
            }
        }
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => left.cmp(&right),
            _ => left
                .as_f64()
                .partial_cmp(&right.as_f64())
                .unwrap_or(Ordering::Equal),
        },
        (left, right) => rank(left).cmp(&rank(right)),
    }
}

/// Values of different types, which a list of one kind hardly has.
fn rank(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_sorted_as_kubectl_sorts_them() {
        let mut values = [
            json!("web-10"),
            json!("web-2"),
            json!("web"),
            json!("api"),
            json!("web-02"),
        ]
        .map(|value| Key(Some(value)));
        values.sort_by(Key::compare);
        assert_eq!(
            values,
            [
                json!("api"),
                json!("web"),
                json!("web-02"),
                json!("web-10"),
                json!("web-2")
            ]
            .map(|value| Key(Some(value)))
        );
        let mut sizes = [
            Some(json!("1Gi")),
            None,
            Some(json!("500M")),
            Some(json!("2k")),
        ]
        .map(Key);
        sizes.sort_by(Key::compare);
        assert_eq!(
            sizes,
            [
                None,
                Some(json!("2k")),
                Some(json!("500M")),
                Some(json!("1Gi"))
            ]
            .map(Key)
        );
        assert_eq!(
            Key(Some(json!(9))).compare(&Key(Some(json!(10)))),
            Ordering::Less
        );
        assert_eq!(
            Key(Some(json!(0.5))).compare(&Key(Some(json!(1)))),
            Ordering::Less
        );
    }
}

//! The order of `--sort-by`: numbers and quantities by size, texts so that `a2` comes before `a10`.

use std::cmp::Ordering;

use serde_json::{Value, value::RawValue};

use super::OutputError;
use crate::{
    cli::json_path::{JsonPathError, Path},
    model::Quantity,
};

/// What an object is sorted by.
#[derive(Clone, Debug, PartialEq)]
pub struct Key(Option<Value>);

impl Key {
    /// Of the first value at a path; objects without one come first.
    pub fn of(object: &RawValue, path: &Path) -> Result<Self, OutputError> {
        let value: Value = serde_json::from_str(object.get()).map_err(OutputError::NoObject)?;
        let found = path.find(&value)?;
        match found.first() {
            Some(Value::Array(_) | Value::Object(_)) => {
                Err(JsonPathError::Incompatible("lists and maps".to_owned(), "what has an order".to_owned()).into())
            }
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
        (Value::String(left), Value::String(right)) => match (Quantity::parse(left), Quantity::parse(right)) {
            (Some(left), Some(right)) => left.cmp(&right),
            _ => natural(left, right),
        },
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => left.cmp(&right),
            _ => left.as_f64().partial_cmp(&right.as_f64()).unwrap_or(Ordering::Equal),
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

/// Runs of digits count as numbers.
fn natural(left: &str, right: &str) -> Ordering {
    let (mut left, mut right) = (left, right);
    loop {
        let (Some(first), Some(second)) = (left.chars().next(), right.chars().next()) else {
            return left.len().cmp(&right.len());
        };
        if first.is_ascii_digit() && second.is_ascii_digit() {
            let (number, other) = (digits(left), digits(right));
            let (bare, other_bare) = (number.trim_start_matches('0'), other.trim_start_matches('0'));
            let order = bare.len().cmp(&other_bare.len()).then_with(|| bare.cmp(other_bare)).then(number.len().cmp(&other.len()));
            if order != Ordering::Equal {
                return order;
            }
            (left, right) = (&left[number.len()..], &right[other.len()..]);
        } else if first == second {
            (left, right) = (&left[first.len_utf8()..], &right[second.len_utf8()..]);
        } else {
            return first.cmp(&second);
        }
    }
}

fn digits(text: &str) -> &str {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    &text[..end]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_sorted_as_people_count() {
        let mut values =
            [json!("web-10"), json!("web-2"), json!("web"), json!("api"), json!("web-02")].map(|value| Key(Some(value)));
        values.sort_by(Key::compare);
        assert_eq!(
            values,
            [json!("api"), json!("web"), json!("web-2"), json!("web-02"), json!("web-10")].map(|value| Key(Some(value)))
        );
        let mut sizes = [Some(json!("1Gi")), None, Some(json!("500M")), Some(json!("2k"))].map(Key);
        sizes.sort_by(Key::compare);
        assert_eq!(sizes, [None, Some(json!("2k")), Some(json!("500M")), Some(json!("1Gi"))].map(Key));
        assert_eq!(Key(Some(json!(9))).compare(&Key(Some(json!(10)))), Ordering::Less);
        assert_eq!(Key(Some(json!(0.5))).compare(&Key(Some(json!(1)))), Ordering::Less);
    }
}

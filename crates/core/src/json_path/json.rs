//! The JSON that paths are evaluated on, in any representation.

use std::cmp::Ordering;

use serde_json::Value;

/// A value of JSON.
pub trait JsonValue: Sized {
    /// The value, if it is neither a list nor a map.
    fn scalar(&self) -> Option<Scalar<'_>>;

    /// The items, if it is a list.
    fn items(&self) -> Option<&[Self]>;

    /// The value of a key, if it is a map that has it.
    fn member(&self, key: &str) -> Option<&Self>;

    /// The keys and values in their order; none of anything but a map.
    fn members(&self) -> impl Iterator<Item = (&str, &Self)>;

    /// Its JSON, with sorted keys.
    fn sorted_json(&self) -> String;
}

/// A value that holds no other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar<'v> {
    /// `null`
    Null,
    /// A boolean.
    Flag(bool),
    /// A whole number.
    Integer(i64),
    /// Another number.
    Float(f64),
    /// A text.
    Text(&'v str),
}

impl Scalar<'_> {
    /// The order of two numbers or texts; `None` of different types, as Go's templates have it.
    pub(super) fn order(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Text(left), Self::Text(right)) => Some(left.cmp(right)),
            (Self::Integer(left), Self::Integer(right)) => Some(left.cmp(&right)),
            (Self::Float(left), Self::Float(right)) => left.partial_cmp(&right),
            _ => None,
        }
    }
}

impl JsonValue for Value {
    fn scalar(&self) -> Option<Scalar<'_>> {
        Some(match self {
            Self::Null => Scalar::Null,
            Self::Bool(flag) => Scalar::Flag(*flag),
            Self::Number(number) => match number.as_i64() {
                Some(integer) => Scalar::Integer(integer),
                None => Scalar::Float(number.as_f64()?),
            },
            Self::String(text) => Scalar::Text(text),
            Self::Array(_) | Self::Object(_) => return None,
        })
    }

    fn items(&self) -> Option<&[Self]> {
        self.as_array().map(Vec::as_slice)
    }

    fn member(&self, key: &str) -> Option<&Self> {
        self.as_object()?.get(key)
    }

    fn members(&self) -> impl Iterator<Item = (&str, &Self)> {
        let members = self.as_object().into_iter().flatten();
        members.map(|(key, value)| (key.as_str(), value))
    }

    fn sorted_json(&self) -> String {
        let mut sorted = self.clone();
        sorted.sort_all_objects();
        sorted.to_string()
    }
}

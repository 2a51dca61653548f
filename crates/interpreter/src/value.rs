//! Reads members of objects. A member of another type than the expected one is as good as absent.

use fleetdex_core::model::{JsonTree, TreeMembers};
use serde_json::{Map, Value};

/// An object that rules look at, or a value in it.
pub type Tree<'v> = &'v JsonTree<'v>;
/// The items of an array in it.
pub type Trees<'v> = &'v [JsonTree<'v>];
/// The members of an object in it.
pub type TreeObject<'v> = &'v TreeMembers<'v>;

/// A JSON value: a tree to look at, or a value that operations change.
pub trait JsonView: Sized {
    /// The members of an object.
    type Map;

    /// Null.
    fn null<'v>() -> &'v Self
    where
        Self: 'v;
    /// The member of a name; `None` also for values that are no object.
    fn member(&self, name: &str) -> Option<&Self>;
    /// The members; `None` for values that are no object.
    fn members(&self) -> Option<&Self::Map>;
    /// The items; `None` for values that are no array.
    fn items(&self) -> Option<&[Self]>;
    /// The text; `None` for other values.
    fn as_text(&self) -> Option<&str>;
    /// The boolean; `None` for other values.
    fn as_flag(&self) -> Option<bool>;
    /// The number, if it is an integer; `None` for other values.
    fn as_whole_number(&self) -> Option<i64>;
    /// The number; `None` for other values.
    fn as_fraction(&self) -> Option<f64>;
}

macro_rules! json_value {
    ($value:ty, $members:ty, $null:expr) => {
        type Map = $members;

        fn null<'v>() -> &'v Self
        where
            Self: 'v,
        {
            &$null
        }

        fn member(&self, name: &str) -> Option<&Self> {
            self.get(name)
        }

        fn members(&self) -> Option<&Self::Map> {
            self.as_object()
        }

        fn items(&self) -> Option<&[Self]> {
            self.as_array().map(AsRef::as_ref)
        }

        fn as_text(&self) -> Option<&str> {
            self.as_str()
        }

        fn as_flag(&self) -> Option<bool> {
            self.as_bool()
        }

        fn as_whole_number(&self) -> Option<i64> {
            self.as_i64()
        }

        fn as_fraction(&self) -> Option<f64> {
            self.as_f64()
        }
    };
}

impl<'a> JsonView for JsonTree<'a> {
    json_value!(JsonTree<'a>, TreeMembers<'a>, JsonTree::Null);
}

impl JsonView for Value {
    json_value!(Value, Map<String, Value>, Value::Null);
}

/// The value at a path; null if there is none.
pub fn at<'v, V: JsonView>(value: &'v V, path: &[&str]) -> &'v V {
    path.iter()
        .fold(value, |value, key| value.member(key).unwrap_or(V::null()))
}

/// The text at a path; empty if there is none.
pub fn text<'v, V: JsonView>(value: &'v V, path: &[&str]) -> &'v str {
    at(value, path).as_text().unwrap_or_default()
}

/// The text at a path; the other one if there is none.
pub fn text_or<'v, V: JsonView>(value: &'v V, path: &[&str], other: &'v str) -> &'v str {
    match text(value, path) {
        "" => other,
        found => found,
    }
}

/// The integer at a path. A number with a fraction of zero counts as one.
pub fn integer<V: JsonView>(value: &V, path: &[&str]) -> Option<i64> {
    as_integer(at(value, path))
}

/// A value as an integer. A number with a fraction of zero counts as one.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the fraction is zero, and `as` saturates"
)]
pub fn as_integer<V: JsonView>(value: &V) -> Option<i64> {
    value.as_whole_number().or_else(|| {
        value
            .as_fraction()
            .filter(|number| number.fract() == 0.0)
            .map(|number| number as i64)
    })
}

/// The generation that an object's status is about. Only Argo's Rollouts write it as a text.
pub fn observed_generation<V: JsonView>(object: &V) -> Option<i64> {
    let path = &["status", "observedGeneration"];
    let as_text = || text(object, path).parse().ok();
    let is_rollout = text(object, &["kind"]) == "Rollout";
    integer(object, path).or_else(|| is_rollout.then(as_text).flatten())
}

/// The boolean at a path; false if there is none.
pub fn flag<V: JsonView>(value: &V, path: &[&str]) -> bool {
    at(value, path).as_flag().unwrap_or_default()
}

/// The items of the list at a path; none if there is none.
pub fn list<'v, V: JsonView>(value: &'v V, path: &[&str]) -> &'v [V] {
    at(value, path).items().unwrap_or_default()
}

/// The members of the map at a path.
pub fn map<'v, V: JsonView>(value: &'v V, path: &[&str]) -> Option<&'v V::Map> {
    at(value, path).members()
}

/// The group of an object's `apiVersion`; empty for the core group.
pub fn group<V: JsonView>(object: &V) -> &str {
    fleetdex_core::model::split_api_version(text(object, &["apiVersion"])).0
}

/// The version of an object's `apiVersion`.
pub fn version<V: JsonView>(object: &V) -> &str {
    fleetdex_core::model::split_api_version(text(object, &["apiVersion"])).1
}

/// The condition of a type in `status.conditions`.
pub fn condition<'v, V: JsonView>(object: &'v V, kind: &str) -> Option<&'v V> {
    list(object, &["status", "conditions"])
        .iter()
        .find(|condition| text(*condition, &["type"]) == kind)
}

//! The fields of an object that columns read, borrowed from its JSON. All other fields are skipped
//! while parsing.
//!
//! This is not `JsonTree` of the core, because that would need an implementation of the trait of
//! paths, output with sorted keys, and here a trait for the zero values that columns show of
//! missing fields, together about as long as the parser that this module would save.

use std::{borrow::Cow, fmt};

use fleetdex_core::{
    json_path::{JsonValue, Scalar},
    model::{JsonText, MemberMask, TreeMembers},
};
use serde::{
    Deserializer, Serialize, Serializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

/// A value of an object.
#[derive(Clone, Debug, PartialEq)]
pub enum JsonNode<'a> {
    /// Missing, or `null`.
    Null,
    /// A boolean.
    Flag(bool),
    /// A whole number.
    Integer(i64),
    /// Another number.
    Float(f64),
    /// A text.
    Text(Cow<'a, str>),
    /// A list.
    List(Vec<JsonNode<'a>>),
    /// An object, with its fields in their order.
    Map(TreeMembers<'a, JsonNode<'a>>),
}

impl<'a> JsonNode<'a> {
    /// Parses the fields that a mask names.
    pub fn parse(json: &'a str, mask: &MemberMask) -> Result<Self, serde_json::Error> {
        SelectedFields { mask }.deserialize(&mut serde_json::Deserializer::from_str(json))
    }

    /// The member of this name; [`JsonNode::Null`] where there is none.
    pub fn member(&self, name: &str) -> &JsonNode<'a> {
        JsonValue::member(self, name).unwrap_or(&JsonNode::Null)
    }

    /// The value at a path of member names with dots in between.
    pub fn at(&self, path: &str) -> &JsonNode<'a> {
        path.split('.').fold(self, |node, name| node.member(name))
    }

    /// Whether it is neither missing nor `null`.
    pub fn is_given(&self) -> bool {
        *self != JsonNode::Null
    }

    /// The text; empty for other types.
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            _ => "",
        }
    }

    /// The whole number; 0 for other types.
    pub fn integer(&self) -> i64 {
        match self {
            Self::Integer(number) => *number,
            _ => 0,
        }
    }

    /// Its boolean; false for anything else.
    pub fn flag(&self) -> bool {
        *self == Self::Flag(true)
    }

    /// Its items; none for anything but a list.
    pub fn items(&self) -> &[JsonNode<'a>] {
        match self {
            Self::List(items) => items,
            _ => &[],
        }
    }

    /// Its members; none for anything but a map.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &JsonNode<'a>)> {
        self.map().into_iter().flat_map(TreeMembers::iter)
    }

    fn map(&self) -> Option<&TreeMembers<'a, JsonNode<'a>>> {
        match self {
            Self::Map(members) => Some(members),
            _ => None,
        }
    }

    /// How many items or members it has.
    pub fn count(&self) -> usize {
        self.items().len() + self.map().map_or(0, TreeMembers::len)
    }

    /// The item of a list whose member `type` is this.
    pub fn of_type(&self, name: &str) -> Option<&JsonNode<'a>> {
        self.items()
            .iter()
            .find(|item| item.member("type").text() == name)
    }

    /// Whether the condition of this type is true; `None` if there is no such condition.
    pub fn holds(&self, condition: &str) -> Option<bool> {
        Some(self.of_type(condition)?.member("status").text() == "True")
    }

    /// A text, a number or a text that holds one, as it is written.
    pub fn shown(&self) -> String {
        match self {
            Self::Integer(number) => number.to_string(),
            Self::Float(number) => number.to_string(),
            other => other.text().to_owned(),
        }
    }
}

impl JsonValue for JsonNode<'_> {
    fn scalar(&self) -> Option<Scalar<'_>> {
        Some(match self {
            Self::Null => Scalar::Null,
            Self::Flag(flag) => Scalar::Flag(*flag),
            Self::Integer(number) => Scalar::Integer(*number),
            Self::Float(number) => Scalar::Float(*number),
            Self::Text(text) => Scalar::Text(text),
            Self::List(_) | Self::Map(_) => return None,
        })
    }

    fn items(&self) -> Option<&[Self]> {
        matches!(self, Self::List(_)).then(|| self.items())
    }

    fn member(&self, key: &str) -> Option<&Self> {
        self.map()?.get(key)
    }

    fn members(&self) -> impl Iterator<Item = (&str, &Self)> {
        self.entries()
    }

    fn sorted_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl Serialize for JsonNode<'_> {
    /// With sorted keys, as Go writes maps.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Flag(flag) => serializer.serialize_bool(*flag),
            Self::Integer(number) => serializer.serialize_i64(*number),
            Self::Float(number) => serializer.serialize_f64(*number),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(items) => serializer.collect_seq(items),
            Self::Map(members) => {
                let mut sorted: Vec<_> = members.iter().collect();
                sorted.sort_by_key(|(key, _)| *key);
                serializer.collect_map(sorted)
            }
        }
    }
}

struct SelectedFields<'w> {
    mask: &'w MemberMask,
}

impl<'de> DeserializeSeed<'de> for SelectedFields<'_> {
    type Value = JsonNode<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<JsonNode<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for SelectedFields<'_> {
    type Value = JsonNode<'de>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<JsonNode<'de>, E> {
        Ok(JsonNode::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<JsonNode<'de>, E> {
        Ok(JsonNode::Flag(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<JsonNode<'de>, E> {
        Ok(JsonNode::Integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<JsonNode<'de>, E> {
        #[expect(
            clippy::cast_precision_loss,
            reason = "Kubernetes' own numbers are signed; larger ones are only shown"
        )]
        let float = || JsonNode::Float(value as f64);
        Ok(i64::try_from(value).map_or_else(|_| float(), JsonNode::Integer))
    }

    fn visit_f64<E>(self, value: f64) -> Result<JsonNode<'de>, E> {
        Ok(JsonNode::Float(value))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<JsonNode<'de>, E> {
        Ok(JsonNode::Text(Cow::Borrowed(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<JsonNode<'de>, E> {
        Ok(JsonNode::Text(Cow::Owned(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<JsonNode<'de>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = sequence.next_element_seed(SelectedFields { mask: self.mask })? {
            items.push(item);
        }
        Ok(JsonNode::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonNode<'de>, A::Error> {
        let mut entries = Vec::new();
        while let Some(JsonText(key)) = map.next_key::<JsonText<'de>>()? {
            match self.mask.member(&key) {
                Some(mask) => entries.push((key, map.next_value_seed(SelectedFields { mask })?)),
                None => map.next_value::<IgnoredAny>().map(drop)?,
            }
        }
        Ok(JsonNode::Map(TreeMembers::new(entries)))
    }
}

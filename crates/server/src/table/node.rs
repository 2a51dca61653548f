//! The parts of an object that its cells are made of, borrowed from its JSON: everything else is passed over while it is parsed.

use std::{borrow::Cow, fmt};

use fleetdex_core::{
    json_path::{Json, Scalar},
    model::JsonText,
};
use serde::{
    Deserializer, Serialize, Serializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

/// What is wanted of an object: a tree of member names. Lists are passed through, so that `containers.name` is the name of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The whole value.
    whole: bool,
    members: Vec<(Box<str>, Wanted)>,
}

/// Everything.
static WHOLE: Wanted = Wanted {
    whole: true,
    members: Vec::new(),
};

impl Wanted {
    /// Adds what lies at a path; the empty path is everything.
    pub fn add<'p>(&mut self, mut path: impl Iterator<Item = &'p str>) {
        let Some(name) = path.next() else {
            self.whole = true;
            return;
        };
        let known = self
            .members
            .iter()
            .position(|(member, _)| **member == *name);
        let position = known.unwrap_or_else(|| {
            self.members.push((name.into(), Self::default()));
            self.members.len() - 1
        });
        self.members[position].1.add(path);
    }

    fn member(&self, name: &str) -> Option<&Self> {
        if self.whole {
            return Some(&WHOLE);
        }
        self.members
            .iter()
            .find(|(member, _)| **member == *name)
            .map(|(_, wanted)| wanted)
    }
}

/// A value of an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Node<'a> {
    /// Nothing, or `null`.
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
    List(Vec<Node<'a>>),
    /// Members, in their order.
    Map(Vec<(Cow<'a, str>, Node<'a>)>),
}

impl<'a> Node<'a> {
    /// The wanted parts of an object.
    pub fn parse(json: &'a str, wanted: &Wanted) -> Result<Self, serde_json::Error> {
        Pick { wanted }.deserialize(&mut serde_json::Deserializer::from_str(json))
    }

    /// The member of this name; [`Node::Null`] where there is none.
    pub fn member(&self, name: &str) -> &Node<'a> {
        Json::member(self, name).unwrap_or(&Node::Null)
    }

    /// The value at a path of member names with dots in between.
    pub fn at(&self, path: &str) -> &Node<'a> {
        path.split('.').fold(self, |node, name| node.member(name))
    }

    /// Whether it is there.
    pub fn is_given(&self) -> bool {
        *self != Node::Null
    }

    /// Its text; empty for anything else.
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            _ => "",
        }
    }

    /// Its whole number; 0 for anything else.
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
    pub fn items(&self) -> &[Node<'a>] {
        match self {
            Self::List(items) => items,
            _ => &[],
        }
    }

    /// Its members; none for anything but a map.
    pub fn entries(&self) -> &[(Cow<'a, str>, Node<'a>)] {
        match self {
            Self::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The item of a list whose member `type` is this.
    pub fn of_type(&self, name: &str) -> Option<&Node<'a>> {
        self.items()
            .iter()
            .find(|item| item.member("type").text() == name)
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

impl Json for Node<'_> {
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
        self.entries()
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value)
    }

    fn members(&self) -> impl Iterator<Item = &Self> {
        self.entries().iter().map(|(_, value)| value)
    }
}

impl Serialize for Node<'_> {
    /// With sorted keys, as Go writes maps.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Flag(flag) => serializer.serialize_bool(*flag),
            Self::Integer(number) => serializer.serialize_i64(*number),
            Self::Float(number) => serializer.serialize_f64(*number),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(items) => serializer.collect_seq(items),
            Self::Map(entries) => {
                let mut sorted: Vec<_> = entries.iter().collect();
                sorted.sort_unstable_by(|left, right| left.0.cmp(&right.0));
                serializer.collect_map(sorted.into_iter().map(|(key, value)| (key, value)))
            }
        }
    }
}

struct Pick<'w> {
    wanted: &'w Wanted,
}

impl<'de> DeserializeSeed<'de> for Pick<'_> {
    type Value = Node<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Pick<'_> {
    type Value = Node<'de>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Node<'de>, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node<'de>, E> {
        Ok(Node::Flag(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node<'de>, E> {
        Ok(Node::Integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node<'de>, E> {
        #[expect(
            clippy::cast_precision_loss,
            reason = "Kubernetes' own numbers are signed; larger ones are only shown"
        )]
        let float = || Node::Float(value as f64);
        Ok(i64::try_from(value).map_or_else(|_| float(), Node::Integer))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node<'de>, E> {
        Ok(Node::Float(value))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Node<'de>, E> {
        Ok(Node::Text(Cow::Borrowed(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node<'de>, E> {
        Ok(Node::Text(Cow::Owned(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Node<'de>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = sequence.next_element_seed(Pick {
            wanted: self.wanted,
        })? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node<'de>, A::Error> {
        let mut entries = Vec::new();
        while let Some(JsonText(key)) = map.next_key::<JsonText<'de>>()? {
            match self.wanted.member(&key) {
                Some(wanted) => entries.push((key, map.next_value_seed(Pick { wanted })?)),
                None => map.next_value::<IgnoredAny>().map(drop)?,
            }
        }
        Ok(Node::Map(entries))
    }
}

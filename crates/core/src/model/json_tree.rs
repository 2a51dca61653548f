//! JSON as a tree that borrows from its text.
//!
//! `serde_json`'s `Value` owns every key and text, which costs several times as much as reading them. Rules and field selectors read this tree; it
//! can leave out members that none of them reads, and bounds its own depth.

use std::{borrow::Cow, fmt};

use serde::{
    Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value};

use super::{json::Text, member_mask::MemberMask};

/// Levels below the root that are read; what is deeper is null. `serde_json` fails beyond 127, with all of the text.
const MAX_DEPTH: usize = 100;

/// A JSON value.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum JsonTree<'a> {
    /// Null.
    #[default]
    Null,
    /// A boolean.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A text.
    String(Cow<'a, str>),
    /// An array.
    Array(Vec<JsonTree<'a>>),
    /// An object.
    Object(TreeMembers<'a>),
}

/// The members of an object, in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TreeMembers<'a> {
    members: Vec<(Cow<'a, str>, JsonTree<'a>)>,
    /// For many members, so that looking for one of them does not take longer and longer.
    order: Option<Box<NameOrder>>,
}

/// The positions of members in the order of their names; of equal names, in that of the members.
#[derive(Clone, Debug, PartialEq)]
struct NameOrder(Vec<usize>);

/// So many members are looked through one by one.
const FEW_MEMBERS: usize = 32;

impl<'a> JsonTree<'a> {
    /// Parses the members of a value that a mask names. The text is known to be JSON, except that a number may be out of range: null then.
    pub fn parse(json: &'a str, mask: &MemberMask) -> Self {
        let mut deserializer = serde_json::Deserializer::from_str(json);
        let masked = Masked { mask, depth: 0 };
        masked.deserialize(&mut deserializer).unwrap_or_default()
    }

    /// Hands over the scalars at a path, as the texts that field selectors compare. Arrays on the way and at its end have several.
    pub(super) fn texts_at(&self, path: &[Box<str>], found: &mut dyn FnMut(Cow<'a, str>)) {
        match (self, path) {
            (Self::Array(items), _) => items.iter().for_each(|item| item.texts_at(path, found)),
            (Self::Object(members), [name, rest @ ..]) => {
                if let Some(member) = members.get(name) {
                    member.texts_at(rest, found);
                }
            }
            (Self::Object(_) | Self::Null, []) | (_, [_, ..]) => {}
            (Self::Bool(flag), []) => found(Cow::Borrowed(if *flag { "true" } else { "false" })),
            (Self::Number(number), []) => found(Cow::Owned(number_text(number))),
            (Self::String(text), []) => found(text.clone()),
        }
    }

    /// The member of a name; `None` also for values that are no object.
    pub fn get(&self, name: &str) -> Option<&Self> {
        self.as_object()?.get(name)
    }

    /// The text; `None` for other values.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The boolean; `None` for other values.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(flag) => Some(*flag),
            _ => None,
        }
    }

    /// The number, if it is an integer; `None` for other values.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Number(number) => number.as_i64(),
            _ => None,
        }
    }

    /// The number; `None` for other values.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Number(number) => number.as_f64(),
            _ => None,
        }
    }

    /// The items; `None` for values that are no array.
    pub fn as_array(&self) -> Option<&[Self]> {
        match self {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The members; `None` for values that are no object.
    pub fn as_object(&self) -> Option<&TreeMembers<'a>> {
        match self {
            Self::Object(members) => Some(members),
            _ => None,
        }
    }

    /// Whether it is an object.
    pub fn is_object(&self) -> bool {
        self.as_object().is_some()
    }

    /// Whether it is a text.
    pub fn is_string(&self) -> bool {
        self.as_str().is_some()
    }

    /// Whether it is null.
    pub fn is_null(&self) -> bool {
        *self == Self::Null
    }
}

impl<'a> TreeMembers<'a> {
    fn new(members: Vec<(Cow<'a, str>, JsonTree<'a>)>) -> Self {
        let order = (members.len() > FEW_MEMBERS).then(|| {
            let mut positions: Vec<usize> = (0..members.len()).collect();
            positions.sort_by_key(|position| &members[*position].0);
            Box::new(NameOrder(positions))
        });
        Self { members, order }
    }

    /// The member of a name, the last one if there are several.
    pub fn get(&self, name: &str) -> Option<&JsonTree<'a>> {
        let found = match &self.order {
            None => self.members.iter().rev().find(|(known, _)| known == name),
            Some(order) => {
                let positions = &order.0;
                let end = positions.partition_point(|at| *self.members[*at].0 <= *name);
                let last = positions[..end].last().map(|at| &self.members[*at]);
                last.filter(|(known, _)| known == name)
            }
        };
        found.map(|(_, value)| value)
    }

    /// Whether there is a member of a name.
    pub fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &JsonTree<'a>)> {
        self.members.iter().map(|(name, value)| (&**name, value))
    }

    /// The names.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|(name, _)| name)
    }

    /// The values.
    pub fn values(&self) -> impl Iterator<Item = &JsonTree<'a>> {
        self.iter().map(|(_, value)| value)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}

impl<'a> FromIterator<(Cow<'a, str>, JsonTree<'a>)> for TreeMembers<'a> {
    fn from_iter<I: IntoIterator<Item = (Cow<'a, str>, JsonTree<'a>)>>(members: I) -> Self {
        Self::new(members.into_iter().collect())
    }
}

impl<'a> From<&'a str> for JsonTree<'a> {
    fn from(text: &'a str) -> Self {
        Self::String(Cow::Borrowed(text))
    }
}

impl<'a> From<TreeMembers<'a>> for JsonTree<'a> {
    fn from(members: TreeMembers<'a>) -> Self {
        Self::Object(members)
    }
}

impl<'a> From<&'a Value> for JsonTree<'a> {
    fn from(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(flag) => Self::Bool(*flag),
            Value::Number(number) => Self::Number(number.clone()),
            Value::String(text) => Self::String(Cow::Borrowed(text)),
            Value::Array(items) => Self::Array(items.iter().map(Self::from).collect()),
            Value::Object(members) => Self::Object(TreeMembers::from(members)),
        }
    }
}

impl<'a> From<&'a Map<String, Value>> for TreeMembers<'a> {
    fn from(members: &'a Map<String, Value>) -> Self {
        let members = members.iter();
        members
            .map(|(name, value)| (Cow::Borrowed(name.as_str()), value.into()))
            .collect()
    }
}

impl From<&JsonTree<'_>> for Value {
    fn from(tree: &JsonTree<'_>) -> Self {
        match tree {
            JsonTree::Null => Self::Null,
            JsonTree::Bool(flag) => Self::Bool(*flag),
            JsonTree::Number(number) => Self::Number(number.clone()),
            JsonTree::String(text) => Self::String(text.to_string()),
            JsonTree::Array(items) => items.iter().map(Self::from).collect(),
            JsonTree::Object(members) => Self::Object(members.into()),
        }
    }
}

impl From<&TreeMembers<'_>> for Map<String, Value> {
    fn from(members: &TreeMembers<'_>) -> Self {
        let members = members.iter();
        members
            .map(|(name, value)| (name.to_owned(), value.into()))
            .collect()
    }
}

/// A number as field selectors compare it. `1.0` reads `1`.
fn number_text(number: &Number) -> String {
    match number.as_f64() {
        Some(fraction) if number.is_f64() => fraction.to_string(),
        _ => number.to_string(),
    }
}

/// Deserializes what a mask names.
struct Masked<'m> {
    mask: &'m MemberMask,
    depth: usize,
}

impl Masked<'_> {
    fn below(mask: &MemberMask, depth: usize) -> Masked<'_> {
        Masked {
            mask,
            depth: depth + 1,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Masked<'_> {
    type Value = JsonTree<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<JsonTree<'de>, D::Error> {
        if self.depth > MAX_DEPTH {
            let skipped = deserializer.deserialize_ignored_any(IgnoredAny);
            return skipped.map(|_| JsonTree::Null);
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Masked<'_> {
    type Value = JsonTree<'de>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<JsonTree<'de>, E> {
        Ok(JsonTree::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<JsonTree<'de>, E> {
        Ok(JsonTree::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<JsonTree<'de>, E> {
        Ok(JsonTree::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<JsonTree<'de>, E> {
        Ok(JsonTree::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<JsonTree<'de>, E> {
        Ok(Number::from_f64(value).map_or(JsonTree::Null, JsonTree::Number))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<JsonTree<'de>, E> {
        Ok(JsonTree::String(Cow::Borrowed(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<JsonTree<'de>, E> {
        Ok(JsonTree::String(Cow::Owned(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<JsonTree<'de>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = sequence.next_element_seed(Masked::below(self.mask, self.depth))? {
            items.push(item);
        }
        Ok(JsonTree::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonTree<'de>, A::Error> {
        let mut members = Vec::new();
        while let Some(Text(name)) = map.next_key()? {
            match self.mask.member(&name) {
                Some(mask) => {
                    let value = map.next_value_seed(Masked::below(mask, self.depth))?;
                    members.push((name, value));
                }
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(JsonTree::Object(TreeMembers::new(members)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parsed(json: &str, paths: &[&str]) -> Value {
        let mut mask = MemberMask::default();
        for path in paths {
            mask.add(path.split('.'));
        }
        (&JsonTree::parse(json, &mask)).into()
    }

    #[test]
    fn a_tree_has_what_its_mask_names_and_the_shape_on_the_way() {
        let json =
            r#"{"a":{"b":[{"c":1,"d":2},{"d":3},"x"],"e":{}},"f":{"g":[1.5,null,true]},"h\n":7}"#;
        let expected = json!({"a": {"b": [{"c": 1}, {}, "x"]}, "f": {"g": [1.5, null, true]}});
        assert_eq!(parsed(json, &["a.b.c", "f"]), expected);
        assert_eq!(parsed(json, &["h\n"]), json!({"h\n": 7}));
        assert_eq!(parsed(json, &[]), json!({}));
        let whole: Value = serde_json::from_str(json).unwrap();
        let tree = JsonTree::parse(json, MemberMask::everything());
        assert_eq!(Value::from(&tree), whole);
        assert_eq!(JsonTree::from(&whole), tree);
    }

    #[test]
    fn what_has_no_members_takes_no_memory() {
        let mut mask = MemberMask::default();
        mask.add(["items", "name"]);
        let tree = JsonTree::parse(r#"{"items":[{},{"other":1}]}"#, &mask);
        let items = tree.get("items").and_then(JsonTree::as_array).unwrap();
        for item in items.iter().filter_map(JsonTree::as_object) {
            assert_eq!(item.members.capacity(), 0);
        }
    }

    #[test]
    fn what_is_too_deep_is_null_and_nothing_else_is_lost() {
        let deep = format!("{}1{}", "[".repeat(400), "]".repeat(400));
        let tree = parsed(&format!(r#"{{"a":{deep},"b":2}}"#), &["a", "b"]);
        assert_eq!(tree["b"], 2);
        let mut level = &tree["a"];
        while let Some(items) = level.as_array() {
            level = &items[0];
        }
        assert!(level.is_null());
    }

    #[test]
    fn of_members_of_one_name_the_last_one_counts() {
        let tree = JsonTree::parse(r#"{"a":1,"a":2}"#, MemberMask::everything());
        assert_eq!(tree.get("a").and_then(JsonTree::as_i64), Some(2));
        assert_eq!(Value::from(&tree), json!({"a": 2}));
    }

    #[test]
    fn of_many_members_each_is_found() {
        let members = (0..100).map(|number| format!(r#""m{}":{number}"#, number % 60));
        let json = format!("{{{}}}", members.collect::<Vec<_>>().join(","));
        let tree = JsonTree::parse(&json, MemberMask::everything());
        let number = |name: &str| tree.get(name).and_then(JsonTree::as_i64);
        assert_eq!(
            [number("m0"), number("m39"), number("m40"), number("m59")],
            [Some(60), Some(99), Some(40), Some(59)]
        );
        assert_eq!(
            [number("m"), number("m60"), number("a"), number("z")],
            [None; 4]
        );
    }
}

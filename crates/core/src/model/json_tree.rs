//! JSON as a tree that borrows from its text.
//!
//! `serde_json`'s `Value` owns every key and text, which costs several times as much as reading
//! them. Rules and field selectors read this tree; it can leave out members that none of them
//! reads, and bounds its own depth.

use std::borrow::Cow;

use serde_json::{Map, Number, Value};

use super::{
    json_scanner::{JsonContainer, JsonScanner, RawJson, skip_whitespace, string_at, string_end},
    member_mask::MemberMask,
};

/// Levels below the root that are read; what is deeper is null. A tree is built recursively.
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
#[derive(Clone, Debug, PartialEq)]
pub struct TreeMembers<'a, V = JsonTree<'a>> {
    members: Vec<(Cow<'a, str>, V)>,
    /// For many members, so that looking for one of them does not take longer and longer.
    order: Option<Box<NameOrder>>,
}

/// The positions of members in the order of their names; of equal names, in that of the members.
#[derive(Clone, Debug, PartialEq)]
struct NameOrder(Vec<usize>);

/// So many members are looked through one by one.
const FEW_MEMBERS: usize = 32;

impl<'a> JsonTree<'a> {
    /// Parses the members of a value that a mask names. Null for a text that is no JSON, or whose
    /// number is out of range.
    pub fn parse(json: &'a str, mask: &MemberMask) -> Self {
        let mut scanner = JsonScanner::new(json);
        let Ok(value) = scanner.value() else {
            return Self::Null;
        };
        Self::of_scanned(value, &scanner.containers, mask)
    }

    /// The members of a scanned value that a mask names, by the containers that its scanner has
    /// kept. Null for a value with a number that is out of range.
    pub(super) fn of_scanned(
        value: RawJson<'a>,
        kept: &[JsonContainer],
        mask: &MemberMask,
    ) -> Self {
        let mut reader = TreeReader {
            text: value.get(),
            at: 0,
            containers: value.containers(kept),
        };
        reader.value(mask, 0).unwrap_or_default()
    }

    /// Hands over the scalars at a path, as the texts that field selectors compare. Arrays on the
    /// way and at its end have several.
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

    /// An object with this text as a member, instead of others of its name. Other values do not
    /// change.
    #[must_use]
    pub fn with_text(self, name: &'a str, text: &'a str) -> Self {
        match self {
            Self::Object(TreeMembers { mut members, .. }) => {
                members.push((name.into(), text.into()));
                Self::Object(TreeMembers::new(members))
            }
            other => other,
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

impl<'a, V> TreeMembers<'a, V> {
    /// These members.
    pub fn new(members: Vec<(Cow<'a, str>, V)>) -> Self {
        let order = (members.len() > FEW_MEMBERS).then(|| {
            let mut positions: Vec<usize> = (0..members.len()).collect();
            positions.sort_by_key(|position| &members[*position].0);
            Box::new(NameOrder(positions))
        });
        Self { members, order }
    }

    /// The member of a name, the last one if there are several.
    pub fn get(&self, name: &str) -> Option<&V> {
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
    pub fn iter(&self) -> impl Iterator<Item = (&str, &V)> {
        self.members.iter().map(|(name, value)| (&**name, value))
    }

    /// The names.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|(name, _)| name)
    }

    /// The values.
    pub fn values(&self) -> impl Iterator<Item = &V> {
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

impl<V> Default for TreeMembers<'_, V> {
    fn default() -> Self {
        Self {
            members: Vec::new(),
            order: None,
        }
    }
}

impl<'a, V> FromIterator<(Cow<'a, str>, V)> for TreeMembers<'a, V> {
    fn from_iter<I: IntoIterator<Item = (Cow<'a, str>, V)>>(members: I) -> Self {
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

/// Reads what a mask names of a scanned text.
struct TreeReader<'a, 'c> {
    text: &'a str,
    at: usize,
    /// The containers that begin here or later.
    containers: &'c [JsonContainer],
}

impl<'a> TreeReader<'a, '_> {
    /// Reads a value; `None` if it has a number that is out of range, or a surrogate without its
    /// pair.
    fn value(&mut self, mask: &MemberMask, depth: usize) -> Option<JsonTree<'a>> {
        Some(match self.peek()? {
            b'{' | b'[' if depth > MAX_DEPTH => {
                self.skip()?;
                JsonTree::Null
            }
            b'{' => JsonTree::Object(TreeMembers::new(self.members(mask, depth)?)),
            b'[' => JsonTree::Array(self.items(mask, depth)?),
            b'"' => JsonTree::String(self.string()?),
            _ => scalar(self.scalar()?)?,
        })
    }

    fn members(
        &mut self,
        mask: &MemberMask,
        depth: usize,
    ) -> Option<Vec<(Cow<'a, str>, JsonTree<'a>)>> {
        let mut members = Vec::new();
        self.enter();
        while self.peek()? != b'}' {
            let name = self.string()?;
            self.peek()?;
            self.at += 1;
            match mask.member(&name) {
                Some(below) => members.push((name, self.value(below, depth + 1)?)),
                None => self.skip()?,
            }
            self.comma()?;
        }
        self.at += 1;
        Some(members)
    }

    fn items(&mut self, mask: &MemberMask, depth: usize) -> Option<Vec<JsonTree<'a>>> {
        let mut items = Vec::new();
        self.enter();
        while self.peek()? != b']' {
            items.push(self.value(mask, depth + 1)?);
            self.comma()?;
        }
        self.at += 1;
        Some(items)
    }

    fn peek(&mut self) -> Option<u8> {
        self.at = skip_whitespace(self.text.as_bytes(), self.at);
        self.text.as_bytes().get(self.at).copied()
    }

    /// Reads the bracket of a container.
    fn enter(&mut self) {
        self.at += 1;
        self.containers = self.containers.get(1..).unwrap_or_default();
    }

    /// Reads a comma, if there is one.
    fn comma(&mut self) -> Option<()> {
        if self.peek()? == b',' {
            self.at += 1;
        }
        Some(())
    }

    fn string(&mut self) -> Option<Cow<'a, str>> {
        let (text, end) = string_at(self.text, self.at + 1).ok()?;
        self.at = end;
        Some(text)
    }

    fn scalar(&mut self) -> Option<&'a str> {
        let rest = self.text.get(self.at..)?;
        let ends = |byte| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r');
        let length = rest.bytes().position(ends).unwrap_or(rest.len());
        self.at += length;
        rest.get(..length)
    }

    fn skip(&mut self) -> Option<()> {
        match self.peek()? {
            b'{' | b'[' => {
                let container = self.containers.first()?;
                self.at += container.length as usize;
                self.containers = self.containers.get(container.containers as usize..)?;
            }
            b'"' => (self.at, _) = string_end(self.text.as_bytes(), self.at + 1).ok()?,
            _ => drop(self.scalar()?),
        }
        Some(())
    }
}

/// A number or a literal.
fn scalar<'a>(json: &str) -> Option<JsonTree<'a>> {
    Some(match json {
        "null" => JsonTree::Null,
        "true" => JsonTree::Bool(true),
        "false" => JsonTree::Bool(false),
        number => JsonTree::Number(serde_json::from_str(number).ok()?),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
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

    /// The part of a value that a mask names, made in another way.
    fn masked(value: &Value, mask: &MemberMask) -> Value {
        match value {
            Value::Array(items) => items.iter().map(|item| masked(item, mask)).collect(),
            Value::Object(members) => members
                .iter()
                .filter_map(|(name, member)| {
                    Some((name.clone(), masked(member, mask.member(name)?)))
                })
                .collect(),
            scalar => scalar.clone(),
        }
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "[a-c]{0,30}[\n\"\\\\é]?[a-c]{0,3}".prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 64, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map("[abc\n\"]{1,2}", inner, 0..5)
                    .prop_map(|members| members.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_tree_is_what_serde_json_reads_within_the_mask(
            value in json_value(),
            paths in prop::collection::vec(prop::collection::vec("[abc\n\"]{1,2}", 1..4), 0..4),
            is_pretty in any::<bool>(),
        ) {
            let mut mask = MemberMask::default();
            for path in &paths {
                mask.add(path.iter().map(String::as_str));
            }
            let text = if is_pretty {
                serde_json::to_string_pretty(&value).unwrap()
            } else {
                value.to_string()
            };
            let known: Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(Value::from(&JsonTree::parse(&text, &mask)), masked(&known, &mask));
            let whole = JsonTree::parse(&text, MemberMask::everything());
            prop_assert_eq!(Value::from(&whole), known);
        }
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

//! Borrowed JSON: parses what is needed, and passes the rest through as bytes.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use super::json_line::compacted;

/// JSON in one line that was parsed before, or was composed of such JSON. It is passed through without being parsed again.
#[derive(Clone, PartialEq, Eq)]
pub struct Json(Box<str>);

impl Json {
    /// Takes text that was read or written as JSON. Removes line breaks between its tokens, so that it fits into any line protocol.
    pub fn known(json: impl Into<Box<str>>) -> Self {
        let json = json.into();
        // Whole characters are removed, so that the text stays UTF-8.
        let compacted = compacted(json.as_bytes()).and_then(|line| String::from_utf8(line).ok());
        Self(compacted.map_or(json, Into::into))
    }

    /// The text.
    pub fn get(&self) -> &str {
        &self.0
    }
}

impl From<Box<RawValue>> for Json {
    fn from(value: Box<RawValue>) -> Self {
        Self::known(value)
    }
}

impl From<Json> for String {
    fn from(json: Json) -> Self {
        json.0.into()
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// Text that borrows from the input unless it holds escapes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text<'a>(pub Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;

        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }

        deserializer.deserialize_str(TextVisitor)
    }
}

/// The members of a JSON object, in their order.
#[derive(Clone, Debug)]
pub struct Members<'a, V>(pub Vec<(Text<'a>, V)>);

impl<V> Default for Members<'_, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// Raw members of a JSON object.
pub type RawMembers<'a> = Members<'a, &'a RawValue>;

impl<'de: 'a, 'a, V: Deserialize<'de>> Deserialize<'de> for Members<'a, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor<V>(std::marker::PhantomData<V>);

        impl<'de, V: Deserialize<'de>> Visitor<'de> for MembersVisitor<V> {
            type Value = Members<'de, V>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Members(Vec::new()))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::with_capacity(8);
                while let Some(member) = map.next_entry::<Text<'de>, V>()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_any(MembersVisitor(std::marker::PhantomData))
    }
}

/// Appends `value` as JSON.
pub fn write<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    #[expect(
        clippy::expect_used,
        reason = "text, numbers and raw values always serialise into a Vec"
    )]
    serde_json::to_writer(out, value).expect("serialising into memory");
}

/// Appends a string in quotes, escaped. Most text of Kubernetes needs no escape, which is checked first.
pub fn write_text(out: &mut Vec<u8>, text: &str) {
    let plain = text
        .bytes()
        .all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\');
    if plain {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else {
        write(out, text);
    }
}

/// Appends `"key":` after a comma unless it is the first member of its object.
pub fn write_key(out: &mut Vec<u8>, key: &str) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    write_text(out, key);
    out.push(b':');
}

/// A tree of paths. Each leaf has the position of its path in the caller's list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathTree {
    children: Vec<(Box<str>, PathTree)>,
    leaf: Option<usize>,
}

impl PathTree {
    /// Adds a path.
    pub fn insert<'p>(&mut self, segments: impl IntoIterator<Item = &'p str>, leaf: usize) {
        let mut node = self;
        for segment in segments {
            let position = node
                .children
                .iter()
                .position(|(name, _)| &**name == segment)
                .unwrap_or_else(|| {
                    node.children.push((segment.into(), PathTree::default()));
                    node.children.len() - 1
                });
            node = &mut node.children[position].1;
        }
        node.leaf = Some(leaf);
    }

    /// The subtree below one name.
    pub fn child(&self, name: &str) -> Option<&PathTree> {
        self.children
            .iter()
            .find(|(child, _)| &**child == name)
            .map(|(_, tree)| tree)
    }

    /// The position of the path that ends here.
    pub fn leaf(&self) -> Option<usize> {
        self.leaf
    }

    /// Collects the scalar values at the tree's paths below `value`, as text.
    pub fn collect<'a>(&self, value: &'a RawValue, found: &mut Vec<(usize, Cow<'a, str>)>) {
        let mut deserializer = serde_json::Deserializer::from_str(value.get());
        // A value of another shape than the path expects has no such field.
        if let Err(mismatch) = (Collect { tree: self, found }).deserialize(&mut deserializer) {
            tracing::trace!(%mismatch, "a field path ends at another shape");
        }
    }
}

/// The visitor methods for scalars other than texts: each calls `scalar` with the text that field selectors compare.
macro_rules! visit_scalars {
    () => {
        type Value = ();

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("any value")
        }

        fn visit_unit<E>(self) -> Result<(), E> {
            Ok(())
        }

        fn visit_bool<E>(self, value: bool) -> Result<(), E> {
            self.scalar(Cow::Borrowed(if value { "true" } else { "false" }));
            Ok(())
        }

        fn visit_i64<E>(self, value: i64) -> Result<(), E> {
            self.scalar(Cow::Owned(value.to_string()));
            Ok(())
        }

        fn visit_u64<E>(self, value: u64) -> Result<(), E> {
            self.scalar(Cow::Owned(value.to_string()));
            Ok(())
        }

        fn visit_f64<E>(self, value: f64) -> Result<(), E> {
            self.scalar(Cow::Owned(value.to_string()));
            Ok(())
        }
    };
}
pub(super) use visit_scalars;

struct Collect<'t, 'f, 'a> {
    tree: &'t PathTree,
    found: &'f mut Vec<(usize, Cow<'a, str>)>,
}

impl<'a> Collect<'_, '_, 'a> {
    fn scalar(self, value: Cow<'a, str>) {
        if let Some(leaf) = self.tree.leaf {
            self.found.push((leaf, value));
        }
    }
}

impl<'de> DeserializeSeed<'de> for Collect<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Collect<'_, '_, 'de> {
    visit_scalars!();

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<(), E> {
        self.scalar(Cow::Borrowed(value));
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        self.scalar(Cow::Owned(value.to_owned()));
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<(), A::Error> {
        while sequence
            .next_element_seed(Collect {
                tree: self.tree,
                found: &mut *self.found,
            })?
            .is_some()
        {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Text<'de>>()? {
            match self.tree.child(&key.0) {
                Some(tree) => map.next_value_seed(Collect {
                    tree,
                    found: &mut *self.found,
                })?,
                None => map.next_value::<IgnoredAny>().map(drop)?,
            }
        }
        Ok(())
    }
}

//! Borrowed JSON: parses what is needed, and passes the rest through as bytes.

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Deserializer, Serialize, de::Visitor};
use serde_json::value::RawValue;

use super::{
    json_line::compacted,
    json_scanner::{JsonScanner, ScanFault},
};

/// Room for the members of most objects.
const USUAL_MEMBERS: usize = 8;

/// JSON in one line that was parsed before, or was composed of such JSON. It is passed through
/// without being parsed again.
#[derive(Clone, PartialEq, Eq)]
pub struct Json(Box<str>);

impl Json {
    /// Takes text that was read or written as JSON. Removes line breaks between its tokens, so that
    /// it fits into any line protocol.
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

impl<'a, V> Members<'a, V> {
    /// Reads an object, or `null`, which has no members.
    pub fn read(
        scanner: &mut JsonScanner<'a>,
        mut read: impl FnMut(&mut JsonScanner<'a>) -> Result<V, ScanFault>,
    ) -> Result<Self, ScanFault> {
        if scanner.null()? {
            return Ok(Self::default());
        }
        let mut members = Vec::with_capacity(USUAL_MEMBERS);
        scanner.object(|scanner, name| {
            members.push((Text(name), read(scanner)?));
            Ok(())
        })?;
        Ok(Self(members))
    }
}

/// The members of a JSON object, with the texts of their values.
pub type RawMembers<'a> = Members<'a, &'a str>;

impl<'a> RawMembers<'a> {
    /// The members of a text that is an object or `null`.
    pub fn parse(json: &'a str) -> Result<Self, serde_json::Error> {
        let mut scanner = JsonScanner::new(json);
        let members = Self::read(&mut scanner, JsonScanner::skip);
        members
            .and_then(|members| scanner.end().map(|()| members))
            .map_err(|fault| fault.of(json))
    }

    /// The first value of a name.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        let found = self.0.iter().find(|(key, _)| key.0 == name);
        found.map(|(_, value)| *value)
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

/// Appends a string in quotes, escaped. Most text of Kubernetes needs no escape, which is checked
/// first.
pub fn write_text(out: &mut Vec<u8>, text: &str) {
    write_joined(out, &[text]);
}

/// Whether a text needs no escapes. Looks at eight bytes at a time, and at all of them, which is
/// faster than to stop at the first; the last word overlaps the one before.
fn is_plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    if let Some(last) = bytes.last_chunk() {
        let (words, _) = bytes.as_chunks();
        let found = words.iter().chain([last]);
        return found.fold(0, |found, word| found | special_bytes(*word)) == 0;
    }
    let is_special = |byte: u8| byte < b' ' || byte == b'"' || byte == b'\\';
    !bytes.iter().any(|byte| is_special(*byte))
}

/// Not 0 if one of the bytes has to be escaped in a string.
fn special_bytes(bytes: [u8; 8]) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH_BITS: u64 = 0x80 * ONES;
    let word = u64::from_ne_bytes(bytes);
    // The high bit of the lowest byte that is below the bound is set, and no bit if none is.
    let below = |word: u64, bound: u8| word.wrapping_sub(u64::from(bound) * ONES) & !word;
    let is = |byte: u8| below(word ^ (u64::from(byte) * ONES), 1);
    (below(word, b' ') | is(b'"') | is(b'\\')) & HIGH_BITS
}

/// Appends several texts as one string in quotes, escaped.
pub fn write_joined(out: &mut Vec<u8>, texts: &[&str]) {
    if texts.iter().all(|text| is_plain(text)) {
        out.push(b'"');
        for text in texts {
            out.extend_from_slice(text.as_bytes());
        }
        out.push(b'"');
    } else {
        write(out, &texts.concat());
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

/// Appends `"key":"text"` after a comma unless it is the first member of its object.
pub fn write_text_member(out: &mut Vec<u8>, key: &str, text: &str) {
    write_key(out, key);
    write_text(out, text);
}

/// Appends members after a comma unless they are the first of their object.
pub fn write_members<'m>(
    out: &mut Vec<u8>,
    members: impl IntoIterator<Item = &'m (Text<'m>, &'m str)>,
) {
    for (name, value) in members {
        write_key(out, &name.0);
        out.extend_from_slice(value.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn texts_are_written_as_serde_json_writes_them(
            texts in prop::collection::vec("([a-zé\u{7f}\u{ff}]{0,20}[\u{0}-#\\[-^]?){0,3}", 0..3),
        ) {
            let mut out = Vec::new();
            let parts: Vec<&str> = texts.iter().map(String::as_str).collect();
            write_joined(&mut out, &parts);
            let expected = serde_json::to_string(&texts.concat()).unwrap();
            prop_assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}

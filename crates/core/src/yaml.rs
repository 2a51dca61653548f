//! Writes values as YAML in the style of `kubectl -o yaml` and kube-apiserver: two spaces, lists at
//! the level of their key, long texts on their line.
//!
//! A value is written while it is read: JSON needs no value tree. The order of keys stays.

pub mod reader;

use std::{cell::Cell, fmt};

use serde::{
    Deserializer, Serialize, Serializer,
    de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor},
    ser::{Error as _, SerializeMap, SerializeSeq},
};
pub use serde_saphyr::ser::Error;
use serde_saphyr::{DoubleQuoted, SingleQuoted};

/// Appends a value, with a line break at its end.
pub fn write<'de, D: Deserializer<'de>>(out: &mut Vec<u8>, source: D) -> Result<(), Error> {
    append(out, &Transcoded::new(source))
}

/// Appends a value as an item of a list, with a line break at its end.
pub fn write_item<'de, D: Deserializer<'de>>(out: &mut Vec<u8>, source: D) -> Result<(), Error> {
    append(out, &[Transcoded::new(source)])
}

/// The YAML of a value, with a line break at the end.
pub fn to_string<'de, D: Deserializer<'de>>(source: D) -> Result<String, Error> {
    let mut out = Vec::new();
    write(&mut out, source)?;
    String::from_utf8(out).map_err(Error::custom)
}

fn append(out: &mut Vec<u8>, value: &impl Serialize) -> Result<(), Error> {
    let options = serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX };
    serde_saphyr::to_io_writer_with_options(out, value, options)?;
    if out.last() != Some(&b'\n') {
        out.push(b'\n');
    }
    Ok(())
}

/// A value that is written while it is read, once.
struct Transcoded<D>(Cell<Option<D>>);

impl<D> Transcoded<D> {
    fn new(source: D) -> Self {
        Self(Cell::new(Some(source)))
    }
}

impl<'de, D: Deserializer<'de>> Serialize for Transcoded<D> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let source = self.0.take().ok_or(fmt::Error).map_err(S::Error::custom)?;
        let written = source.deserialize_any(Transcoder(serializer));
        written.map_err(S::Error::custom)
    }
}

/// Writes what it visits.
struct Transcoder<S>(S);

impl<'de, S: Serializer> Visitor<'de> for Transcoder<S> {
    type Value = S::Ok;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("any value")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<S::Ok, E> {
        self.0.serialize_unit().map_err(E::custom)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<S::Ok, E> {
        self.0.serialize_bool(value).map_err(E::custom)
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<S::Ok, E> {
        self.0.serialize_i64(value).map_err(E::custom)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<S::Ok, E> {
        self.0.serialize_u64(value).map_err(E::custom)
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<S::Ok, E> {
        self.0.serialize_f64(value).map_err(E::custom)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<S::Ok, E> {
        let written = if has_single_quotes(text) {
            SingleQuoted(text).serialize(self.0)
        } else if !fits_block(text) {
            DoubleQuoted(text).serialize(self.0)
        } else {
            self.0.serialize_str(text)
        };
        written.map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<S::Ok, A::Error> {
        let mut list = self.0.serialize_seq(None).map_err(A::Error::custom)?;
        while items.next_element_seed(ItemSeed(&mut list))?.is_some() {}
        list.end().map_err(A::Error::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<S::Ok, A::Error> {
        let mut map = self.0.serialize_map(None).map_err(A::Error::custom)?;
        while let Some(key) = members.next_key::<String>()? {
            map.serialize_key(&key).map_err(A::Error::custom)?;
            members.next_value_seed(MemberSeed(&mut map))?;
        }
        map.end().map_err(A::Error::custom)
    }
}

/// The next item of a list.
struct ItemSeed<'l, L>(&'l mut L);

impl<'de, L: SerializeSeq> DeserializeSeed<'de> for ItemSeed<'_, L> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<(), D::Error> {
        let written = self.0.serialize_element(&Transcoded::new(source));
        written.map_err(D::Error::custom)
    }
}

/// The value of the next member of an object.
struct MemberSeed<'m, M>(&'m mut M);

impl<'de, M: SerializeMap> DeserializeSeed<'de> for MemberSeed<'_, M> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<(), D::Error> {
        let written = self.0.serialize_value(&Transcoded::new(source));
        written.map_err(D::Error::custom)
    }
}

/// Whether a value is written in single quotes: it is of printable characters on one line, and
/// cannot be written plain because of its indicators or the blanks around it. One that another type
/// could be read from is written in double quotes, like `"1"`.
///
/// Source: `yaml_emitter_analyze_scalar` of <https://pkg.go.dev/sigs.k8s.io/yaml/goyaml.v2>
fn has_single_quotes(text: &str) -> bool {
    let is_printable = |sign: char| {
        let is_basic = matches!(sign, ' '..='~' | '\u{a0}'..='\u{d7ff}');
        let is_higher = matches!(sign, '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}');
        (is_basic || is_higher) && !matches!(sign, '\u{2028}' | '\u{2029}')
    };
    text.chars().all(is_printable) && (has_indicators(text) || is_padded(text))
}

/// Whether a text may be written as lines, if it has several. Parsers disagree on tabs there, and
/// blanks at the end of a line are not seen.
fn fits_block(text: &str) -> bool {
    let has_blanks = || text.contains('\t') || text.contains(" \n") || text.ends_with(' ');
    !text.contains('\n') || !has_blanks()
}

fn is_padded(text: &str) -> bool {
    text.starts_with(' ') || text.ends_with(' ')
}

/// Whether a text has signs that mean something in YAML where they are.
fn has_indicators(text: &str) -> bool {
    let mut signs = text.chars();
    let begins = match (signs.next(), signs.next()) {
        (Some('-' | '?' | ':'), second) => second.is_none_or(|sign| sign == ' '),
        (Some(first), _) => "#,[]{}&*!|>'\"%@`".contains(first),
        (None, _) => false,
    };
    begins
        || text.starts_with("---")
        || text.starts_with("...")
        || text.contains(": ")
        || text.ends_with(':')
        || text.contains(" #")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn values_are_written_as_kubernetes_writes_them() {
        let value = json!({
            "spec": {"b": [{"name": "x", "env": []}, "1", "true", "yes", null, "0x1f", "1e3"], "a": {}},
            "apiVersion": "v1",
            "text": "two\nlines\n",
            "long": "word ".repeat(40).trim_end(),
            "colon": "a: b",
            "number": 1.5,
            "empty": "",
        });
        insta::assert_snapshot!(to_string(&value).unwrap());
    }

    #[test]
    fn texts_have_the_quotes_of_go_yaml() {
        for (text, written) in [
            ("Job failed in clusters: m1", "'Job failed in clusters: m1'"),
            ("*/5 * * * *", "'*/5 * * * *'"),
            ("@daily", "'@daily'"),
            ("it's: a", "'it''s: a'"),
            ("\"b\"", "'\"b\"'"),
            (" a", "' a'"),
            ("a ", "'a '"),
            ("a #b", "'a #b'"),
            ("a:", "'a:'"),
            ("- a", "'- a'"),
            ("-", "'-'"),
            ("---", "'---'"),
            ("{{ a }}", "'{{ a }}'"),
            ("it's", "it's"),
            ("-a", "-a"),
            ("a:b", "a:b"),
            ("a, b", "a, b"),
            ("a [b]", "a [b]"),
            ("h\u{e4}\u{df}", "h\u{e4}\u{df}"),
            ("", "\"\""),
            ("1", "\"1\""),
            ("yes", "\"yes\""),
            ("~", "\"~\""),
            ("12:30", "\"12:30\""),
            ("2023-02-08T07:17:25Z", "\"2023-02-08T07:17:25Z\""),
            ("\ta: b", "\"\\ta: b\""),
            ("a\nb: c", "|-\n  a\n  b: c"),
            ("\tfoo\nbar", "\"\\tfoo\\nbar\""),
            ("\n\tfoo\n", "\"\\n\\tfoo\\n\""),
            ("a\n\tb\n", "\"a\\n\\tb\\n\""),
            ("a \nb", "\"a \\nb\""),
            ("a\nb ", "\"a\\nb \""),
            ("a\n b", "|-\n  a\n   b"),
        ] {
            let yaml = to_string(json!({"key": text})).unwrap();
            assert_eq!(yaml, format!("key: {written}\n"));
            let read: Value = serde_saphyr::from_str(&yaml).unwrap();
            assert_eq!(read["key"], text, "{yaml}");
        }
        assert_eq!(to_string(json!([["a: b"]])).unwrap(), "- - 'a: b'\n");
        assert_eq!(to_string(json!("a: b")).unwrap(), "'a: b'\n");
    }

    #[test]
    fn plain_values_end_in_a_line_break() {
        for (value, text) in [
            (json!(3), "3\n"),
            (json!(true), "true\n"),
            (json!(null), "null\n"),
            (json!([]), "[]\n"),
            (json!({}), "{}\n"),
        ] {
            assert_eq!(to_string(&value).unwrap(), text);
        }
    }
}

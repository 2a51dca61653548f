//! Rewrites JSON as YAML in block style while parsing it, without a value tree.
//!
//! A string stays a string in every version of YAML: only words that no version reads as anything else are written without quotes.
//! Strings of several lines are literal blocks where that keeps every byte.

use std::fmt::{self, Write as _};

use serde::{
    Deserializer,
    de::{DeserializeSeed, MapAccess, SeqAccess, Visitor},
};

use super::indent::laid_out_size;

/// Words that some version of YAML reads as a boolean or null, in lower case.
const WORDS: [&str; 9] = ["true", "false", "yes", "no", "on", "off", "y", "n", "null"];

/// The position of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum YamlPosition {
    /// On a line of its own.
    Top,
    /// After `key:`.
    Key,
    /// After `-`.
    Dash,
}

/// Appends one JSON value as YAML that ends its last line. `indent` is that of the key or dash before it.
pub fn write(
    out: &mut Vec<u8>,
    json: &[u8],
    position: YamlPosition,
    indent: usize,
) -> Result<(), serde_json::Error> {
    let Some(size) = laid_out_size(json) else {
        // JSON is YAML, too.
        if position != YamlPosition::Top {
            out.push(b' ');
        }
        out.extend_from_slice(json.trim_ascii_end());
        out.push(b'\n');
        return Ok(());
    };
    out.reserve(size);
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    YamlValue {
        out,
        position,
        indent,
    }
    .deserialize(&mut deserializer)?;
    deserializer.end()
}

struct YamlValue<'o> {
    out: &'o mut Vec<u8>,
    position: YamlPosition,
    indent: usize,
}

impl YamlValue<'_> {
    fn scalar(self, text: &str) {
        if self.position != YamlPosition::Top {
            self.out.push(b' ');
        }
        self.out.extend_from_slice(text.as_bytes());
        self.out.push(b'\n');
    }

    fn text(self, text: &str) {
        if is_plain(text) {
            return self.scalar(text);
        }
        if self.position == YamlPosition::Top || !fits_block(text) {
            return self.scalar(&quoted(text));
        }
        // `|` keeps the line break at the end, `|-` has none to keep.
        self.out.extend_from_slice(if text.ends_with('\n') {
            b" |\n"
        } else {
            b" |-\n"
        });
        for line in text.lines() {
            if !line.is_empty() {
                pad(self.out, self.indent + 2);
                self.out.extend_from_slice(line.as_bytes());
            }
            self.out.push(b'\n');
        }
    }

    /// The indent of what is inside, which is one step deeper unless nothing is around it.
    fn inside(&self) -> usize {
        if self.position == YamlPosition::Top {
            self.indent
        } else {
            self.indent + 2
        }
    }
}

fn pad(out: &mut Vec<u8>, indent: usize) {
    out.resize(out.len() + indent, b' ');
}

/// Whether a text may stand without quotes.
fn is_plain(text: &str) -> bool {
    let mut bytes = text.bytes();
    let begins_plain = bytes
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == b'/');
    let goes_on_plain =
        bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/'));
    begins_plain && goes_on_plain && !WORDS.iter().any(|word| word.eq_ignore_ascii_case(text))
}

/// Whether a text of several lines comes back from a literal block as it was.
fn fits_block(text: &str) -> bool {
    let begins_plain = text.starts_with(|first: char| first.is_ascii_graphic());
    let ends_once = !text.ends_with("\n\n");
    let has_lines = text.trim_end_matches('\n').contains('\n');
    let keeps_lines = text
        .split('\n')
        .all(|line| !line.ends_with(' ') && line.chars().all(is_printable));
    begins_plain && ends_once && has_lines && keeps_lines
}

/// Whether every version of YAML lets a character stand for itself. Tabs are left out, because parsers disagree on them.
fn is_printable(letter: char) -> bool {
    let breaks_lines = matches!(letter, '\u{2028}' | '\u{2029}');
    let marks_bytes = letter == '\u{feff}';
    matches!(letter, ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
        && !breaks_lines
        && !marks_bytes
}

fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            printable if is_printable(printable) => quoted.push(printable),
            other => {
                // Only characters of the first plane are not printable. Writing to a String cannot fail.
                let _ = write!(quoted, "\\u{:04x}", u32::from(other));
            }
        }
    }
    quoted.push('"');
    quoted
}

impl<'de> DeserializeSeed<'de> for YamlValue<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for YamlValue<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.scalar("null");
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.scalar(if value { "true" } else { "false" });
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.scalar(&value.to_string());
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.scalar(&value.to_string());
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        // With a point, so that it is no integer.
        self.scalar(&format!("{value:?}"));
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        self.text(value);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<(), A::Error> {
        // The items of a list stand below their key, as Kubernetes' tools write them.
        let indent = if self.position == YamlPosition::Dash {
            self.indent + 2
        } else {
            self.indent
        };
        let mut is_first = true;
        loop {
            let before = self.out.len();
            start_item(self.out, self.position, is_first, indent);
            self.out.push(b'-');
            if sequence
                .next_element_seed(YamlValue {
                    out: &mut *self.out,
                    position: YamlPosition::Dash,
                    indent,
                })?
                .is_none()
            {
                self.out.truncate(before);
                break;
            }
            is_first = false;
        }
        if is_first {
            self.scalar("[]");
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let indent = self.inside();
        let mut is_first = true;
        while let Some(key) = map.next_key::<String>()? {
            start_item(self.out, self.position, is_first, indent);
            is_first = false;
            let shown = if is_plain(&key) { key } else { quoted(&key) };
            self.out.extend_from_slice(shown.as_bytes());
            self.out.push(b':');
            map.next_value_seed(YamlValue {
                out: &mut *self.out,
                position: YamlPosition::Key,
                indent,
            })?;
        }
        if is_first {
            self.scalar("{}");
        }
        Ok(())
    }
}

/// Goes to where the next item of a collection begins.
fn start_item(out: &mut Vec<u8>, position: YamlPosition, is_first: bool, indent: usize) {
    match (position, is_first) {
        (YamlPosition::Dash, true) => out.push(b' '),
        (YamlPosition::Key, true) => {
            out.push(b'\n');
            pad(out, indent);
        }
        (YamlPosition::Top | YamlPosition::Key | YamlPosition::Dash, _) => pad(out, indent),
    }
}

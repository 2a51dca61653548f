//! How much memory a text of JSON takes once it is parsed, before it is parsed.
//!
//! A `serde_json::Value` takes up to 145 bytes for each byte of text: `[[[0]]]` has an array of
//! room for four values in each bracket. One pass over the text counts the members and items of
//! each container. What is no JSON is parsed up to its first fault, and counted further.

use serde_json::Value;

use super::json_scanner::string_end;

/// The most bytes that a value takes for each byte of its text.
pub const MAX_PARSED_RATIO: usize = 145;
/// Containers in each other that `serde_json` reads; it refuses deeper texts.
const MAX_DEPTH: usize = 128;
/// A value in its array.
const VALUE: usize = size_of::<Value>();
/// A member in the list of its map: hash, name and value.
const MEMBER: usize = size_of::<(u64, String, Value)>();
/// A member in the table of its map: its position and a byte of its hash.
const SLOT: usize = size_of::<usize>() + 1;
/// What the table of a map has besides.
const TABLE: usize = 32;

/// The bytes that [`Value`] takes at most for a text while and after it is parsed, with what the
/// allocator rounds up.
pub fn parsed_size(json: &[u8]) -> usize {
    let mut size = ParsedSize::default();
    size.read(json);
    // While a container or text grows, it exists once more.
    VALUE + size.held + size.growing
}

/// Whether [`parsed_size`] of a text is more than a limit. Only a text that is long enough for that
/// is counted.
pub(super) fn exceeds(json: &[u8], limit: usize) -> bool {
    json.len() > limit / MAX_PARSED_RATIO && parsed_size(json) > limit
}

/// The bytes that a value takes at most, with what the allocator rounds up.
pub fn value_size(value: &Value) -> usize {
    VALUE
        + match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => allocated(text.capacity()),
            Value::Array(items) => {
                array_size(items.len()) + items.iter().map(value_size).sum::<usize>()
            }
            Value::Object(members) => {
                let inner = members.iter();
                let inner =
                    inner.map(|(name, value)| allocated(name.capacity()) + value_size(value));
                map_size(members.len()) + inner.sum::<usize>()
            }
        }
}

/// The list of an array that has items.
fn array_size(items: usize) -> usize {
    allocated(items.next_power_of_two().max(4) * VALUE)
}

/// The list and the table of a map that has members.
fn map_size(members: usize) -> usize {
    // A table is filled to seven eighths, but for the smallest one. The list has as much room.
    let slots = (members + members / 7 + 1).next_power_of_two().max(4);
    allocated(slots * MEMBER) + allocated(slots * SLOT + TABLE)
}

/// A container that has not ended.
#[derive(Clone, Copy, Default)]
struct OpenContainer {
    is_object: bool,
    commas: usize,
    is_empty: bool,
}

#[derive(Default)]
struct ParsedSize {
    /// The bytes of all containers that have ended, and of all texts.
    held: usize,
    /// The bytes of the largest container or text that grows.
    growing: usize,
    open: Vec<OpenContainer>,
}

impl ParsedSize {
    fn read(&mut self, json: &[u8]) {
        let mut at = 0;
        while let Some(byte) = json.get(at) {
            at += 1;
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' => continue,
                b'}' | b']' => {
                    self.close();
                    continue;
                }
                _ => self.fill(),
            }
            match byte {
                b'"' => match string_end(json, at) {
                    Ok((end, is_escaped)) => {
                        self.text(end - at, is_escaped);
                        at = end;
                    }
                    // The parser ends here, too, with no more than this.
                    Err(_) => {
                        self.text(json.len() - at, true);
                        break;
                    }
                },
                b'{' | b'[' if self.open.len() >= MAX_DEPTH => break,
                b'{' | b'[' => self.open.push(OpenContainer {
                    is_object: *byte == b'{',
                    commas: 0,
                    is_empty: true,
                }),
                b',' => {
                    if let Some(open) = self.open.last_mut() {
                        open.commas += 1;
                    }
                }
                _ => {}
            }
        }
        while !self.open.is_empty() {
            self.close();
        }
    }

    /// Notes that the innermost container has something.
    fn fill(&mut self) {
        if let Some(open) = self.open.last_mut() {
            open.is_empty = false;
        }
    }

    fn close(&mut self) {
        let Some(open) = self.open.pop().filter(|open| !open.is_empty) else {
            return;
        };
        let entries = open.commas + 1;
        let held = if open.is_object {
            map_size(entries)
        } else {
            array_size(entries)
        };
        self.held += held;
        self.growing = self.growing.max(held / 2);
    }

    fn text(&mut self, length: usize, is_escaped: bool) {
        self.held += allocated(length);
        if is_escaped {
            // It is put together in a buffer that doubles.
            self.growing = self.growing.max(3 * length);
        }
    }
}

/// What the allocator gives for a request: its size classes are an eighth apart.
fn allocated(bytes: usize) -> usize {
    bytes + bytes / 8 + 8
}

#[cfg(test)]
mod tests {
    use indexmap::IndexMap;
    use proptest::prelude::*;

    use super::*;

    /// The bytes of a value by the capacities of its containers, which are those of maps and lists
    /// that were filled one by one.
    fn held(value: &Value) -> usize {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.capacity(),
            Value::Array(items) => items.capacity() * VALUE + items.iter().map(held).sum::<usize>(),
            Value::Object(members) => {
                let mut map = IndexMap::new();
                for name in members.keys() {
                    map.insert(name, ());
                }
                let entries = map.capacity().max(members.len()) * MEMBER;
                let inner = members.iter();
                entries
                    + inner
                        .map(|(name, value)| name.capacity() + held(value))
                        .sum::<usize>()
            }
        }
    }

    #[test]
    fn a_value_never_takes_more_than_its_text_says_and_usual_objects_not_much_less() {
        let repeated = |item: &str, times: usize| format!("[{}]", vec![item; times].join(","));
        let chain = format!("{}1{}", "{\"\":".repeat(100), "}".repeat(100));
        let brackets = format!("{}1{}", "[".repeat(100), "]".repeat(100));
        let names = (0..1025).map(|number| format!("\"{number}\":1"));
        let pod = r#"{"kind":"Pod","metadata":{"name":"web-0","labels":{"app":"web","tier":"front"}},"spec":{"containers":[{"name":"web","image":"nginx:1.27","env":[{"name":"A","value":"b"}]}]}}"#;
        for json in [
            repeated(&chain, 50),
            repeated(&brackets, 50),
            repeated(r#"{"a":1}"#, 1025),
            repeated(r#"{"a":1,"b":"c","d":[],"e":{}}"#, 100),
            repeated("1", 1025),
            repeated(r#""""#, 1025),
            repeated(r#""a\n\"b""#, 100),
            repeated("{}", 1000),
            repeated(pod, 100),
            format!("{{{}}}", names.collect::<Vec<_>>().join(",")),
            format!("\"{}\"", "x".repeat(100_000)),
            " [ ] ".to_owned(),
        ] {
            let value: Value = serde_json::from_str(&json).unwrap();
            let (held, estimated) = (VALUE + held(&value), parsed_size(json.as_bytes()));
            let shown = &json[..json.len().min(60)];
            assert!(held <= estimated, "{held} > {estimated}: {shown}");
            assert!(estimated < 3 * held + 256, "{held} < {estimated}: {shown}");
        }
        let pod = parsed_size(pod.as_bytes()) / pod.len();
        assert!((15..=30).contains(&pod), "{pod} times the text of a Pod");
    }

    #[test]
    fn a_text_that_is_no_json_is_counted_to_its_end() {
        for text in ["[1,", "{\"a", "]]]]", "{{{{", "\"\\", "[\"a\u{1}\"]", ""] {
            assert!(parsed_size(text.as_bytes()) >= VALUE, "{text}");
        }
        let deep = "[".repeat(1 << 20);
        assert!(parsed_size(deep.as_bytes()) < 1 << 20);
    }

    proptest! {
        #[test]
        fn no_value_takes_more_than_its_text_says(json in r#"(\[|\]|\{|\}|,|:|1|"a"|"\\n"| ){0,40}"#) {
            if let Ok(value) = serde_json::from_str::<Value>(&json) {
                prop_assert!(VALUE + held(&value) <= parsed_size(json.as_bytes()));
            }
        }
    }
}

//! Fits `spec` and `status` into `flat_object` fields, which they are with `indexing: Full`.
//!
//! `OpenSearch` refuses a document with a value other than an object there, and one with a leaf
//! whose term is too long; deeply nested objects end its process (see [`MAX_DEPTH`]). The document
//! keeps such a member whole in `search.native`, and indexes it without what `OpenSearch` refuses.

use serde_json::value::RawValue;

use super::{
    MAX_FIELD_VALUE_BYTES, Object,
    json::{RawMembers, Text, write_key, write_text},
    leaves::MAX_DEPTH,
    number,
};

/// The members that are flat objects.
const FLAT_KEYS: [&str; 2] = ["spec", "status"];
/// Bytes of a leaf and its path: Lucene takes 32,766 for a term, and `OpenSearch` prefixes it with
/// the name of the field.
const MAX_LEAF_BYTES: usize = 32_000;

/// The flat members of an object that cannot be indexed as they are, each with the JSON that can.
pub(super) fn unfit(object: &Object<'_>) -> Vec<(&'static str, Vec<u8>)> {
    let members = FLAT_KEYS
        .iter()
        .filter_map(|key| Some((*key, object.member(key)?)));
    members
        .filter_map(|(key, value)| Some((key, substitute(value.get())?)))
        .collect()
}

/// The part of a value that can be indexed; `None` if that is the whole value.
fn substitute(json: &str) -> Option<Vec<u8>> {
    match json.as_bytes().first() {
        Some(b'{') => {}
        _ if json == "null" => return None,
        _ => return Some(b"null".to_vec()),
    }
    // A leaf and its path are shorter than the whole value.
    if json.len() <= MAX_LEAF_BYTES && depth(json) <= MAX_DEPTH {
        return None;
    }
    let mut fitting = Fitting {
        out: Vec::with_capacity(json.len()),
        is_cut: false,
    };
    fitting.write(json, 0, 0);
    fitting.is_cut.then_some(fitting.out)
}

/// The levels of nested objects and arrays.
fn depth(json: &str) -> usize {
    let (mut depth, mut deepest, mut in_text, mut is_escaped) = (0_usize, 0, false, false);
    for byte in json.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => in_text = !in_text,
            b'{' | b'[' if !in_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Writes a value without what `OpenSearch` refuses.
struct Fitting {
    out: Vec<u8>,
    is_cut: bool,
}

impl Fitting {
    fn write(&mut self, json: &str, depth: usize, path_bytes: usize) {
        match json.as_bytes().first() {
            Some(b'{' | b'[') if depth == MAX_DEPTH => self.omit(),
            Some(b'{') => {
                let members = RawMembers::parse(json).unwrap_or_default();
                self.out.push(b'{');
                for (name, member) in &members.0 {
                    write_key(&mut self.out, &name.0);
                    self.write(member, depth + 1, path_bytes + 1 + name.0.len());
                }
                self.out.push(b'}');
            }
            Some(b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(json).unwrap_or_default();
                self.out.push(b'[');
                for (position, item) in items.iter().enumerate() {
                    if position > 0 {
                        self.out.push(b',');
                    }
                    self.write(item.get(), depth + 1, path_bytes);
                }
                self.out.push(b']');
            }
            _ if path_bytes + json.len() <= MAX_LEAF_BYTES => {
                self.out.extend_from_slice(json.as_bytes());
            }
            Some(b'"') if path_bytes + MAX_FIELD_VALUE_BYTES <= MAX_LEAF_BYTES => {
                let text: Text<'_> = serde_json::from_str(json).unwrap_or_default();
                write_text(&mut self.out, &number::cut(&text.0, MAX_FIELD_VALUE_BYTES));
                self.is_cut = true;
            }
            _ => self.omit(),
        }
    }

    fn omit(&mut self) {
        self.out.extend_from_slice(b"null");
        self.is_cut = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indexed(json: &str) -> Option<String> {
        substitute(json).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn a_value_that_fits_is_indexed_unchanged() {
        for json in [r#"{"a":{"b":[1,"{[",null]},"c":"\"}"}"#, "{}", "null"] {
            assert_eq!(indexed(json), None);
        }
        let many = format!(
            r#"{{"a":["{}"]}}"#,
            vec!["x".repeat(1_000); 40].join("\",\"")
        );
        assert_eq!(indexed(&many), None, "no leaf of it is long");
    }

    #[test]
    fn a_value_other_than_an_object_is_not_indexed() {
        for json in [r#""text""#, "5", "[1]", "true"] {
            assert_eq!(indexed(json).as_deref(), Some("null"));
        }
    }

    #[test]
    fn long_values_are_cut_and_long_paths_left_out() {
        let long = "ä".repeat(16_000);
        let cut = "ä".repeat(512);
        assert_eq!(
            indexed(&format!(r#"{{"a":["{long}","b"],"c":1}}"#)),
            Some(format!(r#"{{"a":["{cut}","b"],"c":1}}"#))
        );
        let name = "n".repeat(32_000);
        assert_eq!(
            indexed(&format!(r#"{{"{name}":"a","b":2}}"#)),
            Some(format!(r#"{{"{name}":null,"b":2}}"#))
        );
    }

    #[test]
    fn deeply_nested_values_are_left_out() {
        let nested =
            |levels: usize| format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
        assert_eq!(indexed(&nested(MAX_DEPTH)), None);
        let cut = indexed(&nested(MAX_DEPTH + 1)).unwrap();
        assert_eq!(
            cut,
            format!(
                "{}null{}",
                r#"{"a":"#.repeat(MAX_DEPTH),
                "}".repeat(MAX_DEPTH)
            )
        );
        assert!(indexed(&nested(5_000)).is_some());
    }
}

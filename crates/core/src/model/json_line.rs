//! JSON that fits into a line protocol.

use std::{fmt, ops::Deref};

use bytes::Bytes;

use crate::planted::{Bug, planted};

/// JSON in one line: no byte of it is a line feed or a carriage return.
///
/// Bulk requests, watches and the streams between replicas separate JSON by line feeds. Between two
/// tokens of JSON a line break is whitespace, so that the unchanged bytes of a member could end a
/// line and begin another one.
#[derive(Clone, PartialEq, Eq)]
pub struct JsonLine(Bytes);

impl JsonLine {
    /// Takes JSON. If it has a line break, all whitespace between its tokens is removed. Most JSON
    /// has none, and keeps its bytes.
    pub fn new(json: impl Into<Bytes>) -> Self {
        let json = json.into();
        Self(compacted(&json).map_or(json, Bytes::from))
    }
}

impl Deref for JsonLine {
    type Target = Bytes;

    fn deref(&self) -> &Bytes {
        &self.0
    }
}

impl From<JsonLine> for Bytes {
    fn from(line: JsonLine) -> Self {
        line.0
    }
}

impl fmt::Debug for JsonLine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// The JSON without line breaks; `None` if it has none.
pub(super) fn compacted(json: &[u8]) -> Option<Vec<u8>> {
    memchr::memchr2(b'\n', b'\r', json)?;
    if planted(Bug::LineBreakInBulk) {
        return None;
    }
    let mut out = Vec::with_capacity(json.len());
    let (mut in_string, mut is_escaped) = (false, false);
    for &byte in json {
        let is_break = matches!(byte, b'\n' | b'\r');
        // A string of JSON has no line break. Text that has one is no JSON, and must not begin a
        // line all the same.
        if is_break || (!in_string && matches!(byte, b' ' | b'\t')) {
            continue;
        }
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            _ => {}
        }
        out.push(byte);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn line(json: &str) -> String {
        String::from_utf8(JsonLine::new(json.to_owned()).to_vec()).unwrap()
    }

    #[test]
    fn only_whitespace_between_tokens_is_removed() {
        assert_eq!(
            line("{\"a b\" :\r\n [ 1,\t2 ],\n\"c\": \" \\\" \\n\\\\\" }\n"),
            r#"{"a b":[1,2],"c":" \" \n\\"}"#
        );
        assert_eq!(line(r#"{ "a": 1 }"#), r#"{ "a": 1 }"#);
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "\\PC*[\n\"\\\\ ]?".prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-z \n\"]{0,4}", inner, 0..4)
                    .prop_map(|members| members.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn json_of_any_layout_keeps_its_value_in_one_line(value in value()) {
            let pretty = serde_json::to_string_pretty(&value).unwrap().replace('\n', "\r\n");
            let line = line(&pretty);
            prop_assert!(!line.contains(['\n', '\r']));
            prop_assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), value);
        }

        #[test]
        fn no_bytes_produce_a_line_break(bytes in prop::collection::vec(prop::sample::select(b"{}[]\",:\\ \t\r\nx".to_vec()), 0..60)) {
            prop_assert!(memchr::memchr2(b'\n', b'\r', &JsonLine::new(bytes)).is_none());
        }
    }
}

//! Where the parts of a JSON text stand, so that some of them can be replaced and all others stay byte for byte.

use std::{borrow::Cow, ops::Range};

/// A member of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member<'j> {
    pub(super) key: Cow<'j, str>,
    /// From the quote before its key to the end of its value.
    pub(super) whole: Range<usize>,
    pub(super) value: Range<usize>,
}

/// The members of the object that stands at `place`, in their order; none if no object stands there. The text has to be valid JSON.
pub(super) fn members(json: &str, place: Range<usize>) -> Vec<Member<'_>> {
    let mut members = Vec::new();
    let mut scan = Scan { bytes: json.as_bytes(), at: place.start };
    scan.skip_blanks();
    if !scan.take(b'{') {
        return members;
    }
    loop {
        scan.skip_blanks();
        if scan.at >= place.end || scan.take(b'}') {
            return members;
        }
        let key = scan.value();
        scan.skip_blanks();
        scan.take(b':');
        scan.skip_blanks();
        let value = scan.value();
        if value.is_empty() {
            return members;
        }
        members.push(Member { key: text(json, &key), whole: key.start..value.end, value });
        scan.skip_blanks();
        scan.take(b',');
    }
}

/// The text that a JSON string stands for.
pub(super) fn text<'j>(json: &'j str, string: &Range<usize>) -> Cow<'j, str> {
    let quoted = json.get(string.clone()).unwrap_or_default();
    let bare = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
    if bare.contains('\\') { serde_json::from_str(quoted).unwrap_or_default() } else { Cow::Borrowed(bare) }
}

struct Scan<'j> {
    bytes: &'j [u8],
    at: usize,
}

impl Scan<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn take(&mut self, wanted: u8) -> bool {
        let is_there = self.peek() == Some(wanted);
        self.at += usize::from(is_there);
        is_there
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// The next value, whatever it is.
    fn value(&mut self) -> Range<usize> {
        let start = self.at;
        let mut depth = 0_usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => self.skip_string(),
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' if depth > 0 => {
                    depth -= 1;
                    self.at += 1;
                }
                b'}' | b']' | b',' | b':' | b' ' | b'\t' | b'\n' | b'\r' if depth == 0 => break,
                _ => self.at += 1,
            }
            if depth == 0 && matches!(byte, b'"' | b'}' | b']') {
                break;
            }
        }
        start..self.at
    }

    fn skip_string(&mut self) {
        self.at += 1;
        while let Some(byte) = self.peek() {
            self.at += if byte == b'\\' { 2 } else { 1 };
            if byte == b'"' {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(json: &str) -> Vec<(String, String)> {
        members(json, 0..json.len()).into_iter().map(|member| (member.key.into_owned(), json[member.value].to_owned())).collect()
    }

    #[test]
    fn members_are_found_between_anything() {
        let json = r#" { "a" : 1 ,"b\"c":"x\\\"}", "d":{"e":[1,{"f":"]"}]} , "g":[ ] , "n":null,"ü":true}"#;
        let expected =
            [("a", "1"), ("b\"c", r#""x\\\"}""#), ("d", r#"{"e":[1,{"f":"]"}]}"#), ("g", "[ ]"), ("n", "null"), ("ü", "true")];
        assert_eq!(shown(json), expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
        for none in ["{}", "{ }", "[1]", "null", "7", r#""{""#, ""] {
            assert!(shown(none).is_empty(), "{none}");
        }
    }
}

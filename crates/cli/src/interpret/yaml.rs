//! Writes values as `sigs.k8s.io/yaml` does: sorted keys, two spaces, lists at the level of their key.

use std::{cmp::Ordering, iter::Peekable, str::Chars};

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use serde_saphyr::SingleQuoted;

/// The YAML of a value, with a line break at the end.
pub fn to_yaml(value: &Value) -> Result<String, serde_saphyr::ser::Error> {
    let options = serde_saphyr::ser_options! {
        // Long texts stay on their line: tools that compare outputs by line expect them there.
        folded_wrap_chars: usize::MAX,
    };
    let mut text = serde_saphyr::to_string_with_options(&GoStyle(&sorted(value)), options)?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

/// A value whose texts are in the quotes that Go's YAML puts them in: such lines of conditions and schedules are compared by scripts.
struct GoStyle<'v>(&'v Value);

impl Serialize for GoStyle<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::String(text) if has_single_quotes(text) => {
                SingleQuoted(text).serialize(serializer)
            }
            Value::Array(items) => serializer.collect_seq(items.iter().map(GoStyle)),
            Value::Object(members) => {
                serializer.collect_map(members.iter().map(|(key, member)| (key, GoStyle(member))))
            }
            plain => plain.serialize(serializer),
        }
    }
}

/// Whether a text is written in single quotes: it is of printable characters on one line, and cannot be written plain because of its
/// indicators or the blanks around it. One that another type could be read from is written in double quotes, like `"1"`.
///
/// Source: `yaml_emitter_analyze_scalar` of <https://pkg.go.dev/sigs.k8s.io/yaml/goyaml.v2>
fn has_single_quotes(text: &str) -> bool {
    let is_printable = |sign: char| {
        matches!(sign, ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}')
            && !matches!(sign, '\u{2028}' | '\u{2029}')
    };
    text.chars().all(is_printable) && (has_indicators(text) || is_padded(text))
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

/// The value with sorted keys. Values are nested at most as deep as their parser allows.
pub fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(sorted).collect(),
        Value::Object(members) => {
            let mut pairs: Vec<(&String, &Value)> = members.iter().collect();
            pairs.sort_by(|(left, _), (right, _)| natural_order(left, right));
            let sorted_pairs = pairs
                .into_iter()
                .map(|(key, member)| (key.clone(), sorted(member)));
            Value::Object(sorted_pairs.collect::<Map<_, _>>())
        }
        plain => plain.clone(),
    }
}

/// The order of keys in Go's YAML: digits by their number, other signs before letters.
///
/// Source: `keyList.Less` of <https://pkg.go.dev/sigs.k8s.io/yaml/goyaml.v2>
fn natural_order(left: &str, right: &str) -> Ordering {
    let (mut left_rest, mut right_rest) = (left.chars().peekable(), right.chars().peekable());
    let mut is_after_digit = false;
    loop {
        let (first, second) = match (left_rest.peek(), right_rest.peek()) {
            (Some(first), Some(second)) => (*first, *second),
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
        };
        if first.is_ascii_digit() && second.is_ascii_digit() {
            match number(&mut left_rest).cmp(&number(&mut right_rest)) {
                Ordering::Equal => is_after_digit = true,
                unequal => return unequal,
            }
            continue;
        }
        if first != second {
            return by_sign(first, second, is_after_digit);
        }
        is_after_digit = false;
        left_rest.next();
        right_rest.next();
    }
}

/// The order of two different signs, of which at most one is a digit.
fn by_sign(first: char, second: char, is_after_digit: bool) -> Ordering {
    match (first.is_alphabetic(), second.is_alphabetic()) {
        (true, false) if is_after_digit => Ordering::Less,
        (false, true) if is_after_digit => Ordering::Greater,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        // Of other signs, digits come last.
        _ => (first.is_ascii_digit(), first).cmp(&(second.is_ascii_digit(), second)),
    }
}

/// Takes a run of digits; returns what compares as its number does, however long it is, and where numbers are equal by the
/// leading zeros: the count of significant digits, these digits, and the count of all digits.
fn number(rest: &mut Peekable<Chars<'_>>) -> (usize, String, usize) {
    let mut digits = String::new();
    while let Some(digit) = rest.next_if(char::is_ascii_digit) {
        digits.push(digit);
    }
    let length = digits.len();
    let significant = digits.trim_start_matches('0').to_owned();
    (significant.len(), significant, length)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_are_in_the_order_of_go_yaml() {
        let mut keys = [
            "b", "a10", "a9", "a-b", "aB", "a", "A", "a1b", "a01", "Z", "_x", "1",
        ];
        keys.sort_by(|left, right| natural_order(left, right));
        assert_eq!(
            keys,
            [
                "_x", "1", "A", "Z", "a", "a-b", "a1b", "a01", "a9", "a10", "aB", "b"
            ]
        );
    }

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
        insta::assert_snapshot!(to_yaml(&value).unwrap());
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
        ] {
            let yaml = to_yaml(&json!({"key": text})).unwrap();
            assert_eq!(yaml, format!("key: {written}\n"));
            let read: Value = serde_saphyr::from_str(&yaml).unwrap();
            assert_eq!(read["key"], text, "{yaml}");
        }
        assert_eq!(to_yaml(&json!([["a: b"]])).unwrap(), "- - 'a: b'\n");
        assert_eq!(to_yaml(&json!("a: b")).unwrap(), "'a: b'\n");
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
            assert_eq!(to_yaml(&value).unwrap(), text);
        }
    }
}

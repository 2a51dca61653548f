//! Values of a chart from several places, merged as helm merges its files of values.

use serde_json::{Map, Value};

/// The greatest index of a list in a path, as in helm. Source: `MaxIndex` of helm's `pkg/strvals`.
const MAX_INDEX: usize = 65_536;
/// The most parts of a path, as in helm: `MaxNestedNameLevel`.
const MAX_PARTS: usize = 30;

/// Values of a `ConfigMap` or a Secret.
#[derive(Clone, Debug, PartialEq)]
pub enum ReferencedValues {
    /// A file of values.
    File(Map<String, Value>),
    /// One value, which takes precedence over all files and over inline values.
    Target {
        /// Where: `image.tag`, `hosts[0].name`; `\.` is a dot within a key.
        path: String,
        /// The text.
        text: String,
        /// Whether it stays a text. Otherwise `true`, `false`, `null` and integers are read as
        /// such.
        is_literal: bool,
    },
}

/// A path of values is not one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("targetPath {path:?}: {reason}; write it as image.tag or hosts[0].name")]
pub struct InvalidTargetPath {
    path: String,
    reason: &'static str,
}

/// Values for helm: files in their order, then `inline`, then single values. A `null` stays, as it
/// removes a value of the chart.
pub fn merged(
    referenced: Vec<ReferencedValues>,
    inline: Map<String, Value>,
) -> Result<Map<String, Value>, InvalidTargetPath> {
    let mut values = Map::new();
    let mut targets = Vec::new();
    for one in referenced {
        match one {
            ReferencedValues::File(file) => merge(&mut values, file),
            ReferencedValues::Target {
                path,
                text,
                is_literal,
            } => {
                let value = if is_literal {
                    Value::String(text)
                } else {
                    typed(text)
                };
                targets.push((path, value));
            }
        }
    }
    merge(&mut values, inline);
    let mut values = Value::Object(values);
    for (path, value) in targets {
        set(&mut values, &path, value)?;
    }
    match values {
        Value::Object(values) => Ok(values),
        _ => Ok(Map::new()),
    }
}

/// Maps are merged; anything else takes the place of what was there.
fn merge(into: &mut Map<String, Value>, from: Map<String, Value>) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Object(old)), Value::Object(new)) => merge(old, new),
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}

/// A text as `helm --set` reads it. Source: `typedVal` of helm's `pkg/strvals`.
fn typed(text: String) -> Value {
    match text.as_str() {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        "null" => Value::Null,
        // A leading zero is of a text, such as that of a postal code.
        "0" => 0.into(),
        number if number.starts_with('0') => Value::String(text),
        number => match number.parse::<i64>() {
            Ok(number) => number.into(),
            Err(_) => Value::String(text),
        },
    }
}

#[derive(Debug, PartialEq)]
enum PathPart {
    Key(String),
    Index(usize),
}

fn set(root: &mut Value, path: &str, value: Value) -> Result<(), InvalidTargetPath> {
    let parts = parse(path).map_err(|reason| InvalidTargetPath {
        path: path.to_owned(),
        reason,
    })?;
    let mut place = root;
    for part in parts {
        place = match part {
            PathPart::Key(key) => {
                if !place.is_object() {
                    *place = Value::Object(Map::new());
                }
                // Indexing makes the member.
                &mut place[key]
            }
            PathPart::Index(index) => {
                if !place.is_array() {
                    *place = Value::Array(Vec::new());
                }
                if let Value::Array(items) = place {
                    let length = items.len().max(index + 1);
                    items.resize(length, Value::Null);
                }
                &mut place[index]
            }
        };
    }
    *place = value;
    Ok(())
}

fn parse(path: &str) -> Result<Vec<PathPart>, &'static str> {
    let mut parts = Vec::new();
    let mut key = String::new();
    let mut letters = path.chars().peekable();
    let mut is_after_index = false;
    while let Some(letter) = letters.next() {
        match letter {
            '.' | '[' => {
                if !key.is_empty() {
                    parts.push(PathPart::Key(std::mem::take(&mut key)));
                } else if !is_after_index {
                    return Err("a key is empty");
                }
                is_after_index = letter == '[';
                if is_after_index {
                    let digits: String =
                        std::iter::from_fn(|| letters.next_if(|&next| next != ']')).collect();
                    letters.next().ok_or("a ] is missing")?;
                    let index = digits.parse().map_err(|_| "an index is no number")?;
                    if index > MAX_INDEX {
                        return Err("an index is greater than 65536");
                    }
                    parts.push(PathPart::Index(index));
                }
            }
            _ if is_after_index => return Err("after ] comes . or ["),
            '\\' => key.push(letters.next().ok_or("it ends with \\")?),
            letter => key.push(letter),
        }
    }
    if !key.is_empty() {
        parts.push(PathPart::Key(key));
    } else if !is_after_index {
        return Err("a key is empty");
    }
    if parts.len() > MAX_PARTS {
        return Err("it has more than 30 parts");
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: &Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    fn target(path: &str, text: &str, is_literal: bool) -> ReferencedValues {
        ReferencedValues::Target {
            path: path.to_owned(),
            text: text.to_owned(),
            is_literal,
        }
    }

    #[test]
    fn files_are_merged_in_order_and_inline_values_last() {
        for (files, inline, expected) in [
            (vec![], json!({"a": 1}), json!({"a": 1})),
            (
                vec![json!({"a": 1, "b": 1}), json!({"b": 2, "c": 2})],
                json!({"c": 3}),
                json!({"a": 1, "b": 2, "c": 3}),
            ),
            // Maps are merged, lists are not.
            (
                vec![json!({"m": {"a": 1, "b": 1}, "l": [1, 2]})],
                json!({"m": {"b": 2}, "l": [3]}),
                json!({"m": {"a": 1, "b": 2}, "l": [3]}),
            ),
            // A null stays for the chart, and takes the place of a map.
            (
                vec![json!({"m": {"a": 1}, "x": null})],
                json!({"m": null}),
                json!({"m": null, "x": null}),
            ),
            (
                vec![json!({"m": 1})],
                json!({"m": {"a": 1}}),
                json!({"m": {"a": 1}}),
            ),
            (
                vec![json!({"m": {"a": 1}})],
                json!({"m": {"a": null}}),
                json!({"m": {"a": null}}),
            ),
        ] {
            let files = files
                .iter()
                .map(|file| ReferencedValues::File(object(file)));
            let values = merged(files.collect(), object(&inline)).unwrap();
            assert_eq!(Value::Object(values), expected);
        }
    }

    #[test]
    fn single_values_take_precedence_at_their_paths() {
        let inline = json!({"image": {"tag": "1", "name": "web"}, "hosts": [{"name": "a"}]});
        for (path, text, is_literal, pointer, expected) in [
            ("image.tag", "2", false, "/image/tag", json!(2)),
            ("image.tag", "2", true, "/image/tag", json!("2")),
            ("image.tag", "02", false, "/image/tag", json!("02")),
            ("image.tag", "true", false, "/image/tag", json!(true)),
            ("image.tag", "null", false, "/image/tag", json!(null)),
            ("image.tag", "1.5", false, "/image/tag", json!("1.5")),
            ("image.tag", "a,b=c", false, "/image/tag", json!("a,b=c")),
            ("image", "x", false, "/image", json!("x")),
            ("hosts[0].name", "b", false, "/hosts/0/name", json!("b")),
            (
                "hosts[2]",
                "c",
                false,
                "/hosts",
                json!([{"name": "a"}, null, "c"]),
            ),
            ("new[0][1].x", "1", false, "/new/0", json!([null, {"x": 1}])),
            (r"a.b\.c/d", "1", false, "/a", json!({"b.c/d": 1})),
        ] {
            let files = vec![
                target(path, text, is_literal),
                ReferencedValues::File(object(&json!({"image": {"tag": "0"}}))),
            ];
            let values = Value::Object(merged(files, object(&inline)).unwrap());
            assert_eq!(values.pointer(pointer), Some(&expected), "{path}={text}");
        }
    }

    #[test]
    fn paths_that_are_none_are_refused() {
        for (path, reason) in [
            ("", "a key is empty"),
            ("a..b", "a key is empty"),
            (".a", "a key is empty"),
            ("a.", "a key is empty"),
            ("a[x]", "an index is no number"),
            ("a[1", "a ] is missing"),
            ("a[-1]", "an index is no number"),
            ("a[99999999]", "an index is greater than 65536"),
            ("a[0]b", "after ] comes . or ["),
            (r"a\", r"it ends with \"),
            (&"a.".repeat(40), "a key is empty"),
            (&["a"; 31].join("."), "it has more than 30 parts"),
        ] {
            let error = merged(vec![target(path, "x", false)], Map::new()).unwrap_err();
            assert_eq!(error.reason, reason, "{path}");
        }
    }
}

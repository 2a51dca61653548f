//! A value as an indented outline, as kubectl describes kinds that it does not know.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// Blanks for each level.
const INDENT: usize = 2;
/// What `describe` shows elsewhere, or not at all.
const LEFT_OUT: [&str; 6] = [
    "name",
    "namespace",
    "labels",
    "annotations",
    "managedFields",
    "ownerReferences",
];
/// Words that stay upper case.
const ACRONYMS: [&str; 9] = ["API", "CIDR", "CPU", "DNS", "ID", "IP", "TLS", "UID", "URL"];

/// The metadata that is not shown above it.
pub(super) fn metadata(object: &Map<String, Value>) -> Map<String, Value> {
    let metadata = object
        .get("metadata")
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default();
    metadata
        .into_iter()
        .filter(|(key, _)| !LEFT_OUT.contains(&key.as_str()))
        .collect()
}

/// The entries of a map, each a line or a block, sorted.
pub(super) fn write(out: &mut String, entries: &Map<String, Value>, level: usize) {
    let mut sorted: Vec<(String, &Value)> = entries
        .iter()
        .map(|(key, value)| (label(key), value))
        .collect();
    sorted.sort_unstable_by(|left, right| left.0.cmp(&right.0));
    let plain = sorted.iter().filter(|(_, value)| is_plain(value));
    let width = plain
        .map(|(label, _)| label.chars().count() + 1)
        .max()
        .unwrap_or_default();
    for (label, value) in sorted {
        write_entry(out, &label, value, level, width);
    }
}

fn write_entry(out: &mut String, label: &str, value: &Value, level: usize, width: usize) {
    let indent = " ".repeat(level * INDENT);
    let written = match value {
        plain if is_plain(plain) => {
            let text = text(plain);
            let lines: Vec<&str> = text.trim_end_matches('\n').split('\n').collect();
            match lines.as_slice() {
                [line] => {
                    let title = format!("{label}:");
                    writeln!(
                        out,
                        "{}",
                        format!("{indent}{title:width$}  {line}").trim_end()
                    )
                }
                lines => {
                    let deeper = format!("\n{indent}{}", " ".repeat(INDENT));
                    writeln!(out, "{indent}{label}:{deeper}{}", lines.join(&deeper))
                }
            }
        }
        _ => writeln!(out, "{indent}{label}:"),
    };
    debug_assert!(written.is_ok(), "writing to a String cannot fail");
    match value {
        Value::Object(entries) => write(out, entries, level + 1),
        Value::Array(elements) => elements
            .iter()
            .for_each(|element| write_element(out, element, level + 1)),
        _ => {}
    }
}

fn write_element(out: &mut String, element: &Value, level: usize) {
    match element {
        Value::Object(entries) => write(out, entries, level),
        Value::Array(elements) => elements
            .iter()
            .for_each(|inner| write_element(out, inner, level + 1)),
        plain => {
            let indent = " ".repeat(level * INDENT);
            let written = writeln!(
                out,
                "{indent}{}",
                text(plain).replace('\n', &format!("\n{indent}"))
            );
            debug_assert!(written.is_ok(), "writing to a String cannot fail");
        }
    }
}

/// Whether it fits behind its label.
fn is_plain(value: &Value) -> bool {
    match value {
        Value::Object(entries) => entries.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        _ => true,
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Object(_) | Value::Array(_) => "<none>".to_owned(),
        other => other.to_string(),
    }
}

/// `creationTimestamp` is `Creation Timestamp`; keys that are no field's name stay as they are.
fn label(key: &str) -> String {
    let is_name = key.chars().all(char::is_alphanumeric) && key.starts_with(char::is_alphabetic);
    if !is_name {
        return key.to_owned();
    }
    words(key)
        .iter()
        .map(|word| capitalized(word))
        .collect::<Vec<_>>()
        .join(" ")
}

/// A word ends before a capital that follows a small letter, or that a small letter follows; but for the plural, as in `podIPs`.
fn words(key: &str) -> Vec<String> {
    let letters: Vec<char> = key.chars().collect();
    let mut words = vec![String::new()];
    for (position, letter) in letters.iter().enumerate() {
        let is_after_small = position > 0 && !letters[position - 1].is_uppercase();
        let is_before_small = letters
            .get(position + 1)
            .is_some_and(|next| next.is_lowercase())
            && letters[position + 1..] != ['s'];
        if letter.is_uppercase() && position > 0 && (is_after_small || is_before_small) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            word.push(*letter);
        }
    }
    words
}

fn capitalized(word: &str) -> String {
    let upper = word.to_uppercase();
    if ACRONYMS.contains(&upper.as_str()) {
        return upper;
    }
    let mut letters = word.chars();
    letters
        .next()
        .map(|first| first.to_uppercase().collect::<String>() + letters.as_str())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_are_words() {
        for (key, shown) in [
            ("creationTimestamp", "Creation Timestamp"),
            ("uid", "UID"),
            ("podIPs", "Pod IPs"),
            ("clusterIP", "Cluster IP"),
            ("apiVersion", "API Version"),
            ("app.kubernetes.io/name", "app.kubernetes.io/name"),
            ("a", "A"),
        ] {
            assert_eq!(label(key), shown);
        }
    }

    #[test]
    fn an_outline_is_sorted_and_aligned() {
        let value = json!({
            "image": "web", "replicas": 2, "empty": {}, "none": null,
            "containers": [{ "name": "a", "args": ["-v", "two\nlines"], "ports": [{ "containerPort": 80 }] }, { "name": "b" }],
            "script": "one\ntwo\n", "matrix": [[1], [2]],
        });
        let mut out = String::new();
        write(&mut out, value.as_object().unwrap(), 0);
        insta::assert_snapshot!(out, @r"
        Containers:
          Args:
            -v
            two
            lines
          Name:  a
          Ports:
            Container Port:  80
          Name:  b
        Empty:     <none>
        Image:     web
        Matrix:
            1
            2
        None:      <none>
        Replicas:  2
        Script:
          one
          two
        ");
    }
}

//! Texts that several kinds show.

use super::{
    column::{Cell, NONE, RowContext, UNSET},
    json_node::JsonNode,
};

/// The texts of a list, one after another.
pub fn joined(items: &[JsonNode<'_>], separator: &str) -> String {
    let texts = items.iter().map(JsonNode::text);
    texts.collect::<Vec<_>>().join(separator)
}

/// Two members with a slash in between.
pub fn pair(node: &JsonNode<'_>, first: &str, second: &str) -> Cell {
    let text = |name| node.member(name).text();
    format!("{}/{}", text(first), text(second)).into()
}

/// The name of a class, which an annotation may make the default one.
pub fn name_of_class(view: &RowContext<'_>, annotations: &[&str]) -> Cell {
    let mut values = annotations.iter().map(|key| view.annotation(key));
    let is_default = values.any(|value| value == Some("true"));
    let mark = if is_default { " (default)" } else { "" };
    format!("{}{mark}", view.at("metadata.name").text()).into()
}

/// A text, or another one if it is empty.
pub fn or<'t>(text: &'t str, default: &'t str) -> &'t str {
    if text.is_empty() { default } else { text }
}

/// The texts, sorted, each once, one after another.
pub fn sorted(mut texts: Vec<String>) -> String {
    texts.retain(|text| !text.is_empty());
    texts.sort_unstable();
    texts.dedup();
    texts.join(",")
}

/// As many items as there is room for, and how many there are beyond them.
pub fn first_of(items: &[String], room: usize, separator: &str) -> String {
    let shown = items[..items.len().min(room)].join(separator);
    match items.len().saturating_sub(room) {
        0 => shown,
        more => format!("{shown} + {more} more..."),
    }
}

/// The same with three items, or [`UNSET`] if there is none.
pub fn first_three(items: impl Iterator<Item = String>) -> Cell {
    or(&first_of(&items.collect::<Vec<_>>(), 3, ","), UNSET).into()
}

/// `key=value` of every member, sorted.
pub fn labels(map: &JsonNode<'_>) -> Cell {
    let mut pairs: Vec<String> = map
        .entries()
        .map(|(key, value)| format!("{key}={}", value.text()))
        .collect();
    pairs.sort_unstable();
    or(&pairs.join(","), NONE).into()
}

/// A label selector in the form that kubectl reads; `None` if it is not valid. Without any
/// requirement it is empty.
pub fn selector(selector: &JsonNode<'_>) -> Option<String> {
    let labels = selector.member("matchLabels").entries();
    let mut requirements: Vec<(&str, String)> = labels
        .map(|(key, value)| (key, format!("{key}={}", value.text())))
        .collect();
    for expression in selector.member("matchExpressions").items() {
        let key = expression.member("key").text();
        requirements.push((key, requirement(key, expression)?));
    }
    requirements.sort_by(|left, right| left.0.cmp(right.0));
    let texts = requirements.into_iter().map(|(_, text)| text);
    Some(texts.collect::<Vec<_>>().join(","))
}

fn requirement(key: &str, expression: &JsonNode<'_>) -> Option<String> {
    let values = || {
        let values = expression.member("values").items().iter();
        let mut values: Vec<&str> = values.map(JsonNode::text).collect();
        values.sort_unstable();
        values.join(",")
    };
    match expression.member("operator").text() {
        "In" => Some(format!("{key} in ({})", values())),
        "NotIn" => Some(format!("{key} notin ({})", values())),
        "Exists" => Some(key.to_owned()),
        "DoesNotExist" => Some(format!("!{key}")),
        _ => None,
    }
}

/// The same as most kinds show it.
pub fn selector_or_none(node: &JsonNode<'_>) -> Cell {
    match selector(node) {
        Some(text) => or(&text, NONE).into(),
        None => "<error>".into(),
    }
}

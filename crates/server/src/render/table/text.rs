//! Texts that several kinds show.

use super::{
    column::{Cell, NONE, RowContext, UNSET},
    json_node::JsonNode,
};

/// The texts of a list, one after another.
pub fn joined(items: &[JsonNode<'_>], separator: &str) -> String {
    items
        .iter()
        .map(JsonNode::text)
        .collect::<Vec<_>>()
        .join(separator)
}

/// One member of every item of a list, one after another.
pub fn members(list: &JsonNode<'_>, member: &str) -> String {
    list.items()
        .iter()
        .map(|item| item.member(member).text())
        .collect::<Vec<_>>()
        .join(",")
}

/// A text, or another one if it is empty.
pub fn or<'t>(text: &'t str, default: &'t str) -> &'t str {
    if text.is_empty() { default } else { text }
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
pub fn first_three(items: &[String]) -> String {
    or(&first_of(items, 3, ","), UNSET).to_owned()
}

/// `key=value` of every member, sorted.
pub fn labels(map: &JsonNode<'_>) -> String {
    let mut pairs: Vec<String> = map
        .entries()
        .map(|(key, value)| format!("{key}={}", value.text()))
        .collect();
    pairs.sort_unstable();
    or(&pairs.join(","), NONE).to_owned()
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
    Some(
        requirements
            .into_iter()
            .map(|(_, text)| text)
            .collect::<Vec<_>>()
            .join(","),
    )
}

fn requirement(key: &str, expression: &JsonNode<'_>) -> Option<String> {
    let values = || {
        let mut values: Vec<&str> = expression
            .member("values")
            .items()
            .iter()
            .map(JsonNode::text)
            .collect();
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

/// The names of the containers of a pod template.
pub fn container_names(view: &RowContext<'_>) -> Cell {
    members(view.at("spec.template.spec.containers"), "name").into()
}

/// The images of the containers of a pod template.
pub fn container_images(view: &RowContext<'_>) -> Cell {
    members(view.at("spec.template.spec.containers"), "image").into()
}

/// `True` and `False`, as some kinds show a boolean.
pub fn spoken(flag: bool) -> &'static str {
    if flag { "True" } else { "False" }
}

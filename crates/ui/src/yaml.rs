//! An object as YAML whose parts fold, without scripts.

use maud::{Markup, html};
use serde_json::Value;

/// Bytes of an object that are shown folded; a larger one can be downloaded. Each byte becomes about ten of HTML.
const MAX_BYTES: usize = 256 * 1024;

/// The YAML of an object.
pub(crate) fn print(object: &Value) -> String {
    serde_saphyr::to_string(object).unwrap_or_else(|error| format!("# {error}\n"))
}

/// A line, and the lines that belong to it.
#[derive(Debug, PartialEq, Eq)]
struct YamlNode<'t> {
    line: &'t str,
    children: Vec<YamlNode<'t>>,
}

/// The YAML, each line with children as something that folds. `None` if it is too large.
pub(crate) fn folded(text: &str) -> Option<Markup> {
    (text.len() <= MAX_BYTES).then(|| {
        let lines: Vec<&str> = text.lines().collect();
        let (nodes, _) = nodes(&lines, Start { indent: 0, is_item: false });
        html! { div.yaml #yaml tabindex="0" role="region" aria-label="YAML of the object" { (rendered(&nodes)) } }
    })
}

/// How the lines begin that belong to one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Start {
    indent: usize,
    /// Whether they are items of a list, which YAML need not indent.
    is_item: bool,
}

impl Start {
    fn of(line: &str) -> Self {
        Self {
            indent: indent(line),
            is_item: line.trim_start().starts_with("- ") || line.trim() == "-",
        }
    }

    /// Whether a line that begins like this belongs to what began like `first`.
    fn continues(self, first: Self) -> bool {
        self.indent > first.indent
            || self.indent == first.indent && (self.is_item || !first.is_item)
    }
}

/// Reads the lines that continue what begins like `first`. Returns how many lines these are.
fn nodes<'t>(lines: &[&'t str], first: Start) -> (Vec<YamlNode<'t>>, usize) {
    let mut nodes: Vec<YamlNode<'t>> = Vec::new();
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        let start = Start::of(line);
        if !line.trim().is_empty() && !start.continues(first) {
            break;
        }
        at += 1;
        let children = match below(&lines[at..], start) {
            Some(first) => {
                let (children, read) = self::nodes(&lines[at..], first);
                at += read;
                children
            }
            None => Vec::new(),
        };
        nodes.push(YamlNode { line, children });
    }
    (nodes, at)
}

/// How the next line that is not blank begins, if it belongs to a line that begins like `start`.
fn below(lines: &[&str], start: Start) -> Option<Start> {
    let next = Start::of(lines.iter().find(|line| !line.trim().is_empty())?);
    let is_below =
        next.indent > start.indent || next.indent == start.indent && next.is_item && !start.is_item;
    is_below.then_some(next)
}

/// Blanks at the start of a line. What follows the `-` of an item belongs to the item.
fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

fn rendered(nodes: &[YamlNode<'_>]) -> Markup {
    html! {
        @for node in nodes {
            @if node.children.is_empty() {
                div.line { (highlighted(node.line)) }
            } @else {
                details open {
                    summary.line { (highlighted(node.line)) }
                    (rendered(&node.children))
                }
            }
        }
    }
}

/// The key of a line apart from its value.
fn highlighted(line: &str) -> Markup {
    let start = line.len() - line.trim_start_matches([' ', '-']).len();
    let key = line[start..].split_once(':');
    match key {
        Some((key, value))
            if (value.is_empty() || value.starts_with(' ')) && !key.contains(' ') =>
        {
            html! { (line[..start]) span.key { (key) } ":" span.value { (value) } }
        }
        _ => html! { (line) },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_belong_to_the_line_above_that_is_indented_less() {
        let text = print(&json!({"a": 1, "b": {"c": [{"d": "x", "e": 2}], "f": null}, "g": "<&>"}));
        let lines: Vec<&str> = text.lines().collect();
        let start = Start {
            indent: 0,
            is_item: false,
        };
        let (nodes, read) = nodes(&lines, start);
        assert_eq!(read, lines.len());
        let tops: Vec<&str> = nodes.iter().map(|node| node.line).collect();
        assert_eq!(tops, ["a: 1", "b:", "g: <&>"]);
        assert!(!nodes[1].children.is_empty() && nodes[0].children.is_empty());
    }

    #[test]
    fn items_belong_to_their_key_although_they_are_not_indented() {
        let lines = ["a:", "- b: 1", "  c: 2", "- d", "e:", "  f: 3"];
        let start = Start::of(lines[0]);
        let (nodes, _) = nodes(&lines, start);
        let shape: Vec<(&str, usize)> = nodes
            .iter()
            .map(|node| (node.line, node.children.len()))
            .collect();
        assert_eq!(shape, [("a:", 2), ("e:", 1)]);
        assert_eq!(nodes[0].children[0].children.len(), 1);
    }

    #[test]
    fn every_line_is_shown_once_and_escaped() {
        let text = print(
            &json!({"script": "<script>alert(1)</script>", "text": "a\n  b\n\nc\n", "list": [1, [2]]}),
        );
        let html = folded(&text).unwrap().into_string();
        assert!(!html.contains("<script>"), "{html}");
        assert_eq!(html.matches("line\"").count(), text.lines().count());
    }

    #[test]
    fn a_large_object_is_not_folded() {
        assert!(folded(&"a: b\n".repeat(MAX_BYTES)).is_none());
    }
}

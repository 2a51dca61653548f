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
struct Node<'t> {
    line: &'t str,
    children: Vec<Node<'t>>,
}

/// The YAML, each line with children as something that folds. `None` if it is too large.
pub(crate) fn folded(text: &str) -> Option<Markup> {
    (text.len() <= MAX_BYTES).then(|| {
        let lines: Vec<&str> = text.lines().collect();
        let (nodes, _) = nodes(&lines, 0);
        html! { div.yaml #yaml tabindex="0" role="region" aria-label="YAML of the object" { (rendered(&nodes)) } }
    })
}

/// Reads the lines that are indented by `depth` at least. Returns how many lines these are.
fn nodes<'t>(lines: &[&'t str], depth: usize) -> (Vec<Node<'t>>, usize) {
    let mut nodes: Vec<Node<'t>> = Vec::new();
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        let indent = indent(line);
        if !line.trim().is_empty() && indent < depth {
            break;
        }
        at += 1;
        let below = deeper(&lines[at..], indent);
        let children = match below {
            Some(depth) => {
                let (children, read) = self::nodes(&lines[at..], depth);
                at += read;
                children
            }
            None => Vec::new(),
        };
        nodes.push(Node { line, children });
    }
    (nodes, at)
}

/// The indentation of the next line that is not blank, if it belongs to a line of this indentation.
fn deeper(lines: &[&str], indent_before: usize) -> Option<usize> {
    let next = lines.iter().find(|line| !line.trim().is_empty())?;
    Some(indent(next)).filter(|next| *next > indent_before)
}

/// Blanks at the start of a line. What follows the `-` of an item belongs to the item.
fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

fn rendered(nodes: &[Node<'_>]) -> Markup {
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
        let (nodes, read) = nodes(&lines, 0);
        assert_eq!(read, lines.len());
        let tops: Vec<&str> = nodes.iter().map(|node| node.line).collect();
        assert_eq!(tops, ["a: 1", "b:", "g: <&>"]);
        assert!(!nodes[1].children.is_empty() && nodes[0].children.is_empty());
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

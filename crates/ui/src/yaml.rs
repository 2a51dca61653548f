//! An object as YAML whose parts fold, without scripts.

use fleetdex_core::yaml;
use maud::{Markup, PreEscaped, html};
use serde_json::Value;

/// Bytes of an object that are shown folded; a larger one can be downloaded. Each byte becomes
/// about ten of HTML.
const MAX_BYTES: usize = 256 * 1024;

/// The YAML of an object.
pub(crate) fn print(object: &Value) -> String {
    yaml::to_string(object).unwrap_or_else(|error| format!("# {error}\n"))
}

/// How many lines may belong to each other; what is deeper is shown at the deepest of these levels.
const MAX_LEVELS: usize = 64;

/// The YAML, each line with others below it as something that folds. `None` if it is too large.
pub(crate) fn folded(text: &str) -> Option<Markup> {
    (text.len() <= MAX_BYTES).then(|| {
        let lines = PreEscaped(folded_lines(text));
        html! { div.yaml #yaml tabindex="0" role="region" aria-label="YAML of the object" { (lines) } }
    })
}

/// How a line begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LineStart {
    indent: usize,
    /// Whether it is an item of a list, which YAML need not indent.
    is_item: bool,
}

impl LineStart {
    fn of(line: &str) -> Self {
        Self {
            indent: indent(line),
            is_item: line.trim_start().starts_with("- ") || line.trim() == "-",
        }
    }

    /// Whether a line that begins like this belongs to one that begins like `other`.
    fn belongs_to(self, other: Self) -> bool {
        self.indent > other.indent || self.indent == other.indent && self.is_item && !other.is_item
    }
}

/// The starts of all lines. A blank line, which is a part of a text, begins like its neighbours.
fn starts(lines: &[&str]) -> Vec<LineStart> {
    let outermost = LineStart {
        indent: 0,
        is_item: false,
    };
    let mut starts = vec![outermost; lines.len()];
    let mut next = outermost;
    for (start, line) in starts.iter_mut().zip(lines).rev() {
        if !line.trim().is_empty() {
            next = LineStart::of(line);
        }
        *start = next;
    }
    let mut before = outermost;
    for (start, line) in starts.iter_mut().zip(lines) {
        if line.trim().is_empty() && start.indent < before.indent {
            *start = before;
        }
        before = *start;
    }
    starts
}

/// The lines as HTML. Written one after the other, and not as a tree: text of members decides how
/// deep that would be.
fn folded_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let starts = starts(&lines);
    let mut out = String::new();
    let mut open: Vec<LineStart> = Vec::new();
    for (at, (line, start)) in lines.iter().zip(&starts).enumerate() {
        while open.last().is_some_and(|parent| !start.belongs_to(*parent)) {
            open.pop();
            out.push_str("</details>");
        }
        let has_lines = starts
            .get(at + 1)
            .is_some_and(|next| next.belongs_to(*start));
        let folds = has_lines && !line.trim().is_empty() && open.len() < MAX_LEVELS;
        let content = highlighted(line);
        let line = if folds {
            open.push(*start);
            html! { summary.line { (content) } }
        } else {
            html! { div.line { (content) } }
        };
        if folds {
            out.push_str("<details open>");
        }
        out.push_str(&line.into_string());
    }
    for _ in open {
        out.push_str("</details>");
    }
    out
}

/// Blanks at the start of a line. What follows the `-` of an item belongs to the item.
fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
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

    /// The lines with how many others each belongs to.
    fn levels(text: &str) -> Vec<(usize, String)> {
        let html = folded_lines(text);
        let mut level: usize = 0;
        let mut levels = Vec::new();
        for tag in html.split('<').filter(|tag| !tag.is_empty()) {
            match tag.split(['>', ' ']).next().unwrap() {
                "details" => level += 1,
                "/details" => level -= 1,
                "summary" => levels.push((level - 1, tag.to_owned())),
                "div" => levels.push((level, tag.to_owned())),
                _ => {}
            }
        }
        assert_eq!(level, 0);
        levels
    }

    fn depths(text: &str) -> Vec<usize> {
        levels(text).into_iter().map(|(level, _)| level).collect()
    }

    #[test]
    fn lines_belong_to_the_line_above_that_is_indented_less() {
        assert_eq!(
            depths("a: 1\nb:\n  c:\n    d: 1\n  e: 2\nf: 3\n"),
            [0, 0, 1, 2, 1, 0]
        );
    }

    #[test]
    fn items_belong_to_their_key_although_they_are_not_indented() {
        assert_eq!(
            depths("a:\n- b: 1\n  c: 2\n- d\ne:\n  f: 3\n"),
            [0, 1, 2, 1, 0, 1]
        );
    }

    #[test]
    fn blank_lines_of_a_text_belong_to_it() {
        assert_eq!(
            depths("a: |\n\n  x\n\n  y\n\nb: 1\n"),
            [0, 1, 1, 1, 1, 1, 0]
        );
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
    fn no_text_makes_the_page_deep() {
        let blank = format!("a: |\n  x\n{}  y\n", "\n".repeat(200_000));
        assert_eq!(levels(&blank).len(), blank.lines().count());
        let stairs = (0..600).map(|depth| format!("{}a:", " ".repeat(depth)));
        let stairs = stairs.collect::<Vec<_>>().join("\n");
        let deepest = depths(&stairs).into_iter().max();
        assert_eq!(deepest, Some(MAX_LEVELS));
    }

    #[test]
    fn a_large_object_is_not_folded() {
        assert!(folded(&"a: b\n".repeat(MAX_BYTES)).is_none());
    }
}

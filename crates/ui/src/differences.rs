//! One object in two clusters, side by side.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use maud::{Markup, html};
use serde_json::Value;
use similar::{Algorithm, ChangeTag, DiffOp, TextDiff, capture_diff_slices_deadline};

/// Metadata that belongs to one cluster and differs in any case.
const OF_ONE_CLUSTER: [&str; 8] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "managedFields",
    "selfLink",
    "deletionTimestamp",
    "ownerReferences",
];
/// Annotations of one cluster.
const ANNOTATIONS_OF_ONE_CLUSTER: [&str; 2] = [
    "resource.karmada.io/cached-from-cluster",
    "kubectl.kubernetes.io/last-applied-configuration",
];
/// Equal lines that are shown around a difference.
const CONTEXT: usize = 3;
/// Lines and bytes of one object that are compared; what follows is left out, and the view says so.
const MAX_LINES: usize = 5_000;
const MAX_BYTES: usize = 512 * 1024;
/// Bytes of a line in which the words that differ are marked.
const MAX_MARKED_BYTES: usize = 1_000;
/// How long lines, and then words, are compared. What is left then counts as different as a whole.
const TIME: Duration = Duration::from_millis(200);

/// What two objects have in common and where they differ.
#[derive(Debug)]
pub(crate) struct ComparedTexts {
    groups: Vec<Vec<LinePair>>,
    /// How many lines differ.
    pub(crate) differing: usize,
    /// Whether an object has more lines than are compared.
    pub(crate) is_cut: bool,
}

/// A line of each side.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LinePair {
    left: Option<(usize, String)>,
    right: Option<(usize, String)>,
    differs: bool,
}

/// An object without what belongs to one cluster.
pub(crate) fn comparable(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for key in OF_ONE_CLUSTER {
            metadata.shift_remove(key);
        }
        if let Some(annotations) = metadata
            .get_mut("annotations")
            .and_then(Value::as_object_mut)
        {
            for key in ANNOTATIONS_OF_ONE_CLUSTER {
                annotations.shift_remove(key);
            }
            if annotations.is_empty() {
                metadata.shift_remove("annotations");
            }
        }
    }
    object
}

/// Compares two texts line by line.
pub(crate) fn compare(left: &str, right: &str) -> ComparedTexts {
    let (lines_left, lines_right) = (lines(left), lines(right));
    let deadline = Some(Instant::now() + TIME);
    let algorithm = Algorithm::Patience;
    let operations = capture_diff_slices_deadline(algorithm, &lines_left, &lines_right, deadline);
    let groups = similar::group_diff_ops(operations, CONTEXT);
    let pairs = |operation| pairs(operation, &lines_left, &lines_right);
    let groups = groups
        .iter()
        .map(|group| group.iter().flat_map(pairs).collect());
    let groups: Vec<Vec<LinePair>> = groups.collect();
    let differing = groups.iter().flatten().filter(|pair| pair.differs).count();
    let is_cut = text_is_cut(left, &lines_left) || text_is_cut(right, &lines_right);
    ComparedTexts {
        groups,
        differing,
        is_cut,
    }
}

fn lines(text: &str) -> Vec<&str> {
    let mut bytes = 0;
    let fits = |line: &&str| {
        bytes += line.len();
        bytes <= MAX_BYTES
    };
    text.lines().take(MAX_LINES).take_while(fits).collect()
}

fn text_is_cut(text: &str, lines: &[&str]) -> bool {
    text.lines().count() > lines.len()
}

/// The lines of an operation, those of both sides beside each other.
fn pairs(operation: &DiffOp, left: &[&str], right: &[&str]) -> Vec<LinePair> {
    let (of_left, of_right) = (operation.old_range(), operation.new_range());
    let numbered = |lines: &[&str], range: &Range<usize>, offset: usize| {
        let position = range.clone().nth(offset)?;
        Some((position + 1, (*lines.get(position)?).to_owned()))
    };
    let differs = operation.tag() != similar::DiffTag::Equal;
    let pair = |offset| LinePair {
        left: numbered(left, &of_left, offset),
        right: numbered(right, &of_right, offset),
        differs,
    };
    (0..of_left.len().max(of_right.len())).map(pair).collect()
}

impl ComparedTexts {
    /// A table of both sides.
    pub(crate) fn render(&self, left: &str, right: &str) -> Markup {
        let deadline = Instant::now() + TIME;
        html! {
            div.scroll tabindex="0" role="region" aria-label="Differences" {
                table.differences {
                    thead { tr { th scope="col" colspan="2" { (left) } th scope="col" colspan="2" { (right) } } }
                    @for group in &self.groups {
                        tbody {
                            @for pair in group { (pair.render(deadline)) }
                        }
                    }
                }
            }
        }
    }
}

impl LinePair {
    fn render(&self, deadline: Instant) -> Markup {
        let empty = String::new();
        let left = self.left.as_ref().map_or(&empty, |(_, line)| line);
        let right = self.right.as_ref().map_or(&empty, |(_, line)| line);
        let number = |side: &Option<(usize, String)>| {
            let side = side.as_ref();
            side.map_or_else(String::new, |(number, _)| number.to_string())
        };
        if !self.differs {
            return html! {
                tr { td.number { (number(&self.left)) } td { (left) } td.number { (number(&self.right)) } td { (right) } }
            };
        }
        let (removed, added) = changes(left, right, deadline);
        html! {
            tr.differs {
                td.number { (number(&self.left)) }
                td.removed { @if self.left.is_some() { span.mark { "−" } (removed) } }
                td.number { (number(&self.right)) }
                td.added { @if self.right.is_some() { span.mark { "+" } (added) } }
            }
        }
    }
}

/// The words in which two lines differ, marked in each.
fn changes(left: &str, right: &str, deadline: Instant) -> (Markup, Markup) {
    let is_long = left.len().max(right.len()) > MAX_MARKED_BYTES;
    if left.is_empty() || right.is_empty() || is_long || Instant::now() > deadline {
        return (html! { (left) }, html! { (right) });
    }
    let words = TextDiff::from_words(left, right);
    let side = |marked: ChangeTag| {
        html! {
            @for change in words.iter_all_changes() {
                @if change.tag() == ChangeTag::Equal { (change.value()) }
                @else if change.tag() == marked { b { (change.value()) } }
            }
        }
    };
    (side(ChangeTag::Delete), side(ChangeTag::Insert))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_belongs_to_one_cluster_is_left_out() {
        let object = json!({"metadata": {"name": "a", "uid": "1", "annotations": {"resource.karmada.io/cached-from-cluster": "m"}}, "spec": 1});
        assert_eq!(
            comparable(&object),
            json!({"metadata": {"name": "a"}, "spec": 1})
        );
    }

    #[test]
    fn differing_lines_stand_beside_each_other() {
        let compared = compare("a: 1\nb: 2\nc: 3\n", "a: 1\nb: 4\nc: 3\nd: 5\n");
        assert_eq!(compared.differing, 2);
        let html = compared.render("left", "right").into_string();
        assert!(
            html.contains("b: <b>2</b>") && html.contains("b: <b>4</b>"),
            "{html}"
        );
        assert_eq!(compare("a\n", "a\n").differing, 0);
    }

    #[test]
    fn hostile_texts_take_bounded_time() {
        let words = |start: usize| -> String {
            let numbers = (0..100_000).map(|number| (number * 2 + start).to_string());
            numbers.collect::<Vec<_>>().join(" ")
        };
        let lines = |start: usize| words(start).replace(' ', "\n");
        for (left, right) in [(words(0), words(1)), (lines(0), lines(1))] {
            let begun = Instant::now();
            let compared = compare(&left, &right);
            assert!(compared.is_cut);
            let _html = compared.render("left", "right");
            // The deadlines are 0.4 s; the rest is for a busy machine.
            assert!(begun.elapsed() < Duration::from_secs(30));
        }
    }

    #[test]
    fn values_are_escaped() {
        let html = compare("a: <i>\n", "a: <u>\n")
            .render("<l>", "<r>")
            .into_string();
        assert!(!html.contains("<i>") && !html.contains("<u>") && !html.contains("<l>"));
    }
}

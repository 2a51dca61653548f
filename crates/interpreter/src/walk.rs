//! Walks through a part of an object of which nothing is known, within bounds.

use std::fmt::Write as _;

use serde_json::Value;

/// How deep a walk goes. A manifest in a list in a manifest, with a job template, has 12 levels.
const MAX_DEPTH: usize = 24;
/// How many values a walk looks at. An object of a megabyte has more; what a walk looks for is in the first of them.
const MAX_VISITED: usize = 20_000;

/// The way from an object to a value in it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step<'v> {
    /// To a member.
    Key(&'v str),
    /// To an item.
    Index(usize),
}

/// Whether a walk goes on below a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Descend {
    /// It does.
    Yes,
    /// It goes on beside the map.
    No,
}

/// What is done with each map of a walk, and the way to it from where the walk began.
type Visitor<'v, 'f> = dyn FnMut(&[Step<'v>], &'v Value) -> Descend + 'f;

/// Calls a function for each map at and below a value, parents first, in the order of the document.
pub(crate) fn maps<'v>(root: &'v Value, visit: &mut Visitor<'v, '_>) {
    let mut walk = MapWalk {
        path: Vec::new(),
        left: MAX_VISITED,
        visit,
    };
    walk.value(root);
}

/// A path as text: `spec.tasks[0].template`.
pub(crate) fn path_text(path: &[Step<'_>]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Key(key) if text.is_empty() => text.push_str(key),
            Step::Key(key) => {
                text.push('.');
                text.push_str(key);
            }
            Step::Index(index) => {
                // Writing to a string does not fail.
                let _ = write!(text, "[{index}]");
            }
        }
    }
    text
}

struct MapWalk<'v, 'f> {
    path: Vec<Step<'v>>,
    left: usize,
    visit: &'f mut Visitor<'v, 'f>,
}

impl<'v> MapWalk<'v, '_> {
    fn value(&mut self, value: &'v Value) {
        if self.left == 0 || self.path.len() > MAX_DEPTH {
            return;
        }
        self.left -= 1;
        match value {
            Value::Object(members) if (self.visit)(&self.path, value) == Descend::Yes => {
                for (key, member) in members {
                    self.step(Step::Key(key), member);
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate().take(self.left) {
                    self.step(Step::Index(index), item);
                }
            }
            _ => {}
        }
    }

    fn step(&mut self, step: Step<'v>, value: &'v Value) {
        self.path.push(step);
        self.value(value);
        self.path.pop();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn paths(root: &Value) -> Vec<String> {
        let mut paths = Vec::new();
        maps(root, &mut |path, _| {
            paths.push(path_text(path));
            Descend::Yes
        });
        paths
    }

    #[test]
    fn maps_are_visited_parents_first_with_their_paths() {
        let object = json!({"b": {"c": [{}, 1, {"d": {}}]}, "a": {}});
        assert_eq!(
            paths(&object),
            ["", "b", "b.c[0]", "b.c[2]", "b.c[2].d", "a"]
        );
    }

    #[test]
    fn a_map_that_is_left_out_has_no_visits_below() {
        let mut count = 0;
        maps(&json!({"a": {"b": {}}}), &mut |_, _| {
            count += 1;
            Descend::No
        });
        assert_eq!(count, 1);
    }

    #[test]
    fn depth_and_number_of_visits_are_bounded() {
        let deep = (0..100).fold(json!({}), |inner, _| json!({ "a": inner }));
        assert_eq!(paths(&deep).len(), MAX_DEPTH + 1);
        let wide = Value::Array(vec![json!({}); 50_000]);
        assert_eq!(paths(&wide).len(), MAX_VISITED - 1);
    }
}

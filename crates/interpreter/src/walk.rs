//! Walks through a part of an object of which nothing is known, within bounds.

use fleetdex_core::model::JsonTree;

use crate::value::Tree;

/// How deep a walk goes. A manifest in a list in a manifest, with a job template, has 12 levels.
const MAX_DEPTH: usize = 24;
/// How many values a walk looks at. An object of a megabyte has more; what a walk looks for is in
/// the first of them.
const MAX_VISITED: usize = 20_000;

/// Whether a walk goes on below a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Descend {
    /// It does.
    Yes,
    /// It goes on beside the map.
    No,
}

/// What is done with each map of a walk.
type Visitor<'v, 'f> = dyn FnMut(Tree<'v>) -> Descend + 'f;

/// Calls a function for each map at and below a value, parents first, in the order of the document.
pub(crate) fn maps<'v>(root: Tree<'v>, visit: &mut Visitor<'v, '_>) {
    below(root, 0, &mut { MAX_VISITED }, visit);
}

fn below<'v>(value: Tree<'v>, depth: usize, left: &mut usize, visit: &mut Visitor<'v, '_>) {
    if *left == 0 || depth > MAX_DEPTH {
        return;
    }
    *left -= 1;
    match value {
        JsonTree::Object(members) if visit(value) == Descend::Yes => {
            for (_, member) in members.iter() {
                below(member, depth + 1, left, visit);
            }
        }
        JsonTree::Array(items) => {
            for item in items.iter().take(*left) {
                below(item, depth + 1, left, visit);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The number of maps that are visited, and their texts `at`.
    fn visited(root: &Value) -> (usize, Vec<String>) {
        let (mut maps_seen, mut places) = (0, Vec::new());
        maps(&root.into(), &mut |map| {
            maps_seen += 1;
            let place = map.get("at").and_then(JsonTree::as_str);
            places.extend(place.map(str::to_owned));
            Descend::Yes
        });
        (maps_seen, places)
    }

    #[test]
    fn maps_are_visited_parents_first_in_their_order() {
        let object = json!({"at": "root", "b": {"at": "b", "c": [{"at": "c0"}, 1, {"at": "c2", "d": {"at": "d"}}]}, "a": {"at": "a"}});
        assert_eq!(visited(&object).1, ["root", "b", "c0", "c2", "d", "a"]);
    }

    #[test]
    fn a_map_that_is_left_out_has_no_visits_below() {
        let mut count = 0;
        maps(&(&json!({"a": {"b": {}}})).into(), &mut |_| {
            count += 1;
            Descend::No
        });
        assert_eq!(count, 1);
    }

    #[test]
    fn depth_and_number_of_visits_are_bounded() {
        let deep = (0..100).fold(json!({}), |inner, _| json!({ "a": inner }));
        assert_eq!(visited(&deep).0, MAX_DEPTH + 1);
        let wide = Value::Array(vec![json!({}); 50_000]);
        assert_eq!(visited(&wide).0, MAX_VISITED - 1);
    }
}

//! Follows the paths of edges.

use fleetdex_core::model::JsonTree;

use crate::value::Tree;

/// Calls a function for each value at a path such as `spec.tls[].secretName`, in which `[]` stands
/// for every item.
pub(super) fn values<'v>(root: Tree<'v>, path: &str, visit: &mut dyn FnMut(Tree<'v>)) {
    let (step, rest) = match path.split_once('.') {
        Some((step, rest)) => (step, Some(rest)),
        None => (path, None),
    };
    let Some(key) = step.strip_suffix("[]") else {
        if let Some(member) = root.get(step) {
            follow(member, rest, visit);
        }
        return;
    };
    for item in root
        .get(key)
        .and_then(JsonTree::as_array)
        .into_iter()
        .flatten()
    {
        follow(item, rest, visit);
    }
}

/// A step of a path, as the name of a member.
pub(crate) fn without_brackets(step: &str) -> &str {
    step.strip_suffix("[]").unwrap_or(step)
}

fn follow<'v>(value: Tree<'v>, rest: Option<&str>, visit: &mut dyn FnMut(Tree<'v>)) {
    match rest {
        Some(rest) => values(value, rest, visit),
        None => visit(value),
    }
}

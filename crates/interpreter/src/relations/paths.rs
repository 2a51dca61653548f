//! Follows the paths of edges.

use serde_json::Value;

/// Calls a function for each value at a path such as `spec.tls[].secretName`, in which `[]` stands for every item.
pub(super) fn values<'v>(root: &'v Value, path: &str, visit: &mut dyn FnMut(&'v Value)) {
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
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        follow(item, rest, visit);
    }
}

fn follow<'v>(value: &'v Value, rest: Option<&str>, visit: &mut dyn FnMut(&'v Value)) {
    match rest {
        Some(rest) => values(value, rest, visit),
        None => visit(value),
    }
}

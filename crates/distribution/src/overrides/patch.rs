//! One operation of RFC 6902.

use json_patch::{
    AddOperation, PatchOperation, RemoveOperation, ReplaceOperation, jsonptr::PointerBuf,
};
use serde_json::Value;

/// The deepest nesting of an object, as in `serde_json`.
const MAX_DEPTH: usize = 128;

/// Adds, replaces or removes a value; an error says why that is not possible.
pub fn apply(
    object: &mut Value,
    operator: &str,
    path: &str,
    value: Option<&Value>,
) -> Result<(), String> {
    let pointer = PointerBuf::parse(path).map_err(|error| format!("{path:?}: {error}"))?;
    let depth = pointer.count() + value.map_or(0, depth);
    if depth > MAX_DEPTH {
        return Err(format!(
            "{operator} {path}: it is nested more than {MAX_DEPTH} levels deep"
        ));
    }
    let value = || value.cloned().unwrap_or_default();
    let operation = match operator {
        "add" => PatchOperation::Add(AddOperation {
            path: pointer,
            value: value(),
        }),
        "replace" => PatchOperation::Replace(ReplaceOperation {
            path: pointer,
            value: value(),
        }),
        "remove" => PatchOperation::Remove(RemoveOperation { path: pointer }),
        other => return Err(format!("operator {other:?} is not add, replace or remove")),
    };
    json_patch::patch_unsafe(object, &[operation])
        .map_err(|error| format!("{operator} {path}: {}", error.kind))
}

/// How deep a value is nested, which was parsed within a bound.
fn depth(value: &Value) -> usize {
    let below = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(members) => members.values().map(depth).max(),
        _ => return 0,
    };
    1 + below.unwrap_or(0)
}

//! One operation of RFC 6902.

use fleetdex_interpreter::bounded_patch::{BoundedPatch, MAX_DEPTH, OperationFault};
use json_patch::{
    AddOperation, PatchOperation, RemoveOperation, ReplaceOperation, jsonptr::PointerBuf,
};
use serde_json::Value;

/// Adds, replaces or removes a value; an error says why that is not possible.
pub fn apply(
    patch: &mut BoundedPatch,
    object: &mut Value,
    operator: &str,
    path: &str,
    value: Option<&Value>,
) -> Result<(), String> {
    let pointer = PointerBuf::parse(path).map_err(|error| format!("{path:?}: {error}"))?;
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
    patch.apply(object, &operation).map_err(|fault| {
        let problem = match fault {
            OperationFault::Refused { problem, .. } => problem,
            OperationFault::TooDeep => {
                format!("it is nested more than {MAX_DEPTH} levels deep")
            }
            OperationFault::TooLarge => "the changes add too much to the object".to_owned(),
            OperationFault::TooManyMoved => {
                "the changes move too many items of lists: add and remove at their end".to_owned()
            }
        };
        format!("{operator} {path}: {problem}")
    })
}

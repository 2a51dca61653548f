//! Patches of answers: RFC 6902, applied to a copy of the object within bounds.

use base64::{Engine, engine::general_purpose::STANDARD};
use fleetdex_core::{
    fuel::{Fuel, MeteredEvaluation, OutOfFuel},
    model::{MAX_OBJECT_BYTES, json_fault, quoted},
};
use json_patch::{Patch, PatchOperation};
use serde_json::Value;

use super::message::JSON_PATCH;
use crate::value;

/// The most operations of a patch, as many as a kube-apiserver accepts (`maxJSONPatchOperations`).
pub const MAX_OPERATIONS: usize = 10_000;
/// The most bytes that the operations of a patch add, copy and move in all. An object that may be
/// indexed fits.
pub const MAX_ADDED_BYTES: usize = MAX_OBJECT_BYTES;
/// How deep a value that a patch adds may lie; `serde_json` reads no deeper ones.
pub const MAX_DEPTH: usize = 128;
/// Steps that the operations of a patch take at most: one for each item of a list that an insertion
/// or a removal before it moves. Seven thousand items may be removed one by one from the start of
/// their list.
pub const MAX_STEPS: u64 = 50_000_000;
/// What a value counts at least: a list of empty lists takes more memory than it has bytes as JSON.
const VALUE_BYTES: usize = 16;

/// A patch cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchFault {
    /// There is a patch and no type.
    #[error("response.patchType is absent beside response.patch: it must be {JSON_PATCH}")]
    TypeAbsent,
    /// There is a type and no patch.
    #[error(
        "response.patch is absent or empty beside response.patchType: leave out both if nothing changes"
    )]
    PatchAbsent,
    /// The type is another one.
    #[error("response.patchType is \"{0}\": it must be {JSON_PATCH}")]
    OtherType(String),
    /// The patch is no base64.
    #[error("response.patch is not base64 of an RFC 6902 document")]
    NotBase64,
    /// The patch is no patch.
    #[error("response.patch is not an RFC 6902 document: {0}")]
    NotAPatch(String),
    /// It has too many operations.
    #[error("response.patch has {0} operations, more than {MAX_OPERATIONS}")]
    TooManyOperations(usize),
    /// An operation fails.
    #[error("operation {index} of response.patch fails at \"{path}\": {problem}")]
    Operation {
        /// The operation, counted from 0.
        index: usize,
        /// Its path.
        path: String,
        /// What fails.
        problem: String,
    },
    /// Its operations add too much.
    #[error(
        "operation {0} of response.patch adds more to the object than the {MAX_ADDED_BYTES} bytes that a patch may add, copy and move in all"
    )]
    TooLarge(usize),
    /// Its operations move too many items of lists.
    #[error(
        "operation {0} of response.patch moves more items of lists than the {MAX_STEPS} that a patch may move in all: insert and remove at the end of a list, or replace the list"
    )]
    TooManyMoved(usize),
    /// An operation adds a value that lies too deep.
    #[error("operation {0} of response.patch adds a value deeper than {MAX_DEPTH} levels")]
    TooDeep(usize),
    /// The result is no object.
    #[error("response.patch replaces the object with something else")]
    NoObject,
    /// The result is another object.
    #[error(
        "response.patch changes {0}, which must stay: a patch changes one object and makes no other one"
    )]
    OtherObject(&'static str),
}

/// The operations of an answer. Without a patch there are none; a patch needs its type, and a type
/// its patch.
pub(super) fn operations(
    patch: Option<&str>,
    patch_type: Option<&str>,
) -> Result<Vec<PatchOperation>, PatchFault> {
    let patch = patch.filter(|text| !text.is_empty());
    let patch = match (patch, patch_type) {
        (None, None) => return Ok(Vec::new()),
        (Some(_), None) => return Err(PatchFault::TypeAbsent),
        (None, Some(_)) => return Err(PatchFault::PatchAbsent),
        (Some(patch), Some(JSON_PATCH)) => patch,
        (Some(_), Some(other)) => return Err(PatchFault::OtherType(quoted(other))),
    };
    let bytes = STANDARD.decode(patch).map_err(|_| PatchFault::NotBase64)?;
    let Patch(operations) = serde_json::from_slice(&bytes)
        .map_err(|error| PatchFault::NotAPatch(json_fault(&error)))?;
    if operations.len() > MAX_OPERATIONS {
        return Err(PatchFault::TooManyOperations(operations.len()));
    }
    Ok(operations)
}

/// A copy of the object with the operations applied. The result is the same object: kind, namespace
/// and name stay.
pub(super) fn patched(object: &Value, operations: &[PatchOperation]) -> Result<Value, PatchFault> {
    let mut copy = object.clone();
    let mut left = MAX_ADDED_BYTES;
    let fuel = Fuel::of(MeteredEvaluation::Patch, MAX_STEPS);
    for (index, operation) in operations.iter().enumerate() {
        if let Some(added) = added(&copy, operation) {
            let levels = levels(operation.path().as_str());
            let deepest = MAX_DEPTH
                .checked_sub(levels)
                .ok_or(PatchFault::TooDeep(index))?;
            left = measure(added, deepest, left, index)?;
        }
        fuel.take(moved_items(&copy, operation))
            .map_err(|OutOfFuel| PatchFault::TooManyMoved(index))?;
        apply(&mut copy, operation, index)?;
    }
    same_object(object, &copy)?;
    Ok(copy)
}

/// The patch from one object to another one as base64; `None` if nothing changes.
pub(super) fn difference(before: &Value, after: &Value) -> serde_json::Result<Option<String>> {
    let patch = json_patch::diff(before, after);
    if patch.0.is_empty() {
        return Ok(None);
    }
    Ok(Some(STANDARD.encode(serde_json::to_vec(&patch)?)))
}

/// Whether both values are the same object, by kind, namespace and name.
pub(super) fn same_object(before: &Value, after: &Value) -> Result<(), PatchFault> {
    const IDENTITY: [(&str, &[&str]); 4] = [
        ("apiVersion", &["apiVersion"]),
        ("kind", &["kind"]),
        ("metadata.namespace", &["metadata", "namespace"]),
        ("metadata.name", &["metadata", "name"]),
    ];
    if !after.is_object() {
        return Err(PatchFault::NoObject);
    }
    match IDENTITY
        .into_iter()
        .find(|(_, path)| value::text(before, path) != value::text(after, path))
    {
        Some((member, _)) => Err(PatchFault::OtherObject(member)),
        None => Ok(()),
    }
}

fn apply(copy: &mut Value, operation: &PatchOperation, index: usize) -> Result<(), PatchFault> {
    json_patch::patch_unsafe(copy, std::slice::from_ref(operation)).map_err(|error| {
        PatchFault::Operation {
            index,
            path: quoted(error.path.as_str()),
            problem: error.kind.to_string(),
        }
    })
}

/// The value that an operation puts somewhere. That of a move counts too, because each move may put
/// it deeper.
fn added<'v>(copy: &'v Value, operation: &'v PatchOperation) -> Option<&'v Value> {
    match operation {
        PatchOperation::Add(add) => Some(&add.value),
        PatchOperation::Replace(replace) => Some(&replace.value),
        PatchOperation::Copy(from) => copy.pointer(from.from.as_str()),
        PatchOperation::Move(from) => copy.pointer(from.from.as_str()),
        PatchOperation::Remove(_) | PatchOperation::Test(_) => None,
    }
}

/// How many items of lists an operation moves to other positions.
fn moved_items(copy: &Value, operation: &PatchOperation) -> usize {
    let behind = |path: &str| {
        let (list, position) = path.rsplit_once('/')?;
        let items = copy.pointer(list)?.as_array()?;
        // At `-`, the end, nothing is moved.
        Some(items.len().saturating_sub(position.parse().ok()?))
    };
    let behind = |path: &str| behind(path).unwrap_or(0);
    let path = operation.path().as_str();
    match operation {
        PatchOperation::Add(_) | PatchOperation::Remove(_) | PatchOperation::Copy(_) => {
            behind(path)
        }
        PatchOperation::Move(from) => behind(from.from.as_str()).saturating_add(behind(path)),
        PatchOperation::Replace(_) | PatchOperation::Test(_) => 0,
    }
}

fn levels(path: &str) -> usize {
    path.bytes().filter(|byte| *byte == b'/').count()
}

/// What is left of the bytes after a value that an operation adds. Recursion ends at the depth.
fn measure(value: &Value, deepest: usize, left: usize, index: usize) -> Result<usize, PatchFault> {
    let take = |left: usize, bytes| left.checked_sub(bytes).ok_or(PatchFault::TooLarge(index));
    let text = match value {
        Value::String(text) => text.len(),
        _ => 0,
    };
    let mut left = take(left, VALUE_BYTES + text)?;
    let below = || deepest.checked_sub(1).ok_or(PatchFault::TooDeep(index));
    match value {
        Value::Array(items) => {
            for item in items {
                left = measure(item, below()?, left, index)?;
            }
        }
        Value::Object(members) => {
            for (key, member) in members {
                left = take(left, key.len())?;
                left = measure(member, below()?, left, index)?;
            }
        }
        _ => {}
    }
    Ok(left)
}

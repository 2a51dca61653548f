//! Operations of RFC 6902 on values of others, within bounds.

use fleetdex_core::{
    fuel::{Fuel, MeteredEvaluation, OutOfFuel},
    model::MAX_OBJECT_BYTES,
};
use json_patch::PatchOperation;
use serde_json::Value;

/// The most bytes that operations add, copy and move in all. An object that may be indexed fits.
pub const MAX_ADDED_BYTES: usize = MAX_OBJECT_BYTES;
/// How deep a value that an operation adds may lie; `serde_json` reads no deeper ones.
pub const MAX_DEPTH: usize = 128;
/// Steps that operations take at most: one for each item of a list that an insertion or a removal
/// before it moves. Seven thousand items may be removed one by one from the start of their list.
pub const MAX_STEPS: u64 = 50_000_000;
/// What a value counts at least: a list of empty lists takes more memory than it has bytes as JSON.
const VALUE_BYTES: usize = 16;

/// Why an operation is not made.
#[derive(Debug)]
pub enum OperationFault {
    /// It cannot be applied, at a path and for a reason.
    Refused {
        /// The path.
        path: String,
        /// What fails.
        problem: String,
    },
    /// The operations add too much.
    TooLarge,
    /// The operations move too many items of lists.
    TooManyMoved,
    /// It adds a value that lies too deep.
    TooDeep,
}

/// What operations on one object may still take.
#[derive(Debug)]
pub struct BoundedPatch {
    bytes: usize,
    fuel: Fuel,
}

impl Default for BoundedPatch {
    fn default() -> Self {
        Self {
            bytes: MAX_ADDED_BYTES,
            fuel: Fuel::of(MeteredEvaluation::Patch, MAX_STEPS),
        }
    }
}

impl BoundedPatch {
    /// Applies an operation to an object, within what is left of the bounds.
    pub fn apply(
        &mut self,
        object: &mut Value,
        operation: &PatchOperation,
    ) -> Result<(), OperationFault> {
        if let Some(added) = added(object, operation) {
            let levels = levels(operation.path().as_str());
            let deepest = MAX_DEPTH
                .checked_sub(levels)
                .ok_or(OperationFault::TooDeep)?;
            self.bytes = measure(added, deepest, self.bytes)?;
        }
        self.fuel
            .take(moved_items(object, operation))
            .map_err(|OutOfFuel| OperationFault::TooManyMoved)?;
        json_patch::patch_unsafe(object, std::slice::from_ref(operation)).map_err(|error| {
            OperationFault::Refused {
                path: error.path.as_str().to_owned(),
                problem: error.kind.to_string(),
            }
        })
    }
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
fn measure(value: &Value, deepest: usize, left: usize) -> Result<usize, OperationFault> {
    let take = |left: usize, bytes| left.checked_sub(bytes).ok_or(OperationFault::TooLarge);
    let text = match value {
        Value::String(text) => text.len(),
        _ => 0,
    };
    let mut left = take(left, VALUE_BYTES + text)?;
    let below = || deepest.checked_sub(1).ok_or(OperationFault::TooDeep);
    match value {
        Value::Array(items) => {
            for item in items {
                left = measure(item, below()?, left)?;
            }
        }
        Value::Object(members) => {
            for (key, member) in members {
                left = take(left, key.len())?;
                left = measure(member, below()?, left)?;
            }
        }
        _ => {}
    }
    Ok(left)
}

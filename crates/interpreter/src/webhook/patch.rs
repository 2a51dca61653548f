//! Patches of answers: RFC 6902, applied to a copy of the object within bounds.

use base64::{Engine, engine::general_purpose::STANDARD};
use fleetdex_core::model::{json_fault, quoted};
use json_patch::{Patch, PatchOperation};
use serde_json::Value;

use super::message::JSON_PATCH;
use crate::{
    bounded_patch::{BoundedPatch, MAX_ADDED_BYTES, MAX_DEPTH, MAX_STEPS, OperationFault},
    value,
};

/// The most operations of a patch, as many as a kube-apiserver accepts (`maxJSONPatchOperations`).
pub const MAX_OPERATIONS: usize = 10_000;
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

impl PatchFault {
    /// Of an operation, counted from 0.
    fn of(fault: OperationFault, index: usize) -> Self {
        match fault {
            OperationFault::Refused { path, problem } => Self::Operation {
                index,
                path: quoted(&path),
                problem,
            },
            OperationFault::TooLarge => Self::TooLarge(index),
            OperationFault::TooManyMoved => Self::TooManyMoved(index),
            OperationFault::TooDeep => Self::TooDeep(index),
        }
    }
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
    let mut patch = BoundedPatch::default();
    for (index, operation) in operations.iter().enumerate() {
        patch
            .apply(&mut copy, operation)
            .map_err(|fault| PatchFault::of(fault, index))?;
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

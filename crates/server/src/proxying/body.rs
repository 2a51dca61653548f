//! Translates the bodies of writes for a member: removes our annotations, and replaces the fleet's
//! resource version by the member's.
//!
//! Guarantees: a redacted copy from the index is never written back, as a body that carries the
//! marker is refused; a resource version of the fleet never reaches a member, which could not know
//! it; every other byte of an object stays as it is.

mod json_patch;
mod object;

use fleetdex_core::model::REDACTED_ANNOTATION;
use serde_json::Value;

pub use self::object::{BodyError, VersionLookup};
use self::{
    json_patch::json_patch,
    object::{object, refuse_copy, translated},
};
use super::protobuf;

/// What is parsed of `DeleteOptions`: it takes 150 times as much memory at most.
const MAX_DELETE_OPTIONS_BYTES: usize = 8 << 10;

/// What our annotations have in their keys.
const OUR_MARKS: [&str; 2] = ["fleetdex.io/", "cached-from-cluster"];

/// The kind of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyKind {
    /// A whole object.
    Object,
    /// A whole object to be created. It has no resource version yet.
    NewObject,
    /// `DeleteOptions`.
    DeleteOptions,
    /// RFC 6902.
    JsonPatch,
    /// RFC 7386, or a strategic merge patch, which has the same shape where it matters.
    MergePatch,
    /// Server-side apply.
    Apply,
    /// Arguments of subresources, which are forwarded unchanged.
    Opaque,
}

/// Translates a body for the member.
pub fn rewrite(
    kind: BodyKind,
    media_type: &str,
    body: &[u8],
    lookup: VersionLookup<'_>,
) -> Result<Vec<u8>, BodyError> {
    let essence = media_type.split(';').next().unwrap_or_default();
    let essence = essence.trim().to_ascii_lowercase();
    let is_json = essence.is_empty() || essence == "application/json" || essence.ends_with("+json");
    let is_yaml = essence == "application/yaml" || essence.ends_with("+yaml");
    let is_looked_into = is_json || essence == protobuf::MEDIA_TYPE;
    if kind == BodyKind::Opaque
        || body.is_empty()
        || (kind == BodyKind::DeleteOptions && !is_looked_into)
    {
        return Ok(body.to_vec());
    }
    let malformed = |error: &dyn std::fmt::Display| BodyError::Malformed(error.to_string());
    if essence == protobuf::MEDIA_TYPE {
        return in_protobuf(kind, body, essence, lookup);
    }
    let text = std::str::from_utf8(body);
    if is_yaml && !text.is_ok_and(|text| text.trim_start().starts_with('{')) {
        return yaml(text.map_err(|error| malformed(&error))?);
    }
    if !is_json && !is_yaml {
        return if kind == BodyKind::NewObject {
            binary(body, essence)
        } else {
            Err(BodyError::MediaType(essence))
        };
    }
    let text = text.map_err(|error| malformed(&error))?;
    match kind {
        BodyKind::Object | BodyKind::NewObject | BodyKind::Apply => object(text, false, lookup),
        BodyKind::MergePatch => object(text, true, lookup),
        BodyKind::JsonPatch => json_patch(text, lookup),
        BodyKind::DeleteOptions => delete_options(text, lookup),
        BodyKind::Opaque => Ok(body.to_vec()),
    }
}

/// YAML is forwarded unchanged, unless something in it would have to be replaced: YAML that is
/// serialized again may have another meaning.
fn yaml(text: &str) -> Result<Vec<u8>, BodyError> {
    if text.contains(REDACTED_ANNOTATION) {
        return Err(BodyError::Redacted("in YAML".to_owned()));
    }
    match OUR_MARKS.into_iter().find(|mark| text.contains(mark)) {
        Some(mark) => Err(BodyError::Yaml(mark)),
        None => Ok(text.as_bytes().to_vec()),
    }
}

/// Objects of typed Go clients. Patches have no protobuf encoding.
fn in_protobuf(
    kind: BodyKind,
    body: &[u8],
    media_type: String,
    lookup: VersionLookup<'_>,
) -> Result<Vec<u8>, BodyError> {
    let malformed = |error: protobuf::MalformedProtobuf| BodyError::Malformed(error.to_string());
    match kind {
        BodyKind::Object | BodyKind::NewObject => {
            let protobuf::VersionMetadata {
                version,
                member_version,
                redacted,
                from_index,
            } = protobuf::metadata(body).map_err(malformed)?;
            refuse_copy(redacted.as_deref(), from_index.as_deref())?;
            let version = match (version, member_version) {
                (Some(_), Some(member_version)) => Some(member_version),
                (Some(version), None) => Some(translated(&version, lookup)?),
                (None, _) => None,
            };
            protobuf::returned(body, version.as_deref()).map_err(malformed)
        }
        BodyKind::DeleteOptions => match protobuf::precondition(body).map_err(malformed)? {
            Some(version) => {
                protobuf::with_precondition(body, &translated(&version, lookup)?).map_err(malformed)
            }
            None => Ok(body.to_vec()),
        },
        BodyKind::Opaque => Ok(body.to_vec()),
        BodyKind::JsonPatch | BodyKind::MergePatch | BodyKind::Apply => {
            Err(BodyError::MediaType(media_type))
        }
    }
}

/// Media types that are not parsed, such as CBOR, which clients create objects with. They hold
/// strings verbatim, so that annotations can be found.
fn binary(body: &[u8], media_type: String) -> Result<Vec<u8>, BodyError> {
    let holds = |text: &str| memchr::memmem::find(body, text.as_bytes()).is_some();
    if holds(REDACTED_ANNOTATION) {
        return Err(BodyError::Redacted(format!("in {media_type}")));
    }
    if OUR_MARKS.into_iter().any(holds) {
        Err(BodyError::MediaType(media_type))
    } else {
        Ok(body.to_vec())
    }
}

/// `DeleteOptions` have a few members: a longer text is none of a client.
fn delete_options(text: &str, lookup: VersionLookup<'_>) -> Result<Vec<u8>, BodyError> {
    if text.len() > MAX_DELETE_OPTIONS_BYTES {
        return Err(BodyError::Malformed(format!(
            "DeleteOptions are longer than {MAX_DELETE_OPTIONS_BYTES} bytes"
        )));
    }
    let mut options: Value =
        serde_json::from_str(text).map_err(|error| BodyError::Malformed(error.to_string()))?;
    let Some(Value::String(version)) = options.pointer_mut("/preconditions/resourceVersion") else {
        return Ok(text.as_bytes().to_vec());
    };
    *version = translated(version, lookup)?;
    Ok(options.to_string().into_bytes())
}

#[cfg(test)]
mod tests;

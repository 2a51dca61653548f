//! Objects in bodies, and resource versions of the fleet in them.

use fleetdex_core::model::{
    REDACTED_ANNOTATION,
    client_metadata::{ReturnedObject, remove_client_metadata, with_version},
};

/// Resource versions of the fleet are at least this; those of members, which are revisions of their
/// etcd, are below.
const LEAST_FLEET_VERSION: u64 = 1 << 50;

/// A body that cannot be forwarded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// It cannot be parsed.
    #[error("the body is not valid: {0}")]
    Malformed(String),
    /// The media type cannot be parsed.
    #[error(
        "bodies of media type {0:?} are not supported here, as resource versions in them have to be replaced; send JSON"
    )]
    MediaType(String),
    /// YAML with annotations that have to be removed.
    #[error(
        "the body is YAML with annotations of Fleetdex ({0}), which have to be removed; send JSON, or remove them"
    )]
    Yaml(&'static str),
    /// A redacted copy would be written back.
    #[error(
        "the object carries the annotation {REDACTED_ANNOTATION} ({0}): it is a copy from the index, from which this was removed, \
         and writing it back would lose it; get the object by its name and change that, or patch only what changes"
    )]
    Redacted(String),
    /// The object came from the index because the member could not be reached.
    #[error(
        "the object was answered from the index ({0}) and may be old; get it again from its cluster and apply your changes to that"
    )]
    FromIndex(String),
    /// The member's resource version is no longer known.
    #[error(
        "resourceVersion {0} is one of the fleet, and the resourceVersion of the object in its cluster is no longer known for it; \
         please apply your changes to the latest version and try again"
    )]
    UnknownVersion(String),
}

/// Looks up the member's resource version of the object for a resource version of the fleet.
pub type VersionLookup<'o> = &'o dyn Fn(&str) -> Option<String>;

/// Translates an object, or a merge patch of one.
pub(super) fn object(
    text: &str,
    is_patch: bool,
    lookup: VersionLookup<'_>,
) -> Result<Vec<u8>, BodyError> {
    let malformed = |error: serde_json::Error| BodyError::Malformed(error.to_string());
    let returned = remove_client_metadata(text, is_patch).map_err(malformed)?;
    refuse_copy(returned.redacted.as_deref(), returned.from_index.as_deref())?;

    let ReturnedObject {
        json,
        version: Some(version),
        member_version: None,
        ..
    } = returned
    else {
        return Ok(returned.json.into_bytes());
    };
    if !is_of_fleet(&version) {
        return Ok(json.into_bytes());
    }
    let known = lookup(&version).ok_or(BodyError::UnknownVersion(version))?;
    Ok(with_version(&json, &known).map_err(malformed)?.into_bytes())
}

/// Refuses what was answered without a part of the object, or from the index.
pub(super) fn refuse_copy(
    redacted: Option<&str>,
    from_index: Option<&str>,
) -> Result<(), BodyError> {
    match (redacted, from_index) {
        (Some(what), _) => Err(BodyError::Redacted(what.to_owned())),
        (None, Some(why)) => Err(BodyError::FromIndex(why.to_owned())),
        (None, None) => Ok(()),
    }
}

/// Whether a resource version is one of a fleet, this or another one.
fn is_of_fleet(version: &str) -> bool {
    version
        .parse()
        .is_ok_and(|number: u64| number >= LEAST_FLEET_VERSION)
}

/// The member's resource version for one that a client sends.
pub(super) fn translated(version: &str, lookup: VersionLookup<'_>) -> Result<String, BodyError> {
    if !is_of_fleet(version) {
        return Ok(version.to_owned());
    }
    lookup(version).ok_or_else(|| BodyError::UnknownVersion(version.to_owned()))
}

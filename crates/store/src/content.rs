//! The parts of a document that it does not share with others of its kind: identity, path, terms
//! and packed object.

use std::borrow::Cow;

use fleetdex_core::model::{Version, uuid};
use jiff::Timestamp;
use serde::Deserialize;

use super::{compressed::Compressed, terms::TermNumbers};

/// Separates namespace and name. No name has it, and it sorts before every other character, so that
/// the joined texts are ordered as the pairs are.
pub(super) const SEPARATOR: char = '\0';

/// A document without its origin.
pub(super) struct Content {
    pub(super) version: Version,
    pub(super) identity: DocumentIdentity,
    /// Namespace and name, joined by [`path`].
    pub(super) path: String,
    /// Seconds since 1970.
    pub(super) created: Option<u32>,
    pub(super) fingerprint: u64,
    pub(super) packed: Compressed,
    pub(super) terms: TermNumbers,
}

/// A document's id and UID. Almost always both follow from 16 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DocumentIdentity {
    /// The id is the origin's prefix and this UUID.
    Uuid([u8; 16]),
    /// The id is the origin's prefix and this UID.
    Text(Box<str>),
    /// Id and UID, where the id does not contain the UID.
    Apart(Box<(Box<str>, Box<str>)>),
}

/// The parts of an object's `metadata` that documents need.
#[derive(Deserialize)]
pub(super) struct IndexedMetadata<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) namespace: Cow<'a, str>,
    #[serde(borrow)]
    uid: Cow<'a, str>,
    #[serde(borrow, default, rename = "creationTimestamp")]
    created: Option<Cow<'a, str>>,
}

/// Namespace and name as documents hold them.
pub(super) fn path(namespace: &str, name: &str) -> String {
    format!("{namespace}{SEPARATOR}{name}")
}

impl Content {
    /// The content of a document with this id, whose origin begins ids with `id_prefix`.
    pub(super) fn new(
        (id, id_prefix): (&str, &str),
        version: Version,
        metadata: &IndexedMetadata<'_>,
        (fingerprint, packed): (u64, Compressed),
        terms: TermNumbers,
    ) -> Self {
        let created = metadata
            .created
            .as_ref()
            .and_then(|text| text.parse::<Timestamp>().ok());
        Self {
            version,
            identity: DocumentIdentity::new(id, &metadata.uid, id_prefix),
            path: path(&metadata.namespace, &metadata.name),
            created: created.and_then(|time| time.as_second().try_into().ok()),
            fingerprint,
            packed,
            terms,
        }
    }
}

impl DocumentIdentity {
    /// The identity of a document with an id and a UID, whose origin begins ids with `prefix`.
    pub(super) fn new(id: &str, uid: &str, prefix: &str) -> Self {
        if id.strip_prefix(prefix) != Some(uid) {
            return Self::Apart(Box::new((id.into(), uid.into())));
        }
        uuid::parse(uid).map_or_else(|| Self::Text(uid.into()), Self::Uuid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_gives_id_and_uid_back_however_they_look() {
        let uuid = "6f1c2e4a-0b3d-4c5e-8f70-123456789abc";
        assert!(matches!(
            DocumentIdentity::new(&format!("v1/Pod/{uuid}"), uuid, "v1/Pod/"),
            DocumentIdentity::Uuid(_)
        ));
        assert!(matches!(
            DocumentIdentity::new("v1/Pod/mirror", "mirror", "v1/Pod/"),
            DocumentIdentity::Text(_)
        ));
        assert!(matches!(
            DocumentIdentity::new("0a1b", "long", "v1/Pod/"),
            DocumentIdentity::Apart(_)
        ));
    }
}

//! What of an object is stored: redactions and extra selectable fields.

use std::{fmt, sync::Arc};

use serde_json::{Value, value::RawValue};
use serde_json_path::JsonPath;
use sha2::{Digest, Sha256};

use super::{FieldPath, hex};

/// Part of every hash since documents say what is not stored of their objects: those of before are built again.
const MARKS_REDACTIONS: &[u8] = b"marked";

/// A redaction is no `JSONPath`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("redact: {path:?} is no JSONPath (RFC 9535), such as $.spec.template.spec.containers[*].env: {reason}")]
pub struct InvalidPath {
    /// The path as written.
    pub path: String,
    /// What is wrong with it.
    pub reason: String,
}

/// What of an object is stored. Part of a store, united over the registries that share it.
#[derive(Clone, Default)]
pub struct Projection {
    redact: Arc<[(String, JsonPath)]>,
    field_paths: Arc<[FieldPath]>,
    is_full: bool,
}

impl Projection {
    /// A projection that removes what the `JSONPath`s of `redact` select (a leading `$.` may be left out) and makes
    /// `field_paths` selectable in addition to what the apiserver supports.
    pub fn new(redact: &[String], field_paths: &[FieldPath]) -> Result<Self, InvalidPath> {
        let mut parsed = Vec::with_capacity(redact.len());
        for path in redact {
            let full = match path.strip_prefix('$') {
                Some(_) => path.clone(),
                None => format!("$.{}", path.trim_start_matches('.')),
            };
            let query = JsonPath::parse(&full).map_err(|error| InvalidPath { path: path.clone(), reason: error.to_string() })?;
            parsed.push((full, query));
        }
        Ok(Self { redact: parsed.into(), field_paths: field_paths.into(), is_full: false })
    }

    /// The same, with every path selectable.
    #[must_use]
    pub fn and_every_path(self) -> Self {
        Self { is_full: true, ..self }
    }

    /// Whether every path is selectable: `indexing: Full`.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Fields that are selectable in addition to what the apiserver supports.
    pub fn field_paths(&self) -> &[FieldPath] {
        &self.field_paths
    }

    /// Whether nothing has to be removed.
    pub fn redacts_nothing(&self) -> bool {
        self.redact.is_empty()
    }

    /// A short hash that changes whenever the stored documents would.
    pub fn hash(&self) -> String {
        let mut hasher = Sha256::new();
        hasher.update(MARKS_REDACTIONS);
        for (path, _) in self.redact.iter() {
            hasher.update(path.as_bytes());
            hasher.update([0]);
        }
        hasher.update([1]);
        for path in self.field_paths.iter() {
            hasher.update(path.as_str().as_bytes());
            hasher.update([0]);
        }
        if self.is_full {
            hasher.update([2]);
        }
        let digest = hasher.finalize();
        hex(&digest[..8])
    }

    /// The object without what must not be stored, and the paths at which there was any of that.
    pub(crate) fn redacted(&self, json: &str) -> Result<(Box<RawValue>, Vec<&str>), serde_json::Error> {
        let mut object: Value = serde_json::from_str(json)?;
        let mut removed = Vec::new();
        for (path, query) in self.redact.iter() {
            let mut pointers: Vec<String> =
                query.query_located(&object).locations().map(serde_json_path::NormalizedPath::to_json_pointer).collect();
            // Later array elements first, so that a removal does not move what is still to be removed.
            pointers.reverse();
            pointers.retain(|pointer| !KEPT.contains(&pointer.as_str()));
            if !pointers.is_empty() {
                removed.push(path.as_str());
            }
            for pointer in pointers {
                remove(&mut object, &pointer);
            }
        }
        Ok((serde_json::value::to_raw_value(&object)?, removed))
    }
}

/// Identity always stays.
const KEPT: [&str; 6] = ["", "/metadata", "/metadata/name", "/metadata/namespace", "/metadata/uid", "/metadata/resourceVersion"];

/// Removes the value at a JSON pointer.
fn remove(object: &mut Value, pointer: &str) {
    let Some((parent, key)) = pointer.rsplit_once('/') else { return };
    match object.pointer_mut(parent) {
        Some(Value::Object(members)) => {
            members.remove(&key.replace("~1", "/").replace("~0", "~"));
        }
        Some(Value::Array(elements)) => {
            if let Ok(position) = key.parse::<usize>()
                && position < elements.len()
            {
                elements.remove(position);
            }
        }
        _ => {}
    }
}

impl PartialEq for Projection {
    fn eq(&self, other: &Self) -> bool {
        let paths = |projection: &Self| projection.redact.iter().map(|(path, _)| path.clone()).collect::<Vec<_>>();
        paths(self) == paths(other) && self.field_paths == other.field_paths && self.is_full == other.is_full
    }
}

impl fmt::Debug for Projection {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Projection")
            .field("redact", &self.redact.iter().map(|(path, _)| path).collect::<Vec<_>>())
            .field("field_paths", &self.field_paths)
            .field("is_full", &self.is_full)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(paths: &[&str], json: &str) -> String {
        let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
        Projection::new(&paths, &[]).unwrap().redacted(json).unwrap().0.get().to_owned()
    }

    #[test]
    fn selected_values_are_removed_and_the_rest_keeps_its_order() {
        let json = r#"{"spec":{"containers":[{"name":"a","env":[{"name":"X","value":"secret"}]},{"name":"b"}],"z":1,"a":2}}"#;
        assert_eq!(
            redacted(&["spec.containers[*].env"], json),
            r#"{"spec":{"containers":[{"name":"a"},{"name":"b"}],"z":1,"a":2}}"#
        );
        assert_eq!(redacted(&["$.spec.containers[*]"], json), r#"{"spec":{"containers":[],"z":1,"a":2}}"#);
    }

    #[test]
    fn identity_cannot_be_redacted() {
        let json = r#"{"metadata":{"name":"a","annotations":{"x/y":"1"}}}"#;
        assert_eq!(
            redacted(&["metadata.name", "metadata.annotations['x/y']"], json),
            r#"{"metadata":{"name":"a","annotations":{}}}"#
        );
        assert_eq!(redacted(&["$.metadata"], json), json);
    }

    #[test]
    fn the_paths_that_selected_anything_are_told() {
        let projection = Projection::new(&["spec.a".to_owned(), "$.spec.b".to_owned(), "metadata".to_owned()], &[]).unwrap();
        let (_, removed) = projection.redacted(r#"{"metadata":{"name":"x"},"spec":{"b":1}}"#).unwrap();
        assert_eq!(removed, ["$.spec.b"]);
    }

    #[test]
    fn a_broken_path_is_refused_by_name() {
        let error = Projection::new(&["spec[".to_owned()], &[]).unwrap_err();
        assert!(error.to_string().contains("\"spec[\""), "{error}");
    }

    #[test]
    fn the_hash_follows_the_projection() {
        let plain = Projection::default();
        let fields = Projection::new(&[], &[FieldPath::new("spec.x")]).unwrap();
        assert_ne!(plain.hash(), fields.hash());
        assert_eq!(plain.hash(), Projection::default().hash());
        assert_ne!(plain.hash(), Projection::default().and_every_path().hash());
    }
}

//! The words that every module shares: clusters, kinds, units, versions, changes.
//!
//! Strings become these types once, at the door; inside there is no bare `String` for a cluster, a kind or a version.

mod document;
mod fields;
mod index_name;
mod json;
mod names;
pub mod number;
mod object;
mod projection;
mod resource;
mod version;

pub use document::{CLUSTER_ANNOTATION, Document, FieldValues, MAX_FIELD_VALUE_BYTES, Projector, fallback, restore};
pub use fields::{FieldPath, FieldType, SelectableField};
pub use index_name::{IndexName, IndexPrefix, InvalidPrefix};
pub use names::{ClusterName, InvalidName, Namespace, StoreName};
pub use object::{Object, ObjectError};
pub use projection::{InvalidPath, Projection};
pub use resource::{Gvk, Resource, Scope, Unit};
pub use version::{InvalidVersion, Version};

/// Appends a JSON string in quotes, escaped.
pub(crate) fn write_json_text(out: &mut Vec<u8>, text: &str) {
    json::write_text(out, text);
}

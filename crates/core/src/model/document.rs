//! Builds documents from objects: the native object, and the terms that queries search.

use std::sync::Arc;

use super::{Version, json_line::JsonLine};

mod field_values;
mod leaf_terms;
mod members;
mod projector;
mod restore;
mod terms;

pub use field_values::FieldValues;
pub use projector::Projector;
pub use restore::{HitSource, Restored};

/// One version of a document, ready to be written.
#[derive(Clone, Debug)]
pub struct Document {
    /// `<apiVersion>/<kind>/<uid>`, or a hash of it.
    pub id: Arc<str>,
    /// The object's resource version; for a deletion, that of the deletion.
    pub version: Version,
    /// The document; absent: it is to be deleted.
    pub body: Option<JsonLine>,
    /// Whether `search.rejected` is set, because queries cannot find the document by all of the
    /// object.
    pub is_partial: bool,
}

impl Document {
    /// The deletion of a document.
    pub fn deletion(id: Arc<str>, version: Version) -> Self {
        Self {
            id,
            version,
            body: None,
            is_partial: false,
        }
    }
}

#[cfg(test)]
mod tests;

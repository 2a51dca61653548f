//! Limits of objects, and why an object cannot be used.

use super::{json_fault, parsed_size::exceeds, redaction_error::RedactionError};

/// Bytes of an object. By default etcd takes 1.5 MiB and an API server 3 MiB; JSON may be longer
/// than the form that they count.
pub const MAX_OBJECT_BYTES: usize = 8 << 20;
/// What an object may take when it is parsed for redactions, rules, webhooks and selectable fields.
/// Pods of 1.5 MiB take 25 to 45 MiB.
pub const MAX_PARSED_BYTES: usize = 64 << 20;
/// Levels of nesting of an object. Schemas in definitions of custom resources have about 100, and
/// API servers take 10,000; OpenSearch reads no document with more than 1,000, and many JSON
/// parsers nothing with more than 512.
pub(super) const MAX_DEPTH: usize = 500;

/// Why an object of a list or watch cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// It is no valid Kubernetes object.
    #[error("the object is malformed: {}", json_fault(.0))]
    Malformed(#[from] serde_json::Error),
    /// A mandatory field of its metadata is missing.
    #[error("the object has no metadata.{0}")]
    Missing(&'static str),
    /// It has too many bytes.
    #[error("the object has {0} bytes, more than the {MAX_OBJECT_BYTES} that are indexed")]
    TooLarge(usize),
    /// It has too many levels of nesting.
    #[error("the object is nested deeper than the {MAX_DEPTH} levels that are indexed")]
    TooDeep,
    /// It would take too much memory to parse it.
    #[error("the object takes more than the {} MiB that one may take when it is parsed", MAX_PARSED_BYTES >> 20)]
    TooLargeParsed,
    /// Redactions cannot be applied, mostly because the object has more than the 127 levels of
    /// nesting that redaction parses, or take too many steps.
    #[error("`redact` cannot be applied to the object: {0}")]
    Unredactable(RedactionError),
    /// The resource version cannot be ordered.
    #[error(transparent)]
    Version(#[from] super::InvalidVersion),
}

impl ObjectError {
    /// Whether the text is no JSON, for example because it was cut off, rather than JSON of another
    /// shape.
    pub fn is_cut_off(&self) -> bool {
        matches!(self, Self::Malformed(error) if error.is_syntax() || error.is_eof())
    }
}

/// Fails for the text of an object that is too large.
pub(super) fn check_size(json: &str) -> Result<(), ObjectError> {
    if json.len() > MAX_OBJECT_BYTES {
        return Err(ObjectError::TooLarge(json.len()));
    }
    if exceeds(json.as_bytes(), MAX_PARSED_BYTES) {
        return Err(ObjectError::TooLargeParsed);
    }
    Ok(())
}

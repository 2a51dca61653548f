//! Rewrites JSON as YAML while parsing it, without a value tree.
//!
//! JSON that would take too much room stays on one line: it is YAML, too.

use fleetdex_core::yaml;
use serde_json::{Deserializer, de::SliceRead};

use super::indent::laid_out_size;
use crate::api_error::ApiError;

/// Appends one JSON value as YAML that ends its last line.
pub fn write(out: &mut Vec<u8>, json: &[u8]) -> Result<(), ApiError> {
    rewrite(out, json, b"", |out, json| yaml::write(out, json))
}

/// The same, as an item of a list.
pub fn write_item(out: &mut Vec<u8>, json: &[u8]) -> Result<(), ApiError> {
    rewrite(out, json, b"- ", |out, json| yaml::write_item(out, json))
}

fn rewrite<'j>(
    out: &mut Vec<u8>,
    json: &'j [u8],
    prefix: &[u8],
    write: impl FnOnce(&mut Vec<u8>, &mut Deserializer<SliceRead<'j>>) -> Result<(), yaml::Error>,
) -> Result<(), ApiError> {
    let Some(size) = laid_out_size(json) else {
        out.extend_from_slice(prefix);
        out.extend_from_slice(json.trim_ascii_end());
        out.push(b'\n');
        return Ok(());
    };
    out.reserve(size);
    let mut deserializer = Deserializer::from_slice(json);
    write(out, &mut deserializer).map_err(|error| unreadable(&error.to_string()))?;
    deserializer
        .end()
        .map_err(|error| unreadable(&error.to_string()))
}

/// Stored objects were parsed as JSON before they were stored.
fn unreadable(problem: &str) -> ApiError {
    ApiError::Internal(format!("a stored object is no JSON: {problem}"))
}

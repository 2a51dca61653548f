//! The words that every module shares: clusters, kinds, units, versions, changes.
//!
//! Strings become these types once, at the door; inside there is no bare `String` for a cluster, a kind or a version.

mod annotations;
mod document;
mod fallback;
mod fields;
mod first;
mod flat;
mod fleet_version;
mod index_name;
mod json;
mod json_line;
mod leaves;
mod name_hash;
mod names;
pub mod number;
mod object;
mod order;
mod printer_column;
mod projection;
pub mod quantity;
mod quote;
mod resource;
pub mod told;
pub mod uuid;
mod version;
mod well_known;

pub use document::{Document, FieldValues, Projector, Restored, Source};
pub use fallback::{Shape, fallback};
pub use fields::{FieldPath, FieldType, SelectableField};
pub use first::First;
pub use fleet_version::{FleetVersion, InvalidFleetVersion, Run};
pub use index_name::{IndexName, IndexPrefix, InvalidPrefix};
pub use json::{Json, Text as JsonText};
pub use json_line::JsonLine;
pub use leaves::Leaves;
pub use name_hash::NameHash;
pub use names::{ClusterName, InvalidName, Namespace, StoreName};
pub use object::{MAX_OBJECT_BYTES, Object, ObjectError};
pub use order::{sort_field, sort_value, sorted_value};
pub use printer_column::PrinterColumn;
pub use projection::{InvalidPath, Projection};
pub use quantity::Quantity;
pub use quote::{json_fault, quoted, status_message};
pub use resource::{Gvk, Resource, Scope, Unit};
pub use told::with_fleet_version;
pub use version::{InvalidVersion, Version};
pub use well_known::{
    CLUSTER_ANNOTATION, INDEXED_ANNOTATION, MAX_FIELD_VALUE_BYTES, OWN_VERSION_ANNOTATION,
    REDACTED_ANNOTATION,
};

/// An error and its sources in one line. A source that its wrapper has said already is left out.
pub fn causes(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !line.contains(&text) {
            line = format!("{line}: {text}");
        }
        source = cause.source();
    }
    line
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble & 15)]);
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(*byte)])
        .collect()
}

/// Appends a JSON string in quotes, escaped.
pub fn write_json_text(out: &mut Vec<u8>, text: &str) {
    json::write_text(out, text);
}

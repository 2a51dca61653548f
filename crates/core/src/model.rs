//! The types that every crate shares: clusters, kinds, units, versions, objects and documents.
//!
//! Strings become these types once, where they enter the process; inside there is no bare `String`
//! for a cluster, a kind or a version.

mod annotations;
mod causes;
pub mod client_metadata;
mod dns_name;
mod document;
mod fallback;
mod fields;
mod first;
mod flat;
mod fleet_version;
mod hashes;
pub mod index_fields;
mod index_name;
mod interpretation;
mod json;
mod json_line;
mod json_scanner;
mod json_tree;
mod leaves;
mod member_mask;
mod names;
pub mod number;
mod object;
mod object_limits;
mod parsed_size;
mod printer_column;
mod projection;
pub mod quantity;
mod quote;
mod redaction_error;
mod resource;
mod sort_key;
pub mod uuid;
mod version;
mod well_known;

pub use causes::causes;
pub use client_metadata::with_fleet_version;
pub use dns_name::{is_dns_label, is_dns_subdomain};
pub use document::{Document, FieldValues, HitSource, Projector, Restored};
pub use fallback::{DocumentShape, fallback};
pub use fields::{FieldPath, FieldType, SelectableField};
pub use first::First;
pub use fleet_version::{FleetVersion, InvalidFleetVersion, ReplicaRun};
pub use hashes::{IdHash, NameHash};
pub use index_name::{IndexName, IndexPrefix, InvalidPrefix, Partition, document_id};
pub use interpretation::{
    DEPENDS_ON, HEALTH_MESSAGE, Interpret, Interpretation, interpreted_fields, is_interpreted_field,
};
pub use json::{Json, Text as JsonText, write_text as write_json_text};
pub use json_line::JsonLine;
pub use json_scanner::{JsonScanner, ScanFault};
pub use json_tree::{JsonTree, TreeMembers};
pub use leaves::LeafVisitor;
pub use member_mask::MemberMask;
pub use names::{ClusterName, InvalidName, Namespace, StoreName};
pub use object::Object;
pub use object_limits::{MAX_OBJECT_BYTES, MAX_PARSED_BYTES, ObjectError};
pub use parsed_size::{MAX_PARSED_RATIO, parsed_size, value_size};
pub use printer_column::PrinterColumn;
pub use projection::{InterpretationLevel, InvalidRedaction, Projection};
pub use quantity::Quantity;
pub use quote::{json_fault, quoted, status_message};
pub use redaction_error::RedactionError;
pub use resource::{Gvk, Resource, Scope, Unit, qualified, split_api_version};
pub use sort_key::{decode_sort_key, encode_sort_key, sort_field};
pub use version::{InvalidVersion, Version};
pub use well_known::{
    CLUSTER_ANNOTATION, INDEXED_ANNOTATION, MAX_FIELD_VALUE_BYTES, MEMBER_VERSION_ANNOTATION,
    REDACTED_ANNOTATION,
};

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble & 15)]);
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(*byte)])
        .collect()
}

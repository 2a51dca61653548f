//! Bulk requests: writes, their encoding, and the outcome of each item.

mod encode;
mod outcome;

pub use encode::{Encoded, encode, encoded_len, joined};
use fleetdex_core::model::{Document, IndexName};
pub use outcome::{Garbled, Verdict, read_response};

/// Path of bulk requests, with a filter of their responses: no more than an
/// [outcome](read_response) needs. The rest of an error is a chain of causes, which quote the
/// document.
pub const PATH: &str = "/_bulk?filter_path=errors,items.*.status,items.*.error.type,items.*.error.reason,items.*.error.caused_by.reason";

/// One change of one document.
#[derive(Clone, Debug)]
pub struct Write {
    /// The alias of the document's cluster.
    pub index: IndexName,
    /// The document to store or delete.
    pub document: Document,
}

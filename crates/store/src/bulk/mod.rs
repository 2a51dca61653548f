//! Bulk requests: what is written, how it is encoded, and what the store said of each item.

mod encode;
mod outcome;

use std::sync::Arc;

pub use encode::{Encoded, encode, encoded_len, joined};
use fleetdex_core::model::{IndexName, JsonLine, Version};
pub use outcome::{Garbled, Verdict, read_response};

/// Where bulk requests go, with what is read of their answers: no more than an [outcome](read_response) needs. The rest of an error is a chain of
/// causes, which quote the document.
pub const PATH: &str = "/_bulk?filter_path=errors,items.*.status,items.*.error.type,items.*.error.reason,items.*.error.caused_by.reason";

/// One change of one document.
#[derive(Clone, Debug)]
pub struct Write {
    /// The alias of the document's cluster.
    pub index: IndexName,
    /// The document's id.
    pub id: Arc<str>,
    /// The object's resource version; for a delete, that of the deletion.
    pub version: Version,
    /// The document; absent: delete it.
    pub body: Option<JsonLine>,
}

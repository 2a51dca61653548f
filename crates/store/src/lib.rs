//! Stores of documents: what a store guarantees, and its two implementations.
//!
//! ```text
//!  pipeline ──IndexWriter──> opensearch ──┐
//!                       └──> memory ──────┤──> changes ──> watches
//!  server ──> merged ──IndexReader────────┘
//! ```
//!
//! Writes carry versions, and an older version never replaces a newer one. Queries read an index
//! revision only when it is complete, or responses say that it is not. [`changes`] logs every write
//! in the order in which queries may show it.

pub mod bulk;
pub mod changes;
mod checkpoint;
mod codec;
mod complete_resources;
mod compressed;
mod compressed_document;
mod content;
mod document;
mod error;
pub mod explain;
mod extent;
#[cfg(any(test, feature = "testing"))]
pub mod fake;
pub mod memory;
pub mod merged;
pub mod opensearch;
mod postings;
mod query_filter;
mod reader;
mod revision;
mod sort_position;
mod terms;
mod text_index;
mod view_quota;
mod writer;

pub use checkpoint::{Checkpoint, Checkpoints, KindOfUnit};
pub use complete_resources::CompleteResources;
pub use error::StoreError;
pub use extent::{Extent, KindExtent, StoredVersion, Visit};
pub use reader::IndexReader;
pub use revision::IndexRevision;
pub use writer::{
    ChangeLogWriter, CheckpointStore, DocumentVersions, DocumentWriter, IndexSharing, IndexWriter,
    MadeBy, RevisionStore, ShardUse,
};

/// Both sides of a store, for callers that write and read.
pub trait Store: IndexWriter + IndexReader {}

impl<S: IndexWriter + IndexReader + ?Sized> Store for S {}

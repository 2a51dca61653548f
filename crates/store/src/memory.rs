//! The embedded store: documents in this process, and nowhere else.
//!
//! It behaves like the OpenSearch store – the same objects, in the same order, through the same
//! revisions and versions – and loses everything with its process. Reading and packing happen
//! before anything is locked; a write holds the lock for some hundred documents at a time, and a
//! page is read from a frozen view without it. Few threads read at a time ([`running_query`]), so
//! that writes always find one.

mod aggregate;
mod cancellation;
mod contents;
mod order;
mod pages;
mod ranked;
mod reader;
mod reader_threads;
mod recompression;
mod revisions;
mod running_query;
mod table;
mod table_selection;
mod values;
mod view;
mod views;
mod words;
mod writer;

use std::sync::Arc;

use fleetdex_core::query::{Query, Requester};
use fleetdex_limits::fair_semaphore::FairSemaphore;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use self::{revisions::StoredRevisions, views::Views};
pub use super::changes::{Event, EventKind, TooOld, Watch, WatchError};
use super::{
    StoreError,
    changes::{Bounds, Log, Sequence},
    codec::Codec,
    terms::TermDictionary,
};

/// The bounds of the log: minutes of a busy fleet. Most documents in it are stored anyway; the log
/// alone holds those that have been replaced.
const LOG: Bounds = Bounds {
    changes: 65_536,
    bytes: 32 << 20,
    owns_documents: false,
    results_lag: false,
};

/// Documents in memory. Clones, and the results of [`Memory::shaped`], share them.
#[derive(Clone)]
pub struct Memory {
    shared: Arc<MemoryState>,
    projection: Arc<str>,
}

struct MemoryState {
    revisions: RwLock<StoredRevisions>,
    codec: Codec,
    vocabulary: Arc<TermDictionary>,
    views: Views,
    /// Threads that read.
    readers: FairSemaphore<Requester>,
    log: Arc<Log>,
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory {
    /// An empty store.
    pub fn new() -> Self {
        Self::numbered(Sequence::default())
    }

    /// An empty store whose changes have numbers of this sequence.
    pub fn numbered(sequence: Sequence) -> Self {
        let shared = MemoryState {
            revisions: RwLock::default(),
            codec: Codec::default(),
            vocabulary: Arc::new(TermDictionary::searchable()),
            views: Views::new(),
            readers: reader_threads::reader_threads(),
            log: Arc::new(Log::new(sequence, LOG)),
        };
        Self {
            shared: Arc::new(shared),
            projection: "".into(),
        }
    }

    /// The same store for documents of another shape. `projection` changes with anything that
    /// changes the document of an object: revisions of another projection are not written any more,
    /// and answer queries until the next one is complete.
    #[must_use]
    pub fn shaped(&self, projection: &str) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            projection: projection.into(),
        }
    }

    /// Follows the changes of a query's objects after `after`, a number of [`Memory::list`] or of a
    /// watch.
    pub fn watch(&self, query: &Query, after: u64) -> Result<Watch, WatchError> {
        self.shared.log.watch(query, after)
    }

    /// The sequence of its change numbers.
    pub fn sequence(&self) -> &Sequence {
        self.shared.log.sequence()
    }

    /// How many documents are stored, in all revisions.
    pub fn len(&self) -> usize {
        self.shared.read().document_count()
    }

    /// Whether no document is stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Runs CPU-bound work on a thread where it does not block the runtime.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| StoreError::Embedded(error.to_string()))
}

impl MemoryState {
    fn read(&self) -> RwLockReadGuard<'_, StoredRevisions> {
        self.revisions.read()
    }

    fn lock(&self) -> RwLockWriteGuard<'_, StoredRevisions> {
        self.revisions.write()
    }
}

#[cfg(test)]
mod tests;

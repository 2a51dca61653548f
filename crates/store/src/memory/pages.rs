//! Pages of the embedded store: their objects are unpacked within the memory of the user's request,
//! which is reserved before. A query that waits for memory has no reader thread meanwhile.

use std::sync::Arc;

use fleetdex_core::query::{HeldMemory, Hit, Requester};
use fleetdex_limits::{
    intake::{IntakeError, MemoryReservation},
    request::{SMALL_PAGE_BYTES, UserRequest},
};
use futures::FutureExt as _;
use tokio::time::timeout;

use super::{
    Memory,
    running_query::{OpenedView, PATIENCE, PageDocuments, RunningQuery},
};
use crate::{
    StoreError,
    document::StoredDocument,
    error::{no_memory, no_memory_in_time},
};

/// A page, as far as there was memory for it.
enum PageInMemory<T> {
    Unpacked(Vec<Hit>, T),
    Waiting {
        documents: Vec<Arc<StoredDocument>>,
        found: T,
        opened: Option<OpenedView>,
        memory: MemoryReservation,
    },
}

impl Memory {
    /// Reads a page of a requester: finds its documents, and unpacks their objects when there is
    /// memory for them.
    pub(super) async fn read_page<T: Send + 'static>(
        &self,
        requester: &Requester,
        find: impl FnOnce(&mut RunningQuery) -> Result<PageDocuments<T>, StoreError> + Send + 'static,
    ) -> Result<(Vec<Hit>, T), StoreError> {
        let memory = match requester {
            Requester::User(_) => Some(UserRequest::current().memory().reservation()),
            Requester::Operator => None,
        };
        let read = self.read(requester, move |running| {
            let (documents, found) = find(running)?;
            let Some(mut memory) = memory.filter(|_| bytes_of(&documents) > SMALL_PAGE_BYTES)
            else {
                let hits = running.hits(&documents, &HeldMemory::default())?;
                return Ok(PageInMemory::Unpacked(hits, found));
            };
            let reserved = memory.grow(bytes_of(&documents)).now_or_never();
            let Some(reserved) = reserved else {
                return Ok(PageInMemory::Waiting {
                    documents,
                    found,
                    opened: running.opened.take(),
                    memory,
                });
            };
            reserved.map_err(|error| no_room(&error))?;
            let hits = running.hits(&documents, &HeldMemory::new(memory))?;
            Ok(PageInMemory::Unpacked(hits, found))
        });
        let (documents, found, opened, mut memory) = match read.await? {
            PageInMemory::Unpacked(hits, found) => return Ok((hits, found)),
            PageInMemory::Waiting {
                documents,
                found,
                opened,
                memory,
            } => (documents, found, opened, memory),
        };
        let reserved = timeout(PATIENCE, memory.grow(bytes_of(&documents))).await;
        reserved
            .map_err(|_| no_memory_in_time())?
            .map_err(|error| no_room(&error))?;
        let memory = HeldMemory::new(memory);
        let unpack = move |running: &mut RunningQuery| running.hits(&documents, &memory);
        let hits = self.read(requester, unpack).await?;
        if let Some(opened) = opened {
            opened.keep();
        }
        Ok((hits, found))
    }
}

fn no_room(error: &IntakeError) -> StoreError {
    match error {
        IntakeError::RequestTooLarge(_) => StoreError::RequestTooLarge(error.for_user()),
        other => no_memory("a page of the embedded store", other),
    }
}

fn bytes_of(documents: &[Arc<StoredDocument>]) -> usize {
    documents.iter().map(|document| document.object_len()).sum()
}

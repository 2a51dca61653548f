//! The embedded engine: documents in this process, and nowhere else.
//!
//! It answers like OpenSearch does – the same objects, in the same order, through the same generations and versions – and forgets everything
//! with its process. Reading and packing happen before anything is locked; a write holds the lock for some hundred documents at a time, and
//! a page of an answer is read from a frozen view without it. Few threads read at a time ([`reading`]), so that writes always find one.

mod aggregate;
mod asked;
mod contents;
mod generations;
mod order;
mod readers;
mod reading;
mod repacking;
mod table;
mod view;

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use fleetdex_core::{
    model::ClusterName,
    query::{
        Cursor, GroupKey, Groups, Page, Query, Relative, Relatives, Requester, ResourceName,
        merge::PlacedPage,
    },
};
use fleetdex_limits::shares::Shares;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use self::{
    generations::{Generations, Identity},
    view::Views,
};
pub use super::changes::{Event, EventKind, TooOld, Watch, WatchError};
use super::{
    Checkpoints, Extent, Generation, Store, StoreError, Stored, Visit,
    changes::{Bounds, Change, Log, Sequence},
    codec::Codec,
    document::Document,
    draft::{Draft, DraftError, draft},
    packed::Packer,
    terms::{REJECTED, Vocabulary},
};
use crate::bulk::{Verdict, Write};

/// Writes for which the lock is held at once: queries wait for about a millisecond.
const WRITES_AT_ONCE: usize = 200;
/// What the log keeps: minutes of a busy fleet. Most documents in it are stored anyhow; those that have been replaced are kept by it alone.
const LOG: Bounds = Bounds {
    changes: 65_536,
    bytes: 32 << 20,
    owns_documents: false,
    answers_lag: false,
};

/// Documents in memory. Clones, and what [`Memory::shaped`] makes, share them.
#[derive(Clone)]
pub struct Memory {
    shared: Arc<Shared>,
    projection: Arc<str>,
}

struct Shared {
    generations: RwLock<Generations>,
    codec: Codec,
    vocabulary: Arc<Vocabulary>,
    views: Views,
    /// Threads that read.
    readers: Shares<Requester>,
    log: Arc<Log>,
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory {
    /// Without any document.
    pub fn new() -> Self {
        Self::numbered(Sequence::default())
    }

    /// Without any document. Its changes have numbers of this sequence.
    pub fn numbered(sequence: Sequence) -> Self {
        let shared = Shared {
            generations: RwLock::default(),
            codec: Codec::default(),
            vocabulary: Arc::default(),
            views: Views::new(),
            readers: readers::places(),
            log: Arc::new(Log::new(sequence, LOG)),
        };
        Self {
            shared: Arc::new(shared),
            projection: "".into(),
        }
    }

    /// The same store for documents of another shape. `projection` changes with whatever changes the document of an object: generations
    /// of another one are not written to any more, and answer queries until the next is complete.
    #[must_use]
    pub fn shaped(&self, projection: &str) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            projection: projection.into(),
        }
    }

    /// One page of an answer, and the number of the last change that it shows: a watch from there misses nothing.
    pub async fn list(
        &self,
        query: &Query,
        from: Option<&Cursor>,
    ) -> Result<(Page, u64), StoreError> {
        let (requester, query, from) = (query.requester.clone(), query.clone(), from.cloned());
        self.read(&requester, move |reading| {
            reading.page(&query, from.as_ref())
        })
        .await
    }

    /// Follows the changes of what a query selects, from the one after `after`: a number that [`Memory::list`] or a watch has given.
    pub fn watch(&self, query: &Query, after: u64) -> Result<Watch, WatchError> {
        self.shared.log.watch(query, after)
    }

    /// The numbers that its changes have.
    pub fn sequence(&self) -> &Sequence {
        self.shared.log.sequence()
    }

    /// How many documents there are, in all generations.
    pub fn len(&self) -> usize {
        self.shared.read().document_count()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Runs what takes the processor for a while where it does not keep others from running.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| StoreError::Embedded(error.to_string()))
}

impl Shared {
    fn read(&self) -> RwLockReadGuard<'_, Generations> {
        self.generations.read()
    }

    fn lock(&self) -> RwLockWriteGuard<'_, Generations> {
        self.generations.write()
    }

    fn write(&self, writes: &[Write]) -> Vec<Verdict> {
        let mut packer = Packer::new();
        let mut verdicts = Vec::with_capacity(writes.len());
        for some in writes.chunks(WRITES_AT_ONCE) {
            let drafts: Vec<Result<Option<Draft>, DraftError>> = some
                .iter()
                .map(|write| {
                    let body = write.body.as_ref();
                    body.map(|body| draft(write, body, &self.codec, &self.vocabulary, &mut packer))
                        .transpose()
                })
                .collect();
            self.apply(some, drafts, &mut verdicts);
            self.pack_again(some.len(), &mut packer);
        }
        verdicts
    }

    fn apply(
        &self,
        writes: &[Write],
        drafts: Vec<Result<Option<Draft>, DraftError>>,
        verdicts: &mut Vec<Verdict>,
    ) {
        let (mut made, mut seen) = (Vec::new(), Vec::new());
        let mut generations = self.lock();
        for (write, draft) in writes.iter().zip(drafts) {
            let (verdict, change) = match draft {
                Ok(draft) => generations.write(write, draft),
                Err(error) => (Verdict::Rejected(error.to_string()), None),
            };
            verdicts.push(verdict);
            let Some(change) = change else { continue };
            if generations.shows(&write.index, &change) {
                seen.push(change);
            } else {
                made.push(change);
            }
        }
        // Within the lock, so that the log has the order of the writes.
        self.log.append(&seen);
        drop(generations);
        self.codec.learn(
            made.iter()
                .chain(&seen)
                .filter_map(|change| change.after.as_ref()),
        );
        self.retire(&seen);
    }

    fn retire(&self, changes: &[Change]) {
        let retired = changes.iter().filter_map(|change| change.before.as_ref());
        self.views
            .retire(retired.map(|document| document.footprint()).sum());
    }

    /// Tells followers and views of changes that were made while `generations` was locked, and unlocks it.
    fn publish(&self, generations: RwLockWriteGuard<'_, Generations>, changes: &[Change]) {
        self.log.append(changes);
        drop(generations);
        self.retire(changes);
    }
}

#[async_trait]
impl Store for Memory {
    async fn prepare(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn lost(&self, generations: &[Generation]) -> Result<BTreeSet<ClusterName>, StoreError> {
        let held = self.shared.read();
        Ok(generations
            .iter()
            .filter(|wanted| !held.is_as(wanted))
            .map(|wanted| wanted.cluster.clone())
            .collect())
    }

    async fn open(
        &self,
        cluster: &ClusterName,
        uid: Option<&str>,
        above: u64,
    ) -> Result<Generation, StoreError> {
        let identity = Identity {
            uid: uid.map(str::to_owned),
            projection: Arc::clone(&self.projection),
        };
        Ok(self.shared.lock().open(cluster, identity, above))
    }

    async fn activate(&self, generation: &Generation) -> Result<(), StoreError> {
        let (shared, generation) = (Arc::clone(&self.shared), generation.clone());
        let activated = blocking(move || {
            let mut generations = shared.lock();
            let activated = generations.activate(&generation)?;
            shared.publish(generations, &activated.changes);
            Some(activated.removed)
        });
        match activated.await? {
            Some(_removed) => Ok(()),
            None => Err(StoreError::Embedded("the generation is gone".to_owned())),
        }
    }

    async fn show(
        &self,
        generation: &Generation,
        resources: &BTreeSet<ResourceName>,
    ) -> Result<(), StoreError> {
        let (shared, generation, resources) = (
            Arc::clone(&self.shared),
            generation.clone(),
            resources.clone(),
        );
        let shown = blocking(move || {
            let mut generations = shared.lock();
            let shown = generations.show(&generation, &resources)?;
            shared.publish(generations, &shown.changes);
            Some(())
        });
        shown
            .await?
            .ok_or_else(|| StoreError::Embedded("the generation is gone".to_owned()))
    }

    async fn generations(&self) -> Result<Vec<Generation>, StoreError> {
        Ok(self.shared.read().all())
    }

    async fn write(&self, writes: &[Write]) -> Result<Vec<Verdict>, StoreError> {
        let (shared, writes) = (Arc::clone(&self.shared), writes.to_vec());
        blocking(move || shared.write(&writes)).await
    }

    async fn visit_versions(
        &self,
        generation: &Generation,
        extent: &Extent,
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        let Some(chunks) = self.shared.read().freeze(generation) else {
            return Err(StoreError::Embedded("the generation is gone".to_owned()));
        };
        for entry in chunks
            .iter()
            .flat_map(|chunk| chunk.iter())
            .filter(|entry| is_within(extent, &entry.document))
        {
            let document = &entry.document;
            visit(Stored {
                id: &document.id(),
                version: document.version,
                namespace: document.namespace(),
                name: document.name(),
            });
        }
        Ok(())
    }

    /// Those that were made as fallback documents: this store refuses none.
    async fn rejected(
        &self,
        generation: &Generation,
        extent: &Extent,
    ) -> Result<Vec<Arc<str>>, StoreError> {
        let Some(chunks) = self.shared.read().freeze(generation) else {
            return Err(StoreError::Embedded("the generation is gone".to_owned()));
        };
        let is_rejected = |document: &Document| {
            let number = document.origin.vocabulary.read().number(REJECTED, "");
            number.is_some_and(|number| document.terms().any(|term| term == number))
        };
        let documents = chunks
            .iter()
            .flat_map(|chunk| chunk.iter())
            .map(|entry| &entry.document);
        let found =
            documents.filter(|document| is_within(extent, document) && is_rejected(document));
        Ok(found.map(|document| Arc::from(&*document.id())).collect())
    }

    async fn checkpoints(&self, cluster: &ClusterName) -> Result<Option<Checkpoints>, StoreError> {
        Ok(self.shared.read().checkpoints(cluster))
    }

    async fn save_checkpoints(&self, checkpoints: &[Checkpoints]) -> Result<(), StoreError> {
        self.shared.lock().save_checkpoints(checkpoints);
        Ok(())
    }

    async fn drop_generation(&self, generation: &Generation) -> Result<(), StoreError> {
        let (shared, generation) = (Arc::clone(&self.shared), generation.clone());
        blocking(move || {
            let mut generations = shared.lock();
            let dropped = generations.drop_generation(&generation);
            shared.publish(generations, &dropped.changes);
        })
        .await
    }

    async fn retire(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn drop_cluster(&self, cluster: &ClusterName) -> Result<(), StoreError> {
        let (shared, cluster) = (Arc::clone(&self.shared), cluster.clone());
        blocking(move || {
            let mut generations = shared.lock();
            let dropped = generations.drop_cluster(&cluster);
            shared.publish(generations, &dropped.changes);
        })
        .await
    }

    async fn search(&self, query: &Query, from: Option<&Cursor>) -> Result<Page, StoreError> {
        self.list(query, from).await.map(|(page, _)| page)
    }

    fn pin(&self, cursor: &Cursor) {
        self.shared.views.pin(cursor);
    }

    fn release(&self, cursor: &Cursor) {
        self.shared.views.close(&cursor.snapshot);
    }

    async fn relatives(&self, asked: &Relatives) -> Result<BTreeSet<Relative>, StoreError> {
        let (requester, asked) = (asked.requester.clone(), asked.clone());
        self.read(&requester, move |reading| reading.relatives(&asked))
            .await
    }

    async fn first_page(&self, query: &Query) -> Result<(Page, u64), StoreError> {
        self.list(query, None).await
    }

    async fn placed_page(
        &self,
        query: &Query,
        from: Option<&Cursor>,
    ) -> Result<PlacedPage, StoreError> {
        let (requester, query, from) = (query.requester.clone(), query.clone(), from.cloned());
        self.read(&requester, move |reading| {
            reading.placed_page(&query, from.as_ref())
        })
        .await
    }

    async fn open_view(&self, query: &Query) -> Result<String, StoreError> {
        let (requester, query) = (query.requester.clone(), query.clone());
        self.read(&requester, move |reading| reading.open_view(&query))
            .await
    }

    async fn moment(&self, _resource: &ResourceName) -> Result<u64, StoreError> {
        Ok(self.shared.log.newest())
    }

    fn expire_changes(&self) {
        self.shared.log.restart();
    }

    async fn changes(&self) -> Result<Arc<Log>, StoreError> {
        Ok(Arc::clone(&self.shared.log))
    }

    async fn aggregate(
        &self,
        query: &Query,
        by: &[GroupKey],
        top: usize,
    ) -> Result<Groups, StoreError> {
        let (requester, query, by) = (query.requester.clone(), query.clone(), by.to_vec());
        self.read(&requester, move |reading| reading.count(&query, &by, top))
            .await
    }
}

fn is_within(extent: &Extent, document: &Document) -> bool {
    match extent {
        Extent::Kind(kind) => document.is_of(kind),
        Extent::Outside(kinds) => !kinds.iter().any(|kind| document.is_of(kind)),
    }
}

#[cfg(test)]
mod tests;

//! The only writer of a store: sends pending writes in batches, reads a verdict for each, and
//! acknowledges or retries it.

mod opening;
mod revisions;
mod run;
mod settings_watch;
mod store_backoff;
mod writer;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use fleetdex_core::model::{ClusterName, NameHash, StoreName};
use fleetdex_replicas::write_fence::WriteFence;
use fleetdex_store::{Checkpoints, IndexReader, IndexWriter, ShardUse, StoreError, bulk::Write};
use fleetdex_telemetry::metrics::StoreMetrics;
use futures::StreamExt as _;
use parking_lot::Mutex;
use revisions::ClusterRevisions;
use tokio::sync::{Notify, OwnedSemaphorePermit, RwLock, Semaphore, watch};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    checkpoints::CheckpointTracker,
    pending::{BatchLimits, Pending, PendingWrite},
    progress::Ticket,
};

/// How much may be queued and in flight for one store.
#[derive(Clone, Copy, Debug)]
pub struct PipelineLimits {
    /// Bytes of writes that may be pending. A watch that exceeds them is closed until there is
    /// room.
    pub pending_bytes: usize,
    /// When a batch is full.
    pub batch: BatchLimits,
    /// Batches in flight.
    pub in_flight: usize,
}

impl Default for PipelineLimits {
    /// Batches of 2 MiB, two in flight: where raw `_bulk` throughput levels off. With more,
    /// OpenSearch writes more and smaller segments, which it has to merge. Four batches may be
    /// pending, those in flight included, so that the next page of a member arrives before they are
    /// written.
    fn default() -> Self {
        Self {
            pending_bytes: 8 << 20,
            batch: BatchLimits {
                count: 2_000,
                bytes: 2 << 20,
            },
            in_flight: 2,
        }
    }
}

/// Concurrent reads of checkpoints: a thousand reads of a millisecond take less than a second.
const CHECKPOINT_READS: usize = 8;

/// Documents longer than this need a permit of their own. It is several times the usual length;
/// thousands of streams with one document of up to this length take some tens of megabytes.
const LARGE_BYTES: usize = 32 << 10;
/// What all pending large documents may take, in KiB: four of the largest. They are pending beside
/// the 8 MiB of all others.
const LARGE_KIB: u32 = 32 << 10;

type WriteOperation = PendingWrite<Ticket>;

/// Opens a store: reads credentials, connects and prepares it. Called again when the store refuses
/// the credentials, and when these change.
///
/// It owns the connection to the store: what `open` returned before uses the credentials of the
/// last call, too, and nothing uses credentials that were withdrawn.
#[async_trait]
pub trait OpenStore: Send + Sync {
    /// Returns a store that is ready for writing.
    async fn open(&self) -> Result<OpenedStore, Unavailable>;

    /// Whether credentials or settings differ from those that the last `open` found, whether or not
    /// it succeeded.
    async fn changed(&self) -> bool;
}

/// Both sides of an opened store.
#[derive(Clone)]
pub struct OpenedStore {
    /// For the pipeline, audits and garbage collection.
    pub writer: Arc<dyn IndexWriter>,
    /// For the query API.
    pub reader: Arc<dyn IndexReader>,
}

impl<S: IndexWriter + IndexReader + 'static> From<Arc<S>> for OpenedStore {
    fn from(store: Arc<S>) -> Self {
        Self {
            writer: Arc::clone(&store) as Arc<dyn IndexWriter>,
            reader: store,
        }
    }
}

/// Why a store cannot be used now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// CamelCase.
    pub reason: &'static str,
    /// The cause and what to do.
    pub message: String,
}

impl From<StoreError> for Unavailable {
    fn from(error: StoreError) -> Self {
        Self {
            reason: error.reason(),
            message: error.to_string(),
        }
    }
}

/// Whether the store can be used; `None` before the first attempt.
pub type Availability = Option<Result<(), Unavailable>>;

/// The writer of one store. Cheap to clone.
#[derive(Clone)]
pub struct Pipeline(Arc<PipelineState>);

struct PipelineState {
    name: StoreName,
    limits: PipelineLimits,
    /// While it is closed, nothing is sent and pending writes are dropped: until it opens again,
    /// another replica may write newer versions, or delete the documents.
    fence: WriteFence,
    pending: Mutex<Pending<Ticket>>,
    /// Whether pending writes are dropped instead of sent.
    discarded: AtomicBool,
    /// The registries that share the store, for the log: its name has a hash in place of addresses.
    registries: Mutex<String>,
    work: Notify,
    room: Notify,
    /// Permits of large documents, in KiB.
    large_documents: Arc<Semaphore>,
    store: Mutex<Option<OpenedStore>>,
    opened: Notify,
    availability: watch::Sender<Availability>,
    revisions: Mutex<ClusterRevisions>,
    /// How many clusters are planned.
    clusters: AtomicUsize,
    /// Held for reading while an index revision is opened.
    openings: Arc<RwLock<()>>,
    /// The UIDs of the clusters whose documents the store held when it was opened.
    identities: Mutex<BTreeMap<ClusterName, String>>,
    checkpoints: CheckpointTracker,
    /// Stored checkpoints of clusters that have no open index revision.
    loaded_checkpoints: Mutex<BTreeMap<ClusterName, Option<Checkpoints>>>,
    /// The task that loads them.
    loading: Mutex<Option<AbortOnDropHandle<()>>>,
    /// Held while checkpoints are saved, so that an older state never overwrites a newer one.
    saving: Semaphore,
    changed: Arc<Notify>,
    metrics: StoreMetrics,
}

impl Pipeline {
    /// A pipeline that is idle until [`Pipeline::run`]. `changed` is notified when the availability
    /// changes or an index is lost.
    pub fn new(
        name: StoreName,
        limits: PipelineLimits,
        fence: WriteFence,
        metrics: StoreMetrics,
        changed: Arc<Notify>,
    ) -> Self {
        Self(Arc::new(PipelineState {
            name,
            limits,
            fence,
            pending: Mutex::default(),
            discarded: AtomicBool::new(false),
            registries: Mutex::default(),
            work: Notify::new(),
            room: Notify::new(),
            large_documents: Arc::new(Semaphore::new(LARGE_KIB as usize)),
            store: Mutex::default(),
            opened: Notify::new(),
            availability: watch::Sender::new(None),
            revisions: Mutex::default(),
            clusters: AtomicUsize::new(0),
            openings: Arc::default(),
            identities: Mutex::default(),
            checkpoints: CheckpointTracker::default(),
            loaded_checkpoints: Mutex::default(),
            loading: Mutex::default(),
            saving: Semaphore::new(1),
            changed,
            metrics,
        }))
    }

    /// The store's name.
    pub fn name(&self) -> &StoreName {
        &self.0.name
    }

    /// Whether the store can be used, as of the last request.
    pub fn availability(&self) -> Availability {
        self.0.availability.borrow().clone()
    }

    /// The open store; `None` before it was reached for the first time.
    pub fn store(&self) -> Option<Arc<dyn IndexWriter>> {
        let store = self.0.store.lock();
        store.as_ref().map(|store| Arc::clone(&store.writer))
    }

    /// The open store for queries; `None` before it was reached for the first time.
    pub fn reader(&self) -> Option<Arc<dyn IndexReader>> {
        let store = self.0.store.lock();
        store.as_ref().map(|store| Arc::clone(&store.reader))
    }

    /// Notes how many clusters are planned, by which the store decides where their documents are.
    pub fn expect_clusters(&self, clusters: usize) {
        self.0.clusters.store(clusters, Ordering::Relaxed);
        if let Some(sharing) = self
            .store()
            .as_ref()
            .and_then(|store| store.index_sharing())
        {
            sharing.expect_clusters(clusters);
        }
    }

    /// The use of shards in the store, if it is known and limited.
    pub fn shard_use(&self) -> Option<ShardUse> {
        let store = self.store()?;
        store.index_sharing()?.shard_use()
    }

    /// Waits until the store is open. Callers are woken in the order of their calls: a watch
    /// channel wakes them in random order, which a simulation cannot reproduce from its seed.
    pub async fn opened(&self) -> Arc<dyn IndexWriter> {
        loop {
            let notified = self.0.opened.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if let Some(store) = self.store() {
                return store;
            }
            notified.await;
        }
    }

    /// The checkpoints of the units of this store.
    pub fn checkpoints(&self) -> &CheckpointTracker {
        &self.0.checkpoints
    }

    /// Writes the checkpoints that are not saved yet.
    pub async fn save_checkpoints(&self) -> Result<(), StoreError> {
        let Some(store) = self.store() else {
            return Ok(());
        };
        let Ok(_permit) = self.0.saving.acquire().await else {
            return Ok(());
        };
        let unsaved = self.0.checkpoints.unsaved();
        if !unsaved.is_empty() {
            store.save_checkpoints(&unsaved).await?;
            self.0.checkpoints.saved(unsaved);
        }
        Ok(())
    }

    /// Starts a task that loads the stored checkpoints of clusters, once for each cluster.
    pub fn load_checkpoints(&self, clusters: &BTreeSet<ClusterName>) {
        let mut loading = self.0.loading.lock();
        if loading.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        let known = self.0.loaded_checkpoints.lock();
        let missing: Vec<ClusterName> = clusters
            .iter()
            .filter(|cluster| !known.contains_key(*cluster))
            .cloned()
            .collect();
        drop(known);
        if !missing.is_empty() {
            // A clone of the pipeline would be owned by the task that the pipeline owns.
            let shared = Arc::downgrade(&self.0);
            *loading = Some(AbortOnDropHandle::new(tokio::spawn(load_checkpoints(
                shared, missing,
            ))));
        }
    }

    /// The stored checkpoints of a cluster, if they were loaded and exist.
    pub fn loaded_checkpoints(&self, cluster: &ClusterName) -> Option<Checkpoints> {
        self.0
            .loaded_checkpoints
            .lock()
            .get(cluster)
            .cloned()
            .flatten()
    }

    /// The number of clusters whose checkpoints were loaded.
    pub fn loaded_cluster_count(&self) -> usize {
        self.0.loaded_checkpoints.lock().len()
    }

    /// Whether a write can be submitted without waiting.
    pub fn has_room(&self) -> bool {
        self.0.pending.lock().bytes() < self.0.limits.pending_bytes
    }

    /// Waits until a write can be submitted.
    pub async fn wait_for_room(&self) {
        loop {
            let notified = self.0.room.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if self.has_room() {
                return;
            }
            notified.await;
        }
    }

    /// Waits for the permit of a large document, to be held until it is written. Watches submit
    /// changes whether or not there is room, which bounds nothing when many of them submit changes
    /// of many megabytes at once.
    pub async fn reserve_large(&self, write: &Write) -> Option<OwnedSemaphorePermit> {
        let length = write.document.body.as_ref().map_or(0, |body| body.len());
        if length <= LARGE_BYTES {
            return None;
        }
        let kibibytes = u32::try_from(length >> 10)
            .unwrap_or(LARGE_KIB)
            .min(LARGE_KIB);
        Arc::clone(&self.0.large_documents)
            .acquire_many_owned(kibibytes)
            .await
            .ok()
    }

    /// Submits a write, whether or not there is room; a caller that can wait calls
    /// [`Self::wait_for_room`] before. The ticket is acknowledged with the write.
    pub fn submit(&self, write: Write, name: Option<NameHash>, ticket: Ticket) {
        let superseded = self.0.pending.lock().push(PendingWrite {
            write,
            name,
            ticket,
        });
        acknowledge_superseded(superseded);
        self.0.work.notify_one();
    }

    /// Sets the names of the registries that share the store, which log lines show.
    pub fn set_registries(&self, names: &[String]) {
        *self.0.registries.lock() = names.join(",");
    }

    /// Drops writes that were not sent yet, and those that are submitted later.
    pub fn discard(&self) {
        self.0.discarded.store(true, Ordering::Relaxed);
    }

    /// Whether no write is queued or in flight.
    pub fn is_idle(&self) -> bool {
        self.0.pending.lock().is_empty()
    }

    /// Ends the change log of the store, because nothing is written any more; other replicas
    /// learn of it. Call it when [`Pipeline::run`] has ended.
    pub async fn end_changes(&self) {
        if let Some(store) = self.store() {
            store.close_change_log().await;
        }
    }

    /// The UIDs of the clusters whose documents the store held when it was last opened.
    pub fn identities(&self) -> BTreeMap<ClusterName, String> {
        self.0.identities.lock().clone()
    }

    fn update_gauges(&self) {
        let pending = self.0.pending.lock();
        self.0.metrics.set_pending(pending.len(), pending.bytes());
    }
}

/// Loads the checkpoints of clusters until a read fails; the remaining ones are loaded by a later
/// call.
async fn load_checkpoints(shared: Weak<PipelineState>, clusters: Vec<ClusterName>) {
    let Some(pipeline) = shared.upgrade().map(Pipeline) else {
        return;
    };
    let Some(store) = pipeline.store() else {
        return;
    };
    drop(pipeline);
    let reads = clusters.into_iter().map(|cluster| {
        let store = Arc::clone(&store);
        async move { (store.checkpoints(&cluster).await, cluster) }
    });
    let mut reads = futures::stream::iter(reads).buffer_unordered(CHECKPOINT_READS);
    while let Some((read, cluster)) = reads.next().await {
        let Some(shared) = shared.upgrade() else {
            return;
        };
        match read {
            Ok(checkpoints) => {
                shared
                    .loaded_checkpoints
                    .lock()
                    .insert(cluster, checkpoints);
            }
            Err(error) => {
                tracing::debug!(%cluster, %error, "cannot read the stored checkpoints of a cluster yet");
                return;
            }
        }
    }
    if let Some(shared) = shared.upgrade() {
        shared.changed.notify_one();
    }
}

/// Acknowledges an operation that a newer write of the same document, with its own ticket,
/// replaces.
fn acknowledge_superseded(operation: Option<WriteOperation>) {
    if let Some(operation) = operation {
        if let Some(trace) = operation.ticket.trace() {
            trace.ended("coalesced");
        }
        operation.ticket.acknowledge();
    }
}

#[cfg(test)]
mod lifecycle_tests;
#[cfg(test)]
mod tests;

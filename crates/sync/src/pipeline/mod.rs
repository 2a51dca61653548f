//! Pending changes → batches → store → verdicts → acknowledged, or sent again. The only writer of a store.

mod backoff;
mod generations;
mod opening;
mod run;
mod writer;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use fleetdex_core::model::{ClusterName, NameHash, StoreName};
use fleetdex_store::{Checkpoints, Store, StoreError, bulk::Write};
use fleetdex_telemetry::metrics::StoreMetrics;
use futures::StreamExt as _;
use generations::Generations;
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    checkpoints::Book,
    fence::Fence,
    pending::{BatchLimits, Operation, Pending},
    progress::Ticket,
};

/// What may wait and be under way for one store.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of changes that may wait; a watch that comes upon more is given up until there is room.
    pub pending_bytes: usize,
    /// When a batch is full.
    pub batch: BatchLimits,
    /// Batches that wait for their answer.
    pub in_flight: usize,
}

impl Default for Limits {
    /// A batch of 2 MiB, two in flight: where raw `_bulk` throughput levels off. More make OpenSearch write more and smaller segments, which
    /// it has to merge. Four batches may wait, those in flight among them: a member's next page is there before they are written.
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

/// Clusters whose checkpoints are read at the same time: a thousand of them, of a millisecond each, in less than a second.
const REMEMBERING: usize = 8;

/// A document that is counted by itself: several times as long as a usual one, so that thousands of streams with one of up to this length each take some
/// tens of megabytes.
const LARGE_BYTES: usize = 32 << 10;
/// What all large documents that are not written yet may take, in KiB: four of the largest. They wait beside the 8 MiB of all others.
const LARGE_KIB: u32 = 32 << 10;

type Job = Operation<Ticket>;

/// Opens the store: reads credentials, connects, prepares. Called again whenever the store refuses the credentials.
#[async_trait]
pub trait OpenStore: Send + Sync {
    /// A store that is ready for writing.
    async fn open(&self) -> Result<Arc<dyn Store>, Unavailable>;

    /// Whether credentials or settings have changed since `open`.
    async fn changed(&self) -> bool;
}

/// Why a store cannot be used now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// CamelCase.
    pub reason: &'static str,
    /// What is wrong and what to do.
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

/// Whether the store can be used; `None`: not tried yet.
pub type Availability = Option<Result<(), Unavailable>>;

/// The writer of one store. Cheap to clone.
#[derive(Clone)]
pub struct Pipeline(Arc<Shared>);

struct Shared {
    name: StoreName,
    limits: Limits,
    /// While it is closed nothing is sent, and what waits is given up: by the time that it is open again another replica may have written
    /// something newer, or deleted it.
    fence: Fence,
    pending: Mutex<Pending<Ticket>>,
    /// Whether what waits is given up instead of sent.
    discarded: AtomicBool,
    work: Notify,
    room: Notify,
    /// For the large documents, in KiB.
    large: Arc<Semaphore>,
    store: Mutex<Option<Arc<dyn Store>>>,
    opened: Notify,
    availability: watch::Sender<Availability>,
    generations: Mutex<Generations>,
    /// Whose documents the store held when it was opened.
    identities: Mutex<BTreeMap<ClusterName, String>>,
    book: Book,
    /// What the store holds of clusters that nothing is known of but that.
    remembered: Mutex<BTreeMap<ClusterName, Option<Checkpoints>>>,
    /// Reads that.
    remembering: Mutex<Option<AbortOnDropHandle<()>>>,
    /// Held by whoever saves checkpoints, so that an older state never overwrites a newer one.
    saving: Semaphore,
    changed: Arc<Notify>,
    metrics: StoreMetrics,
}

impl Pipeline {
    /// A pipeline that does nothing until [`Pipeline::run`]; `changed` is notified when its availability changes or an index is lost.
    pub fn new(
        name: StoreName,
        limits: Limits,
        fence: Fence,
        metrics: StoreMetrics,
        changed: Arc<Notify>,
    ) -> Self {
        Self(Arc::new(Shared {
            name,
            limits,
            fence,
            pending: Mutex::default(),
            discarded: AtomicBool::new(false),
            work: Notify::new(),
            room: Notify::new(),
            large: Arc::new(Semaphore::new(LARGE_KIB as usize)),
            store: Mutex::default(),
            opened: Notify::new(),
            availability: watch::Sender::new(None),
            generations: Mutex::default(),
            identities: Mutex::default(),
            book: Book::default(),
            remembered: Mutex::default(),
            remembering: Mutex::default(),
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

    /// The open store, for reading; absent until it has been reached for the first time.
    pub fn store(&self) -> Option<Arc<dyn Store>> {
        self.0.store.lock().clone()
    }

    /// The open store, once there is one. Whoever waits is woken in the order of coming: a watch channel wakes in a random one, which no
    /// seed brings back.
    pub async fn opened(&self) -> Arc<dyn Store> {
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

    /// From where the units of this store can go on.
    pub fn checkpoints(&self) -> &Book {
        &self.0.book
    }

    /// Writes the checkpoints that the store does not have yet.
    pub async fn save_checkpoints(&self) -> Result<(), StoreError> {
        let Some(store) = self.store() else {
            return Ok(());
        };
        let Ok(_permit) = self.0.saving.acquire().await else {
            return Ok(());
        };
        let unsaved = self.0.book.unsaved();
        if !unsaved.is_empty() {
            store.save_checkpoints(&unsaved).await?;
            self.0.book.saved(unsaved);
        }
        Ok(())
    }

    /// Reads what the store holds of these clusters, once for each, and tells it from then on. The store may take its time.
    pub fn remember(&self, clusters: &BTreeSet<ClusterName>) {
        let mut remembering = self.0.remembering.lock();
        if remembering.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        let known = self.0.remembered.lock();
        let wanted: Vec<ClusterName> = clusters
            .iter()
            .filter(|cluster| !known.contains_key(*cluster))
            .cloned()
            .collect();
        drop(known);
        if !wanted.is_empty() {
            // Not a clone of the pipeline, which would own itself by its task.
            let shared = Arc::downgrade(&self.0);
            *remembering = Some(AbortOnDropHandle::new(tokio::spawn(remember(
                shared, wanted,
            ))));
        }
    }

    /// What the store holds of a cluster, if that has been asked and there is anything.
    pub fn remembered(&self, cluster: &ClusterName) -> Option<Checkpoints> {
        self.0.remembered.lock().get(cluster).cloned().flatten()
    }

    /// How many clusters have been asked about.
    pub fn remembered_count(&self) -> usize {
        self.0.remembered.lock().len()
    }

    /// Whether a write can be submitted without waiting.
    pub fn has_room(&self) -> bool {
        self.0.pending.lock().bytes() < self.0.limits.pending_bytes
    }

    /// Waits until a write can be submitted.
    pub async fn room(&self) {
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

    /// Room for a document that is larger than most, to be kept until it is written; waits for it. Watches hand over a change whether or not there is
    /// room, and that is no bound when many of them do it at once with changes of many megabytes.
    pub async fn room_for_large(&self, write: &Write) -> Option<OwnedSemaphorePermit> {
        let length = write.body.as_ref().map_or(0, |body| body.len());
        if length <= LARGE_BYTES {
            return None;
        }
        let wanted = u32::try_from(length >> 10)
            .unwrap_or(LARGE_KIB)
            .min(LARGE_KIB);
        Arc::clone(&self.0.large)
            .acquire_many_owned(wanted)
            .await
            .ok()
    }

    /// Hands over a write, whether or not there is room for it; who can wait asks for that before. The ticket is settled when
    /// the write is.
    pub fn submit(&self, write: Write, name: Option<NameHash>, ticket: Ticket) {
        let not_sent = self.0.pending.lock().push(Operation {
            write,
            name,
            ticket,
        });
        settle_superseded(not_sent);
        self.0.work.notify_one();
    }

    /// Gives up what has not been sent yet, and whatever is still submitted.
    pub fn discard(&self) {
        self.0.discarded.store(true, Ordering::Relaxed);
    }

    /// Whether nothing waits to be written or acknowledged.
    pub fn is_idle(&self) -> bool {
        self.0.pending.lock().is_empty()
    }

    /// Nothing is written any more: the other replicas may know. To be called when [`Pipeline::run`] has ended.
    pub async fn end_changes(&self) {
        if let Some(store) = self.store() {
            store.end_changes().await;
        }
    }

    /// The UIDs of the clusters whose documents the store held when it was opened last, by name.
    pub fn identities(&self) -> BTreeMap<ClusterName, String> {
        self.0.identities.lock().clone()
    }

    fn update_gauges(&self) {
        let pending = self.0.pending.lock();
        self.0.metrics.set_pending(pending.len(), pending.bytes());
    }
}

/// Reads the checkpoints of some clusters, as far as the store tells them; what it does not is asked for another time.
async fn remember(shared: Weak<Shared>, clusters: Vec<ClusterName>) {
    let store = match shared.upgrade() {
        Some(shared) => shared.store.lock().clone(),
        None => return,
    };
    let Some(store) = store else { return };
    let reads = clusters.into_iter().map(|cluster| {
        let store = Arc::clone(&store);
        async move { (store.checkpoints(&cluster).await, cluster) }
    });
    let mut reads = futures::stream::iter(reads).buffer_unordered(REMEMBERING);
    while let Some((read, cluster)) = reads.next().await {
        let Some(shared) = shared.upgrade() else {
            return;
        };
        match read {
            Ok(checkpoints) => {
                shared.remembered.lock().insert(cluster, checkpoints);
            }
            Err(error) => {
                tracing::debug!(%cluster, %error, "what is stored of a cluster cannot be read yet");
                return;
            }
        }
    }
    if let Some(shared) = shared.upgrade() {
        shared.changed.notify_one();
    }
}

/// A newer change of the same document stands for this one, and has a ticket of its own.
fn settle_superseded(operation: Option<Job>) {
    if let Some(operation) = operation {
        operation.ticket.settle();
    }
}

#[cfg(test)]
mod tests;

//! The store of a pipeline: how it is opened, as it is open now, and whether it can be used.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use fleetdex_core::model::{ClusterName, StoreName};
use fleetdex_store::{IndexReader, IndexWriter, ShardUse, StoreError};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

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

/// A store that is opened, and opened again when it has to be.
pub struct PipelineStore {
    name: StoreName,
    /// The registries that share the store, for the log: its name has a hash in place of addresses.
    registries: Mutex<String>,
    open: Mutex<Option<OpenedStore>>,
    opened: Notify,
    availability: watch::Sender<Availability>,
    /// How many clusters are planned.
    clusters: AtomicUsize,
    /// The UIDs of the clusters whose documents the store held when it was opened.
    identities: Mutex<BTreeMap<ClusterName, String>>,
    changed: Arc<Notify>,
}

impl PipelineStore {
    pub(super) fn new(name: StoreName, changed: Arc<Notify>) -> Self {
        Self {
            name,
            registries: Mutex::default(),
            open: Mutex::default(),
            opened: Notify::new(),
            availability: watch::Sender::new(None),
            clusters: AtomicUsize::new(0),
            identities: Mutex::default(),
            changed,
        }
    }

    /// Its name.
    pub fn name(&self) -> &StoreName {
        &self.name
    }

    /// Whether it can be used, as of the last request.
    pub fn availability(&self) -> Availability {
        self.availability.borrow().clone()
    }

    /// The open store; `None` before it was reached for the first time.
    pub fn writer(&self) -> Option<Arc<dyn IndexWriter>> {
        let open = self.open.lock();
        open.as_ref().map(|open| Arc::clone(&open.writer))
    }

    /// The open store for queries; `None` before it was reached for the first time.
    pub fn reader(&self) -> Option<Arc<dyn IndexReader>> {
        let open = self.open.lock();
        open.as_ref().map(|open| Arc::clone(&open.reader))
    }

    /// Waits until it is open. Callers are woken in the order of their calls: a watch channel wakes
    /// them in random order, which a simulation cannot reproduce from its seed.
    pub async fn opened(&self) -> Arc<dyn IndexWriter> {
        loop {
            let notified = self.opened.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if let Some(writer) = self.writer() {
                return writer;
            }
            notified.await;
        }
    }

    /// Notes how many clusters are planned, by which the store decides where their documents are.
    pub fn expect_clusters(&self, clusters: usize) {
        self.clusters.store(clusters, Ordering::Relaxed);
        let writer = self.writer();
        if let Some(sharing) = writer.as_ref().and_then(|writer| writer.index_sharing()) {
            sharing.expect_clusters(clusters);
        }
    }

    /// The use of shards in the store, if it is known and limited.
    pub fn shard_use(&self) -> Option<ShardUse> {
        self.writer()?.index_sharing()?.shard_use()
    }

    /// The UIDs of the clusters whose documents the store held when it was last opened.
    pub fn identities(&self) -> BTreeMap<ClusterName, String> {
        self.identities.lock().clone()
    }

    /// Sets the names of the registries that share the store, which log lines show.
    pub fn set_registries(&self, names: &[String]) {
        *self.registries.lock() = names.join(",");
    }

    /// Ends the change log of the store, because nothing is written any more; other replicas
    /// learn of it. Call it when [`super::Pipeline::run`] has ended.
    pub async fn end_changes(&self) {
        if let Some(writer) = self.writer() {
            writer.close_change_log().await;
        }
    }

    /// Opens it, and reads the UIDs of the clusters whose documents it holds.
    pub(super) async fn open(&self, opener: &dyn OpenStore) -> Result<OpenedStore, Unavailable> {
        let store = opener.open().await?;
        let identities = store.writer.identities().await?;
        *self.identities.lock() = identities;
        Ok(store)
    }

    /// Publishes that it is open.
    pub(super) fn set_open(&self, store: OpenedStore) {
        self.set_available(Ok(()));
        let clusters = self.clusters.load(Ordering::Relaxed);
        if let Some(sharing) = store.writer.index_sharing() {
            sharing.expect_clusters(clusters);
        }
        *self.open.lock() = Some(store);
        self.opened.notify_waiters();
    }

    /// Publishes whether it can be used.
    pub(super) fn set_available(&self, available: Result<(), Unavailable>) {
        let name = &self.name;
        let changed = self.availability.send_if_modified(|current| {
            let modified = current.as_ref() != Some(&available);
            if modified {
                let registries = self.registries.lock().clone();
                match &available {
                    Ok(()) => {
                        tracing::info!(store = %name, registries, "the store is available");
                    }
                    Err(problem) => {
                        tracing::warn!(store = %name, registries, reason = problem.reason, message = %problem.message, "the store is unavailable");
                    }
                }
                *current = Some(available);
            }
            modified
        });
        if changed {
            self.changed.notify_one();
        }
    }
}

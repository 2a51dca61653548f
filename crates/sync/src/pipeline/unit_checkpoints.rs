//! The checkpoints of the units of a store: those of its open index revisions, and the stored ones
//! of other clusters.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_core::model::ClusterName;
use fleetdex_store::{Checkpoints, IndexWriter, StoreError};
use futures::StreamExt as _;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use tokio_util::task::AbortOnDropHandle;

use super::store::PipelineStore;
use crate::checkpoints::CheckpointTracker;

/// Concurrent reads of checkpoints: a thousand reads of a millisecond take less than a second.
const CHECKPOINT_READS: usize = 8;

/// Stored checkpoints by cluster; `None` for a cluster that has none.
type LoadedCheckpoints = Mutex<BTreeMap<ClusterName, Option<Checkpoints>>>;

/// Saves and loads checkpoints.
pub struct UnitCheckpoints {
    /// The checkpoints of the clusters with an open index revision.
    pub tracker: CheckpointTracker,
    store: Arc<PipelineStore>,
    /// Stored checkpoints of clusters that have no open index revision.
    loaded: Arc<LoadedCheckpoints>,
    /// The task that loads them.
    loading: Mutex<Option<AbortOnDropHandle<()>>>,
    /// Held while checkpoints are saved, so that an older state never overwrites a newer one.
    saving: Semaphore,
    changed: Arc<Notify>,
}

impl UnitCheckpoints {
    pub(super) fn new(store: Arc<PipelineStore>, changed: Arc<Notify>) -> Self {
        Self {
            tracker: CheckpointTracker::default(),
            store,
            loaded: Arc::default(),
            loading: Mutex::default(),
            saving: Semaphore::new(1),
            changed,
        }
    }

    /// Writes the checkpoints that are not saved yet.
    pub async fn save(&self) -> Result<(), StoreError> {
        let Some(store) = self.store.writer() else {
            return Ok(());
        };
        let Ok(_permit) = self.saving.acquire().await else {
            return Ok(());
        };
        let unsaved = self.tracker.unsaved();
        if !unsaved.is_empty() {
            store.save_checkpoints(&unsaved).await?;
            self.tracker.saved(unsaved);
        }
        Ok(())
    }

    /// Starts a task that loads the stored checkpoints of clusters, once for each cluster.
    pub fn load(&self, clusters: &BTreeSet<ClusterName>) {
        let Some(store) = self.store.writer() else {
            return;
        };
        let mut loading = self.loading.lock();
        if loading.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        let known = self.loaded.lock();
        let missing: Vec<ClusterName> = clusters
            .iter()
            .filter(|cluster| !known.contains_key(*cluster))
            .cloned()
            .collect();
        drop(known);
        if !missing.is_empty() {
            let (loaded, changed) = (Arc::clone(&self.loaded), Arc::clone(&self.changed));
            let task = load(store, missing, loaded, changed);
            *loading = Some(AbortOnDropHandle::new(tokio::spawn(task)));
        }
    }

    /// The stored checkpoints of a cluster, if they were loaded and exist.
    pub fn loaded(&self, cluster: &ClusterName) -> Option<Checkpoints> {
        self.loaded.lock().get(cluster).cloned().flatten()
    }

    /// The number of clusters whose checkpoints were loaded.
    pub fn loaded_cluster_count(&self) -> usize {
        self.loaded.lock().len()
    }
}

/// Loads the checkpoints of clusters until a read fails; the remaining ones are loaded by a later
/// call.
async fn load(
    store: Arc<dyn IndexWriter>,
    clusters: Vec<ClusterName>,
    loaded: Arc<LoadedCheckpoints>,
    changed: Arc<Notify>,
) {
    let reads = clusters.into_iter().map(|cluster| {
        let store = Arc::clone(&store);
        async move { (store.checkpoints(&cluster).await, cluster) }
    });
    let mut reads = futures::stream::iter(reads).buffer_unordered(CHECKPOINT_READS);
    while let Some((read, cluster)) = reads.next().await {
        match read {
            Ok(checkpoints) => {
                loaded.lock().insert(cluster, checkpoints);
            }
            Err(error) => {
                tracing::debug!(%cluster, %error, "cannot read the stored checkpoints of a cluster yet");
                return;
            }
        }
    }
    changed.notify_one();
}

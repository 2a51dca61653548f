//! The index revisions that documents are written to: opens them, and replaces those that are
//! lost.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fleetdex_core::model::{ClusterName, IndexName};
use fleetdex_store::{CompleteResources, IndexRevision, IndexWriter, StoreError};
use fleetdex_telemetry::metrics::StoreMetrics;
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, OnceCell, RwLock},
    task::JoinError,
};

use super::{
    revisions::{ClusterRevisions, OpenRevision},
    store::PipelineStore,
    unit_checkpoints::UnitCheckpoints,
};

/// The index revisions of the clusters of a store.
pub struct IndexRevisions {
    clusters: Mutex<ClusterRevisions>,
    /// Held for reading while an index revision is opened.
    openings: Arc<RwLock<()>>,
    store: Arc<PipelineStore>,
    checkpoints: Arc<UnitCheckpoints>,
    metrics: StoreMetrics,
    changed: Arc<Notify>,
}

impl IndexRevisions {
    pub(super) fn new(
        store: Arc<PipelineStore>,
        checkpoints: Arc<UnitCheckpoints>,
        metrics: StoreMetrics,
        changed: Arc<Notify>,
    ) -> Self {
        Self {
            clusters: Mutex::default(),
            openings: Arc::default(),
            store,
            checkpoints,
            metrics,
            changed,
        }
    }

    /// Opens the index revision that the documents of a cluster are written to. `uid`: that of its
    /// namespace `kube-system`, if it is known.
    pub async fn open(
        self: &Arc<Self>,
        cluster: &ClusterName,
        uid: Option<&str>,
    ) -> Result<IndexRevision, StoreError> {
        let open = self.entry(cluster, uid);
        if let Some(opened) = open.revision.get() {
            return Ok(opened.clone());
        }
        let store = self.store.opened().await;
        let opening = Arc::clone(&self.openings).read_owned().await;
        let (revisions, cluster) = (Arc::clone(self), cluster.clone());
        // A task of its own: a stream that ends does not cancel it. OpenSearch creates an index
        // even if its request was given up, and garbage collection has to see that index.
        let opened = tokio::spawn(async move {
            let opened = open
                .revision
                .get_or_try_init(|| revisions.open_once(&*store, &cluster, &open))
                .await
                .cloned();
            drop(opening);
            opened
        });
        match opened.await.map_err(JoinError::try_into_panic) {
            Ok(opened) => opened,
            Err(Ok(panic)) => std::panic::resume_unwind(panic),
            // Only the end of the process cancels it.
            Err(Err(_)) => Err(StoreError::Closed {
                reason: "Stopped",
                message: "the process ends".to_owned(),
            }),
        }
    }

    /// Waits until no index revision is being opened that was begun before.
    pub async fn openings_ended(&self) {
        drop(self.openings.write().await);
    }

    fn entry(&self, cluster: &ClusterName, uid: Option<&str>) -> Arc<OpenRevision> {
        let mut revisions = self.clusters.lock();
        let known = revisions
            .open
            .get(cluster)
            .filter(|open| open.uid.as_deref() == uid);
        if let Some(open) = known {
            return Arc::clone(open);
        }
        if let Some(uid) = uid {
            revisions.identify(cluster, uid);
        }
        let uid = uid.map(str::to_owned);
        let open = Arc::new(OpenRevision {
            uid,
            revision: OnceCell::new(),
            is_live: AtomicBool::new(false),
            shown: Mutex::default(),
        });
        revisions.open.insert(cluster.clone(), Arc::clone(&open));
        open
    }

    async fn open_once(
        &self,
        store: &dyn IndexWriter,
        cluster: &ClusterName,
        open: &Arc<OpenRevision>,
    ) -> Result<IndexRevision, StoreError> {
        let above = self
            .clusters
            .lock()
            .replaced
            .get(cluster)
            .copied()
            .unwrap_or_default();
        let revision = store.open(cluster, open.uid.as_deref(), above).await?;
        let checkpoints = store.checkpoints(cluster).await?;
        let revisions = self.clusters.lock();
        let is_current = |current: &Arc<OpenRevision>| Arc::ptr_eq(current, open);
        if !revisions.open.get(cluster).is_some_and(is_current) {
            // Its cluster was forgotten or handed over meanwhile.
            return Ok(revision);
        }
        self.checkpoints.tracker.open(&revision, checkpoints);
        open.is_live.store(revision.live, Ordering::Release);
        open.shown.lock().clone_from(&revision.shown);
        self.changed.notify_one();
        Ok(revision)
    }

    /// Every open index revision.
    pub fn all(&self) -> Vec<IndexRevision> {
        self.clusters
            .lock()
            .open
            .values()
            .filter_map(|open| open.revision())
            .collect()
    }

    /// Every cluster with an index revision that is open or being opened.
    pub fn clusters(&self) -> Vec<ClusterName> {
        self.clusters.lock().open.keys().cloned().collect()
    }

    /// The open index revision of a cluster.
    pub fn of_cluster(&self, cluster: &ClusterName) -> Option<IndexRevision> {
        self.clusters.lock().open.get(cluster)?.revision()
    }

    /// Answers queries from a complete index revision, or about the complete resources of the first
    /// one of a cluster.
    pub async fn activate(
        &self,
        revision: &IndexRevision,
        visible: &CompleteResources,
    ) -> Result<(), StoreError> {
        self.store
            .opened()
            .await
            .activate(revision, visible)
            .await?;
        if let Some(open) = self.open_at(&revision.target) {
            match visible {
                CompleteResources::All => open.is_live.store(true, Ordering::Release),
                CompleteResources::Only(resources) => {
                    open.shown.lock().extend(resources.iter().cloned());
                }
            }
        }
        self.changed.notify_one();
        Ok(())
    }

    fn open_at(&self, target: &IndexName) -> Option<Arc<OpenRevision>> {
        let revisions = self.clusters.lock();
        let is_target = |open: &&Arc<OpenRevision>| {
            open.revision
                .get()
                .is_some_and(|revision| revision.target == *target)
        };
        revisions.open.values().find(is_target).cloned()
    }

    /// Forgets the index revision of a cluster, which is about to be deleted.
    pub fn forget(&self, cluster: &ClusterName) {
        self.clusters.lock().open.remove(cluster);
        self.checkpoints.tracker.remove_cluster(cluster);
    }

    /// Forgets the index revision of a cluster, which another replica writes from now on.
    pub fn hand_over(&self, cluster: &ClusterName) {
        self.forget(cluster);
        if let Some(store) = self.store.writer() {
            store.hand_over(cluster);
        }
    }

    /// Marks an index revision as unused. Returns whether it was marked before.
    pub fn mark_unused(&self, revision: &IndexRevision) -> bool {
        !self.clusters.lock().unused.insert(Arc::clone(&revision.id))
    }

    /// Reports that the index behind a write alias is gone: it is created and filled again. Ignores
    /// an alias that is not in use any more.
    pub(super) fn report_lost(&self, target: &IndexName, message: &str) {
        let Some(revision) = self.open_at(target).and_then(|open| open.revision()) else {
            return;
        };
        tracing::warn!(cluster = %revision.cluster, index = %revision.index, message, "an index is lost; reading its cluster again");
        self.reopen(revision.cluster);
    }

    /// How long a cluster whose history went back waits for its next index revision: not at all at
    /// first, then longer each time.
    pub fn replacement_delay(&self, cluster: &ClusterName) -> Duration {
        self.clusters.lock().replacement_delay(cluster)
    }

    /// The same for a cluster whose UID differs from its last one. Without the delay, a member that
    /// shows another UID at every request would get a new index each time.
    pub fn identity_delay(&self, cluster: &ClusterName, uid: &str) -> Duration {
        let revisions = self.clusters.lock();
        if revisions.has_other_uid(cluster, uid) {
            revisions.replacement_delay(cluster)
        } else {
            Duration::ZERO
        }
    }

    /// Notes the clusters of which everything is in the store and follows changes. Only these move
    /// to another index: while a cluster is listed again, its former documents do not change.
    pub fn set_synced(&self, clusters: BTreeSet<ClusterName>) {
        self.clusters.lock().synced = clusters;
    }

    /// The index revisions whose clusters may move to another index.
    pub(super) fn movable(&self) -> Vec<IndexRevision> {
        let mut revisions = self.all();
        let synced = &self.clusters.lock().synced;
        revisions.retain(|revision| synced.contains(&revision.cluster));
        revisions
    }

    /// Opens the next index revision of a cluster whose documents belong elsewhere. The present one
    /// answers queries until that is complete.
    pub(super) fn replace_misplaced(&self, revision: &IndexRevision) {
        if self.open_at(&revision.target).is_some() {
            tracing::info!(cluster = %revision.cluster, index = %revision.index, "the documents of a cluster move to another index");
            self.reopen(revision.cluster.clone());
        }
    }

    /// Replaces an index revision whose documents cannot be brought up to date, because the
    /// cluster's history went back.
    pub fn replace(&self, revision: &IndexRevision, reason: &str) {
        if self.open_at(&revision.target).is_none() {
            return;
        }
        tracing::warn!(cluster = %revision.cluster, index = %revision.index, reason, "the cluster's history went back; replacing its index revision");
        let mut revisions = self.clusters.lock();
        revisions
            .replaced
            .insert(revision.cluster.clone(), revision.number);
        revisions.note_replacement(&revision.cluster);
        drop(revisions);
        self.metrics.revisions_replaced.inc();
        self.reopen(revision.cluster.clone());
    }

    fn reopen(&self, cluster: ClusterName) {
        let mut revisions = self.clusters.lock();
        revisions.open.remove(&cluster);
        revisions.lost.insert(cluster);
        drop(revisions);
        self.changed.notify_one();
    }

    /// Takes the clusters whose units have to be restarted.
    pub fn take_lost_clusters(&self) -> BTreeSet<ClusterName> {
        std::mem::take(&mut self.clusters.lock().lost)
    }

    /// Whether there are clusters whose units have to be restarted.
    pub fn have_lost_clusters(&self) -> bool {
        !self.clusters.lock().lost.is_empty()
    }
}

//! Opens the index revisions that documents are written to, and replaces those that are lost.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fleetdex_core::model::{ClusterName, IndexName};
use fleetdex_store::{IndexRevision, IndexWriter, StoreError, VisibleResources};
use parking_lot::Mutex;
use tokio::{sync::OnceCell, task::JoinError};

use super::{Pipeline, revisions::OpenRevision};

impl Pipeline {
    /// Opens the index revision that the documents of a cluster are written to. `uid`: that of its
    /// namespace `kube-system`, if it is known.
    pub async fn revision(
        &self,
        cluster: &ClusterName,
        uid: Option<&str>,
    ) -> Result<IndexRevision, StoreError> {
        let open = self.entry(cluster, uid);
        if let Some(opened) = open.revision.get() {
            return Ok(opened.clone());
        }
        let store = self.opened().await;
        let opening = Arc::clone(&self.0.openings).read_owned().await;
        let (pipeline, cluster) = (self.clone(), cluster.clone());
        // A task of its own: a stream that ends does not cancel it. OpenSearch creates an index even
        // if its request was given up, and garbage collection has to see that index.
        let opened = tokio::spawn(async move {
            let opened = open
                .revision
                .get_or_try_init(|| pipeline.open_revision(&*store, &cluster, &open))
                .await
                .cloned();
            drop(opening);
            opened
        });
        match opened.await.map_err(JoinError::try_into_panic) {
            Ok(opened) => opened,
            Err(Ok(panic)) => std::panic::resume_unwind(panic),
            // Only the end of the process cancels it.
            Err(Err(_)) => std::future::pending().await,
        }
    }

    /// Waits until no index revision is being opened that was begun before.
    pub async fn openings_ended(&self) {
        drop(self.0.openings.write().await);
    }

    fn entry(&self, cluster: &ClusterName, uid: Option<&str>) -> Arc<OpenRevision> {
        let mut revisions = self.0.revisions.lock();
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

    async fn open_revision(
        &self,
        store: &dyn IndexWriter,
        cluster: &ClusterName,
        open: &Arc<OpenRevision>,
    ) -> Result<IndexRevision, StoreError> {
        let above = self
            .0
            .revisions
            .lock()
            .replaced
            .get(cluster)
            .copied()
            .unwrap_or_default();
        let revision = store.open(cluster, open.uid.as_deref(), above).await?;
        let checkpoints = store.checkpoints(cluster).await?;
        let revisions = self.0.revisions.lock();
        let is_current = |current: &Arc<OpenRevision>| Arc::ptr_eq(current, open);
        if !revisions.open.get(cluster).is_some_and(is_current) {
            // Its cluster was forgotten or handed over meanwhile.
            return Ok(revision);
        }
        self.0.checkpoints.open(&revision, checkpoints);
        open.is_live.store(revision.live, Ordering::Release);
        open.shown.lock().clone_from(&revision.shown);
        self.0.changed.notify_one();
        Ok(revision)
    }

    /// Every open index revision.
    pub fn revisions(&self) -> Vec<IndexRevision> {
        self.0
            .revisions
            .lock()
            .open
            .values()
            .filter_map(|open| open.revision())
            .collect()
    }

    /// Every cluster with an index revision that is open or being opened.
    pub fn open_clusters(&self) -> Vec<ClusterName> {
        self.0.revisions.lock().open.keys().cloned().collect()
    }

    /// The open index revision of a cluster.
    pub fn open_revision_of(&self, cluster: &ClusterName) -> Option<IndexRevision> {
        self.0.revisions.lock().open.get(cluster)?.revision()
    }

    /// Answers queries from a complete index revision, or about the complete resources of the first
    /// one of a cluster.
    pub async fn activate(
        &self,
        revision: &IndexRevision,
        visible: &VisibleResources,
    ) -> Result<(), StoreError> {
        self.opened().await.activate(revision, visible).await?;
        if let Some(open) = self.open_revision_at(&revision.target) {
            match visible {
                VisibleResources::All => open.is_live.store(true, Ordering::Release),
                VisibleResources::Only(resources) => {
                    open.shown.lock().extend(resources.iter().cloned());
                }
            }
        }
        self.0.changed.notify_one();
        Ok(())
    }

    fn open_revision_at(&self, target: &IndexName) -> Option<Arc<OpenRevision>> {
        let revisions = self.0.revisions.lock();
        let is_target = |open: &&Arc<OpenRevision>| {
            open.revision
                .get()
                .is_some_and(|revision| revision.target == *target)
        };
        revisions.open.values().find(is_target).cloned()
    }

    /// Forgets the index revision of a cluster, which is about to be deleted.
    pub fn forget(&self, cluster: &ClusterName) {
        self.0.revisions.lock().open.remove(cluster);
        self.0.checkpoints.remove_cluster(cluster);
    }

    /// Forgets the index revision of a cluster, which another replica writes from now on.
    pub fn hand_over(&self, cluster: &ClusterName) {
        self.forget(cluster);
        if let Some(store) = self.store() {
            store.hand_over(cluster);
        }
    }

    /// Marks an index revision as unused. Returns whether it was marked before.
    pub fn mark_unused(&self, revision: &IndexRevision) -> bool {
        !self
            .0
            .revisions
            .lock()
            .unused
            .insert(Arc::clone(&revision.id))
    }

    /// Reports that the index behind a write alias is gone: it is created and filled again. Ignores
    /// an alias that is not in use any more.
    pub(super) fn report_lost_index(&self, target: &IndexName, message: &str) {
        let Some(revision) = self
            .open_revision_at(target)
            .and_then(|open| open.revision())
        else {
            return;
        };
        tracing::warn!(cluster = %revision.cluster, index = %revision.index, message, "an index is lost; reading its cluster again");
        self.reopen(revision.cluster);
    }

    /// How long a cluster whose history went back waits for its next index revision: not at all at
    /// first, then longer each time.
    pub fn replacement_delay(&self, cluster: &ClusterName) -> Duration {
        self.0.revisions.lock().replacement_delay(cluster)
    }

    /// The same for a cluster whose UID differs from its last one. Without the delay, a member that
    /// shows another UID at every request would get a new index each time.
    pub fn identity_delay(&self, cluster: &ClusterName, uid: &str) -> Duration {
        let revisions = self.0.revisions.lock();
        if revisions.has_other_uid(cluster, uid) {
            revisions.replacement_delay(cluster)
        } else {
            Duration::ZERO
        }
    }

    /// Notes the clusters of which everything is in the store and follows changes. Only these move
    /// to another index: while a cluster is listed again, its former documents do not change.
    pub fn set_synced(&self, clusters: BTreeSet<ClusterName>) {
        self.0.revisions.lock().synced = clusters;
    }

    /// The index revisions whose clusters may move to another index.
    pub(super) fn movable_revisions(&self) -> Vec<IndexRevision> {
        let mut revisions = self.revisions();
        let synced = &self.0.revisions.lock().synced;
        revisions.retain(|revision| synced.contains(&revision.cluster));
        revisions
    }

    /// Opens the next index revision of a cluster whose documents belong elsewhere. The present one
    /// answers queries until that is complete.
    pub(super) fn move_revision(&self, revision: &IndexRevision) {
        if self.open_revision_at(&revision.target).is_some() {
            tracing::info!(cluster = %revision.cluster, index = %revision.index, "the documents of a cluster move to another index");
            self.reopen(revision.cluster.clone());
        }
    }

    /// Replaces an index revision whose documents cannot be brought up to date, because the
    /// cluster's history went back.
    pub fn replace_revision(&self, revision: &IndexRevision, reason: &str) {
        if self.open_revision_at(&revision.target).is_none() {
            return;
        }
        tracing::warn!(cluster = %revision.cluster, index = %revision.index, reason, "the cluster's history went back; replacing its index revision");
        let mut revisions = self.0.revisions.lock();
        revisions
            .replaced
            .insert(revision.cluster.clone(), revision.number);
        revisions.note_replacement(&revision.cluster);
        drop(revisions);
        self.0.metrics.revisions_replaced.inc();
        self.reopen(revision.cluster.clone());
    }

    fn reopen(&self, cluster: ClusterName) {
        let mut revisions = self.0.revisions.lock();
        revisions.open.remove(&cluster);
        revisions.lost.insert(cluster);
        drop(revisions);
        self.0.changed.notify_one();
    }

    /// Takes the clusters whose units have to be restarted.
    pub fn take_lost_clusters(&self) -> BTreeSet<ClusterName> {
        std::mem::take(&mut self.0.revisions.lock().lost)
    }

    /// Whether there are clusters whose units have to be restarted.
    pub fn has_lost_clusters(&self) -> bool {
        !self.0.revisions.lock().lost.is_empty()
    }
}

//! Garbage collection: deletes documents that no registry selects any more, of kinds and namespaces
//! that were left out, and of whole clusters.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock},
};

use fleetdex_core::model::{ClusterName, Document, StoreName, Version, split_api_version};
use fleetdex_replicas::Assignment;
use fleetdex_store::{
    Checkpoints, Extent, IndexRevision, IndexWriter, KindExtent, StoreError, StoredVersion,
    bulk::Write,
};
use fleetdex_sync::{checkpoints::UnitKey, pipeline::Pipeline, progress::Progress};
use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::activation::{MAX_DELAY, retry_delays};

/// What garbage collection retains in a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// By cluster. `None`: unknown, because the cluster has not answered discovery; all its
    /// documents stay.
    pub clusters: BTreeMap<ClusterName, Option<ClusterRetention>>,
    /// Whether documents of other clusters stay, because not every source of clusters has been
    /// read. Otherwise they are deleted.
    pub retains_other_clusters: bool,
    /// Whether registries name the store.
    pub naming: Naming,
    /// If none does: the stores in use with the same index prefix, which may be the same OpenSearch
    /// under another address.
    pub same_prefix_stores: BTreeSet<StoreName>,
}

/// Whether registries name a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Naming {
    /// They do.
    #[default]
    Named,
    /// Only such as are being deleted.
    Leaving,
    /// They did before, and name another one now.
    Former,
}

impl Retention {
    /// Whether documents stay only because it is not known yet whether another store answers in
    /// their stead.
    pub fn is_waiting(&self) -> bool {
        self.retains_other_clusters || self.clusters.values().any(Option::is_none)
    }
}

/// What is retained of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterRetention {
    /// The documents of these kinds.
    pub kinds: Vec<KindExtent>,
    /// The checkpoints of these units.
    pub units: BTreeSet<UnitKey>,
}

/// One run of garbage collection in a store.
pub struct GarbageCollection {
    /// The pipeline of the store.
    pub pipeline: Pipeline,
    /// What is retained.
    pub retention: Retention,
    /// The pipelines of [`Retention::same_prefix_stores`].
    pub same_prefix_stores: Vec<Pipeline>,
    /// The clusters that are assigned to this replica; others are left alone.
    pub assignment: Assignment,
    /// Streams that have ended, but whose writes may still be unacknowledged.
    pub after: Vec<Arc<Progress>>,
    /// Notified at the end.
    pub changed: Arc<Notify>,
    /// When it succeeded.
    pub done: Arc<OnceLock<Instant>>,
    /// The deletes in flight.
    pub pending_deletes: PendingDeletes,
}

/// The deletes of a garbage collection, one progress for each cluster. They continue when the
/// collection is cancelled, and streams that start then have to wait for them.
pub type PendingDeletes = Arc<Mutex<Vec<Arc<Progress>>>>;

impl GarbageCollection {
    /// Collects garbage until it has succeeded or is cancelled.
    pub async fn run(self, cancel: CancellationToken) {
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            () = self.run_until_done() => {
                self.done.get_or_init(Instant::now);
                self.changed.notify_one();
            }
        }
    }

    async fn run_until_done(&self) {
        for progress in &self.after {
            progress.drained().await;
        }
        self.pipeline.revisions.openings_ended().await;
        let mut delays = retry_delays();
        while let Err(error) = self.attempt().await {
            tracing::debug!(store = %self.pipeline.store.name(), %error, "garbage collection failed and is retried");
            tokio::time::sleep(delays.next().unwrap_or(MAX_DELAY)).await;
        }
    }

    async fn attempt(&self) -> Result<(), StoreError> {
        let store = self.pipeline.store.opened().await;
        let mut revisions: BTreeMap<ClusterName, Vec<IndexRevision>> = BTreeMap::new();
        for revision in store.revisions().await? {
            revisions
                .entry(revision.cluster.clone())
                .or_default()
                .push(revision);
        }
        let same_prefix_stores = self.ids_in_same_prefix_stores().await?;
        let is_shared = |revisions: &[IndexRevision]| {
            revisions
                .iter()
                .any(|revision| same_prefix_stores.contains(&revision.id))
        };
        revisions.retain(|_, revisions| !is_shared(revisions));
        // One cluster whose indices fail does not keep the others from being collected.
        let mut outcome = Ok(());
        let assigned = revisions
            .into_iter()
            .filter(|(cluster, _)| self.assignment.may_start(cluster));
        for (cluster, revisions) in assigned {
            let deleted = self.collect_cluster(&*store, &cluster, &revisions).await;
            let dropped = self.drop_obsolete(&*store, &revisions).await;
            outcome = outcome.and(deleted).and(dropped);
        }
        if let Some(sharing) = store.index_sharing() {
            outcome = outcome.and(sharing.sweep().await);
        }
        let is_unnamed = self.retention.naming != Naming::Named;
        if is_unnamed && outcome.is_ok() && !self.retention.is_waiting() && self.may_retire().await
        {
            store.retire().await?;
        }
        outcome
    }

    /// Whether no other store needs what this location has besides documents. One with the same
    /// prefix that is the same OpenSearch under another address needs it; then its indices are
    /// found here, as soon as it has any.
    async fn may_retire(&self) -> bool {
        for pipeline in &self.same_prefix_stores {
            let Some(Ok(())) = pipeline.store.availability() else {
                return false;
            };
            let revisions = pipeline.store.opened().await.revisions().await;
            if revisions.is_ok_and(|revisions| !revisions.is_empty()) {
                continue;
            }
            return false;
        }
        true
    }

    async fn collect_cluster(
        &self,
        store: &dyn IndexWriter,
        cluster: &ClusterName,
        revisions: &[IndexRevision],
    ) -> Result<(), StoreError> {
        match self.retention.clusters.get(cluster) {
            None if self.retention.retains_other_clusters => Ok(()),
            None => {
                self.pipeline.revisions.forget(cluster);
                store.drop_cluster(cluster).await
            }
            Some(None) => Ok(()),
            Some(Some(retained)) => self.delete_unselected(store, revisions, retained).await,
        }
    }

    /// The UUIDs of all indices of the stores with the same prefix, read after those of this
    /// location. An index that both show is one and the same, and in use.
    async fn ids_in_same_prefix_stores(&self) -> Result<BTreeSet<Arc<str>>, StoreError> {
        let mut ids = BTreeSet::new();
        // The documents of a registry that is being deleted are deleted, whatever else is away.
        if self.retention.naming != Naming::Former {
            return Ok(ids);
        }
        for pipeline in &self.same_prefix_stores {
            ids.extend(
                pipeline
                    .store
                    .opened()
                    .await
                    .revisions()
                    .await?
                    .into_iter()
                    .map(|revision| revision.id),
            );
        }
        Ok(ids)
    }

    async fn drop_obsolete(
        &self,
        store: &dyn IndexWriter,
        revisions: &[IndexRevision],
    ) -> Result<(), StoreError> {
        for revision in revisions {
            let Some(current) = self.pipeline.revisions.of_cluster(&revision.cluster) else {
                continue;
            };
            if is_obsolete(revision, &current, revisions, || {
                self.pipeline.revisions.mark_unused(revision)
            }) {
                store.drop_revision(revision).await?;
            }
        }
        Ok(())
    }

    async fn delete_unselected(
        &self,
        store: &dyn IndexWriter,
        revisions: &[IndexRevision],
        retained: &ClusterRetention,
    ) -> Result<(), StoreError> {
        let extent = Extent::Outside(retained.kinds.clone());
        for revision in revisions {
            let cluster = &revision.cluster;
            let mut unwanted: Vec<(Arc<str>, Version)> = Vec::new();
            let mut is_replaced = false;
            let visit = &mut |stored: StoredVersion<'_>| {
                is_replaced |= retained
                    .kinds
                    .iter()
                    .any(|kind| is_other_version(stored.id, kind));
                unwanted.push((Arc::from(stored.id), stored.version));
            };
            store.visit_versions(revision, &extent, visit).await?;
            if unwanted.is_empty() {
                continue;
            }
            self.forget_checkpoints(store, cluster, retained).await?;
            tracing::info!(%cluster, documents = unwanted.len(), "deleting documents that no registry selects any more");
            let progress = Progress::new(cluster.clone(), Arc::clone(&self.changed));
            self.pending_deletes.lock().push(Arc::clone(&progress));
            for (id, version) in unwanted {
                let write = Write {
                    index: revision.target.clone(),
                    document: Document::deletion(id, version),
                };
                self.pipeline.queue.wait_for_room().await;
                self.pipeline.queue.submit(write, None, progress.ticket());
            }
            progress.drained().await;
            if is_replaced {
                // Watchers that identify objects by name have lost those that are stored in another
                // version.
                store.expire_watches();
            }
            if progress.is_broken() {
                let reason = format!(
                    "deletes of documents of cluster {cluster} were given up: its index or alias is gone"
                );
                return Err(StoreError::Busy {
                    status: 503,
                    reason,
                });
            }
        }
        Ok(())
    }

    /// A unit whose documents are deleted must not resume from its checkpoint, should it be
    /// selected again.
    async fn forget_checkpoints(
        &self,
        store: &dyn IndexWriter,
        cluster: &ClusterName,
        retained: &ClusterRetention,
    ) -> Result<(), StoreError> {
        let checkpoints = &self.pipeline.checkpoints.tracker;
        if checkpoints.is_open(cluster) {
            checkpoints.retain(cluster, &retained.units);
            return self.pipeline.checkpoints.save().await;
        }
        if !retained.units.is_empty() {
            let reason = format!("the streams of cluster {cluster} have not begun yet");
            return Err(StoreError::Busy {
                status: 503,
                reason,
            });
        }
        match store.checkpoints(cluster).await? {
            Some(stored) => {
                store
                    .save_checkpoints(&[Checkpoints {
                        units: BTreeMap::new(),
                        ..stored
                    }])
                    .await
            }
            None => Ok(()),
        }
    }
}

/// Whether a document id belongs to a kind, in another version of its group.
fn is_other_version(id: &str, kind: &KindExtent) -> bool {
    let Some((api_version, stored_kind)) = id
        .rsplit_once('/')
        .and_then(|(rest, _uid)| rest.rsplit_once('/'))
    else {
        return false;
    };
    stored_kind == kind.kind
        && api_version != kind.api_version
        && split_api_version(api_version).0 == split_api_version(&kind.api_version).0
}

/// Whether a revision will never be the live one. `current` is the revision that is being filled,
/// or that was filled last.
///
/// A request that was in flight for long may create a revision after its successor has become live,
/// and another instance may die while it fills a later one. Such a later one has the time from one
/// garbage collection to the next to become live. An earlier one never becomes live. While the
/// current one is incomplete, an earlier one is dropped if no query was answered from it at this
/// collection and the previous one, as it may be replacing its predecessor right now. So a member
/// that becomes another cluster again and again, and is never complete, has at most three indices
/// beside the one that answers. Where none of `all` seems to answer although the current one
/// replaces one that does, an alias of that one is missing, and it cannot be distinguished from
/// the others: all stay.
fn is_obsolete(
    revision: &IndexRevision,
    current: &IndexRevision,
    all: &[IndexRevision],
    mark_unused: impl FnOnce() -> bool,
) -> bool {
    let is_earlier = revision.number < current.number;
    // Of two live revisions, the earlier one was restored from a snapshot.
    let answers = revision.live && !(current.live && is_earlier);
    if answers || revision.id == current.id {
        return false;
    }
    if current.live {
        return is_earlier || mark_unused();
    }
    is_earlier
        && !revision.is_read()
        && (current.replaces.is_none() || all.iter().any(IndexRevision::is_read))
        && mark_unused()
}

#[cfg(test)]
mod tests {
    use fleetdex_core::{model::IndexPrefix, query::ResourceName};

    use super::*;

    fn revision(number: u64, live: bool) -> IndexRevision {
        let first = IndexRevision::first(&IndexPrefix::default(), &"member1".parse().unwrap());
        IndexRevision {
            number,
            id: number.to_string().as_str().into(),
            live,
            ..first
        }
    }

    #[test]
    fn a_document_of_another_version_of_a_retained_kind_is_recognised() {
        let widgets = KindExtent {
            api_version: "a.example/v2".to_owned(),
            kind: "Widget".to_owned(),
            namespace: None,
        };
        let pods = KindExtent {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: None,
        };
        for (id, kind, expected) in [
            ("a.example/v1/Widget/u", &widgets, true),
            ("a.example/v2/Widget/u", &widgets, false),
            ("b.example/v1/Widget/u", &widgets, false),
            ("a.example/v1/Gadget/u", &widgets, false),
            ("v1/Pod/u", &pods, false),
            ("metrics.k8s.io/v1/Pod/u", &pods, false),
        ] {
            assert_eq!(is_other_version(id, kind), expected, "{id}");
        }
    }

    #[test]
    fn earlier_revisions_are_dropped_even_if_the_current_one_is_never_complete() {
        let partly = |number| IndexRevision {
            shown: [ResourceName::new("", "pods")].into(),
            ..revision(number, false)
        };
        for (current_is_live, other, is_stray, expected) in [
            (false, revision(2, false), false, false),
            (false, revision(2, false), true, true),
            (true, revision(2, false), false, true),
            (false, partly(2), true, false),
            (true, partly(2), false, true),
            (false, revision(2, true), true, false),
            (false, revision(4, false), true, false),
            (true, revision(4, false), false, false),
            (true, revision(4, false), true, true),
            (true, revision(4, true), true, false),
            (true, revision(2, true), false, true),
            (false, revision(3, false), true, false),
        ] {
            let current = revision(3, current_is_live);
            let all = [other.clone(), current.clone()];
            assert_eq!(
                is_obsolete(&other, &current, &all, || is_stray),
                expected,
                "{current_is_live} {other:?} {is_stray}"
            );
        }
    }

    #[test]
    fn a_revision_that_answers_through_one_of_its_aliases_stays_until_the_next_is_complete() {
        let damaged = revision(1, false);
        let all = [damaged.clone(), revision(2, false)];
        let filling = IndexRevision {
            replaces: Some(Box::new(damaged.clone())),
            ..revision(2, false)
        };
        assert!(!is_obsolete(&damaged, &filling, &all, || true));
        let complete = IndexRevision {
            live: true,
            ..filling.clone()
        };
        assert!(is_obsolete(&damaged, &complete, &all, || false));
        // Begun later than the one that answers, and never complete.
        let all = [revision(1, true), revision(2, false), revision(3, false)];
        let filling = IndexRevision {
            replaces: Some(Box::new(all[0].clone())),
            ..revision(3, false)
        };
        assert!(is_obsolete(&all[1], &filling, &all, || true));
    }
}

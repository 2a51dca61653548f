//! The writing side of the embedded store.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use async_trait::async_trait;
use fleetdex_core::model::ClusterName;
use parking_lot::RwLockWriteGuard;

use super::{
    Memory, MemoryState, blocking,
    order::{Chunk, entries},
    revisions::{RevisionChange, RevisionIdentity, StoredRevisions},
};
use crate::{
    ChangeLogWriter, CheckpointStore, Checkpoints, CompleteResources, DocumentVersions,
    DocumentWriter, Extent, IndexRevision, IndexSharing, IndexWriter, MadeBy, RevisionStore,
    StoreError, StoredVersion, Visit,
    bulk::{Verdict, Write},
    changes::Change,
    compressed::Compressor,
    compressed_document::{CompressedDocument, CompressionError, compress_document},
    document::StoredDocument,
    terms::REJECTED,
};

/// Writes for which the lock is held at once: queries wait for about a millisecond.
const WRITES_AT_ONCE: usize = 200;

#[async_trait]
impl RevisionStore for Memory {
    async fn open(
        &self,
        cluster: &ClusterName,
        uid: Option<&str>,
        above: u64,
    ) -> Result<IndexRevision, StoreError> {
        let identity = RevisionIdentity {
            uid: uid.map(str::to_owned),
            projection: Arc::clone(&self.projection),
        };
        Ok(self.shared.lock().open(cluster, identity, above))
    }

    async fn activate(
        &self,
        revision: &IndexRevision,
        visible: &CompleteResources,
    ) -> Result<(), StoreError> {
        let (revision, visible) = (revision.clone(), visible.clone());
        self.change_revisions(move |revisions| revisions.activate(&revision, &visible))
            .await
    }

    async fn lost(&self, revisions: &[IndexRevision]) -> Result<BTreeSet<ClusterName>, StoreError> {
        let stored = self.shared.read();
        Ok(revisions
            .iter()
            .filter(|revision| !stored.is_intact(revision))
            .map(|revision| revision.cluster.clone())
            .collect())
    }

    async fn revisions(&self) -> Result<Vec<IndexRevision>, StoreError> {
        Ok(self.shared.read().all())
    }

    /// None outlives a restart.
    async fn identities(&self) -> Result<BTreeMap<ClusterName, String>, StoreError> {
        Ok(BTreeMap::new())
    }

    async fn drop_revision(&self, revision: &IndexRevision) -> Result<(), StoreError> {
        let revision = revision.clone();
        self.change_revisions(move |revisions| Some(revisions.drop_revision(&revision)))
            .await
    }

    async fn drop_cluster(&self, cluster: &ClusterName) -> Result<(), StoreError> {
        let cluster = cluster.clone();
        self.change_revisions(move |revisions| Some(revisions.drop_cluster(&cluster)))
            .await
    }

    async fn retire(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

#[async_trait]
impl DocumentWriter for Memory {
    async fn write(&self, writes: &[Write]) -> Result<Vec<Verdict>, StoreError> {
        let (shared, writes) = (Arc::clone(&self.shared), writes.to_vec());
        blocking(move || shared.write(&writes)).await
    }
}

#[async_trait]
impl DocumentVersions for Memory {
    async fn visit_versions(
        &self,
        revision: &IndexRevision,
        extent: &Extent,
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        let chunks = self.frozen(revision)?;
        let documents = entries(&chunks, None).map(|entry| &entry.document);
        for document in documents.filter(|document| is_within(extent, document)) {
            visit(StoredVersion {
                id: &document.id(),
                version: document.version,
                namespace: document.namespace(),
                name: document.name(),
            });
        }
        Ok(())
    }

    async fn has_documents_made_by(
        &self,
        _: &IndexRevision,
        _: &Extent,
        made_by: &MadeBy<'_>,
    ) -> Result<bool, StoreError> {
        Ok(matches!(made_by, MadeBy::OtherRules(_)))
    }

    /// The documents that were written as fallback documents: this store refuses none.
    async fn rejected(
        &self,
        revision: &IndexRevision,
        extent: &Extent,
    ) -> Result<Vec<Arc<str>>, StoreError> {
        let chunks = self.frozen(revision)?;
        let is_rejected = |document: &StoredDocument| {
            let number = document.origin.vocabulary.read().number(REJECTED, "");
            number.is_some_and(|number| document.terms().any(|term| term == number))
        };
        let documents = entries(&chunks, None).map(|entry| &entry.document);
        let found =
            documents.filter(|document| is_within(extent, document) && is_rejected(document));
        Ok(found.map(|document| Arc::from(&*document.id())).collect())
    }
}

#[async_trait]
impl CheckpointStore for Memory {
    async fn checkpoints(&self, cluster: &ClusterName) -> Result<Option<Checkpoints>, StoreError> {
        Ok(self.shared.read().checkpoints.get(cluster).cloned())
    }

    async fn save_checkpoints(&self, checkpoints: &[Checkpoints]) -> Result<(), StoreError> {
        let by_cluster = checkpoints
            .iter()
            .map(|saved| (saved.cluster.clone(), saved.clone()));
        self.shared.lock().checkpoints.extend(by_cluster);
        Ok(())
    }
}

#[async_trait]
impl ChangeLogWriter for Memory {
    /// No other process writes it.
    fn hand_over(&self, _: &ClusterName) {}

    /// No other process reads it.
    async fn close_change_log(&self) {}

    fn expire_watches(&self) {
        self.shared.log.restart();
    }
}

impl IndexWriter for Memory {
    fn index_sharing(&self) -> Option<&dyn IndexSharing> {
        None
    }
}

impl Memory {
    /// Makes a change of revisions, and logs what queries see of it. Fails if there is none.
    async fn change_revisions(
        &self,
        change: impl FnOnce(&mut StoredRevisions) -> Option<RevisionChange> + Send + 'static,
    ) -> Result<(), StoreError> {
        let shared = Arc::clone(&self.shared);
        let changed = blocking(move || {
            let mut revisions = shared.lock();
            let changed = change(&mut revisions)?;
            shared.publish(revisions, &changed.changes);
            // Here, and not where it is awaited: it may be hundreds of thousands of documents.
            drop(changed.removed);
            Some(())
        });
        changed.await?.ok_or_else(revision_is_gone)
    }

    /// Every document of a revision.
    fn frozen(&self, revision: &IndexRevision) -> Result<Vec<Arc<Chunk>>, StoreError> {
        let frozen = self.shared.read().freeze(revision);
        frozen.ok_or_else(revision_is_gone)
    }
}

fn revision_is_gone() -> StoreError {
    StoreError::Embedded("the index revision is gone".to_owned())
}

impl MemoryState {
    fn write(&self, writes: &[Write]) -> Vec<Verdict> {
        let mut compressor = Compressor::new();
        let mut verdicts = Vec::with_capacity(writes.len());
        for some in writes.chunks(WRITES_AT_ONCE) {
            let compressed: Vec<Result<Option<CompressedDocument>, CompressionError>> = some
                .iter()
                .map(|write| {
                    let body = write.document.body.as_ref();
                    body.map(|body| {
                        compress_document(
                            write,
                            body,
                            &self.codec,
                            &self.vocabulary,
                            &mut compressor,
                        )
                    })
                    .transpose()
                })
                .collect();
            self.apply(some, compressed, &mut verdicts);
            self.compress_again(some.len(), &mut compressor);
        }
        verdicts
    }

    fn apply(
        &self,
        writes: &[Write],
        all: Vec<Result<Option<CompressedDocument>, CompressionError>>,
        verdicts: &mut Vec<Verdict>,
    ) {
        let (mut hidden, mut visible) = (Vec::new(), Vec::new());
        let mut revisions = self.lock();
        for (write, compressed) in writes.iter().zip(all) {
            let (verdict, change) = match compressed {
                Ok(compressed) => revisions.write(write, compressed),
                Err(error) => (Verdict::Rejected(error.to_string()), None),
            };
            verdicts.push(verdict);
            let Some(change) = change else { continue };
            if revisions.shows(&write.index, &change) {
                visible.push(change);
            } else {
                hidden.push(change);
            }
        }
        // Within the lock, so that the log has the order of the writes.
        self.log.append(&visible);
        drop(revisions);
        self.codec.sample(
            hidden
                .iter()
                .chain(&visible)
                .filter_map(|change| change.after.as_ref()),
        );
        self.retire(&visible);
    }

    fn retire(&self, changes: &[Change]) {
        let retired = changes.iter().filter_map(|change| change.before.as_ref());
        self.views
            .retire(retired.map(|document| document.footprint()).sum());
    }

    /// Logs changes that were made while `revisions` was locked, and unlocks it.
    fn publish(&self, revisions: RwLockWriteGuard<'_, StoredRevisions>, changes: &[Change]) {
        self.log.append(changes);
        drop(revisions);
        self.retire(changes);
    }
}

fn is_within(extent: &Extent, document: &StoredDocument) -> bool {
    match extent {
        Extent::Kind(kind) => document.is_of(kind),
        Extent::Outside(kinds) => !kinds.iter().any(|kind| document.is_of(kind)),
    }
}

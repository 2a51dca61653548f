//! The writing side of the engine.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use fleetdex_core::model::ClusterName;

use crate::{
    ChangeLogWriter, CompleteResources, DocumentWriter, IndexRevision, IndexSharing, IndexWriter,
    RevisionStore, StoreError,
    bulk::{self, Encoded, Verdict, Write},
    opensearch::{connection::responses::MAX_DOCUMENT_BYTES, engine::Engine},
};

#[async_trait]
impl RevisionStore for Engine {
    async fn open(
        &self,
        cluster: &ClusterName,
        uid: Option<&str>,
        above: u64,
    ) -> Result<IndexRevision, StoreError> {
        self.open_revision(cluster, uid, above).await
    }

    async fn activate(
        &self,
        revision: &IndexRevision,
        visible: &CompleteResources,
    ) -> Result<(), StoreError> {
        self.activate_revision(revision, visible).await
    }

    async fn lost(&self, revisions: &[IndexRevision]) -> Result<BTreeSet<ClusterName>, StoreError> {
        self.find_lost_revisions(revisions).await
    }

    async fn revisions(&self) -> Result<Vec<IndexRevision>, StoreError> {
        let found = self.own_revisions().await?;
        Ok(found.into_iter().map(|found| found.revision).collect())
    }

    async fn identities(&self) -> Result<BTreeMap<ClusterName, String>, StoreError> {
        self.stored_identities().await
    }

    async fn drop_revision(&self, revision: &IndexRevision) -> Result<(), StoreError> {
        self.delete_revision(revision).await
    }

    async fn drop_cluster(&self, cluster: &ClusterName) -> Result<(), StoreError> {
        self.delete_revisions(cluster).await?;
        self.delete_checkpoints(cluster).await?;
        // Those of attempts of which no answer came.
        if let Err(error) = self.withdraw_deletions(cluster).await {
            tracing::debug!(%cluster, %error, "permits to delete what a cluster had stay until it comes back");
        }
        Ok(())
    }

    async fn retire(&self) -> Result<(), StoreError> {
        self.remove_leftovers().await
    }
}

#[async_trait]
impl DocumentWriter for Engine {
    async fn write(&self, writes: &[Write]) -> Result<Vec<Verdict>, StoreError> {
        let batch = self.feed.begin_batch(writes);
        let before = match self.read_previous(writes, &batch).await {
            Ok(before) => before,
            Err(error) => {
                batch.cancel();
                return Err(error);
            }
        };
        match self.write_batch(writes).await {
            Ok(verdicts) => {
                batch.settle(writes, &verdicts, before).await;
                Ok(verdicts)
            }
            Err(error) => {
                batch.fail(writes, before).await;
                Err(error)
            }
        }
    }
}

#[async_trait]
impl ChangeLogWriter for Engine {
    fn hand_over(&self, cluster: &ClusterName) {
        self.feed.hand_over(cluster);
    }

    async fn close_change_log(&self) {
        self.feed.end().await;
    }

    fn expire_watches(&self) {
        self.feed.expire();
    }
}

impl IndexWriter for Engine {
    fn index_sharing(&self) -> Option<&dyn IndexSharing> {
        Some(self)
    }
}

impl Engine {
    /// Writes what is not too large to be read again.
    async fn write_batch(&self, writes: &[Write]) -> Result<Vec<Verdict>, StoreError> {
        let fits = |write: &&Write| {
            write
                .document
                .body
                .as_ref()
                .is_none_or(|body| body.len() <= MAX_DOCUMENT_BYTES)
        };
        if writes.iter().all(|write| fits(&write)) {
            return self.write_fitting(writes).await;
        }
        let fitting: Vec<Write> = writes.iter().filter(fits).cloned().collect();
        let written = if fitting.is_empty() {
            Vec::new()
        } else {
            self.write_fitting(&fitting).await?
        };
        let mut written = written.into_iter();
        let too_large =
            || Verdict::Rejected(format!("it has more than {MAX_DOCUMENT_BYTES} bytes"));
        let verdict = |write| if fits(&write) { written.next() } else { None };
        Ok(writes
            .iter()
            .map(verdict)
            .map(|verdict| verdict.unwrap_or_else(too_large))
            .collect())
    }

    async fn write_fitting(&self, writes: &[Write]) -> Result<Vec<Verdict>, StoreError> {
        let Encoded { body, items } = bulk::encode(writes);
        let mut verdicts = self.client.bulk("a bulk request", body, items).await?;
        verdicts.truncate(writes.len());
        Ok(verdicts)
    }
}

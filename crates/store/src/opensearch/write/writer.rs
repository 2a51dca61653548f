//! The writing side of the engine.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use fleetdex_core::{
    model::{ClusterName, index_fields},
    planted::{Bug, planted},
};
use serde_json::{Value, json};

use crate::{
    ChangeLogWriter, CheckpointStore, Checkpoints, DocumentVersions, DocumentWriter, Extent,
    IndexRevision, IndexSharing, IndexWriter, MadeBy, RevisionStore, ShardUse, StoreError,
    VisibleResources, Visit,
    bulk::{self, Encoded, Verdict, Write},
    opensearch::{connection::responses::MAX_DOCUMENT_BYTES, engine::Engine, read::versions::PAGE},
};

/// The query of documents that were made by certain rules.
fn made_by_clause(made_by: &MadeBy<'_>) -> Value {
    let by = |hash: &str| json!({ "term": { (index_fields::RULES_HASH): hash } });
    match made_by {
        MadeBy::Rules(hash) => by(hash),
        MadeBy::OtherRules(hash) => json!({ "bool": { "must_not": [by(hash)] } }),
        MadeBy::AnyRules => json!({ "exists": { "field": index_fields::RULES_HASH } }),
    }
}

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
        visible: &VisibleResources,
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
impl DocumentVersions for Engine {
    async fn visit_versions(
        &self,
        revision: &IndexRevision,
        extent: &Extent,
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        self.visit_extent(revision, extent, visit).await
    }

    async fn has_documents_made_by(
        &self,
        revision: &IndexRevision,
        extent: &Extent,
        made_by: &MadeBy<'_>,
    ) -> Result<bool, StoreError> {
        let is_of_others = !matches!(made_by, MadeBy::Rules(_));
        if is_of_others && planted(Bug::KeepDocumentsOfOtherRules) {
            return Ok(false);
        }
        let clause = made_by_clause(made_by);
        let found = self.ids_of(revision, extent, &clause, 1).await?;
        Ok(!found.is_empty())
    }

    async fn rejected(
        &self,
        revision: &IndexRevision,
        extent: &Extent,
    ) -> Result<Vec<Arc<str>>, StoreError> {
        let rejected = json!({ "exists": { "field": index_fields::REJECTED } });
        // At most one page: a status that counted more of them would say nothing more.
        self.ids_of(revision, extent, &rejected, PAGE).await
    }
}

#[async_trait]
impl CheckpointStore for Engine {
    async fn checkpoints(&self, cluster: &ClusterName) -> Result<Option<Checkpoints>, StoreError> {
        self.stored_checkpoints(cluster).await
    }

    async fn save_checkpoints(&self, checkpoints: &[Checkpoints]) -> Result<(), StoreError> {
        self.write_checkpoints(checkpoints).await
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

#[async_trait]
impl IndexSharing for Engine {
    fn expect_clusters(&self, clusters: usize) {
        self.placement.expect_clusters(clusters);
    }

    async fn misplaced(
        &self,
        revisions: &[IndexRevision],
    ) -> Result<BTreeSet<ClusterName>, StoreError> {
        self.find_misplaced(revisions).await
    }

    async fn sweep(&self) -> Result<(), StoreError> {
        let every_shared_index = self.options.prefix.every_shared_index();
        self.sweep_shared_indices(every_shared_index.as_str()).await
    }

    fn shard_use(&self) -> Option<ShardUse> {
        self.placement.shards(Duration::MAX)
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

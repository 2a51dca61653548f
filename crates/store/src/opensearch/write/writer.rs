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
    query::ResourceName,
};
use serde_json::{Value, json};

use crate::{
    Checkpoints, Extent, IndexRevision, IndexWriter, ShardUse, StoreError, Visit,
    bulk::{self, Encoded, Verdict, Write},
    opensearch::{
        connection::responses::MAX_DOCUMENT_BYTES,
        engine::{Engine, EngineOptions},
        indices::{
            index_template::{index_template, state_template},
            visible_resources::VisibleResources,
        },
        read::versions::PAGE,
    },
};

/// The query of the documents that were made by these rules.
fn by_rules(hash: &str) -> Value {
    json!({ "term": { (index_fields::RULES_HASH): hash } })
}

impl Engine {
    async fn has_documents(
        &self,
        revision: &IndexRevision,
        extent: &Extent,
        selected: &Value,
    ) -> Result<bool, StoreError> {
        let found = self.ids_of(revision, extent, selected, 1).await?;
        Ok(!found.is_empty())
    }
}

#[async_trait]
impl IndexWriter for Engine {
    async fn prepare(&self) -> Result<(), StoreError> {
        let EngineOptions {
            prefix,
            settings,
            fields,
            ..
        } = &self.options;
        self.claim_prefix().await?;
        let operation = "writing the index templates";
        let templates = [
            (prefix.all(), index_template(prefix, settings, fields)),
            (
                prefix.state(),
                state_template(prefix, settings, &self.options.owner),
            ),
        ];
        for (name, template) in templates {
            let path = format!("/_index_template/{name}");
            self.send_excluding(operation, path, &template, "/template/settings/index")
                .await?;
        }
        self.update_settings().await;
        Ok(())
    }

    async fn lost(&self, revisions: &[IndexRevision]) -> Result<BTreeSet<ClusterName>, StoreError> {
        self.find_lost_revisions(revisions).await
    }

    async fn open(
        &self,
        cluster: &ClusterName,
        uid: Option<&str>,
        above: u64,
    ) -> Result<IndexRevision, StoreError> {
        self.open_revision(cluster, uid, above).await
    }

    async fn activate(&self, revision: &IndexRevision) -> Result<(), StoreError> {
        self.swap_to(revision, VisibleResources::All).await
    }

    async fn show(
        &self,
        revision: &IndexRevision,
        resources: &BTreeSet<ResourceName>,
    ) -> Result<(), StoreError> {
        self.swap_to(revision, VisibleResources::Only(resources.clone()))
            .await
    }

    async fn revisions(&self) -> Result<Vec<IndexRevision>, StoreError> {
        let found = self.own_revisions().await?;
        Ok(found.into_iter().map(|found| found.revision).collect())
    }

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

    async fn identities(&self) -> Result<BTreeMap<ClusterName, String>, StoreError> {
        self.stored_identities().await
    }

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

    async fn visit_versions(
        &self,
        revision: &IndexRevision,
        extent: &Extent,
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        self.visit_extent(revision, extent, visit).await
    }

    async fn has_documents_of_other_rules(
        &self,
        revision: &IndexRevision,
        extent: &Extent,
        rules_hash: Option<&str>,
    ) -> Result<bool, StoreError> {
        if planted(Bug::KeepDocumentsOfOtherRules) {
            return Ok(false);
        }
        let other = match rules_hash {
            Some(hash) => json!({ "bool": { "must_not": [by_rules(hash)] } }),
            None => json!({ "exists": { "field": index_fields::RULES_HASH } }),
        };
        self.has_documents(revision, extent, &other).await
    }

    async fn has_documents_of_rules(
        &self,
        revision: &IndexRevision,
        extent: &Extent,
        rules_hash: &str,
    ) -> Result<bool, StoreError> {
        self.has_documents(revision, extent, &by_rules(rules_hash))
            .await
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

    async fn checkpoints(&self, cluster: &ClusterName) -> Result<Option<Checkpoints>, StoreError> {
        self.stored_checkpoints(cluster).await
    }

    async fn save_checkpoints(&self, checkpoints: &[Checkpoints]) -> Result<(), StoreError> {
        self.write_checkpoints(checkpoints).await
    }

    async fn drop_revision(&self, revision: &IndexRevision) -> Result<(), StoreError> {
        self.delete_revision(revision).await
    }

    async fn retire(&self) -> Result<(), StoreError> {
        self.remove_leftovers().await
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

    fn hand_over(&self, cluster: &ClusterName) {
        self.feed.hand_over(cluster);
    }

    fn expire_watches(&self) {
        self.feed.expire();
    }

    async fn close_change_log(&self) {
        self.feed.end().await;
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

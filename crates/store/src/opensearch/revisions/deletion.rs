//! Deletion of dropped revisions, each by a [permit](super::deletion_permit).

use fleetdex_core::{
    model::{ClusterName, IndexName},
    query::ResourceName,
};
use http::Method;
use serde_json::json;

use super::deletion_permit::DeletionPermit;
use crate::{IndexRevision, StoreError, opensearch::engine::Engine};

/// The operation, in errors.
const DELETING: &str = "deleting an index";

impl Engine {
    /// Deletes every revision of a cluster, by exact names.
    pub(crate) async fn delete_revisions(&self, cluster: &ClusterName) -> Result<(), StoreError> {
        for found in self.own_revisions().await? {
            if found.revision.cluster == *cluster {
                self.delete_revision(&found.revision).await?;
            }
        }
        Ok(())
    }

    /// Deletes one revision. If queries are answered from it, its visible objects are logged as
    /// deleted.
    pub(crate) async fn delete_revision(&self, revision: &IndexRevision) -> Result<(), StoreError> {
        let cluster = &revision.cluster;
        if !revision.is_read() && !self.feed.is_live(revision) {
            return self.delete_index(revision).await;
        }
        let Some(mut swap) = self.feed.begin_swap(cluster, None, None) else {
            self.delete_index(revision).await?;
            self.feed.end_untracked(cluster, None, None);
            return Ok(());
        };
        swap.wait_for_writes().await;
        // Nothing can be read of an index that is gone already.
        match self.refresh_index(&revision.index).await {
            Ok(()) => {
                let seen = |resource: &ResourceName| {
                    (
                        Some(&revision.index).filter(|_| revision.shows(resource)),
                        None,
                    )
                };
                self.log_all_differences(&mut swap, seen).await;
            }
            Err(_) => swap.is_complete = false,
        }
        self.delete_index(revision).await?;
        swap.finish();
        Ok(())
    }

    async fn delete_index(&self, revision: &IndexRevision) -> Result<(), StoreError> {
        if revision.target.partition().is_some() {
            return self.delete_partition(revision).await;
        }
        let index = &revision.index;
        let permit = self.permit_deletion(&revision.cluster).await?;
        let outcome = match &permit {
            Some(permit) => self.delete_index_by(index, permit).await,
            None => self.delete_index_alone(index).await,
        };
        match outcome {
            // OpenSearch takes no change of aliases that has to do with an index on a full disk.
            Err(error) if permit.is_some() && error.reason() == "Blocked" => {
                self.delete_index_alone(index).await?;
            }
            outcome => outcome?,
        }
        tracing::info!(cluster = %revision.cluster, %index, "deleted an index");
        Ok(())
    }

    /// Deletes an index if the permit is still there.
    async fn delete_index_by(
        &self,
        index: &IndexName,
        permit: &DeletionPermit,
    ) -> Result<(), StoreError> {
        let actions = [
            permit.use_up(),
            json!({ "remove_index": { "index": index } }),
        ];
        match self.change_aliases(DELETING, &actions).await {
            // It is gone already.
            Err(error @ StoreError::Refused { status: 404, .. })
                if !permit.is_missing_in(&error) =>
            {
                Ok(())
            }
            outcome => outcome,
        }
    }

    async fn delete_index_alone(&self, index: &IndexName) -> Result<(), StoreError> {
        let path = format!("/{index}?ignore_unavailable=true");
        self.send(DELETING, Method::DELETE, path, None)
            .await
            .map(drop)
    }
}

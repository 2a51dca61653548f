//! What the pipeline, audits and garbage collection need of a store.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use async_trait::async_trait;
use fleetdex_core::{model::ClusterName, query::ResourceName};

use crate::{
    Checkpoints, Extent, IndexRevision, StoreError, Visit,
    bulk::{Verdict, Write},
};

/// The shards of all nodes of an OpenSearch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardUse {
    /// Those that exist, copies included.
    pub used: u64,
    /// Those that may exist: `cluster.max_shards_per_node` for each data node.
    pub limit: u64,
}

/// The writing side of a store: index revisions, their documents, and checkpoints.
#[async_trait]
pub trait IndexWriter: Send + Sync {
    /// Makes the store ready: index templates, mapping. Idempotent.
    async fn prepare(&self) -> Result<(), StoreError>;

    /// Checks that the store can be reached and accepts the credentials. Returns the clusters whose
    /// given revision is gone or is no longer reached through its aliases.
    async fn lost(&self, revisions: &[IndexRevision]) -> Result<BTreeSet<ClusterName>, StoreError>;

    /// Returns the revision that a cluster's documents are written to. Creates one unless one fits:
    /// of this cluster (`uid` of its namespace `kube-system`, if known), of the current document
    /// shape, with a number above `above`.
    async fn open(
        &self,
        cluster: &ClusterName,
        uid: Option<&str>,
        above: u64,
    ) -> Result<IndexRevision, StoreError>;

    /// Answers queries from a complete revision and removes the cluster's other revisions, in one
    /// step.
    async fn activate(&self, revision: &IndexRevision) -> Result<(), StoreError>;

    /// Answers queries about these complete resources from a first revision, in one step. Resources
    /// that were not shown before and are not listed stay hidden.
    async fn show(
        &self,
        revision: &IndexRevision,
        resources: &BTreeSet<ResourceName>,
    ) -> Result<(), StoreError>;

    /// Every revision of this installation.
    async fn revisions(&self) -> Result<Vec<IndexRevision>, StoreError>;

    /// The UIDs of the clusters whose documents are stored, by cluster name. Empty for a store that
    /// does not outlive a restart.
    async fn identities(&self) -> Result<BTreeMap<ClusterName, String>, StoreError> {
        Ok(BTreeMap::new())
    }

    /// Writes a batch. Returns one verdict per write, in order. After an error the outcome of every
    /// write is unknown, and all of them may be sent again.
    async fn write(&self, writes: &[Write]) -> Result<Vec<Verdict>, StoreError>;

    /// Visits all documents of an extent, from one snapshot that includes every acknowledged write.
    async fn visit_versions(
        &self,
        revision: &IndexRevision,
        extent: &Extent,
        visit: Visit<'_>,
    ) -> Result<(), StoreError>;

    /// Whether documents of an extent were made by other rules than those of this hash; `None`: by
    /// any. A store that does not outlive a restart need not know.
    async fn has_documents_of_other_rules(
        &self,
        _revision: &IndexRevision,
        _extent: &Extent,
        rules_hash: Option<&str>,
    ) -> Result<bool, StoreError> {
        Ok(rules_hash.is_some())
    }

    /// Whether an extent has documents that were made by these rules. A store that does not outlive
    /// a restart says no.
    async fn has_documents_of_rules(
        &self,
        _revision: &IndexRevision,
        _extent: &Extent,
        _rules_hash: &str,
    ) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// The ids of an extent's fallback documents.
    async fn rejected(
        &self,
        revision: &IndexRevision,
        extent: &Extent,
    ) -> Result<Vec<Arc<str>>, StoreError>;

    /// The checkpoints of a cluster, of whichever revision.
    async fn checkpoints(&self, cluster: &ClusterName) -> Result<Option<Checkpoints>, StoreError>;

    /// Replaces the checkpoints of each of these clusters.
    async fn save_checkpoints(&self, checkpoints: &[Checkpoints]) -> Result<(), StoreError>;

    /// Removes one revision, if it exists.
    async fn drop_revision(&self, revision: &IndexRevision) -> Result<(), StoreError>;

    /// Removes the checkpoint index of a store location that no registry names and that holds no
    /// documents. Does nothing while an index exists that may belong to its prefix.
    async fn retire(&self) -> Result<(), StoreError>;

    /// How many clusters are going to have documents.
    fn expect_clusters(&self, _clusters: usize) {}

    /// The clusters of those live revisions whose documents belong elsewhere: their next revision is
    /// to be opened.
    async fn misplaced(
        &self,
        _revisions: &[IndexRevision],
    ) -> Result<BTreeSet<ClusterName>, StoreError> {
        Ok(BTreeSet::new())
    }

    /// Removes documents that no revision has and no query sees: those that a dropped revision has
    /// left in an index which other clusters share.
    async fn sweep(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// The use of shards, if it is known and limited.
    fn shard_use(&self) -> Option<ShardUse> {
        None
    }

    /// Removes everything of a cluster.
    async fn drop_cluster(&self, cluster: &ClusterName) -> Result<(), StoreError>;

    /// Another process writes this cluster from now on. A write of unknown outcome, which this
    /// process would have sent again, makes watches list again.
    fn hand_over(&self, _cluster: &ClusterName) {}

    /// Ends the change log: this process writes nothing more. Waits briefly until the other replicas
    /// have read the last changes and the end. A write of unknown outcome makes their watches list
    /// again instead.
    async fn close_change_log(&self) {}

    /// Ends all watches, which list again: no order of the changes would be right for every one of
    /// them.
    fn expire_watches(&self) {}
}

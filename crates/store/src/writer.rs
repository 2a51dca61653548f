//! What the pipeline, audits and garbage collection need of a store, by who needs it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use async_trait::async_trait;
use fleetdex_core::model::ClusterName;

use crate::{
    Checkpoints, CompleteResources, Extent, IndexRevision, StoreError, Visit,
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

/// By which rules documents were made, each by its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MadeBy<'h> {
    /// By these.
    Rules(&'h str),
    /// By others than these.
    OtherRules(&'h str),
    /// By any, and not by none.
    AnyRules,
}

/// The index revisions of a store: for opening, activation and garbage collection.
#[async_trait]
pub trait RevisionStore: Send + Sync {
    /// Returns the revision that a cluster's documents are written to. Creates one unless one fits:
    /// of this cluster (`uid` of its namespace `kube-system`, if known), of the current document
    /// shape, with a number above `above`.
    async fn open(
        &self,
        cluster: &ClusterName,
        uid: Option<&str>,
        above: u64,
    ) -> Result<IndexRevision, StoreError>;

    /// Answers queries about these resources of a revision, in one step. With all of them, it
    /// removes the cluster's other revisions in the same step; with some, resources that were not
    /// visible before and are not listed stay hidden.
    async fn activate(
        &self,
        revision: &IndexRevision,
        visible: &CompleteResources,
    ) -> Result<(), StoreError>;

    /// Checks that the store can be reached and accepts the credentials. Returns the clusters whose
    /// given revision is gone or is no longer reached through its aliases.
    async fn lost(&self, revisions: &[IndexRevision]) -> Result<BTreeSet<ClusterName>, StoreError>;

    /// Every revision of this installation.
    async fn revisions(&self) -> Result<Vec<IndexRevision>, StoreError>;

    /// The UIDs of the clusters whose documents are stored, by cluster name. Empty for a store that
    /// does not outlive a restart.
    async fn identities(&self) -> Result<BTreeMap<ClusterName, String>, StoreError>;

    /// Removes one revision, if it exists.
    async fn drop_revision(&self, revision: &IndexRevision) -> Result<(), StoreError>;

    /// Removes everything of a cluster.
    async fn drop_cluster(&self, cluster: &ClusterName) -> Result<(), StoreError>;

    /// Removes the checkpoint index of a store location that no registry names and that holds no
    /// documents. Does nothing while an index exists that may belong to its prefix.
    async fn retire(&self) -> Result<(), StoreError>;
}

/// Writes documents: for the pipeline.
#[async_trait]
pub trait DocumentWriter: Send + Sync {
    /// Writes a batch. Returns one verdict per write, in order. After an error the outcome of every
    /// write is unknown, and all of them may be sent again.
    async fn write(&self, writes: &[Write]) -> Result<Vec<Verdict>, StoreError>;
}

/// Reads what is stored: for lists, audits and garbage collection.
#[async_trait]
pub trait DocumentVersions: Send + Sync {
    /// Visits all documents of an extent, from one snapshot that includes every acknowledged write.
    async fn visit_versions(
        &self,
        revision: &IndexRevision,
        extent: &Extent,
        visit: Visit<'_>,
    ) -> Result<(), StoreError>;

    /// Whether an extent has documents that were made by certain rules. A store that does not
    /// outlive a restart has none that were made by this process's rules, and need not know others.
    async fn has_documents_made_by(
        &self,
        revision: &IndexRevision,
        extent: &Extent,
        made_by: &MadeBy<'_>,
    ) -> Result<bool, StoreError>;

    /// The ids of an extent's fallback documents.
    async fn rejected(
        &self,
        revision: &IndexRevision,
        extent: &Extent,
    ) -> Result<Vec<Arc<str>>, StoreError>;
}

/// Keeps the progress of streams across restarts.
#[async_trait]
pub trait CheckpointStore: Send + Sync {
    /// The checkpoints of a cluster, of whichever revision.
    async fn checkpoints(&self, cluster: &ClusterName) -> Result<Option<Checkpoints>, StoreError>;

    /// Replaces the checkpoints of each of these clusters.
    async fn save_checkpoints(&self, checkpoints: &[Checkpoints]) -> Result<(), StoreError>;
}

/// The change log, for the process that writes: when it stops, or another one takes over.
#[async_trait]
pub trait ChangeLogWriter: Send + Sync {
    /// Another process writes this cluster from now on. A write of unknown outcome, which this
    /// process would have sent again, makes watches list again.
    fn hand_over(&self, cluster: &ClusterName);

    /// Ends the change log: this process writes nothing more. Waits briefly until the other
    /// replicas have read the last changes and the end. A write of unknown outcome makes their
    /// watches list again instead.
    async fn close_change_log(&self);

    /// Ends all watches, which list again: no order of the changes would be right for every one of
    /// them.
    fn expire_watches(&self);
}

/// A store that puts small clusters into indices that they share.
#[async_trait]
pub trait IndexSharing: Send + Sync {
    /// How many clusters are going to have documents.
    fn expect_clusters(&self, clusters: usize);

    /// The clusters of those live revisions whose documents belong elsewhere: their next revision
    /// is to be opened.
    async fn misplaced(
        &self,
        revisions: &[IndexRevision],
    ) -> Result<BTreeSet<ClusterName>, StoreError>;

    /// Removes documents that no revision has and no query sees: those that a dropped revision has
    /// left in an index which other clusters share.
    async fn sweep(&self) -> Result<(), StoreError>;

    /// The use of shards, if it is known and limited.
    fn shard_use(&self) -> Option<ShardUse>;
}

/// The writing side of a store: index revisions, their documents, checkpoints, and the change log.
pub trait IndexWriter:
    RevisionStore + DocumentWriter + DocumentVersions + CheckpointStore + ChangeLogWriter
{
    /// How small clusters share indices; `None` in a store without indices.
    fn index_sharing(&self) -> Option<&dyn IndexSharing>;
}

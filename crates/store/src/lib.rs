//! Where documents live: the contract of a store, and the stores that keep it.
//!
//! ```text
//!  pipeline ──writes──> bulk ──> opensearch ──┐
//!                           └──> memory ──────┤──> changes ──> watches
//!  server ──query──> merged ──> search ───────┘
//! ```
//!
//! Writes carry versions, and an older version never replaces a newer one. Readers see a generation of an index only when it is complete,
//! or are told that it is not. [`changes`] logs every write in the order in which readers may see it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use async_trait::async_trait;
use fleetdex_core::{
    model::ClusterName,
    query::{
        Cursor, GroupKey, Groups, Page, Query, Relative, Relatives, ResourceName, merge::PlacedPage,
    },
};

use crate::bulk::{Verdict, Write};

pub mod bulk;
pub mod changes;
mod codec;
mod content;
mod document;
mod draft;
mod error;
mod extent;
#[cfg(any(test, feature = "testing"))]
pub mod fake;
mod filter;
mod generation;
pub mod memory;
pub mod merged;
pub mod opensearch;
mod packed;
mod quota;
mod terms;

use changes::Log;
pub use error::StoreError;
pub use extent::{Extent, KindExtent, Stored, Visit};
pub use generation::{Checkpoint, Checkpoints, Generation, KindOfUnit};

/// One engine that keeps documents and answers queries.
#[async_trait]
pub trait Store: Send + Sync {
    /// Makes the store ready: index templates, mapping. Idempotent.
    async fn prepare(&self) -> Result<(), StoreError>;

    /// Asks whether the store is there and accepts the credentials, and which of these generations are gone, or no longer
    /// reached as they should be.
    async fn lost(&self, generations: &[Generation]) -> Result<BTreeSet<ClusterName>, StoreError>;

    /// The generation that a cluster's documents are to be written to, made if there is none that fits: one of this
    /// cluster (`uid` of its namespace `kube-system`, if that is known), with documents of today's shape, of a number above `above`.
    async fn open(
        &self,
        cluster: &ClusterName,
        uid: Option<&str>,
        above: u64,
    ) -> Result<Generation, StoreError>;

    /// Lets queries be answered from a generation that is complete, and removes the cluster's other ones, in one step.
    async fn activate(&self, generation: &Generation) -> Result<(), StoreError>;

    /// Lets queries about these resources, which are complete, be answered from a first generation, in one step; about no others that have not been
    /// shown before.
    async fn show(
        &self,
        generation: &Generation,
        resources: &BTreeSet<ResourceName>,
    ) -> Result<(), StoreError>;

    /// Every generation of this installation.
    async fn generations(&self) -> Result<Vec<Generation>, StoreError>;

    /// The UIDs of the clusters whose documents are kept, by name; those of a store that keeps nothing over a restart are not known.
    async fn identities(&self) -> Result<BTreeMap<ClusterName, String>, StoreError> {
        Ok(BTreeMap::new())
    }

    /// Writes a batch; one verdict per write, in order. An error means that the outcome of all of them is unknown, and that
    /// they may be sent again.
    async fn write(&self, writes: &[Write]) -> Result<Vec<Verdict>, StoreError>;

    /// Visits all documents of an extent, as of one moment that includes every acknowledged write.
    async fn visit_versions(
        &self,
        generation: &Generation,
        extent: &Extent,
        visit: Visit<'_>,
    ) -> Result<(), StoreError>;

    /// Ids of an extent's documents that are only fallback documents.
    async fn rejected(
        &self,
        generation: &Generation,
        extent: &Extent,
    ) -> Result<Vec<Arc<str>>, StoreError>;

    /// The checkpoints of a cluster, of whatever generation.
    async fn checkpoints(&self, cluster: &ClusterName) -> Result<Option<Checkpoints>, StoreError>;

    /// Keeps checkpoints in place of those that each cluster had.
    async fn save_checkpoints(&self, checkpoints: &[Checkpoints]) -> Result<(), StoreError>;

    /// Removes one generation, if it is there.
    async fn drop_generation(&self, generation: &Generation) -> Result<(), StoreError>;

    /// Removes what is left of a place that holds no documents any more and that no registry names: the index of checkpoints. Nothing happens while any
    /// index is there that may be under its prefix.
    async fn retire(&self) -> Result<(), StoreError>;

    /// Removes everything of a cluster.
    async fn drop_cluster(&self, cluster: &ClusterName) -> Result<(), StoreError>;

    /// Answers one page of a query; `from` is the cursor of the page before. The view that the next page is read from stays open for five minutes, and
    /// counts as its requester's; what one user opens beyond a share ends what that user opened before.
    async fn search(&self, query: &Query, from: Option<&Cursor>) -> Result<Page, StoreError>;

    /// Says that an answer is being read to its end from the view of a cursor: the view does not end for another one.
    fn pin(&self, _cursor: &Cursor) {}

    /// Closes the view of a cursor, as nothing more is read from it. Does not wait.
    fn release(&self, _cursor: &Cursor) {}

    /// Finds objects of any kind by what owner searches go by; refused if they are more than
    /// [`MAX_OWNERS`](fleetdex_core::query::owners::MAX_OWNERS).
    async fn relatives(&self, asked: &Relatives) -> Result<BTreeSet<Relative>, StoreError>;

    /// The first page of an answer, and the number of the last change that it is sure to show: a watch from there misses nothing.
    async fn first_page(&self, query: &Query) -> Result<(Page, u64), StoreError>;

    /// One page of a part of an answer that is merged from several stores. Without `from` it is the first one, which may have been read without a
    /// view if nothing follows it. The view stays open until it is [released](Store::release), or has not been asked for in five minutes.
    async fn placed_page(
        &self,
        query: &Query,
        from: Option<&Cursor>,
    ) -> Result<PlacedPage, StoreError>;

    /// Opens a view of what a query selects, and names it. It counts as its requester's.
    async fn open_view(&self, query: &Query) -> Result<String, StoreError>;

    /// The number of the last change that every answer is sure to show from now on, for somebody who is about to list a resource.
    async fn moment(&self, resource: &ResourceName) -> Result<u64, StoreError>;

    /// The log of the changes of its answers, kept from now on at the latest, and as long as somebody asks for it now and then.
    async fn changes(&self) -> Result<Arc<Log>, StoreError>;

    /// Another process writes what belongs to a cluster from now on. A write of unknown outcome, which would have been sent again from here, makes
    /// watches list again.
    fn hand_over(&self, _cluster: &ClusterName) {}

    /// Nothing is written from here any more. Waits a little until the other replicas have read what was changed, and that this is all – unless
    /// the outcome of a write is not known, which makes their watches list again.
    async fn end_changes(&self) {}

    /// Makes whoever watches list again: what was changed cannot be told in an order that would be right for all.
    fn expire_changes(&self) {}

    /// Counts the objects of a query in groups, exactly. `top`: how many of the largest groups are told.
    async fn aggregate(
        &self,
        query: &Query,
        by: &[GroupKey],
        top: usize,
    ) -> Result<Groups, StoreError>;

    /// The groups that the objects of a query are in, and about how many each has. Keeps nothing open: a group that comes or goes meanwhile may be missing.
    async fn groups(&self, query: &Query, by: &[GroupKey]) -> Result<Groups, StoreError> {
        self.aggregate(query, by, usize::MAX).await
    }
}

//! Where documents live: the `Store` seam and its engines.

use std::collections::BTreeSet;

use async_trait::async_trait;

use crate::{
    bulk::{Verdict, Write},
    model::{ClusterName, IndexName, Namespace, Version},
    query::{Cursor, Page, Query},
};

mod error;
pub mod opensearch;

pub use error::StoreError;

/// Which documents of a cluster are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Those of one kind, in one namespace or in all.
    Kind(KindExtent),
    /// Those that belong to none of these.
    Outside(Vec<KindExtent>),
}

/// The documents of one kind, in one namespace or in all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KindExtent {
    /// `apiVersion` of the documents.
    pub api_version: String,
    /// Kind of the documents.
    pub kind: String,
    /// Only this namespace; absent: all.
    pub namespace: Option<Namespace>,
}

/// Is told the id and version of every document of an [`Extent`].
pub type Visit<'v> = &'v mut (dyn FnMut(&str, Version) + Send);

/// One engine that keeps documents and answers queries.
#[async_trait]
pub trait Store: Send + Sync {
    /// Makes the store ready: index template, mapping. Idempotent.
    async fn prepare(&self) -> Result<(), StoreError>;

    /// Asks whether the store is there and accepts the credentials, and which of these clusters have no alias any more.
    async fn lost(&self, ensured: &BTreeSet<ClusterName>) -> Result<BTreeSet<ClusterName>, StoreError>;

    /// Makes the alias of a cluster ready to be written to. Idempotent.
    async fn ensure(&self, cluster: &ClusterName) -> Result<(), StoreError>;

    /// The alias that the documents of a cluster are written to.
    fn alias(&self, cluster: &ClusterName) -> IndexName;

    /// Writes a batch; one verdict per write, in order. An error means that the outcome of all of them is unknown, and that
    /// they may be sent again.
    async fn write(&self, writes: &[Write]) -> Result<Vec<Verdict>, StoreError>;

    /// Visits id and version of all documents of an extent, as of one moment that includes every acknowledged write.
    async fn visit_versions(&self, cluster: &ClusterName, extent: &Extent, visit: Visit<'_>) -> Result<(), StoreError>;

    /// The clusters that this installation has documents of.
    async fn clusters(&self) -> Result<Vec<ClusterName>, StoreError>;

    /// Removes everything of a cluster.
    async fn drop_cluster(&self, cluster: &ClusterName) -> Result<(), StoreError>;

    /// Answers one page of a query; `from` is the cursor of the page before.
    async fn search(&self, query: &Query, from: Option<&Cursor>) -> Result<Page, StoreError>;
}

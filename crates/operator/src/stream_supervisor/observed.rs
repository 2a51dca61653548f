//! What of the running stores and streams a plan and its publication depend on.

use std::collections::BTreeSet;

use fleetdex_core::model::{ClusterName, StoreName};

use super::{former_locations::FormerLocations, revisions::WrittenRevisions};
use crate::plan::StreamKey;

/// What has been seen of the running stores and streams.
#[derive(PartialEq)]
pub struct ObservedStreams {
    /// The stores that are open and can be read.
    pub open_stores: BTreeSet<StoreName>,
    /// Of how many clusters without a discovery the stores have been read.
    pub recalled_clusters: usize,
    /// The clusters whose queries are answered from documents of another shape than the plan's,
    /// until the next revision is complete.
    pub rebuilding: BTreeSet<(StoreName, ClusterName)>,
    /// The streams whose objects have not all been written yet with the fields of their
    /// definitions. Queries cannot select by those fields yet.
    pub missing_fields: BTreeSet<StreamKey>,
    /// The clusters that the new and former locations of moved registries answer queries of; `None`
    /// until every location has been read.
    pub live_clusters: Option<BTreeSet<(StoreName, ClusterName)>>,
}

impl ObservedStreams {
    pub(super) fn new(revisions: WrittenRevisions<'_>, locations: &FormerLocations) -> Self {
        let stores = || revisions.stores.iter();
        Self {
            open_stores: stores()
                .filter(|(_, store)| store.pipeline.store.writer().is_some())
                .map(|(name, _)| name.clone())
                .collect(),
            recalled_clusters: stores()
                .map(|(_, store)| store.pipeline.checkpoints.loaded_cluster_count())
                .sum(),
            rebuilding: revisions.rebuilding(),
            missing_fields: revisions.streams.missing_fields(),
            live_clusters: locations.live_clusters(),
        }
    }
}

//! What the feed knows of revisions and of writes without an outcome.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_core::{
    model::{ClusterName, IndexName},
    query::ResourceName,
};
use tokio::time::Instant;

use super::{log_documents::DocumentPacking, unacknowledged::UnacknowledgedWrites};
use crate::changes::Change;

pub(super) struct FeedState {
    pub(super) used: Instant,
    /// When the feed was started last.
    pub(super) started: Instant,
    /// How often it was started.
    pub(super) starts: u64,
    pub(super) packing: Arc<DocumentPacking>,
    /// The write aliases of the revisions that answer queries.
    pub(super) live: BTreeMap<ClusterName, IndexName>,
    /// The visible resources of revisions that are not complete.
    pub(super) visible: BTreeMap<IndexName, BTreeSet<ResourceName>>,
    /// Revisions that are about to answer queries, with what was written to them meanwhile.
    pub(super) pending: BTreeMap<IndexName, Vec<Change>>,
    /// Swaps that have not ended.
    pub(super) swaps: usize,
    /// Objects with writes of unknown outcome.
    pub(super) unacknowledged: UnacknowledgedWrites,
    /// When an untracked write was last left without an outcome.
    pub(super) last_uncertain: Option<Instant>,
}

impl FeedState {
    pub(super) fn set_live(
        &mut self,
        cluster: &ClusterName,
        target: Option<&IndexName>,
        complete_resources: Option<BTreeSet<ResourceName>>,
    ) {
        if let Some(target) = target {
            self.set_visible(target, complete_resources);
        }
        let earlier = match target {
            Some(target) => self.live.insert(cluster.clone(), target.clone()),
            None => self.live.remove(cluster),
        };
        if let Some(earlier) = earlier.filter(|earlier| Some(earlier) != target) {
            self.unacknowledged.forget_index(&earlier);
            self.visible.remove(&earlier);
        }
    }

    pub(super) fn set_visible(
        &mut self,
        target: &IndexName,
        complete_resources: Option<BTreeSet<ResourceName>>,
    ) {
        match complete_resources {
            Some(resources) => drop(self.visible.insert(target.clone(), resources)),
            None => drop(self.visible.remove(target)),
        }
    }
}

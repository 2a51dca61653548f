//! Placement: whether the documents of a cluster are in an index of its own, or in one that small
//! clusters share. Everything else names aliases and does not know.
//!
//! A cluster moves by its next index revision, which is filled elsewhere while the earlier one
//! answers queries.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use fleetdex_core::model::{ClusterName, IndexName};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{alias_filters::ClusterPartition, change_queue::ChangeQueue};
use crate::{
    ShardUse, StoreError,
    opensearch::{read::contexts::OPENINGS, revisions::planned_activation::PlannedActivation},
};

/// How clusters are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacementRules {
    /// Whether small clusters may share indices.
    pub shares_indices: bool,
    /// A cluster with more documents is not small. One that has twice as many moves to an index of
    /// its own.
    pub small_documents: u64,
    /// Revisions of clusters in one shared index.
    pub clusters_per_index: usize,
    /// Clusters share indices if one for each of them would take more than this percentage of the
    /// shards that OpenSearch allows.
    pub shards_percent: u64,
    /// How often documents are counted and clusters are moved.
    pub interval: Duration,
}

impl Default for PlacementRules {
    /// An index of 128 clusters of 10,000 documents of 3 kB has 4 GB, a tenth of what one shard may
    /// have; 10,000 clusters take 79 of them. 40 % of the 1,000 shards of one node are 200 clusters
    /// with one replica each.
    fn default() -> Self {
        Self {
            shares_indices: true,
            small_documents: 10_000,
            clusters_per_index: 128,
            shards_percent: 40,
            interval: Duration::from_mins(1),
        }
    }
}

/// Where the documents of a cluster are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexPlace {
    /// In an index of its own.
    Own,
    /// In an index that it shares.
    Shared,
}

/// What a placement is decided by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlacementFacts {
    /// Where the documents are; `None`: nowhere yet.
    pub(crate) current: Option<IndexPlace>,
    /// How many documents there are, if known.
    pub(crate) documents: Option<u64>,
    /// Whether an index for each cluster would take too many shards.
    pub(crate) is_scarce: bool,
    /// Whether there are shards for one more index.
    pub(crate) has_room: bool,
}

impl PlacementRules {
    /// Where the documents of a cluster belong. One that shares an index stays there until it has
    /// outgrown it, so that clusters do not move to and fro with the number of others.
    pub(crate) fn place(&self, facts: PlacementFacts) -> IndexPlace {
        let PlacementFacts {
            current,
            documents,
            is_scarce,
            has_room,
        } = facts;
        let is_small = |factor: u64| {
            documents.is_none_or(|documents| documents <= factor * self.small_documents)
        };
        match current {
            None if self.shares_indices && (is_scarce || !has_room) => IndexPlace::Shared,
            Some(IndexPlace::Own)
                if self.shares_indices && is_scarce && documents.is_some() && is_small(1) =>
            {
                IndexPlace::Shared
            }
            None | Some(IndexPlace::Own) => IndexPlace::Own,
            // Without room it would have no place at all.
            Some(IndexPlace::Shared) if has_room && (!self.shares_indices || !is_small(2)) => {
                IndexPlace::Own
            }
            Some(IndexPlace::Shared) => IndexPlace::Shared,
        }
    }
}

/// Partitions that are added by one request: as many as revisions are opened at a time.
const ADDITIONS: usize = OPENINGS;
/// Activations that are made by one request: the names of their indices fit into one path or a few.
const ACTIVATIONS: usize = 64;
/// At most this many clusters move at a time: each is listed again.
const MOVES: usize = 4;
/// After this time a move that has not ended no longer counts: its member may not answer.
const MAX_MOVE: Duration = Duration::from_mins(5);
/// Of the shards that OpenSearch allows, these are left for the next revisions of clusters.
const KEPT_FREE_PERCENT: u64 = 10;

/// What is known of the clusters and shards of one OpenSearch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Placement(Arc<PlacementInner>);

#[derive(Debug, Default)]
struct PlacementInner {
    planned: AtomicUsize,
    state: Mutex<PlacementState>,
    /// Held while shared indices are changed by this process: of requests that change one at the
    /// same time only one succeeds.
    changes: tokio::sync::Mutex<()>,
    additions: ChangeQueue<ClusterPartition, Result<bool, StoreError>>,
    activations: ChangeQueue<PlannedActivation, Result<Vec<IndexName>, StoreError>>,
}

#[derive(Debug, Default)]
struct PlacementState {
    shards: Option<(Instant, ShardUse)>,
    documents: BTreeMap<ClusterName, u64>,
    counted: Option<Instant>,
    moves: BTreeMap<ClusterName, Instant>,
    with_room: Option<IndexName>,
}

impl Placement {
    /// How many clusters are going to have documents.
    pub(crate) fn expect_clusters(&self, clusters: usize) {
        self.0.planned.store(clusters, Ordering::Relaxed);
    }

    pub(crate) fn expected_clusters(&self) -> usize {
        self.0.planned.load(Ordering::Relaxed)
    }

    /// The use of shards, unless it was read too long ago.
    pub(crate) fn shards(&self, interval: Duration) -> Option<ShardUse> {
        let (read, shards) = self.0.state.lock().shards?;
        (read.elapsed() < interval).then_some(shards)
    }

    pub(crate) fn set_shards(&self, shards: ShardUse) {
        self.0.state.lock().shards = Some((Instant::now(), shards));
    }

    /// Whether documents are to be counted and clusters moved; it is not again for this interval.
    pub(crate) fn is_due(&self, interval: Duration) -> bool {
        let mut state = self.0.state.lock();
        let is_due = state.counted.is_none_or(|at| at.elapsed() >= interval);
        if is_due {
            state.counted = Some(Instant::now());
        }
        is_due
    }

    pub(crate) fn set_documents(&self, documents: BTreeMap<ClusterName, u64>) {
        self.0.state.lock().documents = documents;
    }

    pub(crate) fn documents(&self, cluster: &ClusterName) -> Option<u64> {
        self.0.state.lock().documents.get(cluster).copied()
    }

    /// Notes that a cluster begins to move, if there are few moves; whether it may.
    pub(crate) fn begin_move(&self, cluster: &ClusterName) -> bool {
        let mut state = self.0.state.lock();
        state.moves.retain(|_, began| began.elapsed() < MAX_MOVE);
        if state.moves.len() >= MOVES || state.moves.contains_key(cluster) {
            return false;
        }
        state.moves.insert(cluster.clone(), Instant::now());
        true
    }

    pub(crate) fn end_move(&self, cluster: &ClusterName) {
        self.0.state.lock().moves.remove(cluster);
    }

    /// The shared index that had room for a partition last time.
    pub(crate) fn with_room(&self) -> Option<IndexName> {
        self.0.state.lock().with_room.clone()
    }

    pub(crate) fn set_with_room(&self, index: IndexName) {
        self.0.state.lock().with_room = Some(index);
    }

    /// Waits until this process changes no shared index.
    pub(crate) async fn begin_change(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.0.changes.lock().await
    }

    /// Adds a partition in turn, with others that wait.
    pub(crate) async fn add_in_turn<F: Future<Output = Vec<Result<bool, StoreError>>>>(
        &self,
        added: ClusterPartition,
        add: impl Fn(Vec<ClusterPartition>) -> F,
    ) -> Result<bool, StoreError> {
        let PlacementInner {
            changes, additions, ..
        } = &*self.0;
        additions.submit(changes, ADDITIONS, added, add).await
    }

    /// Activates a revision in turn, with others that wait. Returns the shared indices that it has
    /// removed partitions from.
    pub(crate) async fn activate_in_turn<
        F: Future<Output = Vec<Result<Vec<IndexName>, StoreError>>>,
    >(
        &self,
        activation: PlannedActivation,
        make: impl Fn(Vec<PlannedActivation>) -> F,
    ) -> Result<Vec<IndexName>, StoreError> {
        let PlacementInner {
            changes,
            activations,
            ..
        } = &*self.0;
        activations
            .submit(changes, ACTIVATIONS, activation, make)
            .await
    }
}

/// Whether an index for each of these clusters would take too many shards.
pub(crate) fn is_scarce(
    clusters: usize,
    shards_of_index: u64,
    shards: ShardUse,
    percent: u64,
) -> bool {
    let needed = (clusters as u64).saturating_mul(shards_of_index);
    needed.saturating_mul(100) > shards.limit.saturating_mul(percent)
}

/// Whether there is room for one more index.
pub(crate) fn has_room(shards_of_index: u64, shards: ShardUse) -> bool {
    let usable = shards.limit.saturating_mul(100 - KEPT_FREE_PERCENT) / 100;
    shards.used.saturating_add(shards_of_index) <= usable
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(current: Option<IndexPlace>, documents: Option<u64>) -> PlacementFacts {
        PlacementFacts {
            current,
            documents,
            is_scarce: true,
            has_room: true,
        }
    }

    #[test]
    fn a_cluster_has_an_index_of_its_own_unless_shards_are_scarce_and_it_is_small() {
        let rules = PlacementRules::default();
        for (current, documents, expected) in [
            (None, None, IndexPlace::Shared),
            (Some(IndexPlace::Own), None, IndexPlace::Own),
            (Some(IndexPlace::Own), Some(10_000), IndexPlace::Shared),
            (Some(IndexPlace::Own), Some(10_001), IndexPlace::Own),
            (Some(IndexPlace::Shared), None, IndexPlace::Shared),
            (Some(IndexPlace::Shared), Some(20_000), IndexPlace::Shared),
            (Some(IndexPlace::Shared), Some(20_001), IndexPlace::Own),
        ] {
            let facts = facts(current, documents);
            assert_eq!(rules.place(facts), expected, "{facts:?}");
            let plenty = PlacementFacts {
                is_scarce: false,
                ..facts
            };
            let stays = if current == Some(IndexPlace::Shared) {
                expected
            } else {
                IndexPlace::Own
            };
            assert_eq!(rules.place(plenty), stays, "{plenty:?}");
        }
    }

    #[test]
    fn without_shards_every_cluster_has_a_place_all_the_same() {
        let full = |current, documents| PlacementFacts {
            has_room: false,
            is_scarce: false,
            ..facts(current, documents)
        };
        let rules = PlacementRules::default();
        assert_eq!(rules.place(full(None, None)), IndexPlace::Shared);
        let outgrown = full(Some(IndexPlace::Shared), Some(1_000_000));
        assert_eq!(rules.place(outgrown), IndexPlace::Shared);
    }

    #[test]
    fn without_sharing_clusters_leave_shared_indices() {
        let rules = PlacementRules {
            shares_indices: false,
            ..PlacementRules::default()
        };
        for current in [None, Some(IndexPlace::Own), Some(IndexPlace::Shared)] {
            assert_eq!(rules.place(facts(current, Some(1))), IndexPlace::Own);
        }
    }

    #[test]
    fn shards_are_scarce_for_hundreds_of_clusters_on_one_node() {
        let shards = |used| ShardUse { used, limit: 1_000 };
        assert!(!is_scarce(200, 2, shards(0), 40));
        assert!(is_scarce(201, 2, shards(0), 40));
        assert!(!is_scarce(
            1_000,
            2,
            ShardUse {
                used: 0,
                limit: 10_000
            },
            40
        ));
        assert!(has_room(2, shards(898)) && !has_room(2, shards(899)));
    }

    #[tokio::test(start_paused = true)]
    async fn few_clusters_move_at_a_time() {
        let placement = Placement::default();
        let cluster = |number: usize| format!("member{number}").parse().unwrap();
        assert!((0..MOVES).all(|number| placement.begin_move(&cluster(number))));
        assert!(!placement.begin_move(&cluster(MOVES)));
        placement.end_move(&cluster(0));
        assert!(placement.begin_move(&cluster(MOVES)) && !placement.begin_move(&cluster(MOVES)));
        tokio::time::advance(MAX_MOVE).await;
        assert!(placement.begin_move(&cluster(1)));
    }
}

//! Placement: whether the documents of a cluster are in an index of its own, or in one that small
//! clusters share. Everything else names aliases and does not know.
//!
//! A cluster moves by its next index revision, which is filled elsewhere while the earlier one
//! answers queries.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicUsize},
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
#[derive(Clone, Default)]
pub(crate) struct Placement(pub(super) Arc<PlacementInner>);

#[derive(Default)]
pub(super) struct PlacementInner {
    /// How many clusters are going to have documents.
    pub(super) expected: AtomicUsize,
    pub(super) state: Mutex<PlacementState>,
    /// Held while shared indices are changed by this process: of requests that change one at the
    /// same time only one succeeds.
    pub(super) changes: tokio::sync::Mutex<()>,
    additions: ChangeQueue<ClusterPartition, Result<bool, StoreError>>,
    activations: ChangeQueue<PlannedActivation, Result<Vec<IndexName>, StoreError>>,
}

#[derive(Default)]
pub(super) struct PlacementState {
    pub(super) shards: Option<(Instant, ShardUse)>,
    pub(super) documents: BTreeMap<ClusterName, u64>,
    counted: Option<Instant>,
    moves: BTreeMap<ClusterName, Instant>,
    /// The shared index that had room for a partition last time.
    pub(super) with_room: Option<IndexName>,
}

impl Placement {
    /// The use of shards, unless it was read too long ago.
    pub(crate) fn shards(&self, interval: Duration) -> Option<ShardUse> {
        let (read, shards) = self.0.state.lock().shards?;
        (read.elapsed() < interval).then_some(shards)
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

    /// Adds a partition in turn, with others that wait.
    pub(crate) async fn add_in_turn<F: Future<Output = Vec<Result<bool, StoreError>>>>(
        &self,
        added: ClusterPartition,
        add: impl Fn(Vec<ClusterPartition>) -> F,
    ) -> Result<bool, StoreError> {
        let inner = &*self.0;
        let added = inner
            .additions
            .submit(&inner.changes, ADDITIONS, added, add);
        added.await
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
        let (changes, activations) = (&self.0.changes, &self.0.activations);
        let made = activations.submit(changes, ACTIVATIONS, activation, make);
        made.await
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

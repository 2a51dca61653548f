//! Decides whether a cluster has an index of its own, or is small enough to share one.

use std::time::Duration;

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
        let (documents, has_room) = (facts.documents, facts.has_room);
        let is_small = |factor: u64| {
            documents.is_none_or(|documents| documents <= factor * self.small_documents)
        };
        let may_share = self.shares_indices && facts.is_scarce;
        match facts.current {
            None if may_share || self.shares_indices && !has_room => IndexPlace::Shared,
            Some(IndexPlace::Own) if may_share && documents.is_some() && is_small(1) => {
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
}

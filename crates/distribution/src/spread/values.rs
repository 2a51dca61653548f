//! Clusters and groups among which is chosen, and why there is no choice.

use std::{cmp::Reverse, collections::BTreeSet, fmt};

use fleetdex_crds::policy::SpreadConstraint;

use crate::cluster::TargetCluster;

/// By what clusters are grouped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpreadKey {
    /// Each cluster is a group.
    Cluster,
    /// The provider.
    Provider,
    /// The region.
    Region,
    /// The zones.
    Zone,
    /// The value of a label.
    Label(String),
}

impl SpreadKey {
    /// What a constraint groups by.
    pub fn of(constraint: &SpreadConstraint) -> Self {
        let label = constraint.spread_by_label.as_deref().unwrap_or_default();
        if !label.is_empty() {
            return Self::Label(label.to_owned());
        }
        match constraint.spread_by_field.as_deref() {
            Some("provider") => Self::Provider,
            Some("region") => Self::Region,
            Some("zone") => Self::Zone,
            _ => Self::Cluster,
        }
    }

    /// The groups of a cluster.
    pub fn groups(&self, cluster: &TargetCluster) -> Vec<String> {
        let one = |text: &str| -> Vec<String> {
            let known = Some(text).filter(|text| !text.is_empty());
            known.map(str::to_owned).into_iter().collect()
        };
        match self {
            Self::Cluster => one(&cluster.name),
            Self::Provider => one(&cluster.provider),
            Self::Region => one(&cluster.region),
            Self::Zone => {
                let zones: BTreeSet<&String> = cluster.zones.iter().collect();
                zones.into_iter().cloned().collect()
            }
            Self::Label(key) => cluster.labels.get(key).cloned().into_iter().collect(),
        }
    }
}

impl fmt::Display for SpreadKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster => out.write_str("name"),
            Self::Provider => out.write_str("provider"),
            Self::Region => out.write_str("region"),
            Self::Zone => out.write_str("zone"),
            Self::Label(key) => write!(out, "label {key}"),
        }
    }
}

/// A cluster among which is chosen.
#[derive(Clone, Debug)]
pub struct RankedCluster<'a> {
    /// The cluster.
    pub cluster: &'a TargetCluster,
    /// The number of its overflow tier; smaller ones are taken first.
    pub tier: usize,
    /// How much it is preferred: 100 where the object is already, otherwise 0.
    pub score: i64,
    /// The replicas for which there is room, those that it has among them.
    pub available: i64,
}

impl RankedCluster<'_> {
    /// The order in which clusters are taken.
    pub(super) fn rank(&self) -> impl Ord {
        (
            self.tier,
            Reverse(self.score),
            Reverse(self.available),
            self.cluster.name.clone(),
        )
    }
}

/// How much room the chosen clusters need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeededRoom {
    /// Each cluster gets this many replicas; room is only a preference.
    Each(i64),
    /// All of them together get this many.
    Together(i64),
}

/// No set of clusters keeps the constraints.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpreadError {
    /// There are fewer groups than wanted.
    #[error("{found} clusters or groups by {by} fit, and at least {least} are wanted")]
    TooFew {
        /// By what clusters are grouped.
        by: String,
        /// The groups that fit.
        found: usize,
        /// The least groups.
        least: usize,
    },
    /// The groups have fewer clusters than wanted.
    #[error("no set of groups by {by} has {least} clusters")]
    TooFewClusters {
        /// By what clusters are grouped.
        by: String,
        /// The least clusters.
        least: usize,
    },
    /// The groups need more clusters than allowed.
    #[error("the chosen groups need {needed} clusters, and at most {most} are allowed")]
    TooManyGroups {
        /// The clusters of the chosen groups.
        needed: usize,
        /// The most clusters.
        most: usize,
    },
    /// The clusters that may be chosen together have too little room.
    #[error("no {most} clusters have room for {wanted} replicas together")]
    NoRoom {
        /// The most clusters.
        most: usize,
        /// The replicas.
        wanted: i64,
    },
}

/// The least and the most groups.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupBounds {
    pub(super) least: usize,
    pub(super) most: usize,
}

impl GroupBounds {
    /// Of a constraint; without one there is a cluster at least.
    pub(super) fn of(constraint: Option<&SpreadConstraint>) -> Self {
        let bound = |value: Option<i64>| {
            let positive = value.filter(|count| *count > 0);
            positive.map(|count| usize::try_from(count).unwrap_or(usize::MAX))
        };
        Self {
            least: bound(constraint.and_then(|one| one.min_groups)).unwrap_or(1),
            most: bound(constraint.and_then(|one| one.max_groups)).unwrap_or(usize::MAX),
        }
    }
}

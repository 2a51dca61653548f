//! What is placed, and where it goes.

use std::{collections::BTreeSet, sync::Arc};

use fleetdex_crds::{binding::GracefulEvictionTask, policy::ClusterPlacement};
use serde::Serialize;

use crate::{
    claim::PolicyName,
    division::Shares,
    rollout::{ResumedWave, RolloutState},
    sets::SetName,
    template_name::KindName,
};

/// What is placed.
#[derive(Clone, Debug, Default)]
pub struct PlacedObject {
    /// Its kind.
    pub kind: KindName,
    /// UID; decides who gets the odd replica.
    pub uid: String,
    /// The replicas, if the object has replicas or its pods require something.
    pub replicas: Option<i64>,
    /// Whether it has several pod templates, whose replicas are not divided.
    pub has_components: bool,
}

/// Where an object was placed before.
#[derive(Clone, Debug, Default)]
pub struct PreviousPlacement {
    /// The clusters and their replicas.
    pub clusters: Shares,
    /// The clusters that it is evicted from: see [`crate::failover`].
    pub evictions: Vec<GracefulEvictionTask>,
    /// The clusters that it was moved away from, and that may still have a copy.
    pub leaving: BTreeSet<String>,
    /// The bindings of the objects that need it, as namespace and name.
    pub required_by: Vec<(String, String)>,
    /// Whether it is there for them alone.
    pub is_needed_only: bool,
    /// The policy that has claimed it.
    pub claimed_by: Option<PolicyName>,
    /// The content for which its lazy policy had an effect: see [`crate::activation`].
    pub activated_for: Option<String>,
    /// The rules by which it was placed, if they are known.
    pub placement: Option<ClusterPlacement>,
    /// The group of clusters that was used.
    pub affinity_name: Option<String>,
    /// Whether the object is to be placed as if it were new.
    pub is_rebalanced: bool,
    /// Whether clusters keep the object when it is deleted from the control plane.
    pub preserves: bool,
    /// The set that it belongs to.
    pub set: Option<Arc<SetName>>,
    /// The replicas of clusters by the stable revision of its set, while another one is rolled out.
    pub stable: Option<Shares>,
    /// How far its waves are.
    pub rollout: Option<RolloutState>,
    /// The wave that a user resumes.
    pub resumed: Option<ResumedWave>,
}

impl PreviousPlacement {
    /// Where the object is, with the clusters that may still have a copy; some come twice.
    pub fn clusters_with_copies(&self) -> impl Iterator<Item = &str> {
        let evictions = self.evictions.iter();
        let left = evictions.map(|task| &task.from_cluster);
        let left = left.chain(&self.leaving);
        self.clusters.keys().chain(left).map(String::as_str)
    }

    /// The clusters that may have a copy and are no target.
    pub fn left_by(&self, targets: &[PlacedReplicas]) -> BTreeSet<&str> {
        let targets = targets.iter().map(|target| target.name.as_str());
        if targets.clone().eq(self.clusters_with_copies()) {
            return BTreeSet::new();
        }
        let targets: BTreeSet<&str> = targets.collect();
        let with_copies = self.clusters_with_copies();
        with_copies
            .filter(|cluster| !targets.contains(cluster))
            .collect()
    }
}

/// A cluster and its replicas.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlacedReplicas {
    /// The cluster.
    pub name: String,
    /// Its replicas; 0 for objects without replicas.
    pub replicas: i64,
}

/// Why a cluster does not get the object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NotChosen {
    /// The cluster.
    pub cluster: String,
    /// Every reason.
    pub reason: String,
}

/// Where an object goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// The clusters, by name.
    pub clusters: Vec<PlacedReplicas>,
    /// The group of clusters that is used.
    pub affinity_name: Option<String>,
    /// Why the object could not be placed; `clusters` is then what was there before.
    pub unschedulable: Option<String>,
    /// The other clusters.
    pub not_chosen: Vec<NotChosen>,
}

impl Placed {
    /// Adds clusters that were not asked, and why.
    pub fn forbid(&mut self, clusters: impl Iterator<Item = NotChosen>) {
        let chosen = self.clusters.iter();
        let chosen: BTreeSet<&str> = chosen.map(|one| one.name.as_str()).collect();
        let others = clusters.filter(|one| !chosen.contains(one.cluster.as_str()));
        self.not_chosen.extend(others);
        self.not_chosen
            .sort_by(|one, other| one.cluster.cmp(&other.cluster));
    }
}

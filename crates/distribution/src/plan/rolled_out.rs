//! Objects that differ between clusters: where they are, with which replicas, and what is written.
//!
//! Where an object goes is computed from the object of the set. A cluster that is not reached keeps
//! the replicas that it has by the stable revision, which the binding notes as long as another
//! revision is rolled out.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::Value;

use super::{
    claimed::Claimed,
    set_change::SetObjectChange,
    values::PlannedBinding,
    writing::{PlanWriter, may_overwrite},
};
use crate::{
    cluster::TargetCluster,
    desired::{DistributedObject, Operations},
    division::Shares,
    placing::{NotChosen, PlacedReplicas, PreviousPlacement},
    sets::ObjectInCluster,
};

impl Claimed<'_> {
    /// Where an object was before the rollout that removes it: its binding has only the clusters
    /// that are not reached. `None`: where its binding says.
    pub(super) fn before_rollout(&self, previous: &PreviousPlacement) -> Option<PreviousPlacement> {
        let change = self.change.as_ref()?;
        let stable = previous.stable.as_ref()?;
        change.is_removed().then(|| PreviousPlacement {
            clusters: stable.clone(),
            ..previous.clone()
        })
    }

    /// The clusters that it cannot go to, because its set does not have it for them. `previous`:
    /// where it was.
    pub(super) fn lacking(
        &self,
        clusters: &[TargetCluster],
        previous: &PreviousPlacement,
    ) -> Vec<NotChosen> {
        let Some(change) = &self.change else {
            return Vec::new();
        };
        let lacking = clusters.iter().filter_map(|cluster| {
            let was_there = previous.clusters.contains_key(&cluster.name);
            Some(NotChosen {
                reason: change.reason_against(&cluster.name, was_there)?,
                cluster: cluster.name.clone(),
            })
        });
        lacking.collect()
    }
}

impl PlannedBinding {
    /// Notes how an object differs between clusters. `previous`: what the binding says of before;
    /// `clusters`: those that the set may reach.
    pub(super) fn vary(
        &mut self,
        change: &SetObjectChange<'_>,
        previous: &PreviousPlacement,
        clusters: &[TargetCluster],
    ) {
        // What clusters have of which nothing is known yet is not left over.
        let names = clusters.iter().map(|cluster| &cluster.name);
        let undecided = names.filter(|name| change.is_undecided(name));
        self.staying.extend(undecided.cloned());
        if change.is_removed() {
            self.remove_where_reached(change);
            return;
        }
        if change.was_there() {
            let before = (!previous.clusters.is_empty()).then_some(&previous.clusters);
            self.stable = previous.stable.as_ref().or(before).cloned();
            self.keep_unreached(change, clusters);
        }
        let mut awaiting = self.cluster_names();
        awaiting.retain(|cluster| {
            !change.is_reached(cluster) && change.in_cluster(cluster) == ObjectInCluster::Lacks
        });
        self.awaiting = awaiting;
    }

    /// What the set does not have any more stays where it is not reached.
    fn remove_where_reached(&mut self, change: &SetObjectChange<'_>) {
        let is_reached = |cluster: &str| change.is_reached(cluster);
        let clusters = self.clusters.iter();
        let shares: Shares = clusters
            .map(|one| (one.name.clone(), one.replicas))
            .collect();
        self.is_removed = true;
        self.clusters.retain(|one| !is_reached(&one.name));
        let pruned = shares.keys().filter(|cluster| is_reached(cluster));
        let pruned = pruned.map(|cluster| NotChosen {
            cluster: cluster.clone(),
            reason: "its set does not have it any more".to_owned(),
        });
        self.not_chosen.extend(pruned);
        self.stable = Some(shares);
    }

    /// Clusters that are not reached keep what the set does not have for them any more.
    fn keep_unreached(&mut self, change: &SetObjectChange<'_>, clusters: &[TargetCluster]) {
        let placed = self.cluster_names();
        let stable = self.stable.clone().unwrap_or_default();
        let kept: Vec<PlacedReplicas> = clusters
            .iter()
            .filter(|cluster| !cluster.is_terminating && !placed.contains(&cluster.name))
            .filter(|cluster| change.keeps(&cluster.name))
            .filter_map(|cluster| {
                let replicas = stable.get(&cluster.name).copied()?;
                let name = cluster.name.clone();
                Some(PlacedReplicas { name, replicas })
            })
            .collect();
        let names: BTreeSet<&str> = kept.iter().map(|one| one.name.as_str()).collect();
        self.not_chosen
            .retain(|one| !names.contains(one.cluster.as_str()));
        self.lacking.retain(|name| !names.contains(name.as_str()));
        self.clusters.extend(kept.iter().cloned());
        self.clusters
            .sort_by(|one, other| one.name.cmp(&other.name));
    }
}

/// The object of some clusters.
struct ClusterObject<'a> {
    object: &'a Arc<Value>,
    /// Whether these clusters are reached.
    is_reached: bool,
}

impl<O: Operations> PlanWriter<'_, O> {
    /// Plans the objects of clusters, which differ.
    pub(super) fn write_varied(
        &mut self,
        template: &DistributedObject<'_>,
        change: &SetObjectChange<'_>,
        binding: &PlannedBinding,
    ) {
        let mut before = template.shares.cloned();
        if let (Some(shares), Some(stable)) = (&mut before, &binding.stable) {
            let stable = stable.iter();
            shares.extend(stable.map(|(name, replicas)| (name.clone(), *replicas)));
        }
        for one in distinct_objects(change, binding) {
            let of_these = DistributedObject {
                object: one.object,
                shares: if one.is_reached {
                    template.shares
                } else {
                    before.as_ref()
                },
                ..*template
            };
            let overwrites = may_overwrite(one.object, binding.spec.as_deref());
            self.write_where(&of_these, binding, overwrites, |cluster| {
                one.is_in(change, cluster)
            });
        }
    }
}

impl ClusterObject<'_> {
    fn is_in(&self, change: &SetObjectChange<'_>, cluster: &str) -> bool {
        let found = change.in_cluster(cluster);
        let is_same =
            matches!(found, ObjectInCluster::Has(object) if Arc::ptr_eq(object, self.object));
        is_same && change.is_reached(cluster) == self.is_reached
    }
}

/// The objects that the clusters of a binding have: at most one for each variant of two revisions.
fn distinct_objects<'a>(
    change: &SetObjectChange<'a>,
    binding: &PlannedBinding,
) -> Vec<ClusterObject<'a>> {
    let mut found: Vec<ClusterObject<'a>> = Vec::new();
    for target in &binding.clusters {
        let ObjectInCluster::Has(object) = change.in_cluster(&target.name) else {
            continue;
        };
        if !found.iter().any(|one| one.is_in(change, &target.name)) {
            found.push(ClusterObject {
                object,
                is_reached: change.is_reached(&target.name),
            });
        }
    }
    found
}

//! The rules of a policy: how replicas are divided, and which group of clusters is used.

use fleetdex_crds::{
    affinity::ClusterAffinity,
    policy::{ClusterPlacement, ReplicaScheduling, StaticWeight},
};

use super::values::PreviousPlacement;

use crate::{cluster::TargetCluster, division::Shares, spread::RankedCluster};

/// How replicas are divided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum DivisionMode<'a> {
    /// Each cluster has all of them, or the object has none.
    Duplicated,
    /// By fixed weights.
    Static(&'a [StaticWeight]),
    /// By room.
    ByRoom { is_aggregated: bool },
}

impl<'a> DivisionMode<'a> {
    /// By the rules of a policy.
    pub(super) fn of(scheduling: Option<&'a ReplicaScheduling>) -> Self {
        let Some(scheduling) = scheduling else {
            return Self::Duplicated;
        };
        if scheduling.replica_scheduling_type.as_deref() == Some("Duplicated") {
            return Self::Duplicated;
        }
        if scheduling.replica_division_preference.as_deref() == Some("Aggregated") {
            return Self::ByRoom {
                is_aggregated: true,
            };
        }
        match &scheduling.weight_preference {
            Some(weights)
                if weights
                    .dynamic_weight
                    .as_deref()
                    .is_some_and(|by| !by.is_empty()) =>
            {
                Self::ByRoom {
                    is_aggregated: false,
                }
            }
            Some(weights) => Self::Static(&weights.static_weight_list),
            None => Self::Static(&[]),
        }
    }
}

/// The greatest weight that is for each cluster; the same weight for all where none is for any.
pub(super) fn static_weights(clusters: &[&RankedCluster<'_>], weights: &[StaticWeight]) -> Shares {
    let weight_of = |one: &RankedCluster<'_>| {
        let properties = one.cluster.properties();
        let matching = weights
            .iter()
            .filter(|rule| rule.target_cluster.matches(properties));
        matching.map(|rule| rule.weight).max().unwrap_or(0).max(0)
    };
    let mut found: Shares = clusters
        .iter()
        .map(|one| (one.cluster.name.clone(), weight_of(one)))
        .collect();
    if found.values().all(|weight| *weight == 0) {
        for weight in found.values_mut() {
            *weight = 1;
        }
    }
    found
}

/// Whether an object was placed by these rules: the same clusters are wanted, and replicas are
/// divided in the same way.
pub(super) fn has_same_rules(now: &ClusterPlacement, previous: &PreviousPlacement) -> bool {
    let Some(before) = &previous.placement else {
        return false;
    };
    let name = previous.affinity_name.as_deref();
    let used = |placement: &ClusterPlacement| {
        let mut terms = placement.cluster_affinities.iter();
        terms
            .find(|term| Some(term.affinity_name.as_str()) == name)
            .cloned()
    };
    before.cluster_affinity == now.cluster_affinity
        && used(before) == used(now)
        && before.cluster_tolerations == now.cluster_tolerations
        && before.spread_constraints == now.spread_constraints
        && DivisionMode::of(before.replica_scheduling.as_ref())
            == DivisionMode::of(now.replica_scheduling.as_ref())
}

/// That a cluster is in another group than the one that is used.
pub(super) fn other_group(
    placement: &ClusterPlacement,
    cluster: &TargetCluster,
    used: Option<&str>,
    affinities: &[&ClusterAffinity],
) -> Option<String> {
    let properties = cluster.properties();
    let is_selected = affinities.iter().any(|one| one.matches(properties));
    let mut terms = placement.cluster_affinities.iter();
    let other = terms.find(|term| term.affinity.matches(properties))?;
    let used = used.filter(|used| !is_selected && *used != other.affinity_name)?;
    let other = &other.affinity_name;
    Some(format!(
        "it is in the group {other}, and the group {used} is used"
    ))
}

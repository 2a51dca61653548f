//! Places an object: which clusters get it, and how many replicas each of them gets.

mod mode;
mod values;

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_crds::{
    affinity::ClusterAffinity,
    policy::{AffinityTerm, ClusterPlacement},
};

use mode::{DivisionMode, has_same_rules, other_group, static_weights};
pub use values::{NotChosen, Placed, PlacedObject, PlacedReplicas, PreviousPlacement};

use crate::{
    candidates::{AvoidedClusters, Companions, Requirements},
    cluster::TargetCluster,
    division::{self, DivisionByRoom, NoRoom, Shares, TieBreak},
    spread::{self, NeededRoom, RankedCluster, SpreadError},
};

/// Why an object cannot be placed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum PlacingError {
    #[error("no cluster fits: {0}")]
    NoClusterFits(String),
    #[error(transparent)]
    Spread(#[from] SpreadError),
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
}

/// How many replicas a cluster has room for.
pub type RoomOf<'a> = dyn Fn(&TargetCluster) -> i64 + 'a;

/// Places an object.
#[derive(Clone, Copy)]
pub struct Placer<'a> {
    /// The object.
    pub object: &'a PlacedObject,
    /// The rules of its policy.
    pub placement: &'a ClusterPlacement,
    /// All clusters.
    pub clusters: &'a [TargetCluster],
    /// Where the object was before.
    pub previous: &'a PreviousPlacement,
    /// Where the object's companions run.
    pub companions: &'a Companions,
    /// The clusters that it must not go to.
    pub avoided: &'a AvoidedClusters,
    /// How many replicas more clusters have room for. Asked only where it matters.
    pub room: &'a RoomOf<'a>,
}

impl Placer<'_> {
    /// Where the object goes. Where nothing fits it stays where it is.
    pub fn place(&self) -> Placed {
        if let Some(kept) = self.kept() {
            return kept;
        }
        let terms = &self.placement.cluster_affinities;
        if terms.is_empty() {
            let tiers = self.tiers(None);
            return self.placed(None, self.try_tiers(&tiers), &tiers);
        }
        let mut first_failure = None;
        for term in &terms[self.first_term(terms)..] {
            let tiers = self.tiers(Some(term));
            match self.try_tiers(&tiers) {
                Ok(shares) => {
                    return self.placed(Some(&term.affinity_name), Ok(shares), &tiers);
                }
                Err(error) => {
                    first_failure.get_or_insert((error, tiers));
                }
            }
        }
        let name = self.previous.affinity_name.as_deref();
        first_failure.map_or_else(Placed::default, |(error, tiers)| {
            self.placed(name, Err(error), &tiers)
        })
    }

    /// The previous placement, where nothing that decides has changed. A divided workload does not
    /// move because labels, taints or room of clusters have changed.
    fn kept(&self) -> Option<Placed> {
        let previous = self.previous;
        let replicas = self.divided_replicas()?;
        let is_unchanged = !previous.is_rebalanced
            && has_same_rules(self.placement, previous)
            && !previous.clusters.is_empty()
            && division::sum(previous.clusters.values()) == replicas;
        let exists = |cluster: &&TargetCluster| {
            !cluster.is_terminating && previous.clusters.contains_key(&cluster.name)
        };
        let existing = self.clusters.iter().filter(exists).count();
        if !is_unchanged || existing < previous.clusters.len() {
            return None;
        }
        let affinity_name = previous.affinity_name.as_deref();
        let term = |term: &&AffinityTerm| Some(term.affinity_name.as_str()) == affinity_name;
        let terms = &self.placement.cluster_affinities;
        let tiers = self.tiers(terms.iter().find(term).or(terms.first()));
        Some(self.placed(affinity_name, Ok(previous.clusters.clone()), &tiers))
    }

    /// The replicas that are divided; `None`: each cluster has the object as it is.
    fn divided_replicas(&self) -> Option<i64> {
        let is_divided = !matches!(self.mode(), DivisionMode::Duplicated);
        self.object
            .replicas
            .filter(|_| is_divided && !self.object.has_components)
    }

    fn mode(&self) -> DivisionMode<'_> {
        DivisionMode::of(self.placement.replica_scheduling.as_ref())
    }

    /// The term of the last success; from the first one if the object is placed anew.
    fn first_term(&self, terms: &[AffinityTerm]) -> usize {
        if self.previous.is_rebalanced {
            return 0;
        }
        let name = self.previous.affinity_name.as_deref();
        let known = terms
            .iter()
            .position(|term| Some(term.affinity_name.as_str()) == name);
        known.unwrap_or(0)
    }

    /// The affinities of a term, and of the terms that its replicas overflow into, which only
    /// replicas that are divided do; without a term those of the policy.
    fn tiers<'t>(&'t self, term: Option<&'t AffinityTerm>) -> Vec<&'t ClusterAffinity> {
        let Some(term) = term else {
            return self.placement.cluster_affinity.iter().collect();
        };
        let overflow = term.overflow_affinities.iter().map(|one| &one.affinity);
        let overflow = overflow.filter(|_| self.divided_replicas().is_some());
        std::iter::once(&term.affinity).chain(overflow).collect()
    }

    fn requirements<'r>(&'r self, tiers: &'r [&'r ClusterAffinity]) -> Requirements<'r> {
        Requirements {
            kind: &self.object.kind,
            affinities: tiers,
            placement: self.placement,
            current: &self.previous.clusters,
            avoided: self.avoided,
            companions: self.companions,
        }
    }

    fn try_tiers(&self, tiers: &[&ClusterAffinity]) -> Result<Shares, PlacingError> {
        let requirements = self.requirements(tiers);
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        let mut fitting: Vec<RankedCluster<'_>> = Vec::new();
        for cluster in self.clusters {
            let found = requirements.reasons(cluster);
            if found.is_empty() {
                fitting.push(self.ranked(cluster, tiers));
            }
            for reason in found {
                *reasons.entry(reason).or_default() += 1;
            }
        }
        if fitting.is_empty() {
            let counted = reasons
                .iter()
                .map(|(reason, count)| format!("{count} of {}: {reason}", self.clusters.len()));
            let counted: Vec<String> = counted.collect();
            let none = "there is no cluster".to_owned();
            return Err(PlacingError::NoClusterFits(
                Some(counted.join("; "))
                    .filter(|text| !text.is_empty())
                    .unwrap_or(none),
            ));
        }
        self.divide(&fitting)
    }

    fn ranked<'c>(
        &self,
        cluster: &'c TargetCluster,
        tiers: &[&ClusterAffinity],
    ) -> RankedCluster<'c> {
        let properties = cluster.properties();
        let tier = tiers
            .iter()
            .position(|affinity| affinity.matches(properties));
        let assigned = self.previous.clusters.get(&cluster.name).copied();
        let needs_room = self.object.replicas.is_some() && needs_room(self.placement);
        let room = if needs_room {
            (self.room)(cluster).max(0)
        } else {
            0
        };
        RankedCluster {
            cluster,
            tier: tier.unwrap_or(0),
            score: if assigned.is_some() { 100 } else { 0 },
            available: room.saturating_add(assigned.unwrap_or(0)),
        }
    }

    fn divide(&self, fitting: &[RankedCluster<'_>]) -> Result<Shares, PlacingError> {
        let constraints = &self.placement.spread_constraints;
        let mode = self.mode();
        let replicas = self.divided_replicas();
        let each = self.object.replicas.unwrap_or(0);
        let needed = match (mode, replicas) {
            (DivisionMode::ByRoom { .. }, Some(replicas)) => NeededRoom::Together(replicas),
            _ => NeededRoom::Each(each),
        };
        // As in Karmada: fixed weights say themselves where replicas go.
        let is_static = matches!(mode, DivisionMode::Static(_));
        let chosen: BTreeSet<&str> = if constraints.is_empty() || is_static {
            fitting
                .iter()
                .map(|one| one.cluster.name.as_str())
                .collect()
        } else {
            spread::choose(constraints, fitting, needed)?
                .into_iter()
                .collect()
        };
        let chosen: Vec<&RankedCluster<'_>> = fitting
            .iter()
            .filter(|one| chosen.contains(one.cluster.name.as_str()))
            .collect();
        let Some(replicas) = replicas else {
            let clusters = chosen.iter().map(|one| (one.cluster.name.clone(), each));
            return Ok(clusters.collect());
        };
        if replicas == 0 {
            return Ok(self.without_replicas(&chosen));
        }
        let tie = TieBreak::of_uid(&self.object.uid);
        match mode {
            DivisionMode::ByRoom { is_aggregated } => {
                self.divide_by_room(&chosen, replicas, is_aggregated, tie)
            }
            DivisionMode::Static(weights) => {
                let weights = static_weights(&chosen, weights);
                Ok(division::by_weight(replicas, &weights, tie))
            }
            DivisionMode::Duplicated => Ok(Shares::new()),
        }
    }

    /// A workload without replicas stays where it is, or goes everywhere where it may.
    fn without_replicas(&self, chosen: &[&RankedCluster<'_>]) -> Shares {
        let names = chosen.iter().map(|one| one.cluster.name.clone());
        let all: Shares = names.map(|name| (name, 0)).collect();
        let mut kept = all.clone();
        kept.retain(|name, _| self.previous.clusters.contains_key(name));
        if kept.is_empty() { all } else { kept }
    }

    fn divide_by_room(
        &self,
        chosen: &[&RankedCluster<'_>],
        wanted: i64,
        is_aggregated: bool,
        tie: TieBreak,
    ) -> Result<Shares, PlacingError> {
        let assigned = |name: &str| self.previous.clusters.get(name).copied().unwrap_or(0);
        let room: Shares = chosen
            .iter()
            .map(|one| {
                let name = &one.cluster.name;
                (name.clone(), one.available - assigned(name))
            })
            .collect();
        let division = DivisionByRoom {
            wanted,
            room: &room,
            previous: &self.previous.clusters,
            is_aggregated,
            is_fresh: self.previous.is_rebalanced,
            tie,
        };
        let last_tier = chosen.iter().map(|one| one.tier).max().unwrap_or(0);
        if last_tier == 0 {
            return Ok(division.divide()?);
        }
        let mut tiers = vec![BTreeSet::new(); last_tier + 1];
        for one in chosen {
            tiers[one.tier].insert(one.cluster.name.clone());
        }
        Ok(division::by_tiers(&division, &tiers)?)
    }

    fn placed(
        &self,
        affinity_name: Option<&str>,
        result: Result<Shares, PlacingError>,
        tiers: &[&ClusterAffinity],
    ) -> Placed {
        let (shares, unschedulable) = match result {
            Ok(shares) => (shares, None),
            Err(error) => (self.previous.clusters.clone(), Some(error.to_string())),
        };
        let requirements = self.requirements(tiers);
        let others = self
            .clusters
            .iter()
            .filter(|cluster| !shares.contains_key(&cluster.name));
        let not_chosen = others
            .map(|cluster| {
                let reasons = requirements.reasons(cluster);
                let other_group = other_group(self.placement, cluster, affinity_name, tiers);
                let reason = match (other_group, reasons.is_empty(), &unschedulable) {
                    (Some(reason), _, _) => reason,
                    (None, false, _) => reasons.join("; "),
                    (None, true, Some(error)) => error.clone(),
                    (None, true, None) => self.reason_of_share(cluster),
                };
                NotChosen {
                    cluster: cluster.name.clone(),
                    reason,
                }
            })
            .collect();
        Placed {
            clusters: shares
                .into_iter()
                .map(|(name, replicas)| PlacedReplicas { name, replicas })
                .collect(),
            affinity_name: affinity_name.map(str::to_owned),
            unschedulable,
            not_chosen,
        }
    }

    /// Why a cluster that fits has no share.
    fn reason_of_share(&self, cluster: &TargetCluster) -> String {
        let has_constraints = !self.placement.spread_constraints.is_empty();
        match (self.mode(), self.divided_replicas()) {
            (DivisionMode::Static(weights), Some(_)) => {
                let has_weight = |cluster: &TargetCluster| {
                    let properties = cluster.properties();
                    weights
                        .iter()
                        .any(|one| one.target_cluster.matches(properties))
                };
                if has_weight(cluster) || !self.clusters.iter().any(has_weight) {
                    "its share of the replicas is 0".to_owned()
                } else {
                    "no weight of the policy is for it".to_owned()
                }
            }
            (DivisionMode::ByRoom { is_aggregated }, Some(_)) => {
                if (self.room)(cluster) <= 0 {
                    "it has no room for a replica".to_owned()
                } else if has_constraints {
                    "the spread constraints are kept by other clusters, or its share is 0"
                        .to_owned()
                } else if is_aggregated {
                    "other clusters have room for all replicas".to_owned()
                } else {
                    "its share of the replicas is 0".to_owned()
                }
            }
            _ => "the spread constraints are kept by other clusters".to_owned(),
        }
    }
}

/// Whether the room in clusters decides about a placement.
pub fn needs_room(placement: &ClusterPlacement) -> bool {
    let mode = DivisionMode::of(placement.replica_scheduling.as_ref());
    matches!(mode, DivisionMode::ByRoom { .. }) || !placement.spread_constraints.is_empty()
}

#[cfg(test)]
mod tests;

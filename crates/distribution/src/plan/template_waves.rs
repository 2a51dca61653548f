//! The order in which clusters get a changed template, where its policy has waves.
//!
//! The revision is the hash of what users have written into the template. What it was before is
//! known nowhere: a cluster that is not reached keeps what it has, and nothing is written there.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    claimed::Claimed,
    values::{DistributionInputs, PlannedBinding},
};
use crate::{
    activation::content_hash,
    cluster::TargetCluster,
    placing::PreviousPlacement,
    rollout::{RolloutInputs, RolloutState, SetHealth},
};

impl PlannedBinding {
    /// Notes how the object of a set differs between clusters, or takes the next step of its own
    /// rollout. `clusters`: those that the object may reach.
    pub(super) fn follow_rollout(
        &mut self,
        one: &Claimed<'_>,
        clusters: &[TargetCluster],
        previous: &PreviousPlacement,
        inputs: &DistributionInputs,
    ) {
        match &one.change {
            Some(change) => self.vary(change, previous, clusters),
            None => self.roll_out_in_waves(one, clusters, previous, inputs),
        }
    }

    /// Takes the next step of the rollout of a template. Before it is written with the binding, no
    /// cluster gets anything by it.
    fn roll_out_in_waves(
        &mut self,
        one: &Claimed<'_>,
        clusters: &[TargetCluster],
        previous: &PreviousPlacement,
        inputs: &DistributionInputs,
    ) {
        let waves = inputs.waves.get(&one.policy.policy_name());
        let Some(waves) = waves.filter(|_| one.set.is_none()) else {
            return;
        };
        let names = self.cluster_names();
        let chosen: Vec<&TargetCluster> = clusters
            .iter()
            .filter(|cluster| names.contains(&cluster.name))
            .collect();
        let known = inputs.wave_health.get(&one.name);
        let health: BTreeMap<String, SetHealth> = names
            .iter()
            .map(|name| {
                let health = known.and_then(|known| known.get(name)).cloned();
                (name.clone(), health.unwrap_or(SetHealth::Unknown))
            })
            .collect();
        let state = RolloutState::next(
            previous.rollout.as_ref(),
            &RolloutInputs {
                revision: &content_hash(one.object),
                kept: &BTreeSet::new(),
                rules: &waves.rules,
                clusters: &chosen,
                health: &health,
                is_paused: waves.is_paused,
                resumed: previous.resumed.as_ref(),
                undone: None,
                now: inputs.now.unwrap_or_default(),
            },
        );
        let is_waiting = |name: &String| !state.reaches(name);
        self.awaiting.extend(names.into_iter().filter(is_waiting));
        self.rollout = Some(state);
    }
}

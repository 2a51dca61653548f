//! Objects that a rollout changes: where they are, with which replicas, and what is written.
//!
//! Where an object goes is computed from the object of the set. A cluster that is not reached keeps
//! the replicas that it has by the stable revision, which the binding notes as long as another
//! revision is rolled out.

use super::{
    claimed::Claimed,
    set_change::{BeforeChange, SetObjectChange},
    values::PlannedBinding,
    writing::{PlanWriter, may_overwrite},
};
use crate::{
    desired::{DistributedObject, Operations},
    division::Shares,
    placing::{NotChosen, PreviousPlacement},
};

impl Claimed<'_> {
    /// Where an object was before the rollout that removes it: its binding has only the clusters
    /// that are not reached. `None`: where its binding says.
    pub(super) fn before_rollout(&self, previous: &PreviousPlacement) -> Option<PreviousPlacement> {
        let change = self.change.as_ref()?;
        let stable = previous.stable.as_ref()?;
        matches!(change.before, BeforeChange::Same).then(|| PreviousPlacement {
            clusters: stable.clone(),
            ..previous.clone()
        })
    }
}

impl PlannedBinding {
    /// Notes what a rollout changes. `previous`: what the binding says of before.
    pub(super) fn roll_out(&mut self, change: &SetObjectChange<'_>, previous: &PreviousPlacement) {
        let is_reached = |cluster: &str| change.reached.contains(cluster);
        match change.before {
            BeforeChange::Other(_) => {
                let before = (!previous.clusters.is_empty()).then_some(&previous.clusters);
                self.stable = previous.stable.as_ref().or(before).cloned();
            }
            BeforeChange::Absent => {
                let mut names = self.cluster_names();
                names.retain(|cluster| !is_reached(cluster));
                self.awaiting = names;
            }
            BeforeChange::Same => {
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
        }
    }
}

impl<O: Operations> PlanWriter<'_, O> {
    /// Plans the objects of clusters that are reached, and those of the others.
    pub(super) fn write_rolled_out(
        &mut self,
        template: &DistributedObject<'_>,
        change: &SetObjectChange<'_>,
        binding: &PlannedBinding,
        overwrites: bool,
    ) {
        let BeforeChange::Other(object) = change.before else {
            // What waits in a cluster is not written there.
            self.write(template, binding, overwrites);
            return;
        };
        let is_reached = |cluster: &str| change.reached.contains(cluster);
        self.write_where(template, binding, overwrites, is_reached);
        let mut shares = template.shares.cloned();
        if let (Some(shares), Some(stable)) = (&mut shares, &binding.stable) {
            shares.extend(
                stable
                    .iter()
                    .map(|(name, replicas)| (name.clone(), *replicas)),
            );
        }
        let before = DistributedObject {
            object,
            shares: shares.as_ref(),
            ..*template
        };
        let overwrites = may_overwrite(object, binding.spec.as_deref());
        self.write_where(&before, binding, overwrites, |cluster| !is_reached(cluster));
    }
}

//! What Fleetdex has written to clusters and what does not belong there any more.

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_core::planted::{Bug, planted};

use super::{
    held_names::template_names,
    same_objects::SameObjects,
    values::{DistributionInputs, DistributionPlan, PlannedDeletion},
};
use crate::{
    binding_name::binding_name, placing::PreviousPlacement, template_name::TemplateName,
    templates::is_distributed,
};

/// Kinds whose copies are never deleted: the cluster would delete what others have put into a
/// namespace, all objects of a definition, and the data of a volume.
const RELEASED: [&str; 4] = [
    "CustomResourceDefinition",
    "Namespace",
    "PersistentVolume",
    "PersistentVolumeClaim",
];

/// What becomes of a copy in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftoverFate {
    /// It belongs there, or it is not known that it does not.
    Stays,
    /// It is deleted.
    Deleted,
    /// It stays, and is Fleetdex's no longer: `preserveResourcesOnDeletion`, or a kind that is
    /// never deleted.
    Released,
}

/// Says which copies are left over: their object is gone from the control plane, or its policy
/// places it elsewhere. Where no policy claims an object any more, where it could not be placed,
/// and where a view is not complete, its copies stay.
#[derive(Clone, Debug, Default)]
pub struct Leftovers {
    is_complete: bool,
    templates: BTreeSet<TemplateName>,
    /// The clusters of objects that could be placed; `None`: it could not.
    targets: BTreeMap<TemplateName, Option<BTreeSet<String>>>,
    preserved: BTreeSet<TemplateName>,
    /// Objects that left their sets, and stay where a rollout has not come to.
    removed: BTreeSet<TemplateName>,
    /// Objects that were there because others needed them, and that nothing needs any more.
    unneeded: BTreeSet<TemplateName>,
    /// The clusters for which the sets of objects do not have them.
    lacking: BTreeMap<TemplateName, BTreeSet<String>>,
    /// Objects of sets that clusters have in another version of their kind.
    same: SameObjects,
    /// Objects that others need of which nothing is known but that they may still run.
    kept: BTreeSet<TemplateName>,
    /// The clusters that objects leave, and where they stay for the time being.
    staying: BTreeMap<TemplateName, BTreeSet<String>>,
    /// The clusters that are known and are not being deleted.
    clusters: BTreeSet<String>,
}

impl Leftovers {
    /// What a plan leaves over.
    pub fn of(plan: &DistributionPlan, inputs: &DistributionInputs) -> Self {
        let templates = template_names(plan, inputs);
        let resting = resting(plan, inputs, &templates);
        let needed_by_resting = |previous: &PreviousPlacement| {
            previous.required_by.iter().any(|one| resting.contains(one))
        };
        let planned: BTreeSet<&TemplateName> =
            plan.bindings.iter().map(|one| &one.resource).collect();
        let is_unneeded = |name: &TemplateName, previous: &PreviousPlacement| {
            previous.is_needed_only && !planned.contains(name) && !needed_by_resting(previous)
        };
        let previous = inputs.previous.iter();
        let unneeded = previous
            .clone()
            .filter(|(name, one)| is_unneeded(name, one));
        let kept = previous.filter(|(_, one)| needed_by_resting(one));
        let bindings = plan.bindings.iter().map(|binding| {
            let is_placed = binding.unschedulable.is_none();
            let mut clusters = is_placed.then(|| binding.cluster_names());
            if planted(Bug::DistributionDeletesUnschedulable) {
                clusters.get_or_insert_default();
            }
            (binding.resource.clone(), clusters)
        });
        let leaving = plan.bindings.iter().filter(|one| !one.staying.is_empty());
        let staying = leaving.map(|one| (one.resource.clone(), one.staying.clone()));
        let removed = plan.bindings.iter().filter(|one| one.is_removed);
        let lacking = plan.bindings.iter().filter(|one| !one.lacking.is_empty());
        let lacking = lacking.map(|one| (one.resource.clone(), one.lacking.clone()));
        let preserved = inputs.previous.iter().filter(|(_, one)| one.preserves);
        let clusters = inputs.clusters.iter().filter(|one| !one.is_terminating);
        Self {
            is_complete: plan.knows_dependencies,
            templates,
            targets: bindings.collect(),
            staying: staying.collect(),
            lacking: lacking.collect(),
            same: SameObjects::of(plan, inputs),
            preserved: preserved.map(|(name, _)| name.clone()).collect(),
            removed: removed.map(|one| one.resource.clone()).collect(),
            clusters: clusters.map(|cluster| cluster.name.clone()).collect(),
            unneeded: unneeded.map(|(name, _)| name.clone()).collect(),
            kept: kept.map(|(name, _)| name.clone()).collect(),
        }
    }

    /// Whether an object was there because others needed it, and nothing needs it any more.
    pub fn is_unneeded(&self, name: &TemplateName) -> bool {
        self.unneeded.contains(name)
    }

    /// Whether an object is on the control plane or in a set, or may be in one.
    pub fn has_template(&self, name: &TemplateName) -> bool {
        self.templates.contains(name)
    }

    /// Whether the set of an object has it in another version of its kind now, which a cluster has
    /// as the same object.
    pub fn is_in_another_version(&self, name: &TemplateName, cluster: &str) -> bool {
        self.same.has(name, cluster)
    }

    /// The other versions of its kind in which the set of an object has it now.
    pub fn other_versions(&self, name: &TemplateName) -> impl Iterator<Item = &TemplateName> {
        self.same.others(name)
    }

    /// Whether the set of an object has it only in other versions of its kind now.
    pub fn is_replaced(&self, name: &TemplateName) -> bool {
        !self.targets.contains_key(name) && self.same.others(name).next().is_some()
    }

    /// What becomes of a copy that Fleetdex has written.
    pub fn fate(&self, cluster: &str, name: &TemplateName) -> LeftoverFate {
        if !self.is_complete || !self.clusters.contains(cluster) {
            return LeftoverFate::Stays;
        }
        let is_left = match self.targets.get(name) {
            Some(Some(clusters)) => !clusters.contains(cluster),
            Some(None) => false,
            None => {
                !self.templates.contains(name)
                    || self.unneeded.contains(name)
                    || self.is_replaced(name)
                    || planted(Bug::DistributionDeletesWithoutPolicy)
            }
        };
        let is_left = is_left && !self.same.has(name, cluster);
        let staying = self.staying.get(name);
        let is_staying = staying.is_some_and(|clusters| clusters.contains(cluster));
        if !is_left || is_staying || self.kept.contains(name) {
            return LeftoverFate::Stays;
        }
        let lacking = self.lacking.get(name);
        let is_gone = !self.targets.contains_key(name)
            || self.removed.contains(name)
            || lacking.is_some_and(|clusters| clusters.contains(cluster));
        let is_preserved =
            self.preserved.contains(name) && !planted(Bug::DistributionDeletesPreserved);
        if RELEASED.contains(&name.kind.as_str()) || (is_gone && is_preserved) {
            LeftoverFate::Released
        } else {
            LeftoverFate::Deleted
        }
    }

    /// Which of the observed objects are deleted.
    pub(super) fn deletions(&self, inputs: &DistributionInputs) -> Vec<PlannedDeletion> {
        let mut deletions = Vec::new();
        for (cluster, objects) in &inputs.observed {
            for (name, object) in objects {
                let is_deleted = self.fate(cluster, name) == LeftoverFate::Deleted;
                if is_deleted && is_distributed(object) {
                    deletions.push(PlannedDeletion {
                        cluster: cluster.clone(),
                        resource: name.clone(),
                    });
                }
            }
        }
        deletions
    }
}

/// The bindings, as namespace and name, of objects that no policy claims any more, and of what
/// these need. They rest where they are, and may still run.
/// `templates`: the names of all objects, as [`template_names`] has them.
pub fn resting(
    plan: &DistributionPlan,
    inputs: &DistributionInputs,
    templates: &BTreeSet<TemplateName>,
) -> BTreeSet<(String, String)> {
    let planned: BTreeSet<&TemplateName> = plan.bindings.iter().map(|one| &one.resource).collect();
    let binding_of = |name: &TemplateName| (name.namespace.clone(), binding_name(name));
    let previous = inputs.previous.iter();
    let unplanned =
        previous.filter(|(name, _)| templates.contains(*name) && !planned.contains(name));
    let (mut open, mut resting) = (Vec::new(), BTreeSet::new());
    let mut needed_by: BTreeMap<&(String, String), Vec<&TemplateName>> = BTreeMap::new();
    for (name, previous) in unplanned {
        if !previous.is_needed_only {
            open.push(binding_of(name));
            continue;
        }
        for requirer in &previous.required_by {
            needed_by.entry(requirer).or_default().push(name);
        }
    }
    while let Some(binding) = open.pop() {
        let needed = needed_by.remove(&binding).unwrap_or_default();
        open.extend(needed.into_iter().map(binding_of));
        resting.insert(binding);
    }
    resting
}

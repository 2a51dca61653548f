//! Objects that clusters have in another version of their kind: they are the same objects there.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    held_names::{VersionlessName, identity},
    values::{DistributionInputs, DistributionPlan, PlannedBinding},
};
use crate::{sets::SetName, template_name::TemplateName};

/// Where sets have objects in another version of their kind, by a plan.
#[derive(Clone, Debug, Default)]
pub struct SameObjects(BTreeMap<TemplateName, OtherVersions>);

/// The other versions of an object.
#[derive(Clone, Debug, Default)]
struct OtherVersions {
    names: BTreeSet<TemplateName>,
    clusters: BTreeSet<String>,
    /// Whether one of them could not be placed: it stays where it is.
    is_unplaced: bool,
}

impl SameObjects {
    /// Of the objects of sets, and of those that sets had.
    pub(super) fn of(plan: &DistributionPlan, inputs: &DistributionInputs) -> Self {
        let mut planned: BTreeMap<(VersionlessName<'_>, &Arc<SetName>), Vec<&PlannedBinding>> =
            BTreeMap::new();
        let bindings = plan.bindings.iter();
        for (binding, set) in bindings.filter_map(|one| Some((one, one.set.as_ref()?))) {
            let key = (identity(&binding.resource), set);
            planned.entry(key).or_default().push(binding);
        }
        let held = inputs.previous.iter();
        let held = held.filter_map(|(name, previous)| Some((name, previous.set.as_ref()?)));
        let bindings = plan.bindings.iter();
        let of_plan = bindings.filter_map(|one| Some((&one.resource, one.set.as_ref()?)));
        let mut found = BTreeMap::new();
        for (name, set) in held.chain(of_plan) {
            let same = planned.get(&(identity(name), set)).into_iter().flatten();
            let others: Vec<_> = same.filter(|one| one.resource != *name).collect();
            if others.is_empty() {
                continue;
            }
            let other = OtherVersions {
                names: others.iter().map(|one| one.resource.clone()).collect(),
                clusters: others.iter().flat_map(|one| one.cluster_names()).collect(),
                is_unplaced: others.iter().any(|one| one.unschedulable.is_some()),
            };
            found.insert(name.clone(), other);
        }
        Self(found)
    }

    /// Whether a cluster has, or may have, an object in another version.
    pub fn has(&self, name: &TemplateName, cluster: &str) -> bool {
        let others = self.0.get(name);
        others.is_some_and(|others| others.is_unplaced || others.clusters.contains(cluster))
    }

    /// The other versions of an object.
    pub fn others(&self, name: &TemplateName) -> impl Iterator<Item = &TemplateName> {
        let others = self.0.get(name).into_iter();
        others.flat_map(|others| &others.names)
    }
}

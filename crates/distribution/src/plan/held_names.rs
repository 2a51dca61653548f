//! The names of objects that belong to sets by their bindings.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_core::model::split_api_version;

use super::values::{DistributionInputs, DistributionPlan};
use crate::{sets::SetName, template_name::TemplateName};

/// The names that sets have by their bindings.
#[derive(Debug, Default)]
pub struct HeldNames<'a>(BTreeMap<&'a TemplateName, &'a Arc<SetName>>);

impl<'a> HeldNames<'a> {
    /// Of the bindings.
    pub fn of(inputs: &'a DistributionInputs) -> Self {
        let previous = inputs.previous.iter();
        let held = previous.filter_map(|(name, previous)| Some((name, previous.set.as_ref()?)));
        Self(held.collect())
    }

    /// The set that has a name.
    pub fn holder(&self, name: &TemplateName) -> Option<&'a Arc<SetName>> {
        self.0.get(name).copied()
    }

    /// The names whose sets are not known, or whose objects are not: they stay.
    fn resting(&self, inputs: &DistributionInputs) -> BTreeSet<TemplateName> {
        let sets = inputs.sets.iter();
        let known: BTreeMap<&str, bool> =
            sets.map(|set| (&*set.name.uid, set.is_known())).collect();
        let is_resting = |set: &SetName| match known.get(&*set.uid) {
            Some(is_known) => !is_known,
            None => !inputs.knows_sets,
        };
        let names = self.0.iter().filter(|(_, set)| is_resting(set));
        names.map(|(name, _)| (*name).clone()).collect()
    }
}

/// The names of all objects that are on the control plane or in a set, or whose set is not known:
/// copies of other names are left over.
pub fn template_names(
    plan: &DistributionPlan,
    inputs: &DistributionInputs,
) -> BTreeSet<TemplateName> {
    let held = HeldNames::of(inputs);
    let templates = inputs.templates.iter();
    let mut names: BTreeSet<TemplateName> = templates.map(|one| one.name.clone()).collect();
    for name in held.0.keys() {
        names.remove(*name);
    }
    let members = plan.bindings.iter();
    let members = members.filter_map(|one| Some((&one.resource, one.set.as_ref()?)));
    // An object whose set has it in another version of its kind now is the same object.
    let same: BTreeSet<(VersionlessName<'_>, &Arc<SetName>)> = members
        .clone()
        .map(|(name, set)| (identity(name), set))
        .collect();
    let same = held
        .0
        .iter()
        .filter(|(name, set)| same.contains(&(identity(name), **set)));
    names.extend(same.map(|(name, _)| (*name).clone()));
    names.extend(members.map(|(name, _)| name.clone()));
    names.append(&mut held.resting(inputs));
    names
}

/// Group, kind, namespace and name: an object is the same one in each version of its kind.
pub type VersionlessName<'n> = (&'n str, &'n str, &'n str, &'n str);

/// The identity of an object.
pub fn identity(name: &TemplateName) -> VersionlessName<'_> {
    let (group, _) = split_api_version(&name.api_version);
    (group, &name.kind, &name.namespace, &name.name)
}

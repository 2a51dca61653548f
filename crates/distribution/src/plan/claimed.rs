//! The objects that belong to policies, in the order in which they are placed.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_interpreter::value::{group, integer, text};
use serde_json::Value;

use super::{
    held_names::HeldNames,
    set_change::SetObjectChange,
    values::{DistributionInputs, PlannedBinding, SkippedObject},
};
use crate::{
    claim::{self, Policy, PolicyName},
    desired::write_order,
    sets::ObjectSet,
    template_name::{NamedTemplate, TemplateName},
    templates::never_propagated,
};

/// An object with its policy.
#[derive(Clone)]
pub(super) struct Claimed<'a> {
    pub(super) name: TemplateName,
    pub(super) object: &'a Arc<Value>,
    pub(super) policy: &'a Policy,
    /// The set that it belongs to; `None`: it is a template of the control plane.
    pub(super) set: Option<&'a ObjectSet>,
    /// How it differs between clusters; `None`: it is the same in all.
    pub(super) change: Option<SetObjectChange<'a>>,
}

impl Claimed<'_> {
    /// What decides who gets the odd replica.
    pub(super) fn uid(&self) -> String {
        match self.set {
            Some(set) => format!("{}/{}", set.name.uid, self.name),
            None => text(&**self.object, &["metadata", "uid"]).to_owned(),
        }
    }

    /// Its binding, before it is placed.
    pub(super) fn binding(&self) -> PlannedBinding {
        let policy = || self.policy.shown();
        PlannedBinding {
            policy: Some(self.set.map_or_else(policy, |set| set.name.shown())),
            spec: Some(Arc::clone(&self.policy.spec)),
            claimed_by: self.set.is_none().then(|| self.policy.policy_name()),
            set: self.set.map(|set| Arc::clone(&set.name)),
            ..PlannedBinding::of_dependency(self.name.clone())
        }
    }
}

/// The objects that belong to policies, and those that are never propagated; definitions come
/// first, because clusters will serve their kinds then.
/// No policy claims what sets have.
pub(super) fn claimed<'a>(
    inputs: &'a DistributionInputs,
    held: &HeldNames<'_>,
) -> (Vec<Claimed<'a>>, Vec<SkippedObject>) {
    let (mut claimed, mut skipped) = (Vec::new(), Vec::new());
    let policies = policies_by_kind(inputs);
    for NamedTemplate { name, object } in &inputs.templates {
        let previous = inputs.previous.get(name);
        let noted = previous.and_then(|previous| previous.claimed_by.clone());
        let claimed_by = PolicyName::of_annotations(object).or(noted);
        let kind = (name.api_version.as_str(), name.kind.as_str());
        let selecting = policies.get(&kind).map_or(&[][..], Vec::as_slice);
        let Some(policy) = claim::claiming(selecting, object, claimed_by.as_ref()) else {
            continue;
        };
        let of_set = held.holder(name);
        let of_set = of_set.map(|set| format!("{} has an object of this name", set.shown()));
        match of_set.or_else(|| never_propagated(object).map(str::to_owned)) {
            Some(reason) => skipped.push(SkippedObject {
                resource: name.clone(),
                reason,
            }),
            None => claimed.push(Claimed {
                name: name.clone(),
                object,
                policy,
                set: None,
                change: None,
            }),
        }
    }
    skipped.sort_by(|one, other| one.resource.cmp(&other.resource));
    let classes = priority_classes(inputs);
    claimed.sort_by_cached_key(|one| {
        let class = one.policy.spec.schedule_priority.as_ref();
        let priority = class.and_then(|class| classes.get(class.priority_class_name.as_str()));
        (
            write_order(&one.name) > 1,
            Reverse(priority.copied().unwrap_or(0)),
            one.name.clone(),
        )
    });
    (claimed, skipped)
}

/// The policies that select objects of a kind.
fn policies_by_kind(inputs: &DistributionInputs) -> BTreeMap<(&str, &str), Vec<&Policy>> {
    let mut by_kind: BTreeMap<(&str, &str), Vec<&Policy>> = BTreeMap::new();
    for policy in &inputs.policies {
        let selectors = policy.spec.resource_selectors.iter();
        let kinds: BTreeSet<(&str, &str)> = selectors
            .map(|one| (one.api_version.as_str(), one.kind.as_str()))
            .collect();
        for kind in kinds {
            by_kind.entry(kind).or_default().push(policy);
        }
    }
    by_kind
}

/// The values of the control plane's priority classes.
fn priority_classes(inputs: &DistributionInputs) -> BTreeMap<&str, i64> {
    let classes = inputs.templates.iter().filter(|class| {
        class.name.kind == "PriorityClass" && group(&*class.object) == "scheduling.k8s.io"
    });
    classes
        .map(|class| {
            let value = integer(&*class.object, &["value"]).unwrap_or(0);
            (class.name.name.as_str(), value)
        })
        .collect()
}

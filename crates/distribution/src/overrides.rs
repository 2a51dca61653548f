//! How an object differs in a cluster.
//!
//! Source of the order and the meaning: `pkg/util/overridemanager` of Karmada. Cluster-scoped
//! policies come first, then those of the object's namespace; among them the ones whose selectors
//! name the object least exactly. Later changes see the earlier ones.

use std::sync::Arc;

use fleetdex_crds::{
    affinity::ClusterAffinity,
    policy::{OverrideSpec, Overriders},
};
use fleetdex_interpreter::bounded_patch::BoundedPatch;
use serde_json::Value;

use crate::{
    claim::{self, Exactness},
    cluster::TargetCluster,
    sets::ObjectSet,
};

mod containers;
mod embedded;
mod failed_change;
mod image;
mod metadata;
mod patch;

use failed_change::FailedChange;

/// An `OverridePolicy` or `ClusterOverridePolicy`.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectOverrides {
    /// Its namespace; `None`: it is cluster-scoped.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// What it says.
    pub spec: Arc<OverrideSpec>,
}

/// A change cannot be made. The object is not written to the cluster, rather than written without
/// the change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{policy}: {change}: {problem}")]
pub struct OverrideError {
    /// The policy, such as `OverridePolicy shop/eu`, or the set.
    pub policy: String,
    /// The change, such as `plaintext[0] /spec/replicas`.
    pub change: String,
    /// Why it cannot be made.
    pub problem: String,
}

impl ObjectOverrides {
    /// Its kind and name.
    pub fn shown(&self) -> String {
        claim::shown_policy("OverridePolicy", self.namespace.as_deref(), &self.name)
    }

    /// How exactly it selects an object; `None`: it does not.
    fn exactness(&self, template: &Value) -> Option<Exactness> {
        if !claim::reaches(self.namespace.as_deref(), template) {
            return None;
        }
        if self.spec.resource_selectors.is_empty() {
            return Some(Exactness::Kind);
        }
        claim::exactness(&self.spec.resource_selectors, template)
    }
}

/// The object as the policies change it for a cluster. The selectors look at the template.
pub fn overridden(
    policies: &[ObjectOverrides],
    template: &Value,
    mut object: Value,
    cluster: &TargetCluster,
) -> Result<Value, OverrideError> {
    let mut selecting: Vec<(bool, Exactness, &ObjectOverrides)> = policies
        .iter()
        .filter_map(|policy| {
            let exactness = policy.exactness(template)?;
            Some((policy.namespace.is_some(), exactness, policy))
        })
        .collect();
    selecting
        .sort_by(|one, other| (one.0, one.1, &one.2.name).cmp(&(other.0, other.1, &other.2.name)));
    let mut bounds = BoundedPatch::default();
    for (_, _, policy) in selecting {
        for overriders in overriders_for(&policy.spec, cluster) {
            apply(&mut bounds, &mut object, overriders).map_err(|failed| OverrideError {
                policy: policy.shown(),
                change: failed.change,
                problem: failed.problem,
            })?;
        }
    }
    Ok(object)
}

/// The object as its set changes it for a cluster. The selectors look at the template.
pub fn overridden_by_set(
    set: &ObjectSet,
    template: &Value,
    mut object: Value,
    cluster: &TargetCluster,
) -> Result<Value, OverrideError> {
    let mut bounds = BoundedPatch::default();
    for (index, rule) in set.overrides.iter().enumerate() {
        let selectors = &rule.resource_selectors;
        let selects = selectors.is_empty() || claim::exactness(selectors, template).is_some();
        let target = rule.target_cluster.as_ref();
        if !selects || target.is_some_and(|target| !target.matches(cluster.properties())) {
            continue;
        }
        apply(&mut bounds, &mut object, &rule.overriders).map_err(|failed| OverrideError {
            policy: set.name.shown(),
            change: format!("overrides[{index}].overriders.{}", failed.change),
            problem: failed.problem,
        })?;
    }
    Ok(object)
}

fn overriders_for<'p>(
    spec: &'p OverrideSpec,
    cluster: &'p TargetCluster,
) -> impl Iterator<Item = &'p Overriders> {
    let is_for = |target: Option<&ClusterAffinity>| {
        target.is_none_or(|affinity| affinity.matches(cluster.properties()))
    };
    let superseded = spec.overriders.as_ref();
    let superseded = superseded.filter(|_| is_for(spec.target_cluster.as_ref()));
    let rules = spec.override_rules.iter();
    let rules = rules.filter(move |rule| is_for(rule.target_cluster.as_ref()));
    rules.map(|rule| &rule.overriders).chain(superseded)
}

fn apply(
    bounds: &mut BoundedPatch,
    object: &mut Value,
    overriders: &Overriders,
) -> Result<(), FailedChange> {
    image::apply(object, &overriders.image_overrider)?;
    containers::apply(object, "command", &overriders.command_overrider)?;
    containers::apply(object, "args", &overriders.args_overrider)?;
    metadata::apply(object, "labels", &overriders.labels_overrider)?;
    metadata::apply(object, "annotations", &overriders.annotations_overrider)?;
    embedded::apply(bounds, object, &overriders.field_overrider)?;
    for (index, one) in overriders.plaintext.iter().enumerate() {
        patch::apply(bounds, object, &one.operator, &one.path, one.value.as_ref())
            .map_err(|problem| FailedChange::new("plaintext", index, problem))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;

//! The objects that belong to policies, in the order in which they are placed.

use std::{cmp::Reverse, collections::BTreeMap};

use fleetdex_crds::policy::PropagationSpec;
use fleetdex_interpreter::value::{group, integer, text};
use serde_json::Value;

use super::values::{DistributionInputs, PlannedBinding, SkippedObject, TemplateName};
use crate::{
    claim::{self, Policy},
    desired::write_order,
    templates::never_propagated,
};

/// An object with its policy.
pub(super) struct Claimed<'a> {
    pub(super) name: TemplateName,
    pub(super) object: &'a Value,
    pub(super) policy: &'a Policy,
}

impl Claimed<'_> {
    /// Its binding, before it is placed.
    pub(super) fn binding(&self) -> PlannedBinding {
        PlannedBinding {
            policy: Some(self.policy.shown()),
            ..PlannedBinding::of_dependency(self.name.clone())
        }
    }
}

/// The objects that belong to policies, and those that are never propagated; definitions come
/// first, because clusters will serve their kinds then.
pub(super) fn claimed(inputs: &DistributionInputs) -> (Vec<Claimed<'_>>, Vec<SkippedObject>) {
    let (mut claimed, mut skipped) = (Vec::new(), Vec::new());
    for object in &inputs.templates {
        let Some(policy) = claim::claiming(&inputs.policies, object, claimed_by(object).as_ref())
        else {
            continue;
        };
        let name = TemplateName::of(object);
        match never_propagated(object) {
            Some(reason) => skipped.push(SkippedObject {
                resource: name,
                reason: reason.to_owned(),
            }),
            None => claimed.push(Claimed {
                name,
                object,
                policy,
            }),
        }
    }
    skipped.sort_by(|one, other| one.resource.cmp(&other.resource));
    let classes = priority_classes(inputs);
    claimed.sort_by_cached_key(|one| {
        let class = one.policy.spec.schedule_priority.as_ref();
        let priority = class.and_then(|class| classes.get(class.priority_class_name.as_str()));
        (
            write_order(one.object) > 1,
            Reverse(priority.copied().unwrap_or(0)),
            one.name.clone(),
        )
    });
    (claimed, skipped)
}

/// The values of the control plane's priority classes.
fn priority_classes(inputs: &DistributionInputs) -> BTreeMap<&str, i64> {
    let classes = inputs.templates.iter().filter(|object| {
        text(*object, &["kind"]) == "PriorityClass" && group(*object) == "scheduling.k8s.io"
    });
    classes
        .map(|class| {
            let value = integer(class, &["value"]).unwrap_or(0);
            (text(class, &["metadata", "name"]), value)
        })
        .collect()
}

/// The policy that an object's annotations name.
fn claimed_by(object: &Value) -> Option<Policy> {
    let annotation = |key: &str| text(object, &["metadata", "annotations", key]).to_owned();
    let namespaced = annotation("propagationpolicy.karmada.io/name");
    let cluster = annotation("clusterpropagationpolicy.karmada.io/name");
    let (namespace, name) = match (namespaced.is_empty(), cluster.is_empty()) {
        (false, _) => (
            Some(annotation("propagationpolicy.karmada.io/namespace")),
            namespaced,
        ),
        (true, false) => (None, cluster),
        (true, true) => return None,
    };
    Some(Policy {
        namespace,
        name,
        spec: PropagationSpec::default().into(),
    })
}

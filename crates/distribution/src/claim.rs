//! Which policy an object belongs to.
//!
//! Source: `pkg/detector` of Karmada. A policy of the object's namespace comes before every
//! cluster-scoped one; then the priority decides, how exactly a selector names the object, and the
//! name of the policy.

use std::{cmp::Reverse, collections::BTreeSet, sync::Arc};

use fleetdex_core::selector::LabelSelector;
use fleetdex_crds::policy::{PropagationSpec, TemplateSelector};
use fleetdex_interpreter::value::{at, map, text};
use jiff::Timestamp;
use serde_json::Value;

/// A `PropagationPolicy` or `ClusterPropagationPolicy`.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Its namespace; `None`: it is cluster-scoped.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// When it was created; `None`: it is not stored yet.
    pub created: Option<Timestamp>,
    /// What it says.
    pub spec: Arc<PropagationSpec>,
}

impl Policy {
    /// Its name.
    pub fn policy_name(&self) -> PolicyName {
        PolicyName {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }

    /// Its kind and name, such as `PropagationPolicy shop/web`.
    pub fn shown(&self) -> String {
        shown_policy("PropagationPolicy", self.namespace.as_deref(), &self.name)
    }

    /// How exactly it selects an object; `None`: it does not.
    pub fn exactness(&self, object: &Value) -> Option<Exactness> {
        if !reaches(self.namespace.as_deref(), object) {
            return None;
        }
        exactness(&self.spec.resource_selectors, object)
    }

    fn rank(&self, exactness: Exactness) -> impl Ord + use<> {
        (
            self.namespace.is_none(),
            Reverse(self.spec.priority.unwrap_or(0)),
            Reverse(exactness),
            self.name.clone(),
        )
    }
}

/// Which policy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PolicyName {
    /// Its namespace; `None`: it is cluster-scoped.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

/// The annotations with which Karmada notes the policy of an object.
const POLICY_NAME: &str = "propagationpolicy.karmada.io/name";
const POLICY_NAMESPACE: &str = "propagationpolicy.karmada.io/namespace";
const CLUSTER_POLICY_NAME: &str = "clusterpropagationpolicy.karmada.io/name";

impl PolicyName {
    /// The policy that the annotations of an object name.
    pub fn of_annotations(object: &Value) -> Option<Self> {
        let annotation = |key: &str| {
            let value = text(object, &["metadata", "annotations", key]);
            Some(value.to_owned()).filter(|value| !value.is_empty())
        };
        if let Some(name) = annotation(POLICY_NAME) {
            let namespace = annotation(POLICY_NAMESPACE).or_else(|| Some(String::new()));
            return Some(Self { namespace, name });
        }
        annotation(CLUSTER_POLICY_NAME).map(|name| Self {
            namespace: None,
            name,
        })
    }

    /// The annotations that name it.
    pub fn annotations(&self) -> Vec<(String, Value)> {
        let entry = |key: &str, value: &str| (key.to_owned(), Value::from(value));
        match &self.namespace {
            Some(namespace) => vec![
                entry(POLICY_NAMESPACE, namespace),
                entry(POLICY_NAME, &self.name),
            ],
            None => vec![entry(CLUSTER_POLICY_NAME, &self.name)],
        }
    }
}

/// The kind and name of a policy; one without a namespace is cluster-scoped.
pub fn shown_policy(kind: &str, namespace: Option<&str>, name: &str) -> String {
    match namespace {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("Cluster{kind} {name}"),
    }
}

/// The annotation of a namespace with the clusters that policies of it may reach, separated by
/// commas.
const ALLOWED_CLUSTERS: &str = "distribute.fleetdex.io/clusters";

/// The clusters that policies of a namespace may reach; `None`: all. An empty annotation allows
/// none.
pub fn allowed_clusters(namespace: &Value) -> Option<BTreeSet<String>> {
    let allowed = at(namespace, &["metadata", "annotations", ALLOWED_CLUSTERS]).as_str()?;
    let clusters = allowed.split(',').map(|cluster| cluster.trim().to_owned());
    Some(clusters.collect())
}

/// Whether a policy of a namespace may select an object; a cluster-scoped one may select any.
pub fn reaches(namespace: Option<&str>, object: &Value) -> bool {
    namespace.is_none_or(|namespace| text(object, &["metadata", "namespace"]) == namespace)
}

/// How exactly a selector names an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exactness {
    /// By its kind.
    Kind,
    /// By its labels.
    Labels,
    /// By its name.
    Name,
}

/// How exactly the best of some selectors selects an object; `None`: none does.
pub fn exactness(selectors: &[TemplateSelector], object: &Value) -> Option<Exactness> {
    let selecting = selectors.iter().filter_map(|one| selects(one, object));
    selecting.max()
}

fn selects(selector: &TemplateSelector, object: &Value) -> Option<Exactness> {
    let is = |wanted: &str, path: &[&str]| text(object, path) == wanted;
    let is_kind = is(&selector.api_version, &["apiVersion"]) && is(&selector.kind, &["kind"]);
    let namespace = &selector.namespace;
    if !is_kind || !(namespace.is_empty() || is(namespace, &["metadata", "namespace"])) {
        return None;
    }
    if !selector.name.is_empty() {
        return is(&selector.name, &["metadata", "name"]).then_some(Exactness::Name);
    }
    let Some(labels) = &selector.label_selector else {
        return Some(Exactness::Kind);
    };
    // A selector that makes no sense selects nothing.
    let labels = LabelSelector::from_api(labels).ok()?;
    let own = map(object, &["metadata", "labels"]);
    let matches = labels.matches(|key| own.and_then(|own| own.get(key)).and_then(Value::as_str));
    matches.then_some(Exactness::Labels)
}

/// The policy that an object belongs to. `claimed_by` is the one that has it now: it keeps the
/// object while it selects it, unless another one preempts it.
pub fn claiming<'p>(
    policies: &[&'p Policy],
    object: &Value,
    claimed_by: Option<&PolicyName>,
) -> Option<&'p Policy> {
    let best = policies
        .iter()
        .copied()
        .filter_map(|policy| Some((policy, policy.exactness(object)?)))
        .min_by_key(|(policy, exactness)| policy.rank(*exactness))
        .map(|(policy, _)| policy);
    let Some(claimed_by) = claimed_by else {
        return best;
    };
    let is_owner = |policy: &&Policy| {
        policy.namespace == claimed_by.namespace && policy.name == claimed_by.name
    };
    let owner = policies
        .iter()
        .copied()
        .find(is_owner)
        .filter(|owner| owner.exactness(object).is_some());
    let Some(owner) = owner else {
        return best;
    };
    let preempting = policies
        .iter()
        .copied()
        .filter(|policy| preempts(policy, owner))
        .filter_map(|policy| Some((policy, policy.exactness(object)?)))
        .min_by_key(|(policy, exactness)| policy.rank(*exactness));
    Some(preempting.map_or(owner, |(policy, _)| policy))
}

/// Whether a policy takes objects from another one.
fn preempts(policy: &Policy, owner: &Policy) -> bool {
    if policy.spec.preemption.as_deref() != Some("Always") {
        return false;
    }
    let priority = |policy: &Policy| policy.spec.priority.unwrap_or(0);
    match (&policy.namespace, &owner.namespace) {
        (Some(_), None) => true,
        (None, Some(_)) => false,
        _ => priority(policy) > priority(owner),
    }
}

#[cfg(test)]
mod tests;

//! What a plan is made from, and what it says.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    rc::Rc,
};

use fleetdex_crds::policy::PropagationSpec;
use fleetdex_interpreter::value::text;
use serde::Serialize;
use serde_json::Value;

use crate::{
    claim::Policy,
    cluster::TargetCluster,
    overrides::ObjectOverrides,
    placing::{NotChosen, Placed, PlacedReplicas, PreviousPlacement},
    room::ClusterRoom,
};

/// Which object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateName {
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty for a cluster-scoped object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl TemplateName {
    /// Of an object.
    pub fn of(object: &Value) -> Self {
        let owned = |path: &[&str]| text(object, path).to_owned();
        Self {
            api_version: owned(&["apiVersion"]),
            kind: owned(&["kind"]),
            namespace: owned(&["metadata", "namespace"]),
            name: owned(&["metadata", "name"]),
        }
    }
}

/// Such as `Deployment shop/web`.
impl fmt::Display for TemplateName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ", self.kind)?;
        if !self.namespace.is_empty() {
            write!(out, "{}/", self.namespace)?;
        }
        out.write_str(&self.name)
    }
}

/// What a plan is made from.
#[derive(Clone, Debug, Default)]
pub struct DistributionInputs {
    /// All clusters.
    pub clusters: Vec<TargetCluster>,
    /// All propagation policies.
    pub policies: Vec<Policy>,
    /// All override policies.
    pub overrides: Vec<ObjectOverrides>,
    /// The objects of the control plane.
    pub templates: Vec<Value>,
    /// Where objects are now.
    pub previous: BTreeMap<TemplateName, PreviousPlacement>,
    /// The room in clusters, where it is known.
    pub room: BTreeMap<String, ClusterRoom>,
    /// The objects that clusters have, by cluster.
    pub observed: BTreeMap<String, BTreeMap<TemplateName, Value>>,
}

/// An object that needs others.
#[derive(Debug)]
pub struct Requirer {
    /// The object.
    pub name: TemplateName,
    /// Its clusters.
    pub clusters: BTreeSet<String>,
    /// Whether what it needs may be taken over where a cluster has it already.
    pub overwrites: bool,
}

/// Where one object goes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedBinding {
    /// The object.
    pub resource: TemplateName,
    /// The policy that it belongs to; absent: others need it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The clusters and their replicas.
    pub clusters: Vec<PlacedReplicas>,
    /// Why it could not be placed; null: it could.
    pub unschedulable: Option<String>,
    /// The other clusters.
    pub not_chosen: Vec<NotChosen>,
    /// The group of clusters that is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity_name: Option<String>,
    /// The objects that need it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required_by: Vec<TemplateName>,
    /// The clusters to which nothing is written for the time being.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub suspended: Vec<String>,
}

/// An object of a cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlannedObject {
    /// The cluster.
    pub cluster: String,
    /// The object.
    pub object: Value,
}

/// Why an object is not written to a cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlanConflict {
    /// The cluster.
    pub cluster: String,
    /// The object.
    pub resource: TemplateName,
    /// Why.
    pub reason: String,
}

/// An object that Fleetdex has written to a cluster and that does not belong there any more.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlannedDeletion {
    /// The cluster.
    pub cluster: String,
    /// The object.
    pub resource: TemplateName,
}

/// An object that a policy selects and that is never propagated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SkippedObject {
    /// The object.
    pub resource: TemplateName,
    /// Why.
    pub reason: String,
}

/// Where every object goes, and what it is there.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DistributionPlan {
    /// The objects of the control plane that belong to a policy, and what they need.
    pub bindings: Vec<PlannedBinding>,
    /// The objects of the clusters, in the order in which they are written.
    pub objects: Vec<PlannedObject>,
    /// What is deleted.
    pub deletions: Vec<PlannedDeletion>,
    /// What is not written, and why.
    pub conflicts: Vec<PlanConflict>,
    /// What policies select and is never propagated.
    pub skipped: Vec<SkippedObject>,
}

impl DistributionPlan {
    /// Whether clusters have to change: something is deleted, or written where the cluster has
    /// other values. Values that the plan does not have are the cluster's own.
    pub fn has_changes(&self, observed: &BTreeMap<String, BTreeMap<TemplateName, Value>>) -> bool {
        let is_there = |one: &PlannedObject| {
            let objects = observed.get(&one.cluster);
            let found = objects.and_then(|objects| objects.get(&TemplateName::of(&one.object)));
            found.is_some_and(|found| contains(found, &one.object))
        };
        !self.deletions.is_empty() || !self.objects.iter().all(is_there)
    }
}

/// Whether a list has all items of another one. Items with names, such as containers, may have
/// others beside them.
fn contains_items(found: &[Value], wanted: &[Value]) -> bool {
    let name = |item: &Value| item.get("name").and_then(Value::as_str).map(str::to_owned);
    if !wanted.is_empty() && wanted.iter().all(|item| name(item).is_some()) {
        return wanted.iter().all(|wanted| {
            let named = found.iter().find(|found| name(found) == name(wanted));
            named.is_some_and(|found| contains(found, wanted))
        });
    }
    found.len() == wanted.len()
        && found
            .iter()
            .zip(wanted)
            .all(|(found, wanted)| contains(found, wanted))
}

/// Whether a value has all that another one has.
fn contains(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => wanted.iter().all(|(name, wanted)| {
            // A null is as good as absent.
            contains(found.get(name).unwrap_or(&Value::Null), wanted)
        }),
        (Value::Array(found), Value::Array(wanted)) => contains_items(found, wanted),
        (found, wanted) => found == wanted,
    }
}

impl PlannedBinding {
    /// An object that others need.
    pub(super) fn of_dependency(resource: TemplateName) -> Self {
        Self {
            resource,
            policy: None,
            clusters: Vec::new(),
            unschedulable: None,
            not_chosen: Vec::new(),
            affinity_name: None,
            required_by: Vec::new(),
            suspended: Vec::new(),
        }
    }

    /// Keeps what the policy suspends.
    pub(super) fn suspend(&mut self, spec: &PropagationSpec) {
        let Some(suspension) = &spec.suspension else {
            return;
        };
        let is_suspended = |cluster: &String| {
            let listed = suspension.dispatching_on_clusters.as_ref();
            suspension.dispatching == Some(true)
                || listed.is_some_and(|listed| listed.cluster_names.contains(cluster))
        };
        let names = self.clusters.iter().map(|one| one.name.clone());
        self.suspended = names.filter(is_suspended).collect();
    }

    /// Leaves the object where it is.
    pub(super) fn keep(
        &mut self,
        previous: &PreviousPlacement,
        clusters: &[TargetCluster],
        reason: String,
    ) {
        self.clusters = previous
            .clusters
            .iter()
            .map(|(name, replicas)| PlacedReplicas {
                name: name.clone(),
                replicas: *replicas,
            })
            .collect();
        self.not_chosen = clusters
            .iter()
            .filter(|cluster| !previous.clusters.contains_key(&cluster.name))
            .map(|cluster| NotChosen {
                cluster: cluster.name.clone(),
                reason: reason.clone(),
            })
            .collect();
        self.unschedulable = Some(reason);
    }

    /// The names of its clusters.
    pub(super) fn cluster_names(&self) -> BTreeSet<String> {
        self.clusters.iter().map(|one| one.name.clone()).collect()
    }

    /// Takes over where the object was placed.
    pub(super) fn set(&mut self, placed: Placed) {
        self.clusters = placed.clusters;
        self.unschedulable = placed.unschedulable;
        self.not_chosen = placed.not_chosen;
        self.affinity_name = placed.affinity_name;
    }

    /// Adds the clusters of the objects that need this one.
    pub(super) fn add_requirers(&mut self, requirers: &[Rc<Requirer>]) {
        let mut known = self.cluster_names();
        for requirer in requirers {
            self.required_by.push(requirer.name.clone());
            for cluster in &requirer.clusters {
                if known.insert(cluster.clone()) {
                    self.clusters.push(PlacedReplicas {
                        name: cluster.clone(),
                        replicas: 0,
                    });
                }
            }
        }
        self.not_chosen.retain(|one| !known.contains(&one.cluster));
        self.clusters
            .sort_by(|one, other| one.name.cmp(&other.name));
    }
}

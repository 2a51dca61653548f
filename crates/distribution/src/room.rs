//! How many replicas a cluster has room for, by its nodes and the pods that run on them.
//!
//! Counted by node and not on sums: what is left on ten nodes together may fit on none of them.
//! Volumes, host ports and quotas are not looked at.

use std::collections::BTreeMap;

use fleetdex_core::model::JsonTree;
use fleetdex_crds::{affinity::FieldSelectorRequirement, cluster::ResourceSummary};
use fleetdex_interpreter::{
    native::requirements::{node_claim, resources_of, resources_of_pod_spec},
    request::{NodeClaim, ReplicaRequirements},
    value::{at, flag, list, text},
};
use k8s_openapi::api::core::v1::{Taint, Toleration};
use serde_json::{Value, json};

use crate::cluster::tolerates;

/// Resources by name: CPU in thousandths, others in units.
type Amounts = BTreeMap<String, i64>;

const PODS: &str = "pods";

/// The room in a cluster.
#[derive(Clone, Debug)]
pub struct ClusterRoom(KnownRoom);

#[derive(Clone, Debug)]
enum KnownRoom {
    Replicas(i64),
    Nodes(Vec<NodeRoom>),
    Sum(Amounts),
}

/// The room on a node that takes new pods.
#[derive(Clone, Debug)]
struct NodeRoom {
    name: String,
    labels: BTreeMap<String, String>,
    taints: Vec<Taint>,
    free: Amounts,
}

impl ClusterRoom {
    /// Room for a number of replicas, whatever they require.
    pub fn of_replicas(replicas: i64) -> Self {
        Self(KnownRoom::Replicas(replicas))
    }

    /// By the sums that a cluster reports: more than fits where what is left lies scattered over
    /// its nodes.
    pub fn of_summary(summary: &ResourceSummary) -> Self {
        let amounts = |quantities: &Option<BTreeMap<_, _>>| {
            let value = json!(quantities);
            resources_of(&JsonTree::from(&value))
        };
        let mut free = amounts(&summary.allocatable);
        for used in [amounts(&summary.allocated), amounts(&summary.allocating)] {
            take(&mut free, &used, 1);
        }
        Self(KnownRoom::Sum(free))
    }

    /// What pods leave of nodes. Pods that have ended take nothing; those that wait for a node take
    /// room on the first one that fits.
    pub fn of_nodes<'v>(
        nodes: impl IntoIterator<Item = &'v Value>,
        pods: impl IntoIterator<Item = &'v Value>,
    ) -> Self {
        let mut room: Vec<NodeRoom> = nodes.into_iter().filter_map(NodeRoom::of).collect();
        let by_name: BTreeMap<String, usize> = room
            .iter()
            .enumerate()
            .map(|(index, node)| (node.name.clone(), index))
            .collect();
        let mut waiting = Vec::new();
        for pod in pods {
            if matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed") {
                continue;
            }
            match text(pod, &["spec", "nodeName"]) {
                "" => waiting.push(pod),
                // A pod on a node that takes no new pods takes no room that counts.
                node => {
                    if let Some(index) = by_name.get(node) {
                        take(&mut room[*index].free, &requests(pod), 1);
                    }
                }
            }
        }
        for pod in waiting {
            let claim = node_claim(&JsonTree::from(at(pod, &["spec"])));
            reserve_on(&mut room, claim.as_ref(), &requests(pod), 1);
        }
        Self(KnownRoom::Nodes(room))
    }

    /// How many replicas there is room for.
    pub fn replicas(&self, requirements: Option<&ReplicaRequirements>) -> i64 {
        let requests = of_one_replica(requirements);
        match &self.0 {
            KnownRoom::Replicas(replicas) => (*replicas).max(0),
            KnownRoom::Sum(free) => fitting(free, &requests),
            KnownRoom::Nodes(nodes) => {
                let claim = requirements.and_then(|one| one.node_claim.as_ref());
                nodes
                    .iter()
                    .filter(|node| node.admits(claim))
                    .map(|node| fitting(&node.free, &requests))
                    .fold(0, i64::saturating_add)
            }
        }
    }

    /// Takes the room of replicas. A negative number gives back what replicas have had, where it
    /// does not matter on which node they ran.
    pub fn reserve(&mut self, requirements: Option<&ReplicaRequirements>, replicas: i64) {
        let requests = of_one_replica(requirements);
        match &mut self.0 {
            KnownRoom::Replicas(left) => *left = left.saturating_sub(replicas),
            KnownRoom::Sum(free) => take(free, &requests, replicas),
            KnownRoom::Nodes(nodes) => {
                let claim = requirements.and_then(|one| one.node_claim.as_ref());
                reserve_on(nodes, claim, &requests, replicas);
            }
        }
    }
}

/// Takes the room of replicas on the first nodes that they fit on.
fn reserve_on(
    nodes: &mut [NodeRoom],
    claim: Option<&NodeClaim>,
    requests: &Amounts,
    mut replicas: i64,
) {
    for node in nodes.iter_mut().filter(|node| node.admits(claim)) {
        let taken = fitting(&node.free, requests).min(replicas);
        if taken <= 0 {
            continue;
        }
        take(&mut node.free, requests, taken);
        replicas -= taken;
    }
}

fn take(free: &mut Amounts, requests: &Amounts, times: i64) {
    for (name, amount) in requests {
        let Some(left) = free.get_mut(name) else {
            continue;
        };
        *left = left.saturating_sub(amount.saturating_mul(times));
    }
}

fn of_one_replica(requirements: Option<&ReplicaRequirements>) -> Amounts {
    let requests = requirements.map(|one| Value::from(one.resource_request.clone()));
    let mut amounts = resources_of(&JsonTree::from(&requests.unwrap_or_default()));
    amounts.insert(PODS.to_owned(), 1);
    amounts
}

fn requests(pod: &Value) -> Amounts {
    let spec = JsonTree::from(at(pod, &["spec"]));
    let mut amounts = resources_of_pod_spec(&spec);
    amounts.insert(PODS.to_owned(), 1);
    amounts
}

/// How often a request fits into what is free.
fn fitting(free: &Amounts, requests: &Amounts) -> i64 {
    requests
        .iter()
        .filter(|(_, request)| **request > 0)
        // A node that does not say how many pods it takes takes any number.
        .filter(|(name, _)| *name != PODS || free.contains_key(PODS))
        .map(|(name, request)| free.get(name).copied().unwrap_or(0).max(0) / request)
        .min()
        .unwrap_or(i64::MAX)
}

impl NodeRoom {
    /// `None` for a node that takes no new pods.
    fn of(node: &Value) -> Option<Self> {
        let ready = list(node, &["status", "conditions"])
            .iter()
            .find(|condition| text(*condition, &["type"]) == "Ready");
        let is_ready = ready.is_none_or(|condition| text(condition, &["status"]) == "True");
        if flag(node, &["spec", "unschedulable"]) || !is_ready {
            return None;
        }
        let decoded = |path: &[&str]| at(node, path).clone();
        Some(Self {
            name: text(node, &["metadata", "name"]).to_owned(),
            labels: serde_json::from_value(decoded(&["metadata", "labels"])).unwrap_or_default(),
            taints: serde_json::from_value(decoded(&["spec", "taints"])).unwrap_or_default(),
            free: resources_of(&JsonTree::from(at(node, &["status", "allocatable"]))),
        })
    }

    /// Whether the taints, labels and name of the node are what a pod wants.
    fn admits(&self, claim: Option<&NodeClaim>) -> bool {
        let none = NodeClaim::default();
        let claim = claim.unwrap_or(&none);
        let tolerations: Vec<Toleration> = claim
            .tolerations
            .iter()
            .filter_map(|one| serde_json::from_value(one.clone()).ok())
            .collect();
        let tolerated = self
            .taints
            .iter()
            .filter(|taint| taint.effect != "PreferNoSchedule")
            .all(|taint| tolerations.iter().any(|one| tolerates(one, taint)));
        let selected = claim.node_selector.iter().all(|(key, value)| {
            value
                .as_str()
                .is_some_and(|value| self.labels.get(key).is_some_and(|own| own == value))
        });
        tolerated && selected && self.has_affinity(claim.hard_node_affinity.as_ref())
    }

    /// Whether one of the terms of a `NodeSelector` selects the node.
    fn has_affinity(&self, affinity: Option<&Value>) -> bool {
        let Some(affinity) = affinity else {
            return true;
        };
        list(affinity, &["nodeSelectorTerms"]).iter().any(|term| {
            let labels = list(term, &["matchExpressions"]);
            let fields = list(term, &["matchFields"]);
            let is_empty = labels.is_empty() && fields.is_empty();
            let label = |key: &str| self.labels.get(key).map(String::as_str);
            let field = |key: &str| (key == "metadata.name").then_some(self.name.as_str());
            !is_empty
                && labels.iter().all(|one| holds(one, label))
                && fields.iter().all(|one| holds(one, field))
        })
    }
}

/// Whether a requirement on nodes holds; one that makes no sense holds nowhere.
fn holds<'n>(requirement: &Value, value_of: impl Fn(&str) -> Option<&'n str>) -> bool {
    let requirement = serde_json::from_value::<FieldSelectorRequirement>(requirement.clone());
    requirement.is_ok_and(|requirement| requirement.holds(value_of(&requirement.key)))
}

#[cfg(test)]
mod tests;

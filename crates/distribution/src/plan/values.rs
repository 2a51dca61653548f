//! What a plan is made from, and what it says.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    sync::Arc,
};

use fleetdex_crds::{binding::GracefulEvictionTask, policy::PropagationSpec};
use fleetdex_interpreter::request::ReplicaRequirements;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::{
    activation::LazyContent,
    claim::{Policy, PolicyName},
    cluster::TargetCluster,
    contains::contains,
    desired::write_order,
    division::Shares,
    failover::{BlockedEviction, FailoverDecision, HealthInClusters},
    object_text::ObjectText,
    overrides::ObjectOverrides,
    placing::{NotChosen, Placed, PlacedReplicas, PreviousPlacement},
    rollout::{RolloutPhase, RolloutState, SetHealth, TemplateWaves},
    room::ClusterRoom,
    sets::{HookAdmission, ObjectSet, RefusedMember, SetName},
    template_name::{NamedTemplate, TemplateName},
};

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
    pub templates: Vec<NamedTemplate>,
    /// Where objects are now.
    pub previous: BTreeMap<TemplateName, Arc<PreviousPlacement>>,
    /// The room in clusters, where it is known.
    pub room: BTreeMap<String, ClusterRoom>,
    /// The clusters that policies of a namespace may reach, where not all.
    pub allowed_clusters: BTreeMap<String, BTreeSet<String>>,
    /// How objects are in their clusters, for those whose policies or bindings ask for it.
    pub health: BTreeMap<TemplateName, HealthInClusters>,
    /// The present; `None`: nothing begins or ends because of time.
    pub now: Option<Timestamp>,
    /// The objects that clusters have, by cluster.
    pub observed: BTreeMap<String, BTreeMap<TemplateName, Value>>,
    /// All sets of objects.
    pub sets: Vec<ObjectSet>,
    /// In which order clusters get changed templates, by policy.
    pub waves: BTreeMap<PolicyName, TemplateWaves>,
    /// How objects are in their clusters, for those whose policies have waves.
    pub wave_health: BTreeMap<TemplateName, BTreeMap<String, SetHealth>>,
    /// Whether all sets are known. If not, what bindings say of sets that are not here stays.
    pub knows_sets: bool,
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

impl Requirer {
    /// The same object, as needed in the clusters of both.
    pub(super) fn united(&self, other: &Self) -> Self {
        Self {
            name: self.name.clone(),
            clusters: &self.clusters | &other.clusters,
            overwrites: self.overwrites || other.overwrites,
        }
    }
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
    /// The clusters that get it, or its change, with a later wave, or after hooks.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub awaiting: BTreeSet<String>,
    /// The clusters that it is evicted from: see [`crate::failover`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evictions: Vec<GracefulEvictionTask>,
    /// The clusters that it would leave if others took over.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocked: Vec<BlockedEviction>,
    /// Those that it is evicted from, and whose copies stay for the time being.
    #[serde(skip)]
    pub staying: BTreeSet<String>,
    /// What the policy says.
    #[serde(skip)]
    pub spec: Option<Arc<PropagationSpec>>,
    /// The policy's name.
    #[serde(skip)]
    pub claimed_by: Option<PolicyName>,
    /// The set that it belongs to.
    #[serde(skip)]
    pub set: Option<Arc<SetName>>,
    /// The replicas of clusters by the stable revision of its set, while another one is rolled out.
    #[serde(skip)]
    pub stable: Option<Shares>,
    /// How far its waves are.
    #[serde(skip)]
    pub rollout: Option<RolloutState>,
    /// Whether its set does not have it any more, and it stays where a rollout has not come to.
    #[serde(skip)]
    pub is_removed: bool,
    /// The clusters for which its set does not have it.
    #[serde(skip)]
    pub lacking: BTreeSet<String>,
    /// The bindings of objects that may still run and need it, and that no policy claims any more.
    #[serde(skip)]
    pub resting_requirers: Vec<(String, String)>,
    /// What its lazy policy looks at.
    #[serde(skip)]
    pub lazy: Option<LazyContent>,
    /// The replicas that the object declares.
    #[serde(skip)]
    pub replicas: Option<i64>,
    /// What each replica requires.
    #[serde(skip)]
    pub requirements: Option<ReplicaRequirements>,
}

/// An object of a cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlannedObject {
    /// The cluster.
    pub cluster: String,
    /// Which object.
    #[serde(skip)]
    pub resource: TemplateName,
    /// The object.
    pub object: ObjectText,
    /// Whether an object that Fleetdex did not make may be taken over.
    #[serde(skip)]
    pub overwrites: bool,
    /// Whether it is written only where the cluster has none: a namespace that others need.
    #[serde(skip)]
    pub is_only_needed: bool,
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
    /// The objects of sets that are not distributed, because something else has their names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedMember>,
    /// Whether it is known of every object what it needs. If not, nothing is deleted.
    #[serde(skip)]
    pub knows_dependencies: bool,
}

impl DistributionPlan {
    /// Whether clusters have to change: something is deleted, or written where the cluster has
    /// other values. Values that the plan does not have are the cluster's own.
    pub fn has_changes(&self, observed: &BTreeMap<String, BTreeMap<TemplateName, Value>>) -> bool {
        let is_there = |one: &PlannedObject| {
            let objects = observed.get(&one.cluster);
            let found = objects.and_then(|objects| objects.get(&one.resource));
            found.is_some_and(|found| contains(found, &one.object.value()))
        };
        !self.deletions.is_empty() || !self.objects.iter().all(is_there)
    }
}

impl PlannedBinding {
    /// An object that others need.
    pub fn of_dependency(resource: TemplateName) -> Self {
        Self {
            resource,
            policy: None,
            clusters: Vec::new(),
            unschedulable: None,
            not_chosen: Vec::new(),
            affinity_name: None,
            required_by: Vec::new(),
            suspended: Vec::new(),
            awaiting: BTreeSet::new(),
            evictions: Vec::new(),
            blocked: Vec::new(),
            staying: BTreeSet::new(),
            spec: None,
            claimed_by: None,
            set: None,
            stable: None,
            rollout: None,
            is_removed: false,
            lacking: BTreeSet::new(),
            resting_requirers: Vec::new(),
            lazy: None,
            replicas: None,
            requirements: None,
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

    /// Keeps what waits for hooks. Definitions do not: hooks may need them.
    pub(super) fn admit(&mut self, admission: &HookAdmission) {
        if write_order(&self.resource) == 1 {
            return;
        }
        let mut names = self.cluster_names();
        names.retain(|cluster| !admission.clusters.contains(cluster));
        self.awaiting.append(&mut names);
    }

    /// Keeps which clusters the object leaves, and where it stays for the time being.
    pub(super) fn evict(
        &mut self,
        evictions: Vec<GracefulEvictionTask>,
        failover: &FailoverDecision<'_>,
    ) {
        let staying = evictions
            .iter()
            .filter(|task| !failover.is_over(task, &self.clusters));
        self.staying = staying.map(|task| task.from_cluster.clone()).collect();
        self.evictions = evictions;
    }

    /// Whether a wave may become healthy, fail or begin although nothing else changes.
    pub fn is_rolling_out(&self) -> bool {
        let rollout = self.rollout.as_ref();
        rollout.is_some_and(|rollout| rollout.phase != RolloutPhase::Complete)
    }

    /// Whether it has been evicted from a cluster that may still have a copy.
    pub fn has_ended_evictions(&self) -> bool {
        let mut evictions = self.evictions.iter();
        evictions.any(|task| !self.staying.contains(&task.from_cluster))
    }

    /// The tasks because of which a cluster has got the object.
    fn evictions_to(&self, cluster: &str) -> impl Iterator<Item = &GracefulEvictionTask> {
        let is_new = move |task: &&GracefulEvictionTask| {
            !task.clusters_before_failover.is_empty()
                && !task
                    .clusters_before_failover
                    .iter()
                    .any(|one| one == cluster)
        };
        self.evictions.iter().filter(is_new)
    }

    /// Whether nothing is written to a cluster: the policy suspends it, a rollout has not reached
    /// it, or the object must leave another one first.
    pub(super) fn waits_in(&self, cluster: &str) -> bool {
        let is_first = |task: &GracefulEvictionTask| {
            task.purge_mode.as_deref() == Some("Directly") && task.suppress_deletion.is_none()
        };
        self.suspended.iter().any(|one| one == cluster)
            || self.awaiting.contains(cluster)
            || self.evictions_to(cluster).any(is_first)
    }

    /// The labels that a cluster gets with the object because it has left another one.
    pub(super) fn preserved_labels(&self, cluster: &str) -> BTreeMap<String, String> {
        let tasks = self.evictions_to(cluster);
        tasks
            .flat_map(|task| task.preserved_label_state.clone())
            .collect()
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
        self.stable.clone_from(&previous.stable);
        self.rollout.clone_from(&previous.rollout);
        self.evictions.clone_from(&previous.evictions);
        let evictions = self.evictions.iter();
        self.staying = evictions.map(|task| task.from_cluster.clone()).collect();
    }

    /// The names of its clusters.
    pub fn cluster_names(&self) -> BTreeSet<String> {
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

//! Bindings: where an object is, as the control plane stores it.

use std::{collections::BTreeSet, sync::Arc};

use fleetdex_crds::{binding::GracefulEvictionTask, policy::ClusterPlacement};
use fleetdex_interpreter::value::{at, flag, integer, list, text};
use jiff::Timestamp;
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use crate::{
    binding_name::{binding_kind, binding_name},
    claim::PolicyName,
    failover::PRODUCER,
    placing::PreviousPlacement,
    plan::PlannedBinding,
    rollout::{RESUME, ResumedWave, RolloutState},
    sets::{SetName, bound_object},
    template_name::TemplateName,
};

/// The annotation of a binding with the rules by which its object was placed, as Karmada's
/// scheduler writes it.
const APPLIED_PLACEMENT: &str = "policy.karmada.io/applied-placement";

/// Keeps a binding until its clusters have no copy any more.
pub const COPIES_FINALIZER: &str = "distribute.fleetdex.io/copies";

/// The annotation of a binding that lets held deletions go.
pub const ALLOW_DELETION: &str = "distribute.fleetdex.io/allow-deletion";

/// The annotation of a binding with the content of the object for which its lazy policy had an
/// effect.
const ACTIVATED_FOR: &str = "distribute.fleetdex.io/activated-for";

/// The annotation of a binding with the replicas of clusters by the stable revision of its set.
const STABLE_REPLICAS: &str = "distribute.fleetdex.io/stable-replicas";

/// The annotation of a binding with how far the waves of its object are.
const ROLLOUT_STATUS: &str = "distribute.fleetdex.io/rollout-status";

/// Why an object leaves a cluster that its policy does not want any more.
const MOVED: &str = "Moved";

/// Group and version of bindings.
pub const BINDING_API_VERSION: &str = "work.karmada.io/v1alpha2";

/// Why a binding cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("annotation {APPLIED_PLACEMENT}: {0}")]
pub struct InvalidBinding(#[from] serde_json::Error);

/// Where the binding of an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindingPlace {
    /// Its kind.
    pub kind: &'static str,
    /// Its namespace; empty for a `ClusterResourceBinding`.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl BindingPlace {
    /// Of an object: of a set, the binding is a `ResourceBinding` in the namespace of the set.
    pub fn of(object: &TemplateName, set: Option<&SetName>) -> Self {
        match set {
            Some(set) => Self {
                kind: "ResourceBinding",
                namespace: set.namespace.clone(),
                name: set.binding_name(object),
            },
            None => Self {
                kind: binding_kind(object),
                namespace: object.namespace.clone(),
                name: binding_name(object),
            },
        }
    }
}

/// What a binding says of the past.
#[derive(Clone, Debug)]
pub struct KnownBinding {
    /// The object.
    pub name: TemplateName,
    /// Where it is.
    pub previous: Arc<PreviousPlacement>,
    /// When it was placed.
    pub last_scheduled: Option<Timestamp>,
}

impl KnownBinding {
    /// Reads a binding without the rules by which its object was placed.
    pub fn read_without_rules(binding: &mut Value) -> Result<Self, InvalidBinding> {
        let path = "/metadata/annotations";
        if let Some(Value::Object(annotations)) = binding.pointer_mut(path) {
            annotations.retain(|key, _| key != APPLIED_PLACEMENT);
        }
        Self::read(binding)
    }

    /// Reads a binding.
    pub fn read(binding: &Value) -> Result<Self, InvalidBinding> {
        let set = SetName::of_binding(binding).map(Arc::new);
        let name = bound_object(binding, set.as_deref());
        let annotation = |key: &str| text(binding, &["metadata", "annotations", key]);
        let applied = annotation(APPLIED_PLACEMENT);
        let placement: Option<ClusterPlacement> = match applied {
            "" => None,
            json => Some(serde_json::from_str(json)?),
        };
        let affinity_name = text(binding, &["status", "schedulerObservingAffinityName"]).to_owned();
        let time = |path: &[&str]| text(binding, path).parse::<Timestamp>().ok();
        let last_scheduled = time(&["status", "lastScheduledTime"]);
        let (leaving, evictions) = tasks(binding).partition(is_move);
        let leaving: Vec<GracefulEvictionTask> = leaving;
        let clusters = list(binding, &["spec", "clusters"]).iter();
        let previous = PreviousPlacement {
            clusters: clusters
                .map(|cluster| {
                    let replicas = integer(cluster, &["replicas"]).unwrap_or(0);
                    (text(cluster, &["name"]).to_owned(), replicas)
                })
                .collect(),
            evictions,
            leaving: leaving.into_iter().map(|task| task.from_cluster).collect(),
            required_by: requirers(binding),
            is_needed_only: at(binding, &["spec", "placement"]).is_null(),
            claimed_by: PolicyName::of_annotations(binding),
            activated_for: Some(annotation(ACTIVATED_FOR))
                .filter(|hash| !hash.is_empty())
                .map(str::to_owned),
            placement,
            affinity_name: Some(affinity_name).filter(|name| !name.is_empty()),
            is_rebalanced: time(&["spec", "rescheduleTriggeredAt"])
                .is_some_and(|triggered| last_scheduled.is_some_and(|last| triggered > last)),
            preserves: flag(binding, &["spec", "preserveResourcesOnDeletion"]),
            // Users may write it: what cannot be read is not known.
            stable: serde_json::from_str(annotation(STABLE_REPLICAS)).ok(),
            rollout: serde_json::from_str(annotation(ROLLOUT_STATUS))
                .ok()
                .and_then(|status| RolloutState::read(&status)),
            resumed: ResumedWave::parse(annotation(RESUME)),
            set,
        };
        Ok(Self {
            name,
            previous: Arc::new(previous),
            last_scheduled,
        })
    }
}

/// The clusters that the object leaves.
fn tasks(binding: &Value) -> impl Iterator<Item = GracefulEvictionTask> {
    let tasks = list(binding, &["spec", "gracefulEvictionTasks"]).iter();
    tasks.map(|task| {
        GracefulEvictionTask::deserialize(task).unwrap_or_else(|_| GracefulEvictionTask {
            from_cluster: text(task, &["fromCluster"]).to_owned(),
            ..GracefulEvictionTask::default()
        })
    })
}

/// Whether the object leaves a cluster because its policy wants it elsewhere.
fn is_move(task: &GracefulEvictionTask) -> bool {
    task.producer == PRODUCER && task.reason == MOVED
}

/// The bindings of those that need an object.
fn requirers(binding: &Value) -> Vec<(String, String)> {
    let requirers = list(binding, &["spec", "requiredBy"]).iter();
    requirers
        .map(|one| {
            let of = |member: &str| text(one, &[member]).to_owned();
            (of("namespace"), of("name"))
        })
        .collect()
}

/// The binding of a planned object, to be applied. `leaving`: clusters that may still have a copy
/// and do not get it any more. An object that could not be placed keeps the rules of its last
/// placement.
pub fn binding(
    planned: &PlannedBinding,
    template: &Value,
    leaving: &BTreeSet<String>,
    previous: Option<&PreviousPlacement>,
) -> Value {
    let name = &planned.resource;
    let place = BindingPlace::of(name, planned.set.as_deref());
    let mut metadata = json!({"name": place.name, "finalizers": [COPIES_FINALIZER]});
    if !place.namespace.is_empty() {
        metadata["namespace"] = place.namespace.into();
    }
    let waits = planned.lazy.as_ref().is_some_and(|lazy| lazy.waits);
    let applied = match (&planned.unschedulable, &planned.spec) {
        (None, Some(spec)) if !waits => Some(&spec.placement),
        _ => previous.and_then(|previous| previous.placement.as_ref()),
    };
    let mut annotations = Map::new();
    if let Some(json) = applied.and_then(|applied| serde_json::to_string(applied).ok()) {
        annotations.insert(APPLIED_PLACEMENT.to_owned(), json.into());
    }
    if let Some(claimed_by) = &planned.claimed_by {
        annotations.extend(claimed_by.annotations());
    }
    if let Some(lazy) = &planned.lazy {
        annotations.insert(ACTIVATED_FOR.to_owned(), lazy.hash.as_str().into());
    }
    if let Some(stable) = &planned.stable {
        annotations.insert(STABLE_REPLICAS.to_owned(), json!(stable).to_string().into());
    }
    if let Some(rollout) = &planned.rollout {
        let status = json!(rollout.status(Vec::new())).to_string();
        annotations.insert(ROLLOUT_STATUS.to_owned(), status.into());
    }
    if let Some(set) = &planned.set {
        annotations.extend(set.annotations());
        metadata["labels"] = set.labels().into();
        metadata["ownerReferences"] = json!([set.owner_reference()]);
    }
    if !annotations.is_empty() {
        metadata["annotations"] = annotations.into();
    }
    json!({
        "apiVersion": BINDING_API_VERSION,
        "kind": place.kind,
        "metadata": metadata,
        "spec": spec(planned, template, leaving),
    })
}

/// The task of an object that its policy does not want in a cluster any more.
fn move_from(cluster: &str) -> GracefulEvictionTask {
    GracefulEvictionTask {
        from_cluster: cluster.to_owned(),
        purge_mode: Some("Directly".to_owned()),
        reason: MOVED.to_owned(),
        producer: PRODUCER.to_owned(),
        ..GracefulEvictionTask::default()
    }
}

fn spec(planned: &PlannedBinding, template: &Value, leaving: &BTreeSet<String>) -> Value {
    let name = &planned.resource;
    let mut resource = json!({
        "apiVersion": name.api_version, "kind": name.kind, "name": name.name,
    });
    if planned.set.is_none() {
        resource["uid"] = text(template, &["metadata", "uid"]).into();
    }
    if !name.namespace.is_empty() {
        resource["namespace"] = name.namespace.as_str().into();
    }
    let mut spec = Map::new();
    let mut set = |member: &str, value: Value| {
        let is_empty = match &value {
            Value::Null => true,
            Value::Array(items) => items.is_empty(),
            _ => false,
        };
        if !is_empty {
            spec.insert(member.to_owned(), value);
        }
    };
    set("resource", resource);
    set("replicas", json!(planned.replicas));
    set("replicaRequirements", json!(planned.requirements));
    let clusters = planned.clusters.iter().map(|one| match one.replicas {
        0 => json!({"name": one.name}),
        replicas => json!({"name": one.name, "replicas": replicas}),
    });
    set("clusters", clusters.collect());
    let leaving = leaving.iter().map(|cluster| {
        let mut evictions = planned.evictions.iter();
        let task = evictions.find(|task| task.from_cluster == *cluster);
        task.map_or_else(|| json!(move_from(cluster)), |task| json!(task))
    });
    set("gracefulEvictionTasks", leaving.collect());
    let requirers = planned.required_by.iter();
    let requirers: BTreeSet<(String, String)> = requirers
        .map(|requirer| (requirer.namespace.clone(), binding_name(requirer)))
        .chain(planned.resting_requirers.iter().cloned())
        .collect();
    let requirers = requirers
        .into_iter()
        .map(|(namespace, name)| json!({"namespace": namespace, "name": name}));
    set("requiredBy", requirers.collect());
    if let Some(policy) = &planned.spec {
        set("placement", json!(policy.placement));
        set(
            "propagateDeps",
            policy.propagate_deps.then_some(true).into(),
        );
        set("schedulerName", json!(policy.scheduler_name));
        set("failover", json!(policy.failover));
        set("conflictResolution", json!(policy.conflict_resolution));
        set("suspension", json!(policy.suspension));
        set(
            "preserveResourcesOnDeletion",
            json!(policy.preserve_resources_on_deletion),
        );
    }
    spec.into()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::placing::PlacedReplicas;

    fn planned() -> PlannedBinding {
        let spec = json!({
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
            "placement": {"clusterAffinities": [{"affinityName": "near", "clusterNames": ["m1"]}]},
            "preserveResourcesOnDeletion": true,
        });
        let template = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "shop", "uid": "u"},
        });
        PlannedBinding {
            clusters: vec![PlacedReplicas {
                name: "m1".to_owned(),
                replicas: 2,
            }],
            spec: Some(Arc::new(serde_json::from_value(spec).unwrap())),
            replicas: Some(2),
            ..PlannedBinding::of_dependency(TemplateName::of(&template))
        }
    }

    #[test]
    fn a_binding_is_read_as_it_was_written() {
        let (planned, template) = (planned(), json!({"metadata": {"uid": "u"}}));
        let leaving = ["m2".to_owned()].into();
        let mut written = binding(&planned, &template, &leaving, None);
        assert_eq!(written["metadata"]["name"], "web-deployment");
        assert_eq!(
            written["spec"]["clusters"],
            json!([{"name": "m1", "replicas": 2}])
        );
        written["status"] = json!({
            "schedulerObservingAffinityName": "near",
            "lastScheduledTime": "2026-11-30T00:00:00Z",
        });
        let known = KnownBinding::read(&written).unwrap();
        assert_eq!(known.name, planned.resource);
        assert_eq!(known.previous.clusters, [("m1".to_owned(), 2)].into());
        assert_eq!(known.previous.leaving, leaving);
        assert_eq!(known.previous.evictions, []);
        assert_eq!(known.previous.affinity_name.as_deref(), Some("near"));
        let spec = planned.spec.as_ref().unwrap();
        assert_eq!(known.previous.placement.as_ref(), Some(&spec.placement));
        assert!(known.previous.preserves && !known.previous.is_rebalanced);
        assert!(known.last_scheduled.is_some());
    }

    #[test]
    fn an_object_that_is_only_needed_says_by_whom() {
        let mut planned = planned();
        planned.spec = None;
        planned.required_by = vec![planned.resource.clone()];
        let written = binding(&planned, &json!({}), &BTreeSet::new(), None);
        let known = KnownBinding::read(&written).unwrap();
        let requirer = ("shop".to_owned(), "web-deployment".to_owned());
        assert_eq!(known.previous.required_by, [requirer]);
        assert!(known.previous.is_needed_only);
    }

    #[test]
    fn an_object_that_could_not_be_placed_keeps_the_rules_of_its_placement() {
        let before = ClusterPlacement::default();
        let previous = PreviousPlacement {
            placement: Some(before.clone()),
            ..PreviousPlacement::default()
        };
        let planned = PlannedBinding {
            unschedulable: Some("no cluster fits".to_owned()),
            ..planned()
        };
        let written = binding(&planned, &json!({}), &BTreeSet::new(), Some(&previous));
        let known = KnownBinding::read(&written).unwrap();
        assert_eq!(known.previous.placement, Some(before));
    }

    #[test]
    fn a_binding_that_is_triggered_after_its_placement_is_placed_anew() {
        let mut written = binding(&planned(), &json!({}), &BTreeSet::new(), None);
        for (triggered, is_rebalanced) in [("01", true), ("00", false)] {
            let at = |hour: &str| format!("2026-11-30T{hour}:00:00Z");
            written["spec"]["rescheduleTriggeredAt"] = at(triggered).into();
            written["status"] = json!({"lastScheduledTime": at("00")});
            let known = KnownBinding::read(&written).unwrap();
            assert_eq!(known.previous.is_rebalanced, is_rebalanced, "{triggered}");
        }
    }
}

//! What an object is in a cluster.

use std::sync::Arc;

use fleetdex_core::model::split_api_version;
use fleetdex_crds::policy::ReplicaScheduling;
use fleetdex_interpreter::{
    Request, Response,
    value::{group, integer, text},
};
use serde_json::Value;

use crate::{
    cluster::TargetCluster,
    division::{self, Shares, TieBreak},
    object_text::ObjectText,
    overrides::{self, ObjectOverrides},
    sets::ObjectSet,
    template_name::TemplateName,
};

/// The annotation in which `kubectl apply` keeps what it has sent to the control plane.
pub(crate) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Answers what objects mean.
pub trait Operations {
    /// The result of an operation; `None` if nothing has a rule for it.
    fn run(&self, request: &Request<'_>) -> Result<Option<Response>, String>;

    /// The object of a cluster, which `make` makes. For those that keep what they made before: it
    /// is the same as long as template, cluster, share and policies are.
    fn desired(
        &self,
        _template: &DistributedObject<'_>,
        _cluster: &TargetCluster,
        make: &dyn Fn() -> Result<Value, String>,
    ) -> Result<ObjectText, String> {
        make().map(|object| ObjectText::from(&object))
    }
}

/// An object of the control plane and where it goes.
#[derive(Clone, Copy)]
pub struct DistributedObject<'a> {
    /// The object.
    pub object: &'a Arc<Value>,
    /// The replicas of each cluster, if the object has replicas.
    pub shares: Option<&'a Shares>,
    /// Whether its replicas are divided, and not the same in each cluster.
    pub is_divided: bool,
    /// The set that it belongs to. Its overrides change it, and no policies do.
    pub set: Option<&'a ObjectSet>,
}

impl<'a> DistributedObject<'a> {
    /// An object that is the same in each cluster.
    pub fn whole(object: &'a Arc<Value>) -> Self {
        Self {
            object,
            shares: None,
            is_divided: false,
            set: None,
        }
    }

    /// The object of a cluster: with its share of the replicas, changed by override policies, and
    /// without what belongs to the control plane.
    pub fn desired(
        &self,
        cluster: &TargetCluster,
        policies: &[ObjectOverrides],
        operations: &impl Operations,
    ) -> Result<Value, String> {
        let mut object = Value::clone(self.object);
        let share = self.shares.and_then(|shares| shares.get(&cluster.name));
        if let Some(replicas) = share {
            let request = Request::Revise {
                object: &object,
                replicas: *replicas,
            };
            if let Some(Response::Revised(revised)) = failed_in(&request, operations)? {
                object = revised;
            }
            self.divide_completions(&mut object, &cluster.name);
        }
        let object = match self.set {
            Some(set) => overrides::overridden_by_set(set, self.object, object, cluster),
            None => overrides::overridden(policies, self.object, object, cluster),
        };
        let object = object.map_err(|error| error.to_string())?;
        let request = Request::Prune { object: &object };
        let mut object = match failed_in(&request, operations)? {
            Some(Response::Pruned(pruned)) => pruned,
            _ => object,
        };
        if is_job(&object)
            && let Some(Value::Object(spec)) = object.get_mut("spec")
        {
            // The cluster would delete a Job that has ended, and it would be made and run again.
            spec.shift_remove("ttlSecondsAfterFinished");
        }
        if let Some(Value::Object(metadata)) = object.get_mut("metadata")
            && let Some(Value::Object(annotations)) = metadata.get_mut("annotations")
        {
            annotations.shift_remove(LAST_APPLIED);
            if annotations.is_empty() {
                metadata.shift_remove("annotations");
            }
        }
        Ok(object)
    }

    /// The completions of a Job are divided as its replicas are.
    fn divide_completions(&self, object: &mut Value, cluster: &str) {
        let (Some(shares), Some(completions)) = (
            self.shares,
            integer(&**self.object, &["spec", "completions"]),
        ) else {
            return;
        };
        if !is_job(self.object) || !self.is_divided || division::sum(shares.values()) == 0 {
            return;
        }
        let tie = TieBreak::of_uid(text(&**self.object, &["metadata", "uid"]));
        let divided = division::by_weight(completions, shares, tie);
        if let Some(field) = object.pointer_mut("/spec/completions") {
            *field = divided.get(cluster).copied().unwrap_or(0).into();
        }
    }
}

fn is_job(object: &Value) -> bool {
    group(object) == "batch" && text(object, &["kind"]) == "Job"
}

fn failed_in(
    request: &Request<'_>,
    operations: &impl Operations,
) -> Result<Option<Response>, String> {
    let name = request.operation().name();
    operations
        .run(request)
        .map_err(|error| format!("{name}: {error}"))
}

/// Whether a policy divides replicas.
pub fn is_divided(scheduling: Option<&ReplicaScheduling>) -> bool {
    scheduling.is_some_and(|one| one.replica_scheduling_type.as_deref() != Some("Duplicated"))
}

/// The order in which objects are written: what others need comes first.
pub fn write_order(name: &TemplateName) -> u8 {
    let (group, _) = split_api_version(&name.api_version);
    match (group, name.kind.as_str()) {
        ("", "Namespace") => 0,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => 1,
        ("rbac.authorization.k8s.io", _) | ("", "ServiceAccount") => 2,
        ("", "ConfigMap" | "Secret" | "PersistentVolumeClaim" | "PersistentVolume")
        | ("scheduling.k8s.io" | "storage.k8s.io", _) => 3,
        _ => 4,
    }
}

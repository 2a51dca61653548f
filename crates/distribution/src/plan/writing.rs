//! What is written to clusters, and what is deleted there.

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_crds::policy::PropagationSpec;
use fleetdex_interpreter::{
    Request, Response,
    value::{map, text},
};
use serde_json::{Value, json};

use super::values::{
    DistributionInputs, DistributionPlan, PlanConflict, PlannedBinding, PlannedDeletion,
    PlannedObject, TemplateName,
};
use crate::{
    cluster::TargetCluster,
    desired::{DistributedObject, Operations},
    placing::PlacedReplicas,
    templates::CONTROL_PLANE_LABEL,
};

/// Writes what a plan says of clusters.
pub(super) struct PlanWriter<'p, O> {
    pub(super) inputs: &'p DistributionInputs,
    pub(super) operations: &'p O,
    /// The clusters, sorted by name.
    pub(super) clusters: &'p [TargetCluster],
    /// Whether it is known of every object what it needs.
    pub(super) knows_dependencies: bool,
    pub(super) plan: &'p mut DistributionPlan,
}

impl<'p, O: Operations> PlanWriter<'p, O> {
    fn cluster(&self, name: &str) -> Option<&'p TargetCluster> {
        let found = self
            .clusters
            .binary_search_by(|one| one.name.as_str().cmp(name));
        found.ok().map(|position| &self.clusters[position])
    }

    /// Plans the objects of a binding's clusters.
    pub(super) fn write(
        &mut self,
        template: &DistributedObject<'_>,
        binding: &PlannedBinding,
        overwrites: bool,
    ) {
        for target in &binding.clusters {
            if binding.suspended.contains(&target.name) {
                continue;
            }
            let Some(cluster) = self.cluster(&target.name) else {
                continue;
            };
            let observed = self.inputs.observed.get(&target.name);
            let observed = observed.and_then(|objects| objects.get(&binding.resource));
            let result = template
                .desired(cluster, &self.inputs.overrides, self.operations)
                .and_then(|object| self.merged(object, observed, overwrites));
            match result {
                Ok(object) => self.plan.objects.push(PlannedObject {
                    cluster: target.name.clone(),
                    object,
                }),
                Err(reason) => self.plan.conflicts.push(PlanConflict {
                    cluster: target.name.clone(),
                    resource: binding.resource.clone(),
                    reason,
                }),
            }
        }
    }

    /// The object with what the member owns of it.
    fn merged(
        &self,
        desired: Value,
        observed: Option<&Value>,
        overwrites: bool,
    ) -> Result<Value, String> {
        let Some(observed) = observed else {
            return Ok(desired);
        };
        let is_ours = map(observed, &["metadata", "labels"])
            .is_some_and(|labels| labels.contains_key(CONTROL_PLANE_LABEL));
        if !is_ours && !overwrites {
            return Err(
                "the cluster has this object already, and Fleetdex did not make it: set \
                 conflictResolution: Overwrite to take it over"
                    .to_owned(),
            );
        }
        let request = Request::Retain {
            desired: &desired,
            observed,
        };
        match self.operations.run(&request)? {
            Some(Response::Retained(retained)) => Ok(retained),
            _ => Ok(desired),
        }
    }

    /// What Fleetdex has written and what does not belong there any more: its object is gone from
    /// the control plane, or its policy places it elsewhere. Where no policy claims an object any
    /// more, where it could not be placed, and where a view is not complete, its copies stay.
    pub(super) fn add_deletions(&mut self) {
        if !self.knows_dependencies {
            return;
        }
        let templates: BTreeSet<TemplateName> =
            self.inputs.templates.iter().map(TemplateName::of).collect();
        let targets: BTreeMap<&TemplateName, (&PlannedBinding, BTreeSet<String>)> = self
            .plan
            .bindings
            .iter()
            .map(|binding| (&binding.resource, (binding, binding.cluster_names())))
            .collect();
        let is_left = |cluster: &String, name: &TemplateName| match targets.get(name) {
            Some((binding, clusters)) => {
                binding.unschedulable.is_none() && !clusters.contains(cluster)
            }
            None => {
                let previous = self.inputs.previous.get(name);
                !templates.contains(name) && !previous.is_some_and(|one| one.preserves)
            }
        };
        let mut deletions = Vec::new();
        for (cluster, objects) in &self.inputs.observed {
            if self.cluster(cluster).is_none_or(|one| one.is_terminating) {
                continue;
            }
            for (name, object) in objects {
                let is_ours = map(object, &["metadata", "labels"])
                    .is_some_and(|labels| labels.contains_key(CONTROL_PLANE_LABEL));
                // Its namespace stays: others may have put objects into it.
                if is_ours && is_left(cluster, name) && name.kind != "Namespace" {
                    deletions.push(PlannedDeletion {
                        cluster: cluster.clone(),
                        resource: name.clone(),
                    });
                }
            }
        }
        self.plan.deletions = deletions;
    }

    /// The namespaces that planned objects need and that clusters are not known to have.
    pub(super) fn add_namespaces(&mut self) {
        let mut needed: BTreeSet<(String, String)> = BTreeSet::new();
        let mut present: BTreeSet<(String, String)> = BTreeSet::new();
        // A namespace that could not be made is not tried again.
        for one in &self.plan.conflicts {
            if one.resource.kind == "Namespace" {
                present.insert((one.cluster.clone(), one.resource.name.clone()));
            }
        }
        for one in &self.plan.objects {
            let name = TemplateName::of(&one.object);
            if name.api_version == "v1" && name.kind == "Namespace" {
                present.insert((one.cluster.clone(), name.name));
            } else if !matches!(name.namespace.as_str(), "" | "default") {
                needed.insert((one.cluster.clone(), name.namespace));
            }
        }
        for (cluster, objects) in &self.inputs.observed {
            let namespaces = objects.keys().filter(|name| name.kind == "Namespace");
            present.extend(namespaces.map(|name| (cluster.clone(), name.name.clone())));
        }
        let templates: BTreeMap<&str, &Value> = self
            .inputs
            .templates
            .iter()
            .filter(|object| {
                text(*object, &["kind"]) == "Namespace" && text(*object, &["apiVersion"]) == "v1"
            })
            .map(|object| (text(object, &["metadata", "name"]), object))
            .collect();
        for (cluster, name) in needed.difference(&present) {
            let bare = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            let object = templates.get(name.as_str()).copied().unwrap_or(&bare);
            let binding = PlannedBinding {
                clusters: vec![PlacedReplicas {
                    name: cluster.clone(),
                    replicas: 0,
                }],
                ..PlannedBinding::of_dependency(TemplateName::of(object))
            };
            let overwrites = may_overwrite(object, None);
            self.write(&DistributedObject::whole(object), &binding, overwrites);
        }
    }
}

/// Whether an object that Fleetdex did not make may be taken over. The object's annotation comes
/// before its policy.
pub(super) fn may_overwrite(object: &Value, policy: Option<&PropagationSpec>) -> bool {
    let annotation = text(
        object,
        &[
            "metadata",
            "annotations",
            "work.karmada.io/conflict-resolution",
        ],
    );
    match annotation {
        "overwrite" => true,
        "abort" => false,
        _ => policy.and_then(|spec| spec.conflict_resolution.as_deref()) == Some("Overwrite"),
    }
}

//! What is written to clusters, and what is deleted there.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_crds::policy::PropagationSpec;
use fleetdex_interpreter::{Request, Response, value::text};
use serde_json::{Value, json};

use super::values::{
    DistributionInputs, DistributionPlan, PlanConflict, PlannedBinding, PlannedObject,
};
use crate::{
    cluster::TargetCluster,
    desired::{DistributedObject, Operations},
    object_text::ObjectText,
    placing::PlacedReplicas,
    template_name::TemplateName,
    templates::is_distributed,
};

/// Writes what a plan says of clusters.
pub(super) struct PlanWriter<'p, O> {
    pub(super) inputs: &'p DistributionInputs,
    pub(super) operations: &'p O,
    /// The clusters, sorted by name.
    pub(super) clusters: &'p [TargetCluster],
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
            if binding.waits_in(&target.name) {
                continue;
            }
            let Some(cluster) = self.cluster(&target.name) else {
                continue;
            };
            let observed = self.inputs.observed.get(&target.name);
            let observed = observed.and_then(|objects| objects.get(&binding.resource));
            let make = || template.desired(cluster, &self.inputs.overrides, self.operations);
            let made = self.operations.desired(template, cluster, &make);
            let made =
                made.map(|object| with_labels(object, binding.preserved_labels(&target.name)));
            let result = made.and_then(|object| match observed {
                None => Ok(object),
                Some(observed) => {
                    let merged = merged(&object.value(), observed, overwrites, self.operations)?;
                    Ok(ObjectText::from(&merged))
                }
            });
            match result {
                Ok(object) => self.plan.objects.push(PlannedObject {
                    cluster: target.name.clone(),
                    resource: binding.resource.clone(),
                    object,
                    overwrites,
                    is_only_needed: false,
                }),
                Err(reason) => self.plan.conflicts.push(PlanConflict {
                    cluster: target.name.clone(),
                    resource: binding.resource.clone(),
                    reason,
                }),
            }
        }
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
            let name = &one.resource;
            if name.api_version == "v1" && name.kind == "Namespace" {
                present.insert((one.cluster.clone(), name.name.clone()));
            } else if !matches!(name.namespace.as_str(), "" | "default") {
                needed.insert((one.cluster.clone(), name.namespace.clone()));
            }
        }
        for (cluster, objects) in &self.inputs.observed {
            let namespaces = objects.keys().filter(|name| name.kind == "Namespace");
            present.extend(namespaces.map(|name| (cluster.clone(), name.name.clone())));
        }
        let templates: BTreeMap<&str, &Arc<Value>> = self
            .inputs
            .templates
            .iter()
            .filter(|object| {
                let is = |member: &str, wanted: &str| text(&***object, &[member]) == wanted;
                is("kind", "Namespace") && is("apiVersion", "v1")
            })
            .map(|object| (text(&**object, &["metadata", "name"]), object))
            .collect();
        for (cluster, name) in needed.difference(&present) {
            let bare = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            let bare = Arc::new(bare);
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
            if let Some(written) = self.plan.objects.last_mut()
                && written.resource == binding.resource
            {
                written.is_only_needed = true;
            }
        }
    }
}

/// An object with these labels, too.
fn with_labels(object: ObjectText, labels: BTreeMap<String, String>) -> ObjectText {
    if labels.is_empty() {
        return object;
    }
    let mut labelled = object.value();
    for (key, value) in labels {
        labelled["metadata"]["labels"][key] = value.into();
    }
    ObjectText::from(&labelled)
}

/// The object of a cluster with what the cluster owns of it; an error: it is not Fleetdex's.
pub fn merged(
    desired: &Value,
    observed: &Value,
    overwrites: bool,
    operations: &impl Operations,
) -> Result<Value, String> {
    if !is_distributed(observed) && !overwrites {
        return Err(
            "the cluster has this object already, and Fleetdex did not make it: set \
             conflictResolution: Overwrite to take it over"
                .to_owned(),
        );
    }
    let request = Request::Retain { desired, observed };
    match operations.run(&request)? {
        Some(Response::Retained(retained)) => Ok(retained),
        _ => Ok(desired.clone()),
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

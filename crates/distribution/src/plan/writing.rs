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
    desired::{DistributedObject, Operations, write_order},
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
    /// The objects of each cluster.
    objects: Vec<Vec<PlannedObject>>,
}

impl<'p, O: Operations> PlanWriter<'p, O> {
    pub(super) fn new(
        inputs: &'p DistributionInputs,
        operations: &'p O,
        clusters: &'p [TargetCluster],
        plan: &'p mut DistributionPlan,
    ) -> Self {
        Self {
            inputs,
            operations,
            clusters,
            plan,
            objects: clusters.iter().map(|_| Vec::new()).collect(),
        }
    }

    /// The position of a cluster.
    fn position(&self, name: &str) -> Option<usize> {
        let found = self
            .clusters
            .binary_search_by(|one| one.name.as_str().cmp(name));
        found.ok()
    }

    /// Plans the objects of a binding's clusters.
    pub(super) fn write(
        &mut self,
        template: &DistributedObject<'_>,
        binding: &PlannedBinding,
        overwrites: bool,
    ) {
        self.write_where(template, binding, overwrites, |_| true);
    }

    /// Plans the objects of those of a binding's clusters of which something holds.
    pub(super) fn write_where(
        &mut self,
        template: &DistributedObject<'_>,
        binding: &PlannedBinding,
        overwrites: bool,
        holds: impl Fn(&str) -> bool,
    ) {
        let resource = binding.resource.clone();
        for target in &binding.clusters {
            if binding.waits_in(&target.name) || !holds(&target.name) {
                continue;
            }
            let Some(position) = self.position(&target.name) else {
                continue;
            };
            match self.object(template, binding, position, overwrites) {
                Ok(object) => self.objects[position].push(PlannedObject {
                    cluster: target.name.clone(),
                    resource: resource.clone(),
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

    /// The object of a cluster; an error: it is not written.
    fn object(
        &self,
        template: &DistributedObject<'_>,
        binding: &PlannedBinding,
        position: usize,
        overwrites: bool,
    ) -> Result<ObjectText, String> {
        let cluster = &self.clusters[position];
        let make = || template.desired(cluster, &self.inputs.overrides, self.operations);
        let made = self.operations.desired(template, cluster, &make)?;
        let object = with_labels(made, binding.preserved_labels(&cluster.name));
        let observed = self.inputs.observed.get(&cluster.name);
        let Some(observed) = observed.and_then(|objects| objects.get(&binding.resource)) else {
            return Ok(object);
        };
        let merged = merged(&object.value(), observed, overwrites, self.operations)?;
        Ok(ObjectText::from(&merged))
    }

    /// Ends the plan of clusters: with the namespaces that objects need, and in the order in which
    /// objects are written.
    pub(super) fn finish(mut self) {
        self.add_namespaces();
        for objects in &mut self.objects {
            objects.sort_by(|one, other| {
                let order = |one: &PlannedObject| write_order(&one.resource);
                (order(one), &one.resource).cmp(&(order(other), &other.resource))
            });
        }
        self.plan.objects = self.objects.into_iter().flatten().collect();
        self.plan.conflicts.sort_by(|one, other| {
            (&one.cluster, &one.resource).cmp(&(&other.cluster, &other.resource))
        });
    }

    /// The namespaces that planned objects need and that clusters are not known to have.
    fn add_namespaces(&mut self) {
        let templates: BTreeMap<&str, &Arc<Value>> = self
            .inputs
            .templates
            .iter()
            .filter(|one| one.name.kind == "Namespace" && one.name.api_version == "v1")
            .map(|one| (one.name.name.as_str(), &one.object))
            .collect();
        for (position, name) in self.missing_namespaces() {
            let bare = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            let bare = Arc::new(bare);
            let object = templates.get(name.as_str()).copied().unwrap_or(&bare);
            let binding = PlannedBinding {
                clusters: vec![PlacedReplicas {
                    name: self.clusters[position].name.clone(),
                    replicas: 0,
                }],
                ..PlannedBinding::of_dependency(TemplateName::of(object))
            };
            let overwrites = may_overwrite(object, None);
            self.write(&DistributedObject::whole(object), &binding, overwrites);
            if let Some(written) = self.objects[position].last_mut()
                && written.resource == binding.resource
            {
                written.is_only_needed = true;
            }
        }
    }

    /// The namespaces that objects of clusters need and that these are not known to have.
    fn missing_namespaces(&self) -> Vec<(usize, String)> {
        let is_namespace = |name: &&TemplateName| name.kind == "Namespace";
        // One that could not be made is not tried again.
        let failed = self.plan.conflicts.iter();
        let failed: BTreeSet<(&str, &str)> = failed
            .filter(|one| is_namespace(&&one.resource))
            .map(|one| (one.cluster.as_str(), one.resource.name.as_str()))
            .collect();
        let mut missing = Vec::new();
        for (position, objects) in self.objects.iter().enumerate() {
            let cluster = self.clusters[position].name.as_str();
            let names = objects.iter().map(|one| &one.resource);
            let mut needed: BTreeSet<&str> =
                names.clone().map(|one| one.namespace.as_str()).collect();
            let admissions = self.inputs.sets.iter().flat_map(|set| &set.admission);
            let of_hooks = admissions.filter_map(|one| one.namespaces.get(cluster));
            needed.extend(of_hooks.flatten().map(String::as_str));
            let observed = self.inputs.observed.get(cluster);
            let present = names.chain(observed.into_iter().flat_map(BTreeMap::keys));
            let present: BTreeSet<&str> = present
                .filter(is_namespace)
                .map(|one| one.name.as_str())
                .collect();
            let is_missing = |name: &&&str| {
                !matches!(**name, "" | "default")
                    && !present.contains(**name)
                    && !failed.contains(&(cluster, **name))
            };
            let names = needed.iter().filter(is_missing);
            missing.extend(names.map(|name| (position, (*name).to_owned())));
        }
        missing
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

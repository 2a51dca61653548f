//! Reads what a plan is made from.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_cli::documents::SourceDocument;
use fleetdex_core::{
    kinds,
    model::{CLUSTER_ANNOTATION, Gvk, causes},
};
use fleetdex_crds::{
    cluster::Cluster,
    policy::{
        OverrideSpec, PropagationSpec,
        validation::{invalid_override, invalid_propagation},
    },
};
use fleetdex_distribution::{
    activation::creation_time,
    binding::KnownBinding,
    claim::{Policy, allowed_clusters},
    cluster::TargetCluster,
    overrides::ObjectOverrides,
    rollout::TemplateWaves,
    room::ClusterRoom,
    template_name::TemplateName,
};
use fleetdex_interpreter::{
    customization::Customization,
    value::{at, text},
    webhook::configuration::WebhookConfiguration,
};
use fleetdex_rendering_commands::capabilities_of;
use jiff::Timestamp;
use serde_json::Value;

use crate::given_room::GivenRoom;

mod applied;
mod origin;
mod planner_inputs;

use origin::FileOrigin;
pub use origin::PlanInputError;
pub use planner_inputs::{GivenDistribution, KindInGroup, PlannerInputs};

/// The namespace of objects that name none, as with kubectl.
const DEFAULT_NAMESPACE: &str = "default";
/// Where an object is from that is from no file.
const CONTROL_PLANE: &str = "the control plane";
/// Sorts the objects of files by what they are.
pub fn read(
    documents: Vec<SourceDocument>,
    room: &[GivenRoom],
) -> Result<PlannerInputs, PlanInputError> {
    let mut reader = InputReader::new(BTreeSet::new(), DEFAULT_NAMESPACE);
    reader.add_files(documents)?;
    reader.finish(room)?;
    Ok(reader.inputs)
}

/// The kinds without namespaces that definitions in the files define.
fn cluster_scoped_kinds(documents: &[SourceDocument]) -> BTreeSet<KindInGroup> {
    let definitions = documents
        .iter()
        .map(|document| &document.content)
        .filter(|object| text(*object, &["kind"]) == "CustomResourceDefinition")
        .filter(|object| text(*object, &["spec", "scope"]) == "Cluster");
    definitions
        .map(|object| {
            let group = text(object, &["spec", "group"]).to_owned();
            (group, text(object, &["spec", "names", "kind"]).to_owned())
        })
        .collect()
}

/// Sorts objects by what they are. Files come before the control plane: an object of a file takes
/// the place of the one with its name.
pub struct InputReader {
    /// What was read.
    pub inputs: PlannerInputs,
    namespace: String,
    seen: BTreeSet<(String, TemplateName)>,
    rebalancers: Vec<Value>,
    last_scheduled: BTreeMap<TemplateName, Option<Timestamp>>,
}

impl InputReader {
    /// `cluster_scoped`: the kinds without namespaces that the control plane serves. `namespace`:
    /// that of objects of files that name none.
    pub fn new(cluster_scoped: BTreeSet<KindInGroup>, namespace: &str) -> Self {
        Self {
            inputs: PlannerInputs {
                cluster_scoped,
                ..PlannerInputs::default()
            },
            namespace: namespace.to_owned(),
            seen: BTreeSet::new(),
            rebalancers: Vec::new(),
            last_scheduled: BTreeMap::new(),
        }
    }

    /// Adds the objects of files.
    pub fn add_files(&mut self, documents: Vec<SourceDocument>) -> Result<(), PlanInputError> {
        let cluster_scoped = cluster_scoped_kinds(&documents);
        self.inputs.cluster_scoped.extend(cluster_scoped);
        for document in documents {
            self.add_file(document)?;
        }
        Ok(())
    }

    fn add_file(&mut self, document: SourceDocument) -> Result<(), PlanInputError> {
        let SourceDocument {
            source,
            content: mut object,
        } = document;
        let gvk = Gvk::from_api_version(text(&object, &["apiVersion"]), text(&object, &["kind"]));
        let has_name = !text(&object, &["metadata", "name"]).is_empty();
        if gvk.version.is_empty() || gvk.kind.is_empty() || !has_name {
            return Err(PlanInputError::NoObject { origin: source });
        }
        self.set_namespace(&gvk, &mut object);
        let name = TemplateName::of(&object);
        let shown = name.to_string();
        let cluster = text(&object, &["metadata", "annotations", CLUSTER_ANNOTATION]).to_owned();
        if !self.seen.insert((cluster.clone(), name.clone())) {
            return Err(PlanInputError::Twice {
                origin: source,
                object: shown,
            });
        }
        if !cluster.is_empty() {
            let objects = self.inputs.plan.observed.entry(cluster).or_default();
            objects.insert(name, object);
            return Ok(());
        }
        let origin = FileOrigin {
            file: &source,
            object: &shown,
        };
        self.add_object(&gvk, &origin, &name, object)
    }

    /// Adds an object of the control plane. Where a file has one of its name, that one keeps what
    /// applying the file would leave. An error: the object has no effect.
    pub fn add_served(&mut self, gvk: &Gvk, object: Value) -> Result<(), PlanInputError> {
        let name = TemplateName::of(&object);
        if !self.seen.insert((String::new(), name.clone())) {
            let mut rebalancers = self.rebalancers.iter_mut();
            if let Some(own) = rebalancers.find(|own| TemplateName::of(own) == name) {
                applied::keep_metadata(own, &object);
            }
            applied::keep(&mut self.inputs, &name, &object);
            return Ok(());
        }
        let shown = name.to_string();
        let origin = FileOrigin {
            file: CONTROL_PLANE,
            object: &shown,
        };
        self.add_object(gvk, &origin, &name, object)
    }

    fn add_object(
        &mut self,
        gvk: &Gvk,
        origin: &FileOrigin<'_>,
        name: &TemplateName,
        object: Value,
    ) -> Result<(), PlanInputError> {
        let plan = &mut self.inputs.plan;
        let namespace = Some(name.namespace.clone()).filter(|namespace| !namespace.is_empty());
        let is_policy = &*gvk.group == "policy.karmada.io";
        if is_policy && !text(&object, &["metadata", "deletionTimestamp"]).is_empty() {
            // It claims nothing any more.
            return Ok(());
        }
        match (&*gvk.group, &*gvk.kind) {
            ("cluster.karmada.io", "Cluster") => {
                let cluster: Cluster = origin.decode(object)?;
                let capabilities = capabilities_of(&cluster).map(Arc::new);
                self.inputs
                    .capabilities
                    .insert(name.name.clone(), capabilities);
                plan.clusters.push(TargetCluster::from(&cluster));
                let summary = cluster.status.and_then(|status| status.resource_summary);
                if let Some(summary) = summary {
                    let room = ClusterRoom::of_summary(&summary);
                    plan.room.insert(name.name.clone(), room);
                }
            }
            ("policy.karmada.io", "PropagationPolicy" | "ClusterPropagationPolicy") => {
                let spec: PropagationSpec = origin.decode(at(&object, &["spec"]).clone())?;
                origin.valid(&invalid_propagation(&spec, namespace.as_deref()))?;
                let waves = TemplateWaves::of_policy(&object);
                let policy = Policy {
                    namespace,
                    name: name.name.clone(),
                    created: creation_time(&object),
                    spec: Arc::new(spec),
                };
                if let Some(waves) = waves.map_err(|error| origin.wrong(causes(&error)))? {
                    plan.waves.insert(policy.policy_name(), waves);
                }
                plan.policies.push(policy);
            }
            ("policy.karmada.io", "OverridePolicy" | "ClusterOverridePolicy") => {
                let spec: OverrideSpec = origin.decode(at(&object, &["spec"]).clone())?;
                origin.valid(&invalid_override(&spec, namespace.as_deref()))?;
                plan.overrides.push(ObjectOverrides {
                    namespace,
                    name: name.name.clone(),
                    spec: Arc::new(spec),
                });
            }
            ("work.karmada.io", "ResourceBinding" | "ClusterResourceBinding") => {
                self.add_binding(origin, &object)?;
            }
            ("distribute.fleetdex.io", "Distribution") => {
                let is_of_file = origin.file != CONTROL_PLANE;
                let distribution = GivenDistribution { object, is_of_file };
                self.inputs.distributions.push(distribution);
            }
            ("apps.karmada.io", "WorkloadRebalancer") => self.rebalancers.push(object),
            ("config.karmada.io", _) => {
                self.inputs
                    .customizations
                    .extend(Customization::parse(&object));
                let configuration = WebhookConfiguration::parse(&object);
                let webhooks = configuration.into_iter().flat_map(|one| one.webhooks);
                self.inputs.webhooks.extend(webhooks);
            }
            _ => {
                if (&*gvk.group, &*gvk.kind) == ("", "Namespace") {
                    let clusters = allowed_clusters(&object);
                    let clusters = clusters.map(|clusters| (name.name.clone(), clusters));
                    plan.allowed_clusters.extend(clusters);
                }
                plan.templates.push(with_defaults(gvk, object).into());
            }
        }
        Ok(())
    }

    /// An object that names no namespace is in that of the reader, and a cluster-scoped one has
    /// none.
    fn set_namespace(&self, gvk: &Gvk, object: &mut Value) {
        const CLUSTER_SCOPED: [&str; 5] = [
            "Cluster",
            "ClusterPropagationPolicy",
            "ClusterOverridePolicy",
            "ClusterResourceBinding",
            "WorkloadRebalancer",
        ];
        let key = (gvk.group.to_string(), gvk.kind.to_string());
        let is_own = gvk.group.ends_with(".karmada.io");
        let is_namespaced = match kinds::find(gvk) {
            Some(built_in) => built_in.resource().namespaced,
            None if is_own => {
                !CLUSTER_SCOPED.contains(&&*gvk.kind) && &*gvk.group != "config.karmada.io"
            }
            None => !self.inputs.cluster_scoped.contains(&key),
        };
        let has_namespace = !text(object, &["metadata", "namespace"]).is_empty();
        let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
        match (metadata, is_namespaced, has_namespace) {
            (Some(metadata), true, false) => {
                metadata.insert("namespace".to_owned(), self.namespace.clone().into());
            }
            (Some(metadata), false, true) => {
                metadata.shift_remove("namespace");
            }
            _ => {}
        }
    }

    /// Where an object is now.
    fn add_binding(
        &mut self,
        origin: &FileOrigin<'_>,
        binding: &Value,
    ) -> Result<(), PlanInputError> {
        let KnownBinding {
            name,
            previous,
            last_scheduled,
        } = KnownBinding::read(binding).map_err(|error| origin.wrong(error.to_string()))?;
        self.last_scheduled.insert(name.clone(), last_scheduled);
        match self.inputs.plan.previous.insert(name, previous) {
            None => Ok(()),
            Some(_) => Err(origin.wrong("another binding is for the same object".to_owned())),
        }
    }

    /// Counts the room, and says which objects are placed anew. After more objects it is repeated.
    pub fn finish(&mut self, room: &[GivenRoom]) -> Result<(), PlanInputError> {
        for rebalancer in &self.rebalancers {
            let created = text(rebalancer, &["metadata", "creationTimestamp"]);
            let created = created.parse::<Timestamp>().ok();
            for name in TemplateName::of_workloads(rebalancer) {
                let last = self.last_scheduled.get(&name).copied().flatten();
                let is_newer = match (created, last) {
                    (Some(created), Some(last)) => created > last,
                    _ => true,
                };
                if let Some(previous) = self.inputs.plan.previous.get_mut(&name) {
                    Arc::make_mut(previous).is_rebalanced |= is_newer;
                }
            }
        }
        let plan = &mut self.inputs.plan;
        plan.now = Some(Timestamp::now());
        for (cluster, objects) in &plan.observed {
            let of_kind = |kind: &'static str| {
                let objects = objects.iter();
                let of_kind =
                    objects.filter(move |(name, _)| name.api_version == "v1" && name.kind == kind);
                of_kind.map(|(_, object)| object)
            };
            if of_kind("Node").next().is_some() {
                let room = ClusterRoom::of_nodes(of_kind("Node"), of_kind("Pod"));
                plan.room.insert(cluster.clone(), room);
            }
        }
        for given in room {
            if !plan.clusters.iter().any(|one| one.name == given.cluster) {
                return Err(PlanInputError::UnknownCluster(given.cluster.clone()));
            }
            let of_replicas = ClusterRoom::of_replicas(given.replicas);
            plan.room.insert(given.cluster.clone(), of_replicas);
        }
        Ok(())
    }
}

/// An object with the replicas that an API server fills in.
fn with_defaults(gvk: &Gvk, mut object: Value) -> Value {
    let has = |object: &Value, member: &str| !at(object, &["spec", member]).is_null();
    let missing: &[&str] = match (&*gvk.group, &*gvk.kind) {
        ("apps", "Deployment" | "StatefulSet" | "ReplicaSet") | ("", "ReplicationController") => {
            &["replicas"]
        }
        ("batch", "Job") if has(&object, "parallelism") || has(&object, "completions") => {
            &["parallelism"]
        }
        ("batch", "Job") => &["parallelism", "completions"],
        _ => &[],
    };
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        for member in missing {
            let value = spec.entry(*member).or_insert(Value::Null);
            if value.is_null() {
                *value = 1.into();
            }
        }
    }
    object
}

#[cfg(test)]
mod tests;

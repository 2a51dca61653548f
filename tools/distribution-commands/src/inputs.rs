//! Reads what a plan is made from.

use std::{
    collections::{BTreeMap, BTreeSet},
    str::FromStr,
    sync::Arc,
};

use fleetdex_cli::documents::SourceDocument;
use fleetdex_core::{kinds, model::Gvk};
use fleetdex_crds::{
    cluster::Cluster,
    policy::{
        ClusterPlacement, OverrideSpec, PropagationSpec,
        validation::{invalid_override, invalid_propagation},
    },
};
use fleetdex_distribution::{
    claim::Policy,
    cluster::TargetCluster,
    overrides::ObjectOverrides,
    placing::PreviousPlacement,
    plan::{DistributionInputs, TemplateName},
    room::ClusterRoom,
};
use fleetdex_interpreter::{
    customization::Customization,
    value::{at, flag, integer, list, text},
    webhook::configuration::{Webhook, WebhookConfiguration},
};
use jiff::Timestamp;
use serde_json::Value;

mod origin;

use origin::FileOrigin;
pub use origin::PlanInputError;

/// The annotation of objects that a cluster has: its name.
const CACHED_FROM: &str = "resource.karmada.io/cached-from-cluster";
/// The annotation of bindings in which a scheduler keeps the rules by which it has placed.
const APPLIED_PLACEMENT: &str = "policy.karmada.io/applied-placement";

/// A given number of replicas: `member1=18`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenRoom {
    cluster: String,
    replicas: i64,
}

impl FromStr for GivenRoom {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('=').and_then(|(cluster, replicas)| {
            let replicas: u32 = replicas.parse().ok()?;
            (!cluster.is_empty()).then(|| Self {
                cluster: cluster.to_owned(),
                replicas: replicas.into(),
            })
        });
        parsed.ok_or_else(|| "write a cluster and a number, such as member1=18".to_owned())
    }
}

/// What the files have.
#[derive(Default)]
pub struct OfflineInputs {
    /// What the plan is made from.
    pub plan: DistributionInputs,
    /// Scripts that say what objects mean.
    pub customizations: Vec<Customization>,
    /// Webhooks that say what objects mean.
    pub webhooks: Vec<Webhook>,
}

/// Sorts documents by what they are.
pub fn read(
    documents: Vec<SourceDocument>,
    room: &[GivenRoom],
) -> Result<OfflineInputs, PlanInputError> {
    let cluster_scoped = cluster_scoped_kinds(&documents);
    let mut files = Files {
        cluster_scoped,
        ..Files::default()
    };
    for document in documents {
        files.add(document)?;
    }
    files.finish(room)
}

/// The kinds without namespaces that definitions in the files define.
fn cluster_scoped_kinds(documents: &[SourceDocument]) -> BTreeSet<(String, String)> {
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

#[derive(Default)]
struct Files {
    inputs: OfflineInputs,
    cluster_scoped: BTreeSet<(String, String)>,
    seen: BTreeSet<(String, TemplateName)>,
    rebalancers: Vec<Value>,
    last_scheduled: BTreeMap<TemplateName, Option<Timestamp>>,
}

impl Files {
    fn add(&mut self, document: SourceDocument) -> Result<(), PlanInputError> {
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
        let cluster = text(&object, &["metadata", "annotations", CACHED_FROM]).to_owned();
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
        self.add_object(&gvk, &origin, name, object)
    }

    fn add_object(
        &mut self,
        gvk: &Gvk,
        origin: &FileOrigin<'_>,
        name: TemplateName,
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
                plan.clusters.push(TargetCluster::from(&cluster));
                let summary = cluster.status.and_then(|status| status.resource_summary);
                if let Some(summary) = summary {
                    let room = ClusterRoom::of_summary(&summary);
                    plan.room.insert(name.name, room);
                }
            }
            ("policy.karmada.io", "PropagationPolicy" | "ClusterPropagationPolicy") => {
                let spec: PropagationSpec = origin.decode(at(&object, &["spec"]).clone())?;
                origin.valid(&invalid_propagation(&spec, namespace.as_deref()))?;
                plan.policies.push(Policy {
                    namespace,
                    name: name.name,
                    spec: Arc::new(spec),
                });
            }
            ("policy.karmada.io", "OverridePolicy" | "ClusterOverridePolicy") => {
                let spec: OverrideSpec = origin.decode(at(&object, &["spec"]).clone())?;
                origin.valid(&invalid_override(&spec, namespace.as_deref()))?;
                plan.overrides.push(ObjectOverrides {
                    namespace,
                    name: name.name,
                    spec: Arc::new(spec),
                });
            }
            ("work.karmada.io", "ResourceBinding" | "ClusterResourceBinding") => {
                self.add_binding(origin, &object)?;
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
            _ => plan.templates.push(with_defaults(gvk, object)),
        }
        Ok(())
    }

    /// An object without a namespace is in `default`, as with kubectl, and a cluster-scoped one has
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
            None => !self.cluster_scoped.contains(&key),
        };
        let has_namespace = !text(object, &["metadata", "namespace"]).is_empty();
        let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
        match (metadata, is_namespaced, has_namespace) {
            (Some(metadata), true, false) => {
                metadata.insert("namespace".to_owned(), "default".into());
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
        let of = |path: &[&str]| text(binding, path).to_owned();
        let name = TemplateName {
            api_version: of(&["spec", "resource", "apiVersion"]),
            kind: of(&["spec", "resource", "kind"]),
            namespace: match of(&["spec", "resource", "namespace"]) {
                namespace if namespace.is_empty() => of(&["metadata", "namespace"]),
                namespace => namespace,
            },
            name: of(&["spec", "resource", "name"]),
        };
        let clusters = list(binding, &["spec", "clusters"]).iter();
        let applied = text(binding, &["metadata", "annotations", APPLIED_PLACEMENT]);
        let placement: Option<ClusterPlacement> = match applied {
            "" => None,
            json => Some(serde_json::from_str(json).map_err(|error| {
                origin.wrong(format!("annotation {APPLIED_PLACEMENT}: {error}"))
            })?),
        };
        let affinity_name = of(&["status", "schedulerObservingAffinityName"]);
        let time = |path: &[&str]| text(binding, path).parse::<Timestamp>().ok();
        let last_scheduled = time(&["status", "lastScheduledTime"]);
        let previous = PreviousPlacement {
            clusters: clusters
                .map(|cluster| {
                    let replicas = integer(cluster, &["replicas"]).unwrap_or(0);
                    (text(cluster, &["name"]).to_owned(), replicas)
                })
                .collect(),
            evicting: list(binding, &["spec", "gracefulEvictionTasks"])
                .iter()
                .map(|task| text(task, &["fromCluster"]).to_owned())
                .collect(),
            placement,
            affinity_name: Some(affinity_name).filter(|name| !name.is_empty()),
            is_rebalanced: time(&["spec", "rescheduleTriggeredAt"])
                .is_some_and(|triggered| last_scheduled.is_some_and(|last| triggered > last)),
            preserves: flag(binding, &["spec", "preserveResourcesOnDeletion"]),
        };
        self.last_scheduled.insert(name.clone(), last_scheduled);
        match self.inputs.plan.previous.insert(name, previous) {
            None => Ok(()),
            Some(_) => Err(origin.wrong("another binding is for the same object".to_owned())),
        }
    }

    fn finish(mut self, room: &[GivenRoom]) -> Result<OfflineInputs, PlanInputError> {
        for rebalancer in &self.rebalancers {
            let created = text(rebalancer, &["metadata", "creationTimestamp"]);
            let created = created.parse::<Timestamp>().ok();
            for workload in list(rebalancer, &["spec", "workloads"]) {
                let of = |member: &str| text(workload, &[member]).to_owned();
                let name = TemplateName {
                    api_version: of("apiVersion"),
                    kind: of("kind"),
                    namespace: of("namespace"),
                    name: of("name"),
                };
                let last = self.last_scheduled.get(&name).copied().flatten();
                let is_newer = match (created, last) {
                    (Some(created), Some(last)) => created > last,
                    _ => true,
                };
                if let Some(previous) = self.inputs.plan.previous.get_mut(&name) {
                    previous.is_rebalanced |= is_newer;
                }
            }
        }
        let plan = &mut self.inputs.plan;
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
        Ok(self.inputs)
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

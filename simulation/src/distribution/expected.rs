//! What the pure plan says of the state of the control plane.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fakes::apiserver::Server;
use fleetdex_core::{
    kinds::{self, BuiltIn},
    model::{ClusterName, Gvk, Resource},
    planted::without_bugs,
};
use fleetdex_crds::cluster::Cluster;
use fleetdex_distribution::{
    activation::creation_time,
    binding::KnownBinding,
    claim::Policy,
    cluster::TargetCluster,
    desired::Operations,
    failover::CopyHealth,
    overrides::ObjectOverrides,
    plan::{DistributionInputs, DistributionPlan, LeftoverFate, Leftovers, plan},
    sets::ObjectSet,
    template_name::TemplateName,
};
use fleetdex_interpreter::{Request, Response, levels::LevelAnswer, rules::RuleSet, value::text};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    clock,
    operator::labels,
    servers::{
        BINDINGS, CLUSTER_BINDINGS, CLUSTER_OVERRIDES, CLUSTER_POLICIES, CLUSTERS, DISTRIBUTED,
        MAPS, MEMBERS, OVERRIDES, POLICIES, origin,
    },
    timeline::Place,
};
use crate::interpreter::Rules;

/// What the pure plan says.
pub struct Expected {
    /// The plan.
    pub plan: DistributionPlan,
    /// What becomes of copies.
    pub leftovers: Leftovers,
    /// The objects of the control plane, and the objects of its bindings.
    pub names: BTreeSet<TemplateName>,
    /// The objects of the control plane, and of sets.
    pub templates: BTreeSet<TemplateName>,
    /// The objects that have bindings.
    pub bound: BTreeSet<TemplateName>,
    /// The most replicas that members may get, whichever of them were connected.
    pub most_replicas: BTreeMap<Place, i64>,
}

impl Expected {
    /// Plans for a control plane and members as they are now.
    /// `sets`: those of the control plane; `None`: it has none.
    pub fn of(
        control_plane: &Server,
        members: &BTreeMap<ClusterName, Server>,
        sets: Option<Vec<ObjectSet>>,
    ) -> anyhow::Result<Self> {
        let mut inputs = inputs(control_plane)?;
        inputs.knows_sets = sets.is_some();
        inputs.sets = sets.unwrap_or_default();
        add_health(&mut inputs, control_plane, members)?;
        let rules = BuiltInRules(Rules::BuiltIn.rule_set());
        let (plan, leftovers) = without_bugs(|| {
            let plan = plan(&inputs, &rules);
            let leftovers = Leftovers::of(&plan, &inputs);
            (plan, leftovers)
        });
        let templates = inputs.templates.iter().map(|one| &one.name);
        let of_sets = plan.bindings.iter().filter(|one| one.set.is_some());
        let templates = templates.chain(of_sets.map(|one| &one.resource));
        let templates: BTreeSet<TemplateName> = templates.cloned().collect();
        let bound: BTreeSet<TemplateName> = inputs.previous.keys().cloned().collect();
        Ok(Self {
            names: templates.union(&bound).cloned().collect(),
            plan,
            leftovers,
            templates,
            bound,
            most_replicas: most_replicas(inputs, &rules),
        })
    }

    /// What becomes of a copy.
    pub fn fate(&self, member: &str, name: &TemplateName) -> LeftoverFate {
        without_bugs(|| self.leftovers.fate(member, name))
    }
}

/// Members that were never connected get nothing. An object that was placed without them stays as
/// it was placed. An operator may not know of a taint yet.
fn most_replicas(mut inputs: DistributionInputs, rules: &BuiltInRules) -> BTreeMap<Place, i64> {
    inputs.templates.retain(|one| one.name.kind == "Deployment");
    inputs.sets.clear();
    inputs.knows_sets = false;
    let mut most = BTreeMap::new();
    add_most_replicas(&mut inputs, rules, &mut most);
    if inputs.clusters.iter().any(|one| !one.taints.is_empty()) {
        for cluster in &mut inputs.clusters {
            cluster.taints.clear();
        }
        add_most_replicas(&mut inputs, rules, &mut most);
    }
    most
}

fn add_most_replicas(
    inputs: &mut DistributionInputs,
    rules: &BuiltInRules,
    most: &mut BTreeMap<Place, i64>,
) {
    let served =
        DISTRIBUTED.map(|(_, api_version, kind)| (api_version.to_owned(), kind.to_owned()));
    for connected in 1..1_usize << MEMBERS.len() {
        for (number, cluster) in inputs.clusters.iter_mut().enumerate() {
            let is_connected = connected & (1 << number) != 0;
            let kinds = served.iter().filter(|_| is_connected).cloned();
            cluster.served = Some(Arc::new(kinds.collect()));
        }
        let plan = without_bugs(|| plan(inputs, rules));
        for binding in plan.bindings {
            for target in binding.clusters {
                let place = (target.name, binding.resource.clone());
                let known = most.entry(place).or_default();
                *known = (*known).max(target.replicas);
            }
        }
    }
}

/// The objects of a resource, with their kind.
pub fn objects(server: &Server, resource: &str) -> anyhow::Result<Vec<Value>> {
    let refused = |status| anyhow::anyhow!("{resource}: {status:?}");
    let mut found = Vec::new();
    for stored in server.objects(resource, None).map_err(refused)? {
        let object = server.object(resource, stored.namespace.as_deref(), &stored.name);
        found.extend(object.map_err(refused)?);
    }
    Ok(found)
}

fn inputs(control_plane: &Server) -> anyhow::Result<DistributionInputs> {
    let mut inputs = DistributionInputs::default();
    for name in MEMBERS {
        let registered = control_plane.object(CLUSTERS, None, name);
        let refused = |status| anyhow::anyhow!("{name}: {status:?}");
        let registered = registered.map_err(refused)?;
        let registered: Cluster = serde_json::from_value(registered.unwrap_or_default())?;
        inputs.clusters.push(TargetCluster {
            name: name.to_owned(),
            labels: labels(name),
            taints: TargetCluster::from(&registered).taints,
            ..TargetCluster::default()
        });
    }
    for resource in [POLICIES, CLUSTER_POLICIES] {
        for object in objects(control_plane, resource)? {
            let (namespace, name, spec) = policy(&object)?;
            inputs.policies.push(Policy {
                namespace,
                name,
                created: creation_time(&object),
                spec,
            });
        }
    }
    for resource in [OVERRIDES, CLUSTER_OVERRIDES] {
        for object in objects(control_plane, resource)? {
            let (namespace, name, spec) = policy(&object)?;
            inputs.overrides.push(ObjectOverrides {
                namespace,
                name,
                spec,
            });
        }
    }
    for resource in [BINDINGS, CLUSTER_BINDINGS] {
        for object in objects(control_plane, resource)? {
            let known = KnownBinding::read(&object)?;
            inputs.previous.insert(known.name, known.previous);
        }
    }
    for (resource, _, _) in DISTRIBUTED {
        for mut object in objects(control_plane, resource)? {
            without_server_fields(&mut object);
            inputs.templates.push(object.into());
        }
    }
    Ok(inputs)
}

/// Adds where copies are: a `ConfigMap` is healthy where it is. Nothing runs in members, so that no
/// `Deployment` is.
fn add_health(
    inputs: &mut DistributionInputs,
    control_plane: &Server,
    members: &BTreeMap<ClusterName, Server>,
) -> anyhow::Result<()> {
    inputs.now = Some(clock::now());
    for (member, server) in members {
        let origin = origin(&control_plane.identity(), member.as_str());
        for object in objects(server, MAPS)? {
            if origin.has_written(&object) {
                let health = inputs.health.entry(TemplateName::of(&object)).or_default();
                let healthy = CopyHealth {
                    is_healthy: true,
                    ..CopyHealth::default()
                };
                health.insert(member.to_string(), healthy);
            }
        }
    }
    Ok(())
}

fn policy<T: DeserializeOwned>(object: &Value) -> anyhow::Result<(Option<String>, String, Arc<T>)> {
    let name = TemplateName::of(object);
    let namespace = Some(name.namespace.clone()).filter(|namespace| !namespace.is_empty());
    let spec = T::deserialize(&object["spec"])?;
    Ok((namespace, name.name.clone(), Arc::new(spec)))
}

/// Removes what the distributor does not look at.
fn without_server_fields(object: &mut Value) {
    if let Some(members) = object.as_object_mut() {
        members.shift_remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.shift_remove("managedFields");
        metadata.shift_remove("resourceVersion");
    }
}

struct BuiltInRules(Arc<RuleSet>);

impl Operations for BuiltInRules {
    fn run(&self, request: &Request<'_>) -> Result<Option<Response>, String> {
        let object = request.object();
        let gvk = Gvk::from_api_version(text(object, &["apiVersion"]), text(object, &["kind"]));
        let resource = kinds::find(&gvk).map(BuiltIn::resource);
        let resource = resource.unwrap_or_else(|| Resource {
            gvk,
            plural: "unknown".into(),
            namespaced: true,
        });
        match self.0.levels().answer(request, &resource) {
            LevelAnswer::Decided { result, .. } => {
                result.map(Some).map_err(|error| error.to_string())
            }
            LevelAnswer::AskWebhook(_) => Err("there are no webhooks".to_owned()),
            LevelAnswer::NoRule => Ok(None),
        }
    }
}

//! What a plan is made from, as the control plane and the members have it now.

mod parsed_clusters;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_clusters::MemberState;
use fleetdex_core::model::{ClusterName, split_api_version};
use fleetdex_crds::policy::{
    OverrideSpec, PropagationSpec,
    validation::{invalid_override, invalid_propagation},
};
use fleetdex_distribution::{
    activation::creation_time,
    binding::{BindingPlace, KnownBinding},
    claim::{Policy, allowed_clusters},
    failover::HealthInClusters,
    overrides::ObjectOverrides,
    plan::DistributionInputs,
    sets::is_of_set,
    template_name::{KindName, NamedTemplate, TemplateName},
    templates::is_never_propagated,
};
use fleetdex_interpreter::value::{at, list, text};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;

use self::parsed_clusters::ParsedClusters;
use crate::control_plane::{ControlPlaneObject, ControlPlaneObjects, kind_name, kinds};

/// What is wrong with objects that users have written.
pub type Problems = BTreeMap<TemplateName, String>;

/// What was read for a plan.
#[derive(Default)]
pub struct ReadInputs {
    /// What the plan is made from.
    pub plan: DistributionInputs,
    /// The bindings that there are.
    pub bindings: BTreeMap<TemplateName, ControlPlaneObject>,
    /// When objects were placed.
    pub last_scheduled: BTreeMap<TemplateName, Timestamp>,
    /// The namespaces that are being deleted.
    pub ending_namespaces: BTreeSet<String>,
    /// Policies that have no effect.
    pub problems: Problems,
    /// The kinds whose objects are known.
    followed: BTreeSet<KindName>,
}

/// What was read before, kept while it does not change.
#[derive(Default)]
pub struct ParsedInputs {
    bindings: ParsedBindings,
    clusters: ParsedClusters,
}

/// What bindings say that were read before, by their own names.
#[derive(Default)]
struct ParsedBindings(BTreeMap<TemplateName, ParsedBinding>);

struct ParsedBinding {
    binding: ControlPlaneObject,
    known: Option<KnownBinding>,
    is_used: bool,
}

impl ParsedBindings {
    fn get(&mut self, name: &TemplateName, binding: &ControlPlaneObject) -> Option<&ParsedBinding> {
        let parsed = self.0.get_mut(name)?;
        let is_same = Arc::ptr_eq(&parsed.binding.object, &binding.object)
            && Arc::ptr_eq(&parsed.binding.status, &binding.status);
        parsed.is_used = is_same;
        is_same.then_some(&*parsed)
    }

    fn add(
        &mut self,
        name: &TemplateName,
        binding: &ControlPlaneObject,
        known: Option<KnownBinding>,
    ) {
        let parsed = ParsedBinding {
            binding: binding.clone(),
            known,
            is_used: true,
        };
        self.0.insert(name.clone(), parsed);
    }

    fn forget_unused(&mut self) {
        self.0
            .retain(|_, parsed| std::mem::take(&mut parsed.is_used));
    }
}

/// Reads what a plan is made from.
pub fn read(
    control_plane: &ControlPlaneObjects,
    members: &BTreeMap<ClusterName, MemberState>,
    parsed: &mut ParsedInputs,
) -> ReadInputs {
    let mut read = ReadInputs::default();
    read.add_clusters(control_plane, members, &mut parsed.clusters);
    for kind in [kinds::PROPAGATION_POLICY, kinds::CLUSTER_PROPAGATION_POLICY] {
        for object in control_plane.objects(kind) {
            read.add_policy(&object.object);
        }
    }
    for kind in [kinds::OVERRIDE_POLICY, kinds::CLUSTER_OVERRIDE_POLICY] {
        for object in control_plane.objects(kind) {
            read.add_override(&object.object);
        }
    }
    for kind in [kinds::BINDING, kinds::CLUSTER_BINDING] {
        for (name, object) in control_plane.named_objects(&kind_name(kind)) {
            read.add_binding(&name, object, &mut parsed.bindings);
        }
    }
    for object in control_plane.objects(kinds::REBALANCER) {
        read.add_rebalancer(&object.object);
    }
    for object in control_plane.objects(kinds::NAMESPACE) {
        read.add_namespace(&object.object);
    }
    read.add_templates(control_plane);
    parsed.bindings.forget_unused();
    read
}

impl ReadInputs {
    /// Adds how objects are in their clusters, for those that may leave one because of it.
    /// `health_of` is told whether the status is needed.
    pub fn add_health(
        &mut self,
        now: Timestamp,
        health_of: impl Fn(&TemplateName, bool) -> HealthInClusters,
    ) {
        self.plan.now = Some(now);
        for (name, binding) in &self.bindings {
            let previous = self.plan.previous.get(name);
            let is_evicted = previous.is_some_and(|previous| !previous.evictions.is_empty());
            let failover = at(&*binding.object, &["spec", "failover"]);
            if is_evicted || !failover.is_null() {
                let keeps_state = ["application", "cluster"]
                    .iter()
                    .any(|kind| !at(failover, &[kind, "statePreservation"]).is_null());
                let health = health_of(name, keeps_state);
                self.plan.health.insert(name.clone(), health);
            }
        }
    }

    /// Whether objects of the kind of this one are known.
    pub fn is_followed(&self, name: &TemplateName) -> bool {
        let kind = name.kind_name();
        self.followed.contains(&kind)
    }

    fn add_clusters(
        &mut self,
        control_plane: &ControlPlaneObjects,
        members: &BTreeMap<ClusterName, MemberState>,
        parsed: &mut ParsedClusters,
    ) {
        let objects = control_plane.objects(kinds::CLUSTER).into_iter();
        let objects: BTreeMap<String, ControlPlaneObject> = objects
            .map(|one| (text(&*one.object, &["metadata", "name"]).to_owned(), one))
            .collect();
        for (name, state) in members {
            let (cluster, room) = parsed.cluster(name, state, objects.get(name.as_str()));
            if let Some(room) = room {
                self.plan.room.insert(name.as_str().to_owned(), room);
            }
            self.plan.clusters.push(cluster);
        }
        parsed.keep(members);
    }

    /// Reads what a user has written; `None`: it is wrong, and has no effect.
    fn spec<T: DeserializeOwned>(
        &mut self,
        object: &Value,
        problem: impl Fn(&T, Option<&str>) -> Option<String>,
    ) -> Option<(Option<String>, String, Arc<T>)> {
        if !text(object, &["metadata", "deletionTimestamp"]).is_empty() {
            return None;
        }
        let name = TemplateName::of(object);
        let namespace = Some(name.namespace.clone()).filter(|namespace| !namespace.is_empty());
        let spec: Result<T, String> =
            T::deserialize(at(object, &["spec"])).map_err(|error| error.to_string());
        let spec = spec.and_then(|spec| match problem(&spec, namespace.as_deref()) {
            Some(problem) => Err(problem),
            None => Ok(spec),
        });
        match spec {
            Ok(spec) => Some((namespace, name.name.clone(), Arc::new(spec))),
            Err(problem) => {
                self.problems.insert(name, problem);
                None
            }
        }
    }

    fn add_policy(&mut self, object: &Value) {
        let read = self.spec(object, |spec: &PropagationSpec, namespace| {
            first_problem(&invalid_propagation(spec, namespace))
        });
        if let Some((namespace, name, spec)) = read {
            self.plan.policies.push(Policy {
                namespace,
                name,
                created: creation_time(object),
                spec,
            });
        }
    }

    fn add_override(&mut self, object: &Value) {
        let read = self.spec(object, |spec: &OverrideSpec, namespace| {
            first_problem(&invalid_override(spec, namespace))
        });
        if let Some((namespace, name, spec)) = read {
            self.plan.overrides.push(ObjectOverrides {
                namespace,
                name,
                spec,
            });
        }
    }

    fn add_binding(
        &mut self,
        name: &TemplateName,
        binding: ControlPlaneObject,
        parsed: &mut ParsedBindings,
    ) {
        let known = match parsed.get(name, &binding) {
            Some(parsed) => parsed.known.clone(),
            None => {
                let known = self.read_binding(&binding);
                parsed.add(name, &binding, known.clone());
                known
            }
        };
        let Some(known) = known else {
            return;
        };
        if self.bindings.contains_key(&known.name) {
            let problem = format!("{} has another binding already", known.name);
            self.problems
                .insert(TemplateName::of(&binding.object), problem);
            return;
        }
        if let Some(time) = known.last_scheduled {
            self.last_scheduled.insert(known.name.clone(), time);
        }
        self.plan
            .previous
            .insert(known.name.clone(), known.previous);
        self.bindings.insert(known.name, binding);
    }

    /// What a binding says; `None`: it is not Fleetdex's.
    fn read_binding(&mut self, binding: &ControlPlaneObject) -> Option<KnownBinding> {
        let mut whole = (*binding.object).clone();
        whole["status"] = (*binding.status).clone();
        let name = TemplateName::of(&whole);
        let known = KnownBinding::read(&whole).or_else(|error| {
            self.problems.insert(name.clone(), error.to_string());
            // Where the object is counts more than by which rules.
            KnownBinding::read_without_rules(&mut whole)
        });
        let known = known.ok()?;
        // One that is for an object of another namespace, or under another name, is another one's.
        let place = BindingPlace::of(&known.name, known.previous.set.as_deref());
        let is_own = name.namespace == place.namespace && name.name == place.name;
        is_own.then_some(known)
    }

    fn add_rebalancer(&mut self, rebalancer: &Value) {
        let created = text(rebalancer, &["metadata", "creationTimestamp"]);
        let Ok(created) = created.parse::<Timestamp>() else {
            return;
        };
        for name in TemplateName::of_workloads(rebalancer) {
            let is_newer = match self.last_scheduled.get(&name) {
                Some(last) => created > *last,
                None => true,
            };
            if is_newer && let Some(previous) = self.plan.previous.get_mut(&name) {
                Arc::make_mut(previous).is_rebalanced = true;
            }
        }
    }

    fn add_namespace(&mut self, namespace: &Value) {
        let name = text(namespace, &["metadata", "name"]).to_owned();
        if !text(namespace, &["metadata", "deletionTimestamp"]).is_empty() {
            self.ending_namespaces.insert(name.clone());
        }
        if let Some(clusters) = allowed_clusters(namespace) {
            self.plan.allowed_clusters.insert(name, clusters);
        }
    }

    fn add_templates(&mut self, control_plane: &ControlPlaneObjects) {
        let own: BTreeSet<KindName> = kinds::REQUIRED
            .into_iter()
            .chain(kinds::OPTIONAL)
            .filter(|kind| *kind != kinds::NAMESPACE)
            .map(kind_name)
            .collect();
        self.followed = control_plane.followed();
        for kind in self.followed.iter().filter(|kind| !own.contains(*kind)) {
            let objects = control_plane.named_objects(kind).into_iter();
            let templates = objects.map(|(name, one)| NamedTemplate {
                name,
                object: one.object,
            });
            self.plan.templates.extend(templates);
        }
    }
}

/// The first problem of a list.
fn first_problem<P: std::fmt::Display>(problems: &[P]) -> Option<String> {
    problems.first().map(ToString::to_string)
}

/// The kinds that policies select.
pub fn selected_kinds(control_plane: &ControlPlaneObjects) -> BTreeSet<KindName> {
    let mut wanted: BTreeSet<KindName> = BTreeSet::new();
    for kind in [kinds::PROPAGATION_POLICY, kinds::CLUSTER_PROPAGATION_POLICY] {
        for policy in control_plane.objects(kind) {
            for selector in list(&*policy.object, &["spec", "resourceSelectors"]) {
                let kind = TemplateName::of_reference(selector).kind_name();
                let (group, _) = split_api_version(&kind.0);
                if !is_never_propagated(group, &kind.1) {
                    wanted.insert(kind);
                }
            }
            if !at(&*policy.object, &["spec", "schedulePriority"]).is_null() {
                wanted.insert(kind_name(kinds::PRIORITY_CLASS));
            }
        }
    }
    wanted
}

/// The kinds of which clusters may have copies of templates. Objects of sets have none.
pub fn bound_kinds(control_plane: &ControlPlaneObjects) -> BTreeSet<KindName> {
    let mut bound: BTreeSet<KindName> = BTreeSet::new();
    for kind in [kinds::BINDING, kinds::CLUSTER_BINDING] {
        let bindings = control_plane.objects(kind).into_iter();
        for binding in bindings.filter(|binding| !is_of_set(&binding.object)) {
            let resource = at(&*binding.object, &["spec", "resource"]);
            bound.insert(TemplateName::of_reference(resource).kind_name());
        }
    }
    bound
}

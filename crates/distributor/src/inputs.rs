//! What a plan is made from, as the control plane and the members have it now.

mod memo;
mod parsed_clusters;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_clusters::MemberState;
use fleetdex_core::model::{ClusterName, causes, split_api_version};
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
    placing::PreviousPlacement,
    plan::DistributionInputs,
    rollout::{SetHealth, TemplateWaves},
    sets::is_of_set,
    template_name::{KindName, NamedTemplate, TemplateName},
    templates::is_never_propagated,
};
use fleetdex_interpreter::value::{at, list, text};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;

use self::{memo::Memo, parsed_clusters::ParsedClusters};
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
    policies: Memo<ReadSpec<PropagationSpec>>,
    waves: Memo<Result<Option<TemplateWaves>, String>>,
    overrides: Memo<ReadSpec<OverrideSpec>>,
    bindings: Memo<ReadBinding>,
    clusters: ParsedClusters,
}

/// What a user has written; an error: what is wrong with it, so that it has no effect.
type ReadSpec<T> = Result<Arc<T>, String>;

/// What a binding says.
struct ReadBinding {
    /// `None`: it is not Fleetdex's.
    known: Option<KnownBinding>,
    problem: Option<String>,
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
        for (name, object) in control_plane.named_objects(&kind_name(kind)) {
            read.add_policy(&name, &object, parsed);
        }
    }
    for kind in [kinds::OVERRIDE_POLICY, kinds::CLUSTER_OVERRIDE_POLICY] {
        for (name, object) in control_plane.named_objects(&kind_name(kind)) {
            read.add_override(&name, &object, &mut parsed.overrides);
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
    parsed.policies.forget_unused();
    parsed.waves.forget_unused();
    parsed.overrides.forget_unused();
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

    /// Adds how objects are in their clusters whose policies have waves, by what was published.
    pub fn add_wave_health(
        &mut self,
        health_of: impl Fn(&TemplateName) -> BTreeMap<String, SetHealth>,
    ) {
        let has_waves = |previous: &PreviousPlacement| {
            let policy = previous.claimed_by.as_ref();
            policy.is_some_and(|policy| self.plan.waves.contains_key(policy))
        };
        let bound = self.plan.previous.iter();
        let bound = bound.filter(|(_, previous)| has_waves(previous));
        let health = bound.map(|(name, _)| (name.clone(), health_of(name)));
        self.plan.wave_health = health.collect();
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

    fn add_policy(
        &mut self,
        name: &TemplateName,
        object: &ControlPlaneObject,
        parsed: &mut ParsedInputs,
    ) {
        let spec = self.spec(name, object, &mut parsed.policies, |spec, namespace| {
            first_problem(&invalid_propagation(spec, namespace))
        });
        let Some(spec) = spec else {
            return;
        };
        let policy = Policy {
            namespace: namespace_of(name),
            name: name.name.clone(),
            created: creation_time(&object.object),
            spec,
        };
        match parsed.waves.get(name, object, waves) {
            Ok(None) => {}
            Ok(Some(waves)) => {
                let waves = waves.clone();
                self.plan.waves.insert(policy.policy_name(), waves);
            }
            Err(problem) => {
                self.problems.insert(name.clone(), problem.clone());
                return;
            }
        }
        self.plan.policies.push(policy);
    }

    fn add_override(
        &mut self,
        name: &TemplateName,
        policy: &ControlPlaneObject,
        parsed: &mut Memo<ReadSpec<OverrideSpec>>,
    ) {
        let spec = self.spec(name, policy, parsed, |spec, namespace| {
            first_problem(&invalid_override(spec, namespace))
        });
        if let Some(spec) = spec {
            self.plan.overrides.push(ObjectOverrides {
                namespace: namespace_of(name),
                name: name.name.clone(),
                spec,
            });
        }
    }

    /// What a user has written; `None`: it is wrong, or is being deleted, and has no effect.
    fn spec<T: DeserializeOwned>(
        &mut self,
        name: &TemplateName,
        object: &ControlPlaneObject,
        parsed: &mut Memo<ReadSpec<T>>,
        problem: impl Fn(&T, Option<&str>) -> Option<String>,
    ) -> Option<Arc<T>> {
        if !text(&*object.object, &["metadata", "deletionTimestamp"]).is_empty() {
            return None;
        }
        let read = |object: &ControlPlaneObject| {
            let spec = T::deserialize(at(&*object.object, &["spec"]));
            let spec = spec.map_err(|error| error.to_string())?;
            match problem(&spec, namespace_of(name).as_deref()) {
                Some(problem) => Err(problem),
                None => Ok(Arc::new(spec)),
            }
        };
        match parsed.get(name, object, read) {
            Ok(spec) => Some(Arc::clone(spec)),
            Err(problem) => {
                self.problems.insert(name.clone(), problem.clone());
                None
            }
        }
    }

    fn add_binding(
        &mut self,
        name: &TemplateName,
        binding: ControlPlaneObject,
        parsed: &mut Memo<ReadBinding>,
    ) {
        let ReadBinding { known, problem } =
            parsed.get(name, &binding, |binding| ReadBinding::of(name, binding));
        if let Some(problem) = problem {
            self.problems.insert(name.clone(), problem.clone());
        }
        let Some(known) = known.clone() else {
            return;
        };
        if self.bindings.contains_key(&known.name) {
            let problem = format!("{} has another binding already", known.name);
            self.problems.insert(name.clone(), problem);
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

impl ReadBinding {
    /// Reads the binding of a name.
    fn of(name: &TemplateName, binding: &ControlPlaneObject) -> Self {
        let mut whole = Value::clone(&binding.object);
        whole["status"] = Value::clone(&binding.status);
        let mut problem = None;
        let known = KnownBinding::read(&whole).or_else(|error| {
            problem = Some(error.to_string());
            // Where the object is counts more than by which rules.
            KnownBinding::read_without_rules(&mut whole)
        });
        // One that is for an object of another namespace, or under another name, is another one's.
        let is_own = |known: &KnownBinding| {
            let place = BindingPlace::of(&known.name, known.previous.set.as_deref());
            name.namespace == place.namespace && name.name == place.name
        };
        Self {
            known: known.ok().filter(is_own),
            problem,
        }
    }
}

/// The waves of a policy, if it has some; an error: what is wrong with them.
fn waves(policy: &ControlPlaneObject) -> Result<Option<TemplateWaves>, String> {
    TemplateWaves::of_policy(&policy.object).map_err(|error| causes(&error))
}

/// The namespace of an object; `None`: it is cluster-scoped.
fn namespace_of(name: &TemplateName) -> Option<String> {
    Some(name.namespace.clone()).filter(|namespace| !namespace.is_empty())
}

/// The first problem of a list.
fn first_problem<P: std::fmt::Display>(problems: &[P]) -> Option<String> {
    problems.first().map(ToString::to_string)
}

/// The object of the binding of a name; `None`: the binding is not Fleetdex's.
pub fn bound_object(name: &TemplateName, binding: &ControlPlaneObject) -> Option<TemplateName> {
    ReadBinding::of(name, binding).known.map(|known| known.name)
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

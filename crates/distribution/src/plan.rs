//! The plan: where every object goes, what it is there, and what is in the way.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, LazyLock},
};

use fleetdex_interpreter::{
    Request, Response,
    request::{DependentObject, ReplicaRequirements},
    value::{list, text},
};
use serde_json::Value;

use crate::{
    activation::{self, LazyContent},
    claim::Policy,
    cluster::TargetCluster,
    desired::{DistributedObject, Operations, is_divided, write_order},
    division::{MAX_REPLICAS, Shares},
    failover::{FailoverDecision, HealthInClusters, PlacedWithEvictions},
    overrides::ObjectOverrides,
    placing::{PlacedObject, Placer, PreviousPlacement},
    room::ClusterRoom,
    template_name::{NamedTemplate, TemplateName},
    templates::never_propagated,
};

mod alone;
mod claimed;
mod companions;
mod dependencies;
mod held_names;
mod leftovers;
mod open_clusters;
mod rolled_out;
mod same_objects;
mod set_change;
mod set_members;
mod template_waves;
mod values;
mod writing;

pub use alone::is_change_of_contents;
use claimed::{Claimed, claimed};
use companions::CompanionGroups;
use dependencies::{Dependencies, TemplatesByKind, may_need};
use held_names::HeldNames;
pub use held_names::template_names;
use leftovers::resting;
pub use leftovers::{LeftoverFate, Leftovers};
use open_clusters::OpenClusters;
pub use set_members::selected_clusters;
use set_members::{members, needed_elsewhere};
pub use values::{
    DistributionInputs, DistributionPlan, PlanConflict, PlannedBinding, PlannedDeletion,
    PlannedObject, Requirer, SkippedObject,
};
pub use writing::merged;
use writing::{PlanWriter, may_overwrite};

/// How an object is of which nothing is known.
static UNKNOWN: LazyLock<HealthInClusters> = LazyLock::new(HealthInClusters::default);
/// Where an object was that was nowhere.
static NOWHERE: LazyLock<PreviousPlacement> = LazyLock::new(PreviousPlacement::default);

/// Makes the plan.
pub fn plan(inputs: &DistributionInputs, operations: &impl Operations) -> DistributionPlan {
    let mut planner = Planner {
        inputs,
        operations,
        clusters: inputs.clusters.clone(),
        room: inputs.room.clone(),
        companions: CompanionGroups::default(),
        templates: TemplatesByKind::of(inputs),
        plan: DistributionPlan {
            knows_dependencies: true,
            ..DistributionPlan::default()
        },
    };
    planner
        .clusters
        .sort_by(|one, other| one.name.cmp(&other.name));
    planner.run();
    planner.plan
}

struct Planner<'a, O> {
    inputs: &'a DistributionInputs,
    operations: &'a O,
    /// The clusters, with the kinds that they will serve.
    clusters: Vec<TargetCluster>,
    room: BTreeMap<String, ClusterRoom>,
    companions: CompanionGroups,
    /// What may be needed; empty if no policy propagates what objects need.
    templates: TemplatesByKind<'a>,
    plan: DistributionPlan,
}

/// Where an object goes.
struct PlacedTemplate {
    binding: PlannedBinding,
    /// The replicas of each cluster, if the object has replicas.
    shares: Option<Shares>,
    is_written: bool,
}

impl<'a, O: Operations> Planner<'a, O> {
    fn run(&mut self) {
        let held = HeldNames::of(self.inputs);
        let (mut claimed, skipped) = claimed(self.inputs, &held);
        self.plan.skipped = skipped;
        let (of_sets, refused) = members(self.inputs, &held, &claimed);
        self.plan.refused = refused;
        claimed.extend(of_sets);
        let mut dependencies = Dependencies::default();
        let mut placed = Vec::new();
        for one in &claimed {
            if let Some(previous) = self.inputs.previous.get(&one.name) {
                let clusters = || previous.clusters.keys().cloned().collect();
                self.companions
                    .set(one.policy, one.object, &one.name, clusters);
            }
        }
        for one in claimed {
            if let Some(refused) = needed_elsewhere(&one, self.inputs, &dependencies) {
                self.plan.refused.push(refused);
                continue;
            }
            let found = self.place_with_dependencies(&one, &mut dependencies);
            let clusters = || found.binding.cluster_names();
            self.companions
                .set(one.policy, one.object, &one.name, clusters);
            placed.push((one, found));
        }
        self.write(placed, &dependencies);
    }

    fn place_with_dependencies(
        &mut self,
        one: &Claimed<'a>,
        dependencies: &mut Dependencies,
    ) -> PlacedTemplate {
        let bound = self.inputs.previous.get(&one.name).map(Arc::as_ref);
        let lazy = LazyContent::of(one.object, one.policy, bound);
        let waits = lazy.as_ref().is_some_and(|lazy| lazy.waits);
        let mut found = self.place_all(one, waits, dependencies);
        let is_placed = found.binding.unschedulable.is_none();
        found.binding.lazy = lazy.map(|lazy| lazy.noted(is_placed));
        found
    }

    /// Places an object, and what it needs. `waits`: by the rules of before.
    fn place_all(
        &mut self,
        one: &Claimed<'a>,
        waits: bool,
        dependencies: &mut Dependencies,
    ) -> PlacedTemplate {
        let required = match self.required(one.object, one.policy) {
            Ok(required) => required,
            Err(error) => {
                self.plan.knows_dependencies = false;
                return self.left(one, self.previous(one), error);
            }
        };
        let found = self.place(one, waits);
        if !required.is_empty() {
            // What it needs stays where it stays.
            let clusters = &found.binding.cluster_names() | &found.binding.staying;
            self.add_required(one, &clusters, required, dependencies);
        }
        if write_order(&one.name) == 1 {
            self.add_served(one.object, &found.binding.cluster_names());
        }
        found
    }

    /// Adds what an object needs, and what that needs in turn.
    fn add_required(
        &mut self,
        one: &Claimed<'a>,
        clusters: &BTreeSet<String>,
        required: Vec<DependentObject>,
        dependencies: &mut Dependencies,
    ) {
        let overwrites = may_overwrite(one.object, Some(&one.policy.spec));
        let mut known = BTreeSet::from([one.name.clone()]);
        let mut open = vec![(one.name.clone(), required)];
        while let Some((name, required)) = open.pop() {
            for object in self.templates.required(&required) {
                let needed = TemplateName::of(object);
                if !known.insert(needed.clone()) {
                    continue;
                }
                match self.required(object, one.policy) {
                    Ok(required) if required.is_empty() => {}
                    Ok(required) => open.push((needed, required)),
                    Err(_) => self.plan.knows_dependencies = false,
                }
            }
            let requirer = Requirer {
                name,
                clusters: clusters.clone(),
                overwrites,
            };
            dependencies.add(requirer, required);
        }
    }

    fn write(&mut self, placed: Vec<(Claimed<'a>, PlacedTemplate)>, dependencies: &Dependencies) {
        let inputs = self.inputs;
        let mut writer = PlanWriter::new(inputs, self.operations, &self.clusters, &mut self.plan);
        let mut names = BTreeSet::new();
        for (one, mut found) in placed {
            names.insert(one.name.clone());
            let spec = &one.policy.spec;
            // What a set has is its own: it goes nowhere because others need it.
            let requirers = match one.set {
                Some(_) => Vec::new(),
                None => dependencies.of(&one.name, one.object),
            };
            found.binding.add_requirers(&requirers);
            found.binding.suspend(spec);
            if let Some(admission) = one.set.and_then(|set| set.admission.as_ref()) {
                found.binding.admit(admission);
            }
            if found.is_written {
                let overwrites = may_overwrite(one.object, Some(spec))
                    || requirers.iter().any(|requirer| requirer.overwrites);
                let template = DistributedObject {
                    object: one.object,
                    shares: found.shares.as_ref(),
                    is_divided: is_divided(spec.placement.replica_scheduling.as_ref()),
                    set: one.set,
                };
                match &one.change {
                    Some(change) => {
                        writer.write_varied(&template, change, &found.binding);
                    }
                    None => writer.write(&template, &found.binding, overwrites),
                }
            }
            writer.plan.bindings.push(found.binding);
        }
        for NamedTemplate { name, object } in &inputs.templates {
            let requirers = dependencies.of(name, object);
            let is_placed = names.contains(name);
            let is_of_set = inputs
                .previous
                .get(name)
                .is_some_and(|previous| previous.set.is_some());
            if is_placed || is_of_set || requirers.is_empty() || never_propagated(object).is_some()
            {
                continue;
            }
            let mut binding = PlannedBinding::of_dependency(name.clone());
            binding.add_requirers(&requirers);
            let overwrites =
                may_overwrite(object, None) || requirers.iter().any(|requirer| requirer.overwrites);
            writer.write(&DistributedObject::whole(object), &binding, overwrites);
            writer.plan.bindings.push(binding);
        }
        writer
            .plan
            .bindings
            .sort_by(|one, other| one.resource.cmp(&other.resource));
        writer.finish();
        let templates = template_names(&self.plan, inputs);
        let resting = resting(&self.plan, inputs, &templates);
        for binding in &mut self.plan.bindings {
            if let Some(previous) = inputs.previous.get(&binding.resource) {
                let requirers = previous.required_by.iter();
                let kept = requirers.filter(|one| resting.contains(*one));
                binding.resting_requirers = kept.cloned().collect();
            }
        }
        if !inputs.observed.is_empty() {
            self.plan.deletions = Leftovers::of(&self.plan, inputs).deletions(inputs);
        }
    }

    /// Places an object.
    fn place(&mut self, one: &Claimed<'a>, waits: bool) -> PlacedTemplate {
        let noted = self.previous(one);
        let before_rollout = one.before_rollout(noted);
        let previous = before_rollout.as_ref().unwrap_or(noted);
        let spec = &one.policy.spec;
        let placement = if waits {
            previous.placement.as_ref()
        } else {
            Some(&spec.placement)
        };
        let (object, requirements) = match self.placed_object(one) {
            Ok(found) => found,
            Err(error) => return self.left(one, noted, error),
        };
        if let Some(reason) = self.missing_overrides(one) {
            return self.left(one, noted, reason);
        }
        let has_replicas = object.replicas.is_some() && !object.has_components;
        let scheduler = spec.scheduler_name.as_deref().unwrap_or_default();
        if !matches!(scheduler, "" | "default-scheduler") {
            // The other scheduler says where the object is, and this writes it there.
            let reason = format!("schedulerName leaves it to the scheduler {scheduler}");
            let mut found = PlacedTemplate {
                shares: has_replicas.then(|| previous.clusters.clone()),
                is_written: true,
                ..self.left(one, previous, reason)
            };
            if let Some(allowed) = self.allowed(one) {
                found
                    .binding
                    .clusters
                    .retain(|cluster| allowed.contains(&cluster.name));
            }
            return found;
        }
        let room = RefCell::new(BTreeMap::new());
        let room_of = |cluster: &TargetCluster| {
            let known = room.borrow().get(&cluster.name).copied();
            known.unwrap_or_else(|| {
                let known = self.room.get(&cluster.name);
                let found = known.map_or(0, |room| room.replicas(requirements.as_ref()));
                room.borrow_mut().insert(cluster.name.clone(), found);
                found
            })
        };
        let open = OpenClusters::of(&self.clusters, self.allowed(one), one, previous);
        let clusters = open.clusters();
        let companions = self.companions.of(one.policy, one.object, &one.name);
        let failover = self.failover(one, clusters);
        let PlacedWithEvictions {
            mut placed,
            evictions,
            blocked,
        } = failover.place(previous, |previous, avoided| {
            let Some(placement) = placement else {
                return activation::waiting(previous, clusters);
            };
            let placer = Placer {
                object: &object,
                placement,
                clusters,
                previous,
                companions: &companions,
                avoided,
                room: &room_of,
            };
            placer.place()
        });
        open.limit(&mut placed);
        for target in &placed.clusters {
            let before = previous.clusters.get(&target.name).copied();
            let more = target.replicas.saturating_sub(before.unwrap_or(0));
            if more != 0
                && let Some(room) = self.room.get_mut(&target.name)
            {
                room.reserve(requirements.as_ref(), more);
            }
        }
        let targets = placed.clusters.iter();
        let shares = has_replicas.then(|| {
            targets
                .map(|target| (target.name.clone(), target.replicas))
                .collect()
        });
        let mut binding = one.binding();
        binding.replicas = object.replicas;
        binding.requirements = requirements;
        binding.set(placed);
        binding.evict(evictions, &failover);
        binding.blocked = blocked;
        binding.lacking = open.lacking();
        binding.follow_rollout(one, open.allowed(), noted, self.inputs);
        PlacedTemplate {
            binding,
            shares,
            is_written: true,
        }
    }

    /// What decides about the evictions of an object.
    fn failover<'f>(
        &self,
        one: &'f Claimed<'_>,
        clusters: &'f [TargetCluster],
    ) -> FailoverDecision<'f>
    where
        'a: 'f,
    {
        let inputs = self.inputs;
        FailoverDecision {
            spec: &one.policy.spec,
            clusters,
            health: inputs.health.get(&one.name).unwrap_or(&UNKNOWN),
            now: inputs.now,
        }
    }

    /// The clusters that an object's policy may reach, where not all.
    fn allowed(&self, one: &Claimed<'_>) -> Option<&'a BTreeSet<String>> {
        let namespace = one.policy.namespace.as_ref()?;
        self.inputs.allowed_clusters.get(namespace)
    }

    /// Where an object was before.
    fn previous(&self, one: &Claimed<'_>) -> &'a PreviousPlacement {
        let known = self.inputs.previous.get(&one.name);
        known.map_or(&*NOWHERE, Arc::as_ref)
    }

    /// Leaves an object where it is, and writes nothing.
    fn left(
        &self,
        one: &Claimed<'_>,
        previous: &PreviousPlacement,
        reason: String,
    ) -> PlacedTemplate {
        let mut binding = one.binding();
        binding.keep(previous, &self.clusters, reason);
        PlacedTemplate {
            binding,
            shares: None,
            is_written: false,
        }
    }

    /// The override policies without which the object is not placed.
    fn missing_overrides(&self, one: &Claimed<'_>) -> Option<String> {
        let spec = &one.policy.spec;
        let missing: Vec<&str> = spec
            .dependent_overrides
            .iter()
            .map(String::as_str)
            .filter(|name| {
                let is_it = |policy: &ObjectOverrides| {
                    policy.name == **name && policy.namespace == one.policy.namespace
                };
                !self.inputs.overrides.iter().any(is_it)
            })
            .collect();
        (!missing.is_empty()).then(|| {
            format!(
                "it waits for the override policies {} (dependentOverrides)",
                missing.join(", ")
            )
        })
    }

    fn placed_object(
        &self,
        one: &Claimed<'_>,
    ) -> Result<(PlacedObject, Option<ReplicaRequirements>), String> {
        let object = one.object;
        let components = match self.operations.run(&Request::Component { object })? {
            Some(Response::Components(components)) => components.len(),
            _ => 0,
        };
        let (replicas, requirements) = match self.operations.run(&Request::Replica { object })? {
            Some(Response::Replica {
                replicas,
                requirements,
            }) => (Some(replicas), requirements),
            _ => (None, None),
        };
        if replicas.is_some_and(|replicas| !(0..=MAX_REPLICAS).contains(&replicas)) {
            let replicas = replicas.unwrap_or_default();
            return Err(format!(
                "it declares {replicas} replicas, and 0 to {MAX_REPLICAS} are possible"
            ));
        }
        let placed = PlacedObject {
            kind: one.name.kind_name(),
            uid: one.uid(),
            replicas,
            has_components: components > 1,
        };
        Ok((placed, requirements))
    }

    /// What an object needs, if the policy propagates that, as far as the policy may reach it.
    fn required(&self, object: &Value, policy: &Policy) -> Result<Vec<DependentObject>, String> {
        if !policy.spec.propagate_deps {
            return Ok(Vec::new());
        }
        let request = Request::Dependency { object };
        match self.operations.run(&request) {
            Ok(Some(Response::Dependencies(mut found))) => {
                found.retain(|one| may_need(policy, one));
                Ok(found)
            }
            Ok(_) => Ok(Vec::new()),
            Err(error) => Err(format!("what it needs is not known: {error}")),
        }
    }

    /// The clusters of a definition will serve its kind.
    fn add_served(&mut self, definition: &Value, clusters: &BTreeSet<String>) {
        let group = text(definition, &["spec", "group"]);
        let kind = text(definition, &["spec", "names", "kind"]);
        let served = |version: &&Value| version.get("served") != Some(&Value::Bool(false));
        for version in list(definition, &["spec", "versions"])
            .iter()
            .filter(served)
        {
            let api_version = format!("{group}/{}", text(version, &["name"]));
            for cluster in &mut self.clusters {
                if clusters.contains(&cluster.name)
                    && let Some(served) = &mut cluster.served
                {
                    Arc::make_mut(served).insert((api_version.clone(), kind.to_owned()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;

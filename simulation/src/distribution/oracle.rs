//! Compares members and bindings with what the pure plan says.

use std::collections::{BTreeMap, BTreeSet};

use fakes::apiserver::Server;
use fleetdex_distribution::{
    binding::KnownBinding,
    marks,
    plan::{LeftoverFate, PlannedObject},
    template_name::TemplateName,
    templates::CONTROL_PLANE_LABEL,
};
use serde_json::Value;

use super::{
    differences::collect_differences,
    expected::{Expected, objects},
    guarded_replicas::is_scaled,
    member_operations::{EDITED, FOREIGN},
    servers::{BINDINGS, CLUSTER_BINDINGS, DISTRIBUTED, origin},
    world::World,
};

/// The generation of a template that has one.
const TEMPLATE_GENERATION: &str = "resourcetemplate.karmada.io/generation";
/// The members of maps, and the items of lists, that were added by hand.
const HAND: &str = "hand";

impl World {
    /// What is not as it shall be.
    pub fn differences(&self) -> anyhow::Result<Vec<String>> {
        let expected = self.evaluate()?;
        let mut wrong = Vec::new();
        for (member, server) in &self.members {
            self.add_differences(member.as_str(), server, &expected, &mut wrong)?;
        }
        self.add_binding_differences(&expected, &mut wrong)?;
        self.add_set_differences(&expected, &mut wrong)?;
        Ok(wrong)
    }

    fn add_differences(
        &self,
        member: &str,
        server: &Server,
        expected: &Expected,
        wrong: &mut Vec<String>,
    ) -> anyhow::Result<()> {
        let origin = origin(&self.control_plane.identity(), member);
        let mut found = BTreeMap::new();
        for (resource, _, _) in DISTRIBUTED {
            for object in objects(server, resource)? {
                found.insert(TemplateName::of(&object), object);
            }
        }
        let planned = expected.plan.objects.iter();
        let planned: Vec<&PlannedObject> = planned.filter(|one| one.cluster == member).collect();
        for one in &planned {
            let name = &one.resource;
            let difference = match found.get(name) {
                None => Some("is missing".to_owned()),
                Some(_) if one.is_only_needed => None,
                Some(object) if origin.has_written(object) => difference(one, object),
                Some(_) if one.overwrites => Some("is not taken over".to_owned()),
                Some(_) => None,
            };
            wrong.extend(difference.map(|what| format!("{name} in {member} {what}")));
        }
        let planned: BTreeSet<&TemplateName> = planned.iter().map(|one| &one.resource).collect();
        for (name, object) in &found {
            let is_copy = origin.has_written(object);
            let fate = expected.fate(member, name);
            if is_copy && !planned.contains(name) && fate != LeftoverFate::Stays {
                wrong.push(format!("{name} in {member} is still there: {fate:?}"));
            }
        }
        Ok(())
    }

    fn add_binding_differences(
        &self,
        expected: &Expected,
        wrong: &mut Vec<String>,
    ) -> anyhow::Result<()> {
        for gone in expected.bound.difference(&expected.templates) {
            wrong.push(format!("the binding of {gone} is still there"));
        }
        let mut bindings = BTreeMap::new();
        for resource in [BINDINGS, CLUSTER_BINDINGS] {
            for object in objects(&self.control_plane, resource)? {
                bindings.insert(KnownBinding::read(&object)?.name, object);
            }
        }
        for planned in &expected.plan.bindings {
            let name = &planned.resource;
            let Some(binding) = bindings.get(name) else {
                wrong.push(format!("{name} has no binding"));
                continue;
            };
            let known = KnownBinding::read(binding)?.previous;
            let targets = planned.clusters.iter();
            let clusters = targets
                .map(|one| (one.name.clone(), one.replicas))
                .collect();
            if known.clusters != clusters {
                wrong.push(format!(
                    "the binding of {name} says {:?}, and not {clusters:?}",
                    known.clusters
                ));
            }
            // What could not be placed stays where it is. Otherwise each eviction ends, when its
            // grace is over at the latest.
            if planned.unschedulable.is_none() {
                let evicted = known.evictions.iter().map(|task| &task.from_cluster);
                let leaving: BTreeSet<&String> = known.leaving.iter().chain(evicted).collect();
                if !leaving.is_empty() {
                    wrong.push(format!("{name} is still leaving {leaving:?}"));
                }
            }
            self.add_status_difference(planned, binding, wrong)?;
        }
        Ok(())
    }

    /// A binding says of each cluster whether it has the object.
    fn add_status_difference(
        &self,
        planned: &fleetdex_distribution::plan::PlannedBinding,
        binding: &Value,
        wrong: &mut Vec<String>,
    ) -> anyhow::Result<()> {
        let name = &planned.resource;
        let resource = DISTRIBUTED.iter().find(|one| one.2 == name.kind);
        let resource = resource.map_or("", |one| one.0);
        for target in &planned.clusters {
            let waits = planned.awaiting.contains(&target.name);
            if waits || planned.suspended.contains(&target.name) {
                continue;
            }
            let servers = self.members.iter();
            let mut servers = servers.filter(|(member, _)| member.as_str() == target.name);
            let Some((_, server)) = servers.next() else {
                continue;
            };
            let found = server
                .object(resource, Some(&name.namespace), &name.name)
                .map_err(super::world::refused)?;
            let origin = origin(&self.control_plane.identity(), &target.name);
            let has_copy = found.is_some_and(|found| origin.has_written(&found));
            let mut items = binding["status"]["aggregatedStatus"]
                .as_array()
                .into_iter()
                .flatten();
            let item = items.find(|item| item["clusterName"] == target.name.as_str());
            let is_reported = item.is_some_and(|item| item["applied"] == true);
            if is_reported != has_copy {
                wrong.push(format!(
                    "the binding of {name} says of {} {}, and the copy is {}",
                    target.name,
                    item.map_or("nothing".to_owned(), ToString::to_string),
                    if has_copy { "there" } else { "not there" },
                ));
            }
        }
        Ok(())
    }
}

/// How a copy differs from what it shall be.
fn difference(planned: &PlannedObject, found: &Value) -> Option<String> {
    let mut expected = planned.object.value();
    let mut found = found.clone();
    if is_scaled(&found) {
        for object in [&mut expected, &mut found] {
            if let Some(spec) = object["spec"].as_object_mut() {
                spec.shift_remove("replicas");
            }
        }
    }
    let (expected, found) = (bare(expected), bare(found));
    let mut differences = Vec::new();
    collect_differences("", &expected, &found, &mut differences);
    // Who edits a field owns it, so that it stays when the template does not have it any more.
    for value in [EDITED, FOREIGN] {
        let edited = format!(": null -> {value:?}");
        differences.retain(|one| !one.ends_with(&edited));
    }
    (!differences.is_empty()).then(|| format!("differs: {}", differences.join(", ")))
}

/// An object without what servers, Fleetdex's marks and hands have added.
fn bare(mut object: Value) -> Value {
    let marks = [
        CONTROL_PLANE_LABEL,
        marks::WRITTEN_ANNOTATION,
        TEMPLATE_GENERATION,
    ];
    if let Some(members) = object.as_object_mut() {
        members.shift_remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for member in [
            "uid",
            "generation",
            "resourceVersion",
            "creationTimestamp",
            "managedFields",
        ] {
            metadata.shift_remove(member);
        }
        for member in ["labels", "annotations"] {
            if let Some(entries) = metadata.get_mut(member).and_then(Value::as_object_mut) {
                entries.retain(|name, _| !marks.contains(&name.as_str()));
            }
        }
    }
    remove_hand(&mut object);
    object
}

fn remove_hand(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, _| name != HAND);
            members.values_mut().for_each(remove_hand);
            members.retain(|_, value| !value.as_object().is_some_and(serde_json::Map::is_empty));
        }
        Value::Array(items) => {
            items.retain(|item| item["name"] != HAND);
            items.iter_mut().for_each(remove_hand);
        }
        _ => {}
    }
}

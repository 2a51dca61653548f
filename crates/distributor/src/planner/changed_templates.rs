//! Plans templates alone of which only the contents have changed: that takes milliseconds, however
//! much is distributed, and is what most changes are.
//!
//! Guarantee: what is published is what a plan of everything would say. Whatever may be more than a
//! change of contents is left to such a plan.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_distribution::{
    plan::{self, DistributionInputs, DistributionPlan, is_change_of_contents},
    template_name::{NamedTemplate, TemplateName},
};
use fleetdex_interpreter::value::text;

use super::DistributionPlanner;
use crate::{
    blocking::run_blocking,
    control_plane::{ControlPlaneObject, kind_name, kinds},
    inputs::{self, ReadInputs},
    interpreting::PlanOperations,
};

/// More templates than these are planned with all others.
const MOST_TEMPLATES: usize = 64;

impl DistributionPlanner {
    /// Plans what has changed, if only contents of templates have. Returns whether they have: if
    /// not, everything has to be planned.
    pub(super) async fn plan_changed(&mut self) -> bool {
        let names = self.control_plane.changed_objects().take();
        let (Some(names), Some(read)) = (names, self.state.in_force.take()) else {
            return false;
        };
        let Some(changed) = self.changed_templates(&names, &read) else {
            return false;
        };
        let planned = if changed.is_empty() {
            Some(read)
        } else {
            self.plan_alone(changed, read).await
        };
        self.state.in_force = planned;
        self.state.in_force.is_some()
    }

    /// The templates that have changed; `None`: something else has.
    fn changed_templates(
        &self,
        names: &BTreeSet<TemplateName>,
        read: &ReadInputs,
    ) -> Option<Vec<NamedTemplate>> {
        let objects = self.control_plane.objects();
        let bindings = [kinds::BINDING, kinds::CLUSTER_BINDING].map(kind_name);
        let is_binding = |name: &&TemplateName| bindings.contains(&name.kind_name());
        let (bindings, others): (Vec<_>, Vec<_>) = names.iter().partition(is_binding);
        if others.len() > MOST_TEMPLATES {
            return None;
        }
        for name in bindings {
            let binding = objects.object(name)?;
            if !self.is_known_binding(name, &binding, read) {
                return None;
            }
        }
        let unwritten = Arc::clone(&self.published.borrow().unwritten);
        let mut changed = Vec::new();
        for name in others {
            let object = objects.object(name)?;
            let mut templates = read.plan.templates.iter();
            let before = &templates.find(|template| template.name == *name)?.object;
            if Arc::ptr_eq(before, &object.object) {
                continue;
            }
            if unwritten.contains(name) || !is_change_of_contents(name, before, &object.object) {
                return None;
            }
            changed.push(NamedTemplate {
                name: name.clone(),
                object: object.object,
            });
        }
        Some(changed)
    }

    /// Whether a binding says what was read of it, or what was written.
    fn is_known_binding(
        &self,
        name: &TemplateName,
        binding: &ControlPlaneObject,
        read: &ReadInputs,
    ) -> bool {
        if !text(&*binding.object, &["metadata", "deletionTimestamp"]).is_empty() {
            return false;
        }
        let Some(bound) = inputs::bound_object(name, binding) else {
            return false;
        };
        let before = read.bindings.get(&bound);
        before.is_some_and(|before| Arc::ptr_eq(&before.object, &binding.object))
            || self.state.known_bindings.is_written(&bound, binding)
    }

    /// Plans templates, and publishes what clusters get of them. `None`: that is not all that
    /// follows from their changes.
    async fn plan_alone(
        &mut self,
        changed: Vec<NamedTemplate>,
        mut read: ReadInputs,
    ) -> Option<ReadInputs> {
        let rules = self.interpreting.rules();
        if !Arc::ptr_eq(&rules, &self.state.made_by.rules) {
            return None;
        }
        let others = set_aside(&mut read.plan, changed);
        let memory = std::mem::take(&mut self.state.memory);
        let run = run_blocking(move || {
            let operations = PlanOperations {
                rules,
                memory: &memory,
            };
            operations.go_on(&read.plan.templates);
            let plan = plan::plan(&read.plan, &operations);
            (memory, read, plan)
        });
        let (memory, mut read, plan) = run.await.ok()?;
        let asks_nothing = !memory.has_questions();
        self.state.memory = memory;
        let holds = asks_nothing && self.holds(&plan, read.plan.templates.len());
        if !holds {
            return None;
        }
        self.published
            .send_modify(|published| Arc::make_mut(published).change(&plan.objects));
        others.put_back(&mut read.plan);
        Some(read)
    }

    /// Whether a plan of some templates holds among all others.
    fn holds(&self, plan: &DistributionPlan, number: usize) -> bool {
        let is_as_before = |binding: &_| self.board.is_planned(binding);
        let published = self.published.borrow();
        let mut objects = plan.objects.iter().filter(|one| !one.is_only_needed);
        plan.holds_alone(number, is_as_before) && objects.all(|object| published.has(object))
    }
}

/// What a plan of some templates does not look at.
struct SetAside {
    whole: DistributionInputs,
}

/// Leaves of everything what a plan of some templates is made from.
fn set_aside(inputs: &mut DistributionInputs, changed: Vec<NamedTemplate>) -> SetAside {
    let names = changed.iter().map(|template| &template.name);
    let previous = names.filter_map(|name| {
        let previous = inputs.previous.get(name)?;
        Some((name.clone(), Arc::clone(previous)))
    });
    let previous: BTreeMap<_, _> = previous.collect();
    let whole = DistributionInputs {
        templates: std::mem::replace(&mut inputs.templates, changed),
        previous: std::mem::replace(&mut inputs.previous, previous),
        sets: std::mem::take(&mut inputs.sets),
        knows_sets: std::mem::take(&mut inputs.knows_sets),
        ..DistributionInputs::default()
    };
    SetAside { whole }
}

impl SetAside {
    /// Completes the inputs again, with the templates as they were planned.
    fn put_back(self, inputs: &mut DistributionInputs) {
        let DistributionInputs {
            templates,
            previous,
            sets,
            knows_sets,
            ..
        } = self.whole;
        let changed = std::mem::replace(&mut inputs.templates, templates);
        for one in changed {
            let mut templates = inputs.templates.iter_mut();
            if let Some(template) = templates.find(|template| template.name == one.name) {
                *template = one;
            }
        }
        inputs.previous = previous;
        inputs.sets = sets;
        inputs.knows_sets = knows_sets;
    }
}

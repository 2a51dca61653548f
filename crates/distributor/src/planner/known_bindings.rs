//! Bindings that were written, until the watch shows them; and what those said that a user has
//! deleted.

use std::{collections::BTreeMap, sync::Arc};

use fleetdex_distribution::{
    binding::KnownBinding,
    marks::WRITTEN_ANNOTATION,
    placing::PreviousPlacement,
    plan::{DistributionPlan, Leftovers},
    template_name::TemplateName,
};
use fleetdex_interpreter::value::text;
use serde_json::Value;

use crate::{
    bindings::{WrittenBindings, is_as_wanted},
    control_plane::ControlPlaneObject,
    inputs::ReadInputs,
};

/// What is known of bindings beyond what was read.
#[derive(Default)]
pub struct KnownBindings {
    /// What was written.
    written: BTreeMap<TemplateName, WrittenBinding>,
    /// What bindings said that a user has deleted while their objects stay.
    let_go: BTreeMap<TemplateName, Arc<PreviousPlacement>>,
}

/// A binding as it was written.
struct WrittenBinding {
    wanted: Value,
    /// Where its object is.
    previous: Arc<PreviousPlacement>,
}

impl WrittenBinding {
    /// By which it is recognised.
    fn mark(&self) -> &str {
        mark(&self.wanted)
    }
}

fn mark(binding: &Value) -> &str {
    text(binding, &["metadata", "annotations", WRITTEN_ANNOTATION])
}

impl KnownBindings {
    /// Whether the binding of an object is as it was written, and no plan knows that yet.
    pub fn is_written(&self, name: &TemplateName, binding: &ControlPlaneObject) -> bool {
        let written = self.written.get(name);
        written.is_some_and(|written| is_as_wanted(&binding.object, &written.wanted))
    }

    /// Completes what was read.
    pub fn complete(&mut self, read: &mut ReadInputs) {
        let bindings = &read.bindings;
        self.written.retain(|name, written| {
            let current = bindings.get(name);
            current.is_none_or(|current| mark(&current.object) != written.mark())
        });
        for (name, written) in &self.written {
            let known = read.plan.previous.get(name);
            let previous = PreviousPlacement {
                // Of those the status says more.
                is_rebalanced: known.is_some_and(|known| known.is_rebalanced),
                ..PreviousPlacement::clone(&written.previous)
            };
            read.plan.previous.insert(name.clone(), Arc::new(previous));
        }
        for (name, previous) in &self.let_go {
            read.plan
                .previous
                .entry(name.clone())
                .or_insert_with(|| previous.clone());
        }
    }

    /// Notes what was written for a plan.
    pub fn written(
        &mut self,
        plan: &DistributionPlan,
        read: &ReadInputs,
        leftovers: &Leftovers,
        written: &WrittenBindings,
    ) {
        for name in &written.let_go {
            if let Some(previous) = read.plan.previous.get(name) {
                self.let_go.insert(name.clone(), previous.clone());
            }
        }
        for binding in &plan.bindings {
            let name = &binding.resource;
            let Some(wanted) = written.written.get(name) else {
                continue;
            };
            self.let_go.remove(name);
            let Ok(known) = KnownBinding::read(wanted) else {
                continue;
            };
            let previous = PreviousPlacement {
                affinity_name: binding.affinity_name.clone(),
                ..Arc::unwrap_or_clone(known.previous)
            };
            let written = WrittenBinding {
                wanted: wanted.clone(),
                previous: Arc::new(previous),
            };
            self.written.insert(name.clone(), written);
        }
        self.let_go.retain(|name, _| leftovers.has_template(name));
        self.written.retain(|name, _| leftovers.has_template(name));
    }
}

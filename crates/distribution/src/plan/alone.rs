//! Templates that are planned alone, because only their contents have changed.
//!
//! What a plan says of other objects follows from a template's metadata, from its replicas, from
//! what they require and from what it needs. Where all of that is as before, everything else is,
//! too, and planning the template alone says what planning everything would.

use fleetdex_interpreter::value::at;
use serde_json::{Map, Value};

use super::values::{DistributionPlan, PlannedBinding};
use crate::{
    desired::{LAST_APPLIED, write_order},
    template_name::TemplateName,
};

/// Whether a template has changed in nothing that other objects are placed by, as far as it says so
/// itself: its metadata is the same, and it is no kind that others wait for or are ordered by.
pub fn is_change_of_contents(name: &TemplateName, before: &Value, now: &Value) -> bool {
    let is_for_others = write_order(name) <= 1 || name.kind == "PriorityClass";
    !is_for_others && metadata(before) == metadata(now)
}

/// The metadata without what changes with the contents.
fn metadata(object: &Value) -> Option<Map<String, Value>> {
    let mut metadata = at(object, &["metadata"]).as_object().cloned()?;
    metadata.shift_remove("generation");
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        annotations.shift_remove(LAST_APPLIED);
        if annotations.is_empty() {
            metadata.shift_remove("annotations");
        }
    }
    Some(metadata)
}

impl DistributionPlan {
    /// Whether a plan of some templates alone holds among all others: each of them has its binding
    /// of before, and is written to all of its clusters.
    pub fn holds_alone(
        &self,
        number: usize,
        is_as_before: impl Fn(&PlannedBinding) -> bool,
    ) -> bool {
        let needs_nothing = |binding: &PlannedBinding| {
            let spec = binding.spec.as_ref();
            spec.is_some_and(|spec| !spec.propagate_deps)
        };
        self.conflicts.is_empty()
            && self.skipped.is_empty()
            && self.bindings.len() == number
            && self
                .bindings
                .iter()
                .all(|binding| needs_nothing(binding) && is_as_before(binding))
    }
}

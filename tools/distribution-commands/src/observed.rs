//! What of the members' objects matters to a plan.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_core::model::{CLUSTER_ANNOTATION, Gvk, REDACTED_ANNOTATION};
use fleetdex_distribution::{
    marks::{CopyOrigin, WRITTEN_ANNOTATION},
    object_text::ObjectText,
    plan::DistributionPlan,
    template_name::TemplateName,
    templates::CONTROL_PLANE_LABEL,
};
use fleetdex_interpreter::value::text;
use serde_json::{Map, Value, json};

use crate::redacted;

/// Members of the status that say how much room there is.
const STATUS_OF_ROOM: [&str; 3] = ["phase", "allocatable", "conditions"];
/// Members of the spec of a Pod that say nothing of room, and may be long.
const NOT_OF_ROOM: [&str; 4] = [
    "volumes",
    "imagePullSecrets",
    "hostAliases",
    "ephemeralContainers",
];

/// An object that a member has.
#[derive(Debug, PartialEq)]
pub struct ObservedObject {
    /// The member.
    pub cluster: String,
    /// Which object.
    pub name: TemplateName,
    /// The object.
    pub object: Value,
    /// Whether the index has not all of its values.
    pub is_redacted: bool,
}

/// Which objects of members matter.
pub struct ObservedFilter {
    planned: BTreeMap<(String, TemplateName), ObjectText>,
    /// The UID of the control plane; `None`: it is not known.
    control_plane: Option<Arc<str>>,
    /// The kinds of which all objects of the control plane are known.
    complete: BTreeSet<Gvk>,
}

impl ObservedFilter {
    /// For a plan that was made without them.
    pub fn new(
        plan: &DistributionPlan,
        control_plane: Option<Arc<str>>,
        complete: BTreeSet<Gvk>,
    ) -> Self {
        let planned = plan.objects.iter().map(|one| {
            let key = (one.cluster.clone(), one.resource.clone());
            (key, one.object.clone())
        });
        Self {
            planned: planned.collect(),
            control_plane,
            complete,
        }
    }

    /// An object as a plan compares it; `None`: it does not matter. One that another control plane
    /// has written counts as one that Fleetdex has not.
    pub fn keep(&self, kind: &Gvk, object: Value) -> Option<ObservedObject> {
        let mut object = typed(kind, object);
        let cluster = cluster_of(&object);
        let name = TemplateName::of(&object);
        let is_ours = self.has_written(&cluster, &object);
        let key = (cluster, name);
        let planned = self.planned.get(&key);
        let is_kept = planned.is_some() || (is_ours && self.complete.contains(kind));
        if key.0.is_empty() || !is_kept {
            return None;
        }
        if self.control_plane.is_some() && !is_ours {
            let labels = object.pointer_mut("/metadata/labels");
            if let Some(labels) = labels.and_then(Value::as_object_mut) {
                labels.shift_remove(CONTROL_PLANE_LABEL);
            }
        }
        let is_redacted =
            planned.is_some_and(|planned| redacted::restore(&mut object, &planned.value()));
        Some(ObservedObject {
            cluster: key.0,
            name: key.1,
            object,
            is_redacted,
        })
    }

    /// Whether this control plane has written an object.
    fn has_written(&self, cluster: &str, object: &Value) -> bool {
        let Some(control_plane) = &self.control_plane else {
            return false;
        };
        let origin = CopyOrigin {
            control_plane: Arc::clone(control_plane),
            cluster: cluster.into(),
        };
        // Of Secrets the index has no annotation with a hash of what was written.
        let redacted = text(object, &["metadata", "annotations", REDACTED_ANNOTATION]);
        let has_label =
            text(object, &["metadata", "labels", CONTROL_PLANE_LABEL]) == &**control_plane;
        origin.has_written(object) || (has_label && redacted.contains(WRITTEN_ANNOTATION))
    }
}

/// What says how much room there is, of a Node or a Pod; `None`: a Pod that has ended.
pub fn of_room(kind: &Gvk, object: &Value) -> Option<ObservedObject> {
    if matches!(text(object, &["status", "phase"]), "Succeeded" | "Failed") {
        return None;
    }
    let cluster = cluster_of(object);
    let mut spec = object["spec"].clone();
    if let Some(members) = spec.as_object_mut() {
        for member in NOT_OF_ROOM {
            members.shift_remove(member);
        }
        for list in ["containers", "initContainers"] {
            let containers = members.get_mut(list).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                *container = picked(container, &["name", "resources", "restartPolicy"]);
            }
        }
    }
    let kept = json!({
        "apiVersion": kind.api_version(), "kind": *kind.kind,
        "metadata": picked(&object["metadata"], &["name", "namespace", "labels"]),
        "spec": spec,
        "status": picked(&object["status"], &STATUS_OF_ROOM),
    });
    (!cluster.is_empty()).then(|| ObservedObject {
        cluster,
        name: TemplateName::of(&kept),
        object: kept,
        is_redacted: false,
    })
}

fn cluster_of(object: &Value) -> String {
    text(object, &["metadata", "annotations", CLUSTER_ANNOTATION]).to_owned()
}

fn picked(object: &Value, members: &[&str]) -> Value {
    let found = members.iter().filter_map(|&member| {
        let value = object.get(member)?;
        Some((member.to_owned(), value.clone()))
    });
    Value::Object(found.collect::<Map<String, Value>>())
}

/// An item with its type.
fn typed(kind: &Gvk, mut object: Value) -> Value {
    if let Some(members) = object.as_object_mut() {
        members.insert("apiVersion".to_owned(), kind.api_version().into());
        members.insert("kind".to_owned(), kind.kind.as_ref().into());
    }
    object
}

#[cfg(test)]
mod tests;

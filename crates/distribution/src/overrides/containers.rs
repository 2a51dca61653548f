//! Commands and arguments of containers.

use fleetdex_crds::policy::ContainerListOverrider;
use fleetdex_interpreter::value::text;
use serde_json::Value;

use super::failed_change::FailedChange;

/// Changes the items of `field` (`command` or `args`) of containers.
pub fn apply(
    object: &mut Value,
    field: &str,
    changes: &[ContainerListOverrider],
) -> Result<(), FailedChange> {
    let list = format!("{field}Overrider");
    for (index, change) in changes.iter().enumerate() {
        if !matches!(change.operator.as_str(), "add" | "remove") {
            let problem = format!("operator {:?} is not add or remove", change.operator);
            return Err(FailedChange::new(&list, index, problem));
        }
        let containers = containers_mut(object).into_iter().flatten();
        let named = containers
            .filter(|container| text(*container, &["name"]) == change.container_name)
            .filter_map(Value::as_object_mut);
        for container in named {
            let items = container.entry(field).or_insert(Value::Null);
            if items.is_null() {
                *items = Value::Array(Vec::new());
            }
            let Some(items) = items.as_array_mut() else {
                let problem = format!("{field} of the container is no list");
                return Err(FailedChange::new(&list, index, problem));
            };
            if change.operator == "add" {
                items.extend(change.value.iter().cloned().map(Value::String));
            } else {
                items.retain(|item| {
                    !change
                        .value
                        .iter()
                        .any(|value| item.as_str() == Some(value.as_str()))
                });
            }
        }
    }
    Ok(())
}

/// The containers of a Pod or a built-in workload, of any group, without its init containers.
pub fn containers_mut(object: &mut Value) -> Option<&mut Vec<Value>> {
    let pointer = match text(object, &["kind"]) {
        "Pod" => "/spec/containers",
        "Deployment" | "DaemonSet" | "StatefulSet" | "ReplicaSet" | "Job" => {
            "/spec/template/spec/containers"
        }
        _ => return None,
    };
    object.pointer_mut(pointer)?.as_array_mut()
}

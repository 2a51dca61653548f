//! Values that the index does not have: those of Secrets, and what registries redact. Whether a
//! member has other ones is not known, so they count as those of the plan.

use std::{collections::HashSet, ptr};

use fleetdex_core::{fuel::Fuel, json_path::JsonPath, model::REDACTED_ANNOTATION};
use fleetdex_interpreter::value::text;
use serde_json::Value;

/// The most steps that the paths of one object may take.
const STEPS: u64 = 1_000_000;

/// Puts values of the planned object where the index has removed those of the observed one. Returns
/// whether there were any.
pub fn restore(observed: &mut Value, planned: &Value) -> bool {
    let paths = text(observed, &["metadata", "annotations", REDACTED_ANNOTATION]).to_owned();
    if paths.is_empty() {
        return false;
    }
    let fuel = Fuel::new(STEPS);
    let selected: HashSet<*const Value> = paths
        .split(", ")
        .filter_map(|path| JsonPath::unambiguous(path).ok())
        .filter_map(|path| path.select(planned, &fuel).ok())
        .flatten()
        .map(ptr::from_ref)
        .collect();
    put(observed, planned, &selected);
    put_annotations(observed, planned);
    true
}

/// Puts the selected values of `planned` at their places.
fn put(observed: &mut Value, planned: &Value, selected: &HashSet<*const Value>) {
    match (observed, planned) {
        (observed, planned) if selected.contains(&ptr::from_ref(planned)) => {
            observed.clone_from(planned);
        }
        (Value::Object(observed), Value::Object(planned)) => {
            for (name, value) in planned {
                let is_selected = selected.contains(&ptr::from_ref(value));
                if let Some(found) = observed.get_mut(name) {
                    put(found, value, selected);
                } else if is_selected {
                    observed.insert(name.clone(), value.clone());
                }
            }
        }
        (Value::Array(observed), Value::Array(planned)) => {
            for (index, value) in planned.iter().enumerate() {
                let name = value.get("name");
                let position = observed.iter().position(|one| one.get("name") == name);
                let index = position.filter(|_| name.is_some()).unwrap_or(index);
                if let Some(found) = observed.get_mut(index) {
                    put(found, value, selected);
                }
            }
        }
        _ => {}
    }
}

/// Annotations without a value are those whose values are not stored.
fn put_annotations(observed: &mut Value, planned: &Value) {
    let found = observed.pointer_mut("/metadata/annotations");
    for (key, value) in found.and_then(Value::as_object_mut).into_iter().flatten() {
        let wanted = planned["metadata"]["annotations"].get(key);
        if let Some(wanted) = wanted
            && value.is_null()
        {
            value.clone_from(wanted);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn restored(paths: &str, observed: Value, planned: &Value) -> Value {
        let mut object = observed;
        object["metadata"]["annotations"][REDACTED_ANNOTATION] = paths.into();
        assert!(restore(&mut object, planned));
        let annotations = object["metadata"]["annotations"].as_object_mut().unwrap();
        annotations.shift_remove(REDACTED_ANNOTATION);
        object
    }

    #[test]
    fn values_that_are_not_indexed_are_those_of_the_plan() {
        let secret = json!({"metadata": {"annotations": {"a": "b"}}, "data": {"key": "eA=="}});
        let indexed = json!({"metadata": {"annotations": {"a": null}}});
        assert_eq!(
            restored("$.data, $.metadata.annotations['a']", indexed, &secret),
            secret
        );
        let container = |name: &str, more: Value| {
            let mut container = json!({"name": name, "image": more["image"]});
            if let Some(env) = more.get("env") {
                container["env"] = env.clone();
            }
            container
        };
        let of = |containers: Value| json!({"metadata": {"annotations": {}}, "spec": containers});
        let planned = of(json!([container("a", json!({"image": 1, "env": [1]}))]));
        let observed = of(json!([
            container("other", json!({"image": 3})),
            container("a", json!({"image": 2})),
        ]));
        let expected = of(json!([
            container("other", json!({"image": 3})),
            container("a", json!({"image": 2, "env": [1]})),
        ]));
        assert_eq!(restored("$.spec[*].env", observed, &planned), expected);
    }

    #[test]
    fn an_object_that_is_indexed_as_a_whole_stays() {
        let mut observed = json!({"metadata": {}, "data": {"a": "1"}});
        let before = observed.clone();
        assert!(!restore(&mut observed, &json!({"data": {"a": "2"}})));
        assert_eq!(observed, before);
    }
}

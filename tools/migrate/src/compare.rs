//! How a stored object differs from what was exported.

use serde_json::Value;

/// The paths below `spec` and of labels and annotations whose values are other than in `wanted`.
/// What a server adds, such as defaults, is no difference, and null is the same as absent.
pub fn changed_fields(wanted: &Value, stored: &Value) -> Vec<String> {
    let mut changed = Vec::new();
    add_changed("spec", &wanted["spec"], &stored["spec"], &mut changed);
    for field in ["labels", "annotations"] {
        let path = format!("metadata.{field}");
        let (wanted, stored) = (&wanted["metadata"][field], &stored["metadata"][field]);
        add_changed(&path, wanted, stored, &mut changed);
    }
    changed
}

fn add_changed(path: &str, wanted: &Value, stored: &Value, changed: &mut Vec<String>) {
    match (wanted, stored) {
        (Value::Null, _) => {}
        (Value::Object(wanted), stored) if stored.is_object() || stored.is_null() => {
            for (key, value) in wanted {
                add_changed(
                    &format!("{path}.{key}"),
                    value,
                    &stored[key.as_str()],
                    changed,
                );
            }
        }
        (Value::Array(wanted), Value::Array(stored)) if wanted.len() == stored.len() => {
            for (index, (wanted, stored)) in wanted.iter().zip(stored).enumerate() {
                add_changed(&format!("{path}[{index}]"), wanted, stored, changed);
            }
        }
        // Karmada writes empty lists and texts that Fleetdex leaves out.
        (wanted, Value::Null) if is_empty(wanted) => {}
        (wanted, stored) if wanted == stored => {}
        _ => changed.push(path.to_owned()),
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_str().is_some_and(str::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lost_and_changed_values_are_named_and_defaults_are_not() {
        let wanted = json!({
            "metadata": { "name": "web", "labels": { "team": "a" } },
            "spec": { "targetCluster": { "clusterNames": null, "exclude": [] },
                "resourceSelectors": [{ "kind": "Pod", "namespace": "" }, { "kind": "Node", "future": "x" }] },
        });
        let mut stored = json!({
            "metadata": { "name": "web", "labels": { "team": "a", "more": "b" } },
            "spec": { "targetCluster": {}, "resourceSelectors": [{ "kind": "Pod" }, { "kind": "Node", "future": "x" }], "interpret": "All" },
        });
        assert!(changed_fields(&wanted, &stored).is_empty());
        stored["metadata"]["labels"]["team"] = json!("c");
        stored["spec"]["resourceSelectors"][1] = json!({ "kind": "Nodes" });
        assert_eq!(
            changed_fields(&wanted, &stored),
            [
                "spec.resourceSelectors[1].kind",
                "spec.resourceSelectors[1].future",
                "metadata.labels.team"
            ]
        );
        stored["spec"]["resourceSelectors"] = json!([]);
        assert_eq!(
            changed_fields(&wanted, &stored),
            ["spec.resourceSelectors", "metadata.labels.team"]
        );
    }
}

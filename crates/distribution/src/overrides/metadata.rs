//! Labels and annotations.

use fleetdex_crds::policy::MetadataOverrider;
use serde_json::{Map, Value};

use super::failed_change::FailedChange;

/// Changes `labels` or `annotations`.
pub fn apply(
    object: &mut Value,
    field: &str,
    changes: &[MetadataOverrider],
) -> Result<(), FailedChange> {
    let list = format!("{field}Overrider");
    for (index, change) in changes.iter().enumerate() {
        let failed = |problem: String| FailedChange::new(&list, index, problem);
        let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
        let Some(metadata) = metadata else {
            return Err(failed("the object has no metadata".to_owned()));
        };
        let values = metadata.entry(field).or_insert(Value::Null);
        if values.is_null() {
            *values = Value::Object(Map::new());
        }
        let Some(values) = values.as_object_mut() else {
            return Err(failed(format!("metadata.{field} is no map")));
        };
        for (key, value) in &change.value {
            match change.operator.as_str() {
                "add" => {
                    values.insert(key.clone(), Value::String(value.clone()));
                }
                "replace" => {
                    if let Some(present) = values.get_mut(key) {
                        *present = Value::String(value.clone());
                    }
                }
                "remove" => {
                    values.shift_remove(key);
                }
                other => {
                    let problem = format!("operator {other:?} is not add, replace or remove");
                    return Err(failed(problem));
                }
            }
        }
        if values.is_empty() {
            metadata.shift_remove(field);
        }
    }
    Ok(())
}

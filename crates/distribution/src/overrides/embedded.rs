//! JSON and YAML within texts, such as files in a `ConfigMap`.

use fleetdex_core::yaml;
use fleetdex_crds::policy::{FieldOverrider, JsonPatchOverride};
use fleetdex_interpreter::bounded_patch::BoundedPatch;
use serde_json::Value;

use super::{failed_change::FailedChange, patch};

/// Changes texts that are themselves JSON or YAML.
pub fn apply(
    bounds: &mut BoundedPatch,
    object: &mut Value,
    changes: &[FieldOverrider],
) -> Result<(), FailedChange> {
    for (index, change) in changes.iter().enumerate() {
        apply_one(bounds, object, change)
            .map_err(|problem| FailedChange::new("fieldOverrider", index, problem))?;
    }
    Ok(())
}

fn apply_one(
    bounds: &mut BoundedPatch,
    object: &mut Value,
    change: &FieldOverrider,
) -> Result<(), String> {
    let path = &change.field_path;
    let Some(field) = object.pointer_mut(path) else {
        return Err(format!("there is no {path}"));
    };
    let Some(text) = field.as_str() else {
        return Err(format!("{path} is no text"));
    };
    let changed = if change.yaml.is_empty() {
        let document = serde_json::from_str(text).map_err(|error| format!("{path}: {error}"))?;
        let document = patched(bounds, document, &change.json)?;
        serde_json::to_string(&document).map_err(|error| error.to_string())?
    } else {
        let document = serde_saphyr::from_str(text)
            .map_err(|error| format!("{path}: {}", first_line(&error.to_string())))?;
        let document = patched(bounds, document, &change.yaml)?;
        yaml::to_string(&document).map_err(|error| error.to_string())?
    };
    *field = Value::String(changed);
    Ok(())
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

fn patched(
    bounds: &mut BoundedPatch,
    mut document: Value,
    changes: &[JsonPatchOverride],
) -> Result<Value, String> {
    for change in changes {
        let value = change.value.as_ref();
        patch::apply(
            bounds,
            &mut document,
            &change.operator,
            &change.sub_path,
            value,
        )?;
    }
    Ok(document)
}

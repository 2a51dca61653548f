//! The fields of a mapping.

use std::collections::BTreeMap;

use fleetdex_core::{
    kinds,
    model::{FieldPath, Gvk},
};
use serde_json::Value;

/// The selectable fields of all built-in kinds, which every index maps under their own paths.
pub fn built_in_fields() -> Vec<FieldPath> {
    let all = kinds::all().iter().flat_map(|kind| {
        let gvk = Gvk::new(kind.group, kind.version, kind.kind);
        kinds::selectable_fields(&gvk).unwrap_or_default()
    });
    let mut paths: Vec<FieldPath> = all
        .filter_map(|field| field.sources.first().cloned())
        .collect();
    paths.sort();
    paths.dedup();
    paths
}

/// The paths of a mapping's fields, each with its type in OpenSearch.
pub(crate) fn field_types(mapping: &Value) -> BTreeMap<String, String> {
    let mut types = BTreeMap::new();
    collect("", mapping, &mut types);
    types
}

fn collect(path: &str, node: &Value, types: &mut BTreeMap<String, String>) {
    if let Some(field_type) = node["type"].as_str() {
        types.insert(path.to_owned(), field_type.to_owned());
    }
    for (name, child) in node["properties"].as_object().into_iter().flatten() {
        let below = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        collect(&below, child, types);
    }
}

//! How values differ, for messages.

use std::collections::BTreeSet;

use fakes::apiserver::ClientWrite;
use serde_json::Value;

/// What a write has changed, for messages.
pub fn difference(write: &ClientWrite) -> String {
    let (Some(before), Some(after)) = (&write.before, &write.after) else {
        return "created or deleted".to_owned();
    };
    let mut found = Vec::new();
    collect_differences("", before, after, &mut found);
    found.retain(|one| {
        !one.contains("managedFields") && !one.starts_with(".metadata.resourceVersion")
    });
    match found.len() {
        0 => "no change".to_owned(),
        _ => found.join(", "),
    }
}

/// Notes every path at which two values differ.
pub fn collect_differences(path: &str, before: &Value, after: &Value, found: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(one), Value::Object(other)) => {
            let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            for name in names {
                let of = |members: &serde_json::Map<String, Value>| {
                    members.get(name).cloned().unwrap_or_default()
                };
                collect_differences(&format!("{path}.{name}"), &of(one), &of(other), found);
            }
        }
        (before, after) if before != after => {
            found.push(format!("{path}: {before} -> {after}"));
        }
        _ => {}
    }
}

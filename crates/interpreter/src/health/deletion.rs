//! Health of objects that are being deleted.

use serde_json::Value;

use super::{Assessment, Health};
use crate::value::{group, list, text};

/// How many finalizers a message names.
const MAX_FINALIZERS: usize = 8;

/// The assessment of an object whose deletion is pending; `None` for other objects.
///
/// Also `None` for namespaces: their rule tells a deletion that goes on from one that has failed.
/// Source: Argo CD, `gitops-engine/pkg/health/health.go`.
pub fn assess(object: &Value) -> Option<Assessment> {
    if text(object, &["metadata", "deletionTimestamp"]).is_empty() || is_namespace(object) {
        return None;
    }
    let finalizers: Vec<&str> = list(object, &["metadata", "finalizers"])
        .iter()
        .filter_map(Value::as_str)
        .take(MAX_FINALIZERS)
        .collect();
    let message = if finalizers.is_empty() {
        "pending deletion".to_owned()
    } else {
        format!(
            "pending deletion, waiting for finalizers: {}",
            finalizers.join(", ")
        )
    };
    Some(Assessment::new(Health::Progressing, "Deleting", &message))
}

fn is_namespace(object: &Value) -> bool {
    group(object).is_empty() && text(object, &["kind"]) == "Namespace"
}

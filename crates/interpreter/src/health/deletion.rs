//! Health of objects that are being deleted.

use super::Assessment;
use crate::value::{JsonView, group, list, text};

/// How many finalizers a message names.
const MAX_FINALIZERS: usize = 8;
/// Argo CD keeps a hook with it until the hook has ended, so that its health is what a deletion
/// waits for.
const HOOK_FINALIZER: &str = "argocd.argoproj.io/hook-finalizer";

/// The assessment of an object whose deletion is pending; `None` for other objects.
///
/// Also `None` for namespaces: their rule tells a deletion that goes on from one that has failed.
/// And for hooks of Argo CD, whose health counts until they are gone. Source: Argo CD,
/// `gitops-engine/pkg/health/health.go`.
pub fn assess<V: JsonView>(object: &V) -> Option<Assessment> {
    if text(object, &["metadata", "deletionTimestamp"]).is_empty() || is_namespace(object) {
        return None;
    }
    let finalizers = || {
        let finalizers = list(object, &["metadata", "finalizers"]).iter();
        finalizers.filter_map(V::as_text)
    };
    if finalizers().any(|finalizer| finalizer == HOOK_FINALIZER) {
        return None;
    }
    let finalizers: Vec<&str> = finalizers().take(MAX_FINALIZERS).collect();
    let message = if finalizers.is_empty() {
        "pending deletion".to_owned()
    } else {
        format!(
            "pending deletion, waiting for finalizers: {}",
            finalizers.join(", ")
        )
    };
    Some(Assessment::progressing("Deleting", &message))
}

fn is_namespace<V: JsonView>(object: &V) -> bool {
    group(object).is_empty() && text(object, &["kind"]) == "Namespace"
}

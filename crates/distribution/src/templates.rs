//! What is never propagated, whatever a policy selects.
//!
//! The control plane may be a real cluster with controllers of its own. What these make there is
//! made by the controllers of each member as well.

use fleetdex_interpreter::value::{flag, group, list, map, text};
use serde_json::Value;

/// Groups whose objects belong to a control plane.
const GROUPS: &[&str] = &[
    "apps.karmada.io",
    "autoscaling.karmada.io",
    "cluster.karmada.io",
    "config.karmada.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "distribute.fleetdex.io",
    "events.k8s.io",
    "metrics.k8s.io",
    "networking.karmada.io",
    "policy.karmada.io",
    "remedy.karmada.io",
    "search.fleetdex.io",
    "search.karmada.io",
    "work.karmada.io",
];

/// Kinds whose objects controllers make in every cluster: group, kind.
const KINDS: &[(&str, &str)] = &[
    ("", "Endpoints"),
    ("", "Event"),
    ("", "Node"),
    ("apps", "ControllerRevision"),
    ("certificates.k8s.io", "CertificateSigningRequest"),
];

/// Namespaces of the control plane itself.
const NAMESPACES: &[&str] = &["karmada-cluster", "karmada-system"];

/// The type of Secrets that keep what a set was rendered to.
pub const RENDERING_SECRET: &str = "distribute.fleetdex.io/rendering";

/// The types of Secrets that belong to one cluster.
const SECRET_TYPES: &[&str] = &[
    RENDERING_SECRET,
    "bootstrap.kubernetes.io/token",
    "helm.sh/release.v1",
    "kubernetes.io/service-account-token",
];

/// The label of objects that Fleetdex has written to a cluster: the UID of the control plane.
pub const CONTROL_PLANE_LABEL: &str = "distribute.fleetdex.io/control-plane";

/// Whether Fleetdex has written an object to its cluster.
pub fn is_distributed(object: &Value) -> bool {
    map(object, &["metadata", "labels"])
        .is_some_and(|labels| labels.contains_key(CONTROL_PLANE_LABEL))
}

/// The label with which Karmada marks objects that something else propagates.
const CLAIMED_BY_LABEL: &str = "resourcetemplate.karmada.io/claimed-by";

/// Whether no object of a kind is ever propagated.
pub fn is_never_propagated(group: &str, kind: &str) -> bool {
    GROUPS.contains(&group) || KINDS.contains(&(group, kind))
}

/// Why an object is never propagated; `None`: policies decide.
pub fn never_propagated(object: &Value) -> Option<&'static str> {
    let kind = text(object, &["kind"]);
    let name = text(object, &["metadata", "name"]);
    let namespace = match (group(object), kind) {
        ("", "Namespace") => name,
        _ => text(object, &["metadata", "namespace"]),
    };
    let has_label = |key: &str| {
        map(object, &["metadata", "labels"]).is_some_and(|labels| labels.contains_key(key))
    };
    let has_controller = list(object, &["metadata", "ownerReferences"])
        .iter()
        .any(|owner| flag(owner, &["controller"]));
    if is_distributed(object) {
        return Some("Fleetdex has distributed it to this cluster");
    }
    if has_label(CLAIMED_BY_LABEL) {
        return Some(
            "its label resourcetemplate.karmada.io/claimed-by leaves it to something else",
        );
    }
    if is_never_propagated(group(object), kind) {
        return Some("objects of its kind belong to one cluster");
    }
    if kind == "CustomResourceDefinition" && GROUPS.contains(&text(object, &["spec", "group"])) {
        return Some("it defines a kind whose objects belong to one cluster");
    }
    if namespace.starts_with("kube-")
        || namespace.starts_with("karmada-es-")
        || NAMESPACES.contains(&namespace)
    {
        return Some("its namespace belongs to the control plane");
    }
    if has_controller {
        return Some("a controller makes it from another object, and makes it in each cluster");
    }
    match (group(object), kind) {
        ("", "ConfigMap") if name == "kube-root-ca.crt" => {
            Some("each cluster has its own certificate authority")
        }
        ("", "ServiceAccount") if name == "default" => {
            Some("each namespace has this ServiceAccount already")
        }
        ("", "Namespace") if name == "default" => Some("each cluster has this namespace already"),
        ("", "Secret") if SECRET_TYPES.contains(&text(object, &["type"])) => {
            Some("Secrets of its type belong to one cluster")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;

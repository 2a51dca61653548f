//! The object without what belongs to the cluster that it comes from (`Prune`).
//!
//! Source: `prune.go` of Karmada's native interpreter, which prunes the manifests of a Work.

use serde_json::Value;

use super::{edit::remove, kind::NativeKind};
use crate::value::{at, flag, text};

/// What API servers and controllers fill in for objects of any kind. A blank stands between the
/// members of a path.
const OF_ALL_KINDS: &[&str] = &[
    "metadata creationTimestamp",
    "metadata deletionTimestamp",
    "metadata deletionGracePeriodSeconds",
    "metadata generation",
    "metadata managedFields",
    "metadata resourceVersion",
    "metadata selfLink",
    "metadata uid",
    "metadata ownerReferences",
    "metadata finalizers",
    "status",
];
const OF_DEPLOYMENTS: &[&str] = &[
    "metadata annotations deployment.kubernetes.io/revision",
    "metadata annotations deployment.kubernetes.io/revision-history",
];
const OF_JOBS: &[&str] = &[
    "spec selector matchLabels controller-uid",
    "spec selector matchLabels batch.kubernetes.io/controller-uid",
    "spec template metadata labels controller-uid",
    "spec template metadata labels job-name",
    "spec template metadata labels batch.kubernetes.io/controller-uid",
    "spec template metadata labels batch.kubernetes.io/job-name",
];
const OF_SERVICES: &[&str] = &["spec clusterIP", "spec clusterIPs"];
const OF_TOKEN_SECRETS: &[&str] = &[
    "data",
    "metadata annotations kubernetes.io/service-account.uid",
];
const OF_CLAIMS: &[&str] = &["metadata annotations volume.kubernetes.io/selected-node"];

/// The object without the members that its cluster filled in.
pub fn pruned(kind: Option<NativeKind>, object: &Value) -> Value {
    let mut pruned = object.clone();
    for path in OF_ALL_KINDS.iter().chain(of_kind(kind, object)) {
        remove(&mut pruned, &path.split(' ').collect::<Vec<_>>());
    }
    if kind == Some(NativeKind::ServiceAccount) {
        remove_token_secrets(&mut pruned);
    }
    pruned
}

fn of_kind(kind: Option<NativeKind>, object: &Value) -> &'static [&'static str] {
    match kind {
        Some(NativeKind::Deployment) => OF_DEPLOYMENTS,
        Some(NativeKind::Job) if !flag(object, &["spec", "manualSelector"]) => OF_JOBS,
        Some(NativeKind::Service) if has_allocated_address(object) => OF_SERVICES,
        Some(NativeKind::Secret)
            if text(object, &["type"]) == "kubernetes.io/service-account-token" =>
        {
            OF_TOKEN_SECRETS
        }
        Some(NativeKind::PersistentVolumeClaim) => OF_CLAIMS,
        _ => &[],
    }
}

/// Whether a Service has an address of its cluster. A user asks for a headless one with the address
/// `None`.
fn has_allocated_address(service: &Value) -> bool {
    at(service, &["spec", "clusterIP"])
        .as_str()
        .is_some_and(|address| address != "None")
}

/// Removes the secrets that a token controller made. Karmada leaves every second one of several in
/// a row.
fn remove_token_secrets(account: &mut Value) {
    let prefix = format!("{}-token-", text(account, &["metadata", "name"]));
    if let Some(Value::Array(secrets)) = account.get_mut("secrets") {
        secrets.retain(|secret| !text(secret, &["name"]).starts_with(&prefix));
    }
}

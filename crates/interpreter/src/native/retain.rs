//! The desired object with the values that its member owns (`Retain`).
//!
//! Source: `retain.go` of Karmada's native interpreter.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{
    edit::{set, set_or_remove},
    kind::NativeKind,
};
use crate::{
    InterpretError,
    value::{at, integer, list, text},
};

const RETAIN_REPLICAS_LABEL: &str = "resourcetemplate.karmada.io/retain-replicas";

/// The object to write; `None` if the kind has no rule.
pub fn retained(
    kind: NativeKind,
    desired: &Value,
    observed: &Value,
) -> Result<Option<Value>, InterpretError> {
    let mut object = desired.clone();
    match kind {
        NativeKind::Deployment => deployment(&mut object, observed)?,
        NativeKind::Pod => pod(&mut object, observed),
        NativeKind::Service => service(&mut object, observed),
        NativeKind::ServiceAccount => service_account(&mut object, observed),
        NativeKind::PersistentVolumeClaim => {
            let volume = text(observed, &["spec", "volumeName"]);
            if !volume.is_empty() {
                set(&mut object, &["spec", "volumeName"], volume.into());
            }
        }
        NativeKind::PersistentVolume => keep(&mut object, observed, &["spec", "claimRef"]),
        NativeKind::Job => {
            let template_labels = ["spec", "template", "metadata", "labels"];
            keep(&mut object, observed, &["spec", "selector", "matchLabels"]);
            keep(&mut object, observed, &template_labels);
        }
        NativeKind::Secret => secret(&mut object, observed),
        _ => return Ok(None),
    }
    Ok(Some(object))
}

/// Sets the map that the member has at a path, if it has one.
fn keep(object: &mut Value, observed: &Value, path: &[&str]) {
    let member = at(observed, path);
    if member.is_object() {
        set(object, path, member.clone());
    }
}

fn deployment(object: &mut Value, observed: &Value) -> Result<(), InterpretError> {
    if text(object, &["metadata", "labels", RETAIN_REPLICAS_LABEL]) != "true" {
        return Ok(());
    }
    let path = ["spec", "replicas"];
    let replicas = integer(observed, &path).ok_or_else(|| {
        InterpretError("observed Deployment has no spec.replicas to retain".to_owned())
    })?;
    set(object, &path, replicas.into());
    Ok(())
}

fn pod(object: &mut Value, observed: &Value) {
    for field in ["nodeName", "serviceAccountName", "volumes"] {
        let path = ["spec", field];
        set_or_remove(object, &path, at(observed, &path));
    }
    for field in ["containers", "initContainers"] {
        let mounts: HashMap<&str, &Value> = list(observed, &["spec", field])
            .iter()
            .map(|container| (text(container, &["name"]), at(container, &["volumeMounts"])))
            .collect();
        let containers = object
            .pointer_mut(&format!("/spec/{field}"))
            .and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            if let Some(mounts) = mounts.get(text(container, &["name"])).copied() {
                set_or_remove(container, &["volumeMounts"], mounts);
            }
        }
    }
}

fn service(object: &mut Value, observed: &Value) {
    let health_check = ["spec", "healthCheckNodePort"];
    if let Some(port) = integer(observed, &health_check).filter(|port| *port > 0) {
        set(object, &health_check, port.into());
    }
    let cluster_ip = text(observed, &["spec", "clusterIP"]);
    if !cluster_ip.is_empty() {
        set(object, &["spec", "clusterIP"], cluster_ip.into());
    }
}

/// The secrets of both, by name; the desired ones come first.
fn service_account(object: &mut Value, observed: &Value) {
    for field in ["secrets", "imagePullSecrets"] {
        let mut merged = list(object, &[field]).to_vec();
        let mut names: HashSet<&str> = list(object, &[field])
            .iter()
            .map(|secret| text(secret, &["name"]))
            .collect();
        // A reference without a name cannot be distinguished from another one, and refers to
        // nothing.
        names.insert("");
        for secret in list(observed, &[field]) {
            if names.insert(text(secret, &["name"])) {
                merged.push(secret.clone());
            }
        }
        if !merged.is_empty() {
            set(object, &[field], Value::Array(merged));
        }
    }
}

fn secret(object: &mut Value, observed: &Value) {
    if text(object, &["type"]) == "kubernetes.io/service-account-token" {
        keep(object, observed, &["data"]);
    }
}

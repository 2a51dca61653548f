//! Objects that other objects need (`InterpretDependency`).
//!
//! Source: `dependencies.go` of Karmada's native interpreter.

use std::collections::BTreeSet;

use serde_json::json;

use super::kind::NativeKind;
use crate::{
    InterpretError, pod_dependencies, relations,
    request::DependentObject,
    value::{Tree, at, list, text},
};

/// The objects that an object needs, each once; `None` if its kind has no rule.
pub(crate) fn of_object(
    kind: NativeKind,
    object: Tree<'_>,
) -> Result<Option<Vec<DependentObject>>, InterpretError> {
    let namespace = text(object, &["metadata", "namespace"]);
    let mut needed = match kind {
        NativeKind::Ingress => of_ingress(object, namespace)?,
        NativeKind::ServiceImport => of_service_import(object, namespace),
        NativeKind::Flux => of_flux(object),
        _ => match kind.pod_template(object) {
            Some(template) => pod_dependencies::of_pod_spec(at(template, &["spec"]), namespace),
            None => return Ok(None),
        },
    };
    if kind == NativeKind::StatefulSet {
        pod_dependencies::remove_claims_of_templates(&mut needed, object);
    }
    Ok(Some(needed))
}

/// A dependency needs a name, so that TLS without a secret is an error.
fn of_ingress(ingress: Tree<'_>, namespace: &str) -> Result<Vec<DependentObject>, InterpretError> {
    let mut names = BTreeSet::new();
    for (position, tls) in list(ingress, &["spec", "tls"]).iter().enumerate() {
        let name = text(tls, &["secretName"]);
        if name.is_empty() {
            let message = format!("spec.tls[{position}] of the Ingress has no secretName");
            return Err(InterpretError(message));
        }
        names.insert(name);
    }
    Ok(names
        .into_iter()
        .map(|name| DependentObject::by_name("v1", "Secret", namespace, name))
        .collect())
}

/// Karmada makes a Service `derived-…` of each import; its endpoints carry the name as a label.
fn of_service_import(import: Tree<'_>, namespace: &str) -> Vec<DependentObject> {
    let service = format!("derived-{}", text(import, &["metadata", "name"]));
    let endpoints = DependentObject {
        label_selector: Some(json!({"matchLabels": {"kubernetes.io/service-name": service}})),
        ..DependentObject::by_name("discovery.k8s.io/v1", "EndpointSlice", namespace, "")
    };
    vec![
        DependentObject::by_name("v1", "Service", namespace, &service),
        endpoints,
    ]
}

/// An object of Flux needs what the table of relations has for its kind. Names in free texts count
/// for search only: the values of a chart may name a Secret that does not belong in members.
///
/// Karmada leaves out sources, what an object waits for (`dependsOn`), and most Secrets of sources.
fn of_flux(object: Tree<'_>) -> Vec<DependentObject> {
    let references = relations::references_of_kind(object).into_iter();
    references
        .map(|found| {
            DependentObject::by_name(
                &found.api_version,
                &found.kind,
                &found.namespace,
                &found.name,
            )
        })
        .collect()
}

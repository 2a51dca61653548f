//! What the pod templates of an object refer to.

use std::collections::HashSet;

use serde_json::Value;

use super::{
    found::Found,
    paths,
    reference::{NamespaceRule, ObjectReference, Referrer, Target, read},
};
use crate::{
    native::dependencies,
    pod_template::{self, PodTemplate},
    request::DependentObject,
    value::{at, list, text},
};

/// Edges from the spec of a pod, beside [`dependencies::of_pod_template`].
const EDGES: &[(&str, Target)] = &[
    (
        "priorityClassName",
        target("hasClass", "scheduling.k8s.io", "PriorityClass"),
    ),
    (
        "runtimeClassName",
        target("hasClass", "node.k8s.io", "RuntimeClass"),
    ),
    (
        "resourceClaims[].resourceClaimName",
        target("uses", "resource.k8s.io", "ResourceClaim"),
    ),
    (
        "resourceClaims[].resourceClaimTemplateName",
        target("uses", "resource.k8s.io", "ResourceClaimTemplate"),
    ),
];

const MOUNTED_CLAIM: Target = target("mounts", "", "PersistentVolumeClaim");

const fn target(relation: &'static str, group: &'static str, kind: &'static str) -> Target {
    Target {
        group,
        kind,
        namespace: NamespaceRule::GivenOrOwn,
        relation,
    }
}

/// Adds what the pods of an object need and use.
pub(super) fn add(referrer: &Referrer<'_>, found: &mut Found) {
    let made_claims = claim_templates(referrer);
    for template in pod_template::find(referrer.object) {
        for needed in needs(referrer, &template, &made_claims) {
            found.add(ObjectReference::of_dependency(
                &needed,
                relation(&needed.kind),
            ));
        }
        for (path, target) in EDGES {
            paths::values(template.spec, path, &mut |value| {
                found.add(read(referrer, value, target));
            });
        }
    }
    if referrer.api_version == "v1" && referrer.kind == "Pod" {
        add_ephemeral_claims(referrer, found);
    }
}

/// What the pods of a template need, but for the claims that a stateful set makes from its templates.
fn needs(
    referrer: &Referrer<'_>,
    template: &PodTemplate<'_>,
    made_claims: &HashSet<&str>,
) -> Vec<DependentObject> {
    let mut needed = dependencies::of_pod_template(&template.as_template(), referrer.namespace);
    needed.retain(|object| {
        object.kind != "PersistentVolumeClaim" || !made_claims.contains(object.name.as_str())
    });
    needed
}

/// The names of the templates from which a stateful set makes claims.
fn claim_templates<'v>(referrer: &Referrer<'v>) -> HashSet<&'v str> {
    if referrer.kind != "StatefulSet" {
        return HashSet::new();
    }
    list(referrer.object, &["spec", "volumeClaimTemplates"])
        .iter()
        .map(|template| text(template, &["metadata", "name"]))
        .collect()
}

fn relation(kind: &str) -> &'static str {
    match kind {
        "ServiceAccount" => "runsAs",
        "PersistentVolumeClaim" => MOUNTED_CLAIM.relation,
        _ => "uses",
    }
}

/// Adds the claims of a pod's generic ephemeral volumes, which have its name and theirs.
/// Source: <https://kubernetes.io/docs/concepts/storage/ephemeral-volumes/#persistentvolumeclaim-naming>.
fn add_ephemeral_claims(referrer: &Referrer<'_>, found: &mut Found) {
    for volume in list(referrer.object, &["spec", "volumes"]) {
        let name = text(volume, &["name"]);
        if at(volume, &["ephemeral"]).is_object() && !name.is_empty() {
            let claim = Value::from(format!("{}-{name}", referrer.name));
            found.add(read(referrer, &claim, &MOUNTED_CLAIM));
        }
    }
}

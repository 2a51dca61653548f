//! What the pods of an object refer to.

use fleetdex_core::model::JsonTree;

use super::{
    found::Found,
    paths,
    reference::{NamespaceRule, ObjectReference, RUNS_AS, Referrer, Target, read},
};
use crate::{
    pod_dependencies,
    value::{Tree, at, list, text},
};

/// Edges from the spec of a pod, beside [`pod_dependencies::of_pod_spec`].
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

/// Where the spec of a pod names objects, beside what its containers and volumes need.
pub(crate) fn paths() -> impl Iterator<Item = &'static str> {
    EDGES.iter().map(|(path, _)| *path)
}

/// Adds what the pods of an object need and use.
pub(super) fn add(referrer: &Referrer<'_>, pods: &[Tree<'_>], found: &mut Found<'_>) {
    for spec in pods {
        let mut needs = pod_dependencies::of_pod_spec(spec, referrer.namespace);
        if referrer.kind == "StatefulSet" {
            pod_dependencies::remove_claims_of_templates(&mut needs, referrer.object);
        }
        for needed in needs {
            let relation = relation(&needed.kind);
            found.add(ObjectReference::of_dependency(needed, relation));
        }
        for (path, target) in EDGES {
            paths::values(spec, path, &mut |value| {
                found.add(read(referrer, value, target));
            });
        }
    }
    if referrer.api_version == "v1" && referrer.kind == "Pod" {
        add_ephemeral_claims(referrer, found);
    }
}

fn relation(kind: &str) -> &'static str {
    match kind {
        "ServiceAccount" => RUNS_AS,
        "PersistentVolumeClaim" => MOUNTED_CLAIM.relation,
        _ => "uses",
    }
}

/// Adds the claims of a pod's generic ephemeral volumes, which have its name and theirs. Source:
/// <https://kubernetes.io/docs/concepts/storage/ephemeral-volumes/#persistentvolumeclaim-naming>.
fn add_ephemeral_claims(referrer: &Referrer<'_>, found: &mut Found<'_>) {
    for volume in list(referrer.object, &["spec", "volumes"]) {
        let name = text(volume, &["name"]);
        if at(volume, &["ephemeral"]).is_object() && !name.is_empty() {
            let claim = JsonTree::String(format!("{}-{name}", referrer.name).into());
            found.add(read(referrer, &claim, &MOUNTED_CLAIM));
        }
    }
}

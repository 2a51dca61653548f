//! The pod templates of objects of any kind.
//!
//! Guarantee: a bounded number of templates, found by looking at a bounded number of values, in the
//! order of the document.

use std::sync::LazyLock;

use ahash::AHashSet;

use crate::{
    value::{Tree, at, group, list, text},
    walk::{self, Descend},
};

/// How many templates of one object are found.
pub const MAX_TEMPLATES: usize = 64;
/// How many containers decide whether a map looks like the spec of a pod.
const CONTAINERS_LOOKED_AT: usize = 64;

/// Kinds whose template is known: group, kind, and the way to what has the pod's `spec`.
const KNOWN: &[(&str, &str, &[&str])] = &[
    ("", "Pod", &[]),
    ("", "PodTemplate", &["template"]),
    ("", "ReplicationController", &["spec", "template"]),
    ("apps", "Deployment", &["spec", "template"]),
    ("apps", "StatefulSet", &["spec", "template"]),
    ("apps", "DaemonSet", &["spec", "template"]),
    ("apps", "ReplicaSet", &["spec", "template"]),
    ("extensions", "Deployment", &["spec", "template"]),
    ("extensions", "DaemonSet", &["spec", "template"]),
    ("extensions", "ReplicaSet", &["spec", "template"]),
    ("batch", "Job", &["spec", "template"]),
    (
        "batch",
        "CronJob",
        &["spec", "jobTemplate", "spec", "template"],
    ),
];

/// The groups of Kubernetes itself. All others are those of custom kinds.
static KUBERNETES_GROUPS: LazyLock<AHashSet<&str>> = LazyLock::new(|| {
    let groups = "admissionregistration.k8s.io apiextensions.k8s.io apiregistration.k8s.io apps \
         authentication.k8s.io authorization.k8s.io autoscaling batch certificates.k8s.io \
         coordination.k8s.io discovery.k8s.io events.k8s.io extensions \
         flowcontrol.apiserver.k8s.io internal.apiserver.k8s.io metrics.k8s.io networking.k8s.io \
         node.k8s.io policy rbac.authorization.k8s.io resource.k8s.io scheduling.k8s.io \
         storage.k8s.io storagemigration.k8s.io";
    groups.split_ascii_whitespace().chain([""]).collect()
});

/// The members of a pod's spec that have containers.
pub const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// The images of the containers of a pod's spec (init, regular, ephemeral) and of its image
/// volumes.
pub fn images(spec: Tree<'_>) -> impl Iterator<Item = &str> {
    let containers = CONTAINERS
        .into_iter()
        .flat_map(move |key| list(spec, &[key]))
        .map(|container| text(container, &["image"]));
    let volumes = list(spec, &["volumes"])
        .iter()
        .map(|volume| text(volume, &["image", "reference"]));
    containers.chain(volumes).filter(|image| !image.is_empty())
}

/// The specs of the pods that an object makes: in a kind of Kubernetes, the one where the kind has
/// it; in any other kind, every map at or below `spec` that looks like the spec of a pod (it has
/// containers, one of them with name and image), and the `spec` of one that looks like a pod
/// template (its `spec` has containers, one of them with an image).
pub fn pod_specs(object: Tree<'_>) -> Vec<Tree<'_>> {
    if is_custom(object) {
        return search(object);
    }
    known_path(group(object), text(object, &["kind"]))
        .and_then(|path| spec_of(at(object, path)))
        .into_iter()
        .collect()
}

/// The way to what has the pod's `spec` in objects of a kind of Kubernetes; `None` for kinds
/// without a template.
pub fn known_path(group: &str, kind: &str) -> Option<&'static [&'static str]> {
    let known = KNOWN.iter();
    known
        .filter(|known| known.0 == group && known.1 == kind)
        .map(|known| known.2)
        .next()
}

/// Whether an object's kind is none of Kubernetes itself.
pub fn is_custom(object: Tree<'_>) -> bool {
    !KUBERNETES_GROUPS.contains(group(object))
}

fn spec_of(template: Tree<'_>) -> Option<Tree<'_>> {
    template.get("spec").filter(|spec| spec.is_object())
}

fn search(object: Tree<'_>) -> Vec<Tree<'_>> {
    if has_pod_spec(object) {
        return spec_of(object).into_iter().collect();
    }
    let mut found = Vec::new();
    walk::maps(at(object, &["spec"]), &mut |value| {
        if found.len() == MAX_TEMPLATES {
            return Descend::No;
        }
        let spec = if has_pod_spec(value) {
            spec_of(value)
        } else {
            Some(value).filter(|value| is_pod_spec(value))
        };
        found.extend(spec);
        spec.map_or(Descend::Yes, |_| Descend::No)
    });
    found
}

fn has_pod_spec(value: Tree<'_>) -> bool {
    list(value, &["spec", "containers"])
        .iter()
        .take(CONTAINERS_LOOKED_AT)
        .any(|container| !text(container, &["image"]).is_empty())
}

fn is_pod_spec(value: Tree<'_>) -> bool {
    list(value, &["containers"])
        .iter()
        .take(CONTAINERS_LOOKED_AT)
        .any(|container| {
            !text(container, &["image"]).is_empty() && !text(container, &["name"]).is_empty()
        })
}

#[cfg(test)]
mod tests;

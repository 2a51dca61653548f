//! The pod templates of objects of any kind.
//!
//! Guarantee: a bounded number of templates, found by looking at a bounded number of values, in the order of the document.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::{
    value::{at, group, list, text},
    walk::{self, Descend, Step, path_text},
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
const KUBERNETES_GROUPS: &[&str] = &[
    "",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "extensions",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "metrics.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

/// A pod template in an object.
#[derive(Clone, Debug)]
pub struct PodTemplate<'v> {
    /// Where the pod's spec is, such as `spec.template.spec`.
    pub path: String,
    /// The pod's spec.
    pub spec: &'v Value,
    /// What has the spec as its member `spec`, if anything has.
    enclosing: Option<&'v Value>,
}

impl<'v> PodTemplate<'v> {
    /// The template as Kubernetes has it: a map with the pod's `spec`.
    pub fn as_template(&self) -> Cow<'v, Value> {
        match self.enclosing {
            Some(template) => Cow::Borrowed(template),
            None => Cow::Owned(json!({ "spec": self.spec })),
        }
    }

    /// The images of its containers (init, regular, ephemeral) and of its image volumes.
    pub fn images(&self) -> impl Iterator<Item = &'v str> + use<'v> {
        let spec = self.spec;
        let containers = ["initContainers", "containers", "ephemeralContainers"]
            .into_iter()
            .flat_map(move |key| list(spec, &[key]))
            .map(|container| text(container, &["image"]));
        let volumes = list(spec, &["volumes"])
            .iter()
            .map(|volume| text(volume, &["image", "reference"]));
        containers.chain(volumes).filter(|image| !image.is_empty())
    }
}

/// The pod templates of an object: of a kind of Kubernetes, the one where the kind has it; of any other kind, every map at or below
/// `spec` that looks like a pod template (its `spec` has containers, one of them with an image) or like the spec of a pod (it has
/// containers, one of them with name and image).
pub fn find(object: &Value) -> Vec<PodTemplate<'_>> {
    if is_custom(object) {
        return search(object);
    }
    let (group, kind) = (group(object), text(object, &["kind"]));
    KNOWN
        .iter()
        .find(|known| known.0 == group && known.1 == kind)
        .and_then(|known| at_known_path(object, known.2))
        .into_iter()
        .collect()
}

/// Whether an object's kind is none of Kubernetes itself.
pub fn is_custom(object: &Value) -> bool {
    !KUBERNETES_GROUPS.contains(&group(object))
}

fn at_known_path<'v>(object: &'v Value, path: &[&'v str]) -> Option<PodTemplate<'v>> {
    let template = at(object, path);
    let spec = template.get("spec").filter(|spec| spec.is_object())?;
    let mut steps: Vec<Step<'v>> = path.iter().map(|key| Step::Key(key)).collect();
    steps.push(Step::Key("spec"));
    Some(PodTemplate {
        path: path_text(&steps),
        spec,
        enclosing: Some(template),
    })
}

fn search(object: &Value) -> Vec<PodTemplate<'_>> {
    if has_pod_spec(object) {
        return at_known_path(object, &[]).into_iter().collect();
    }
    let mut found = Vec::new();
    walk::maps(at(object, &["spec"]), &mut |path, value| {
        if found.len() == MAX_TEMPLATES {
            return Descend::No;
        }
        let below: &[Step<'_>] = if has_pod_spec(value) {
            &[Step::Key("spec")]
        } else if is_pod_spec(value) {
            &[]
        } else {
            return Descend::Yes;
        };
        let path = [&[Step::Key("spec")], path, below].concat();
        found.push(PodTemplate {
            path: path_text(&path),
            spec: value
                .get("spec")
                .filter(|_| !below.is_empty())
                .unwrap_or(value),
            enclosing: (!below.is_empty()).then_some(value),
        });
        Descend::No
    });
    found
}

fn has_pod_spec(value: &Value) -> bool {
    list(value, &["spec", "containers"])
        .iter()
        .take(CONTAINERS_LOOKED_AT)
        .any(|container| !text(container, &["image"]).is_empty())
}

fn is_pod_spec(value: &Value) -> bool {
    list(value, &["containers"])
        .iter()
        .take(CONTAINERS_LOOKED_AT)
        .any(|container| {
            !text(container, &["image"]).is_empty() && !text(container, &["name"]).is_empty()
        })
}

#[cfg(test)]
mod tests;

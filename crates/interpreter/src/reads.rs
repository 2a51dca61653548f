//! Which members of an object the built-in rules read, so that the indexing path does not parse all
//! others.
//!
//! Only kinds of which clusters have many objects, or large ones, are listed. Of all others
//! everything is read. Tests hold each table of rules to what these members alone result in.

use fleetdex_core::model::{Gvk, MemberMask};

use crate::{pod_dependencies, pod_template, relations};

/// What the rules for every kind read: deletion, names, generations and pauses.
const OF_EVERY_KIND: &str = "metadata.name metadata.namespace metadata.generation \
     metadata.deletionTimestamp metadata.finalizers status.observedGeneration";
/// What the generic rule of health reads besides.
const OF_GENERIC_HEALTH: &str = "metadata.annotations spec status";
/// What is read of a container.
const OF_CONTAINER: &str = "image env.valueFrom.configMapKeyRef.name \
     env.valueFrom.secretKeyRef.name envFrom resources.requests.cpu resources.requests.memory \
     resources.limits.cpu resources.limits.memory";
/// What is read of the spec of a pod besides its containers.
const OF_POD_SPEC: &str = "imagePullSecrets overhead.cpu overhead.memory serviceAccountName \
     volumes.configMap.name volumes.ephemeral volumes.image.reference volumes.name \
     volumes.persistentVolumeClaim.claimName volumes.projected.sources.configMap.name \
     volumes.projected.sources.secret.name";
/// What the health of a pod reads.
const OF_POD_HEALTH: &str = "metadata.ownerReferences.apiVersion metadata.ownerReferences.kind \
     status.phase status.reason status.message status.conditions.type status.conditions.status \
     status.conditions.reason status.conditions.message";
/// What the health of a pod reads of the status of a container.
const OF_CONTAINER_STATUS: &str =
    "name restartCount state.waiting state.terminated lastState.terminated";
/// What health and replicas read of objects that manage pods.
const OF_WORKLOAD: &str = "spec.completions spec.minReadySeconds spec.parallelism spec.paused \
     spec.replicas spec.suspend spec.updateStrategy spec.volumeClaimTemplates.metadata.name status";

/// The members of a kind's objects that the built-in rules read.
pub fn of_kind(gvk: &Gvk) -> MemberMask {
    let health = match (&*gvk.group, &*gvk.kind) {
        ("", "Pod") => OF_POD_HEALTH,
        ("apps" | "extensions", "Deployment" | "ReplicaSet" | "DaemonSet")
        | ("apps", "StatefulSet")
        | ("batch", "Job" | "CronJob")
        | ("", "ReplicationController") => OF_WORKLOAD,
        ("", "ConfigMap" | "Event" | "Secret")
        | ("coordination.k8s.io", "Lease")
        | ("discovery.k8s.io", "EndpointSlice")
        | ("events.k8s.io", "Event") => OF_GENERIC_HEALTH,
        _ => return MemberMask::everything().clone(),
    };
    let mut mask = MemberMask::default();
    for path in paths(OF_EVERY_KIND).chain(paths(health)) {
        mask.add(path.split('.'));
    }
    if &*gvk.kind == "Pod" {
        for statuses in ["containerStatuses", "initContainerStatuses"] {
            for path in paths(OF_CONTAINER_STATUS) {
                mask.add(["status", statuses].into_iter().chain(path.split('.')));
            }
        }
    }
    for path in relations::paths_of_kind(&gvk.group, &gvk.kind) {
        mask.add(path);
    }
    if let Some(template) = pod_template::known_path(&gvk.group, &gvk.kind) {
        add_pod_spec(&mut mask, template);
    }
    mask
}

fn paths(list: &'static str) -> impl Iterator<Item = &'static str> {
    list.split_ascii_whitespace()
}

/// Adds what is read of the spec of a pod, which is in what a path leads to.
fn add_pod_spec(mask: &mut MemberMask, template: &[&str]) {
    let spec = || template.iter().copied().chain(["spec"]);
    for path in pod_template::CONTAINERS {
        for below in paths(OF_CONTAINER) {
            mask.add(spec().chain([path]).chain(below.split('.')));
        }
    }
    for path in paths(OF_POD_SPEC).chain(relations::pod_paths()) {
        mask.add(
            spec()
                .chain(path.split('.'))
                .map(relations::without_brackets),
        );
    }
    for path in pod_dependencies::SECRETS_OF_VOLUMES {
        mask.add(spec().chain(["volumes"]).chain(path.iter().copied()));
    }
}

/// Fails if the rules result in something else when they see nothing but these members.
#[cfg(test)]
pub(crate) fn assert_sufficient(object: &serde_json::Value) {
    use fleetdex_core::model::JsonTree;
    use serde_json::Value;

    use crate::{
        health::{self, KnownStatus},
        summary::summarize,
        value::{group, text, version},
    };

    let gvk = Gvk::new(group(object), version(object), text(object, &["kind"]));
    let json = object.to_string();
    let mut mask = of_kind(&gvk);
    // A tree of an object always has these.
    mask.add(["apiVersion"]);
    mask.add(["kind"]);
    let read = JsonTree::parse(&json, &mask);
    let by_all = summarize(&object.into(), KnownStatus::Written);
    assert_eq!(summarize(&read, KnownStatus::Written), by_all, "{object}");
    // The cause of what a webhook calls unhealthy.
    let by_all = health::from_boolean(object, false);
    assert_eq!(
        health::from_boolean(&Value::from(&read), false),
        by_all,
        "{object}"
    );
}

//! Objects that pods need: config maps, secrets, service account, persistent volume claims.
//!
//! Source: `dependencies.go` of Karmada's native interpreter.

use std::collections::{BTreeSet, HashSet};

use fleetdex_core::model::TreeMembers;

use crate::{
    pod_template::CONTAINERS,
    request::DependentObject,
    value::{Tree, at, list, text},
};

/// Where a volume names the one Secret that it needs.
pub const SECRETS_OF_VOLUMES: &[&[&str]] = &[
    &["secret", "secretName"],
    &["azureFile", "secretName"],
    &["cephfs", "secretRef", "name"],
    &["cinder", "secretRef", "name"],
    &["flexVolume", "secretRef", "name"],
    &["rbd", "secretRef", "name"],
    &["scaleIO", "secretRef", "name"],
    &["iscsi", "secretRef", "name"],
    &["storageos", "secretRef", "name"],
    &["csi", "nodePublishSecretRef", "name"],
];

/// The objects that pods of a spec need: config maps, secrets, service account, persistent volume
/// claims, each once. An empty namespace stays empty.
pub fn of_pod_spec(spec: Tree<'_>, namespace: &str) -> Vec<DependentObject> {
    let mut names = Names::default();
    for secret in list(spec, &["imagePullSecrets"]) {
        names.add(SECRET, secret, &["name"]);
    }
    for container in CONTAINERS.iter().flat_map(|field| list(spec, &[*field])) {
        names.add_container(container);
    }
    for volume in list(spec, &["volumes"]) {
        names.add_volume(volume);
    }
    // Every namespace has an account of the name `default`.
    if text(spec, &["serviceAccountName"]) != "default" {
        names.add(SERVICE_ACCOUNT, spec, &["serviceAccountName"]);
    }
    let needed = names.0.into_iter();
    needed
        .map(|((_, kind), name)| DependentObject::by_name("v1", kind, namespace, name))
        .collect()
}

/// A kind that pods need, after its place in the order of the dependencies.
type NeededKind = (u8, &'static str);

const CONFIG_MAP: NeededKind = (0, "ConfigMap");
const SECRET: NeededKind = (1, "Secret");
const SERVICE_ACCOUNT: NeededKind = (2, "ServiceAccount");
const CLAIM: NeededKind = (3, "PersistentVolumeClaim");

/// What the pods of a template refer to.
#[derive(Default)]
struct Names<'t>(BTreeSet<(NeededKind, &'t str)>);

impl<'t> Names<'t> {
    /// Adds the name at a path, if there is one.
    fn add(&mut self, kind: NeededKind, value: Tree<'t>, path: &[&str]) {
        let name = text(value, path);
        if !name.is_empty() {
            self.0.insert((kind, name));
        }
    }

    fn add_container(&mut self, container: Tree<'t>) {
        for source in list(container, &["envFrom"]) {
            self.add(CONFIG_MAP, source, &["configMapRef", "name"]);
            self.add(SECRET, source, &["secretRef", "name"]);
        }
        for variable in list(container, &["env"]) {
            let source = at(variable, &["valueFrom"]);
            self.add(CONFIG_MAP, source, &["configMapKeyRef", "name"]);
            self.add(SECRET, source, &["secretKeyRef", "name"]);
        }
    }

    fn add_volume(&mut self, volume: Tree<'t>) {
        for (key, source) in volume.as_object().into_iter().flat_map(TreeMembers::iter) {
            match key {
                "configMap" => self.add(CONFIG_MAP, source, &["name"]),
                "persistentVolumeClaim" => {
                    self.add(CLAIM, source, &["claimName"]);
                }
                "projected" => self.add_projected(source),
                _ => {
                    for path in SECRETS_OF_VOLUMES.iter().filter(|path| path[0] == key) {
                        self.add(SECRET, source, &path[1..]);
                    }
                }
            }
        }
    }

    fn add_projected(&mut self, volume: Tree<'t>) {
        for source in list(volume, &["sources"]) {
            self.add(CONFIG_MAP, source, &["configMap", "name"]);
            self.add(SECRET, source, &["secret", "name"]);
        }
    }
}

/// A `StatefulSet` makes the claims of its templates itself.
pub fn remove_claims_of_templates(needed: &mut Vec<DependentObject>, set: Tree<'_>) {
    let made: HashSet<&str> = list(set, &["spec", "volumeClaimTemplates"])
        .iter()
        .map(|claim| text(claim, &["metadata", "name"]))
        .collect();
    needed.retain(|object| {
        object.kind != "PersistentVolumeClaim" || !made.contains(object.name.as_str())
    });
}

//! The `ConfigMap`s and Secrets that a source names.

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_crds::distribution::DistributionSource;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};

use crate::fetch::BasicCredentials;

/// Objects by namespace and name.
#[derive(Clone, Debug, Default)]
pub struct NamedObjects {
    /// The `ConfigMap`s.
    pub config_maps: BTreeMap<(String, String), ConfigMap>,
    /// The Secrets.
    pub secrets: BTreeMap<(String, String), Secret>,
    /// What is said of one that is missing, such as `does not exist`.
    pub missing: &'static str,
}

/// An object that a source names is missing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {namespace}/{name} {problem}")]
pub struct MissingObject {
    kind: &'static str,
    namespace: String,
    name: String,
    problem: &'static str,
}

/// The kind of an object that a source names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NamedKind {
    /// A `ConfigMap`.
    ConfigMap,
    /// A Secret.
    Secret,
}

impl NamedKind {
    /// Its plural in paths and rights.
    pub fn plural(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmaps",
            Self::Secret => "secrets",
        }
    }
}

impl NamedObjects {
    /// A `ConfigMap`.
    pub fn config_map(&self, namespace: &str, name: &str) -> Result<&ConfigMap, MissingObject> {
        let found = self.config_maps.get(&key(namespace, name));
        found.ok_or_else(|| self.missing("ConfigMap", namespace, name))
    }

    /// A Secret.
    pub fn secret(&self, namespace: &str, name: &str) -> Result<&Secret, MissingObject> {
        let found = self.secrets.get(&key(namespace, name));
        found.ok_or_else(|| self.missing("Secret", namespace, name))
    }

    fn missing(&self, kind: &'static str, namespace: &str, name: &str) -> MissingObject {
        MissingObject {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            problem: self.missing,
        }
    }
}

fn key(namespace: &str, name: &str) -> (String, String) {
    (namespace.to_owned(), name.to_owned())
}

/// The objects that a source names, which are in the namespace of its `Distribution`.
pub fn named_by(source: &DistributionSource) -> BTreeSet<(NamedKind, String)> {
    let helm = source.helm.as_ref();
    let folder = source.kustomize.as_ref();
    let manifests = source.manifests.as_ref();
    let config_maps = [
        helm.and_then(|one| one.config_map_ref.as_ref()),
        folder.and_then(|one| one.config_map_ref.as_ref()),
        manifests.and_then(|one| one.config_map_ref.as_ref()),
    ];
    let secrets = [
        helm.and_then(|one| one.secret_ref.as_ref()),
        folder.and_then(|one| one.secret_ref.as_ref()),
    ];
    let values = helm.into_iter().flat_map(|one| &one.values_from);
    let values = values.map(|one| match one.kind.as_str() {
        "Secret" => (NamedKind::Secret, one.name.clone()),
        _ => (NamedKind::ConfigMap, one.name.clone()),
    });
    let config_maps = config_maps.into_iter().flatten();
    let secrets = secrets.into_iter().flatten();
    config_maps
        .map(|one| (NamedKind::ConfigMap, one.name.clone()))
        .chain(secrets.map(|one| (NamedKind::Secret, one.name.clone())))
        .chain(values)
        .collect()
}

/// The user and the password of a Secret.
pub fn basic_credentials(secret: &Secret) -> Option<BasicCredentials> {
    Some(BasicCredentials {
        username: secret_text(secret, "username")?,
        password: secret_text(secret, "password")?,
    })
}

/// A text of a Secret; `stringData` takes precedence, as on the API server.
pub fn secret_text(secret: &Secret, key: &str) -> Option<String> {
    let plain = secret.string_data.as_ref().and_then(|all| all.get(key));
    plain.cloned().or_else(|| {
        let bytes = secret.data.as_ref()?.get(key)?;
        String::from_utf8(bytes.0.clone()).ok()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn everything_that_a_source_names_is_found() {
        for (source, expected) in [
            (
                json!({"helm": {
                    "configMapRef": {"name": "chart", "key": "web.tgz"},
                    "secretRef": {"name": "registry"},
                    "valuesFrom": [
                        {"kind": "ConfigMap", "name": "common"}, {"kind": "Secret", "name": "db"},
                        {"kind": "Secret", "name": "db", "valuesKey": "other"},
                    ],
                }}),
                vec!["chart", "common", "db", "registry"],
            ),
            (
                json!({"kustomize": {"configMapRef": {"name": "folder", "key": "a"}}}),
                vec!["folder"],
            ),
            (
                json!({"manifests": {"configMapRef": {"name": "all", "key": "a"}}}),
                vec!["all"],
            ),
            (json!({"manifests": {"inline": "a"}}), vec![]),
        ] {
            let source: DistributionSource = serde_json::from_value(source).unwrap();
            let names = named_by(&source);
            let names: Vec<&str> = names.iter().map(|(_, name)| name.as_str()).collect();
            assert_eq!(names, expected);
        }
    }
}

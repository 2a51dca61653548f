//! The objects of files: `Distribution`s, what they name, and clusters.

use fleetdex_cli::documents::SourceDocument;
use fleetdex_core::model::quoted;
use fleetdex_crds::{cluster::Cluster, distribution::Distribution};
use fleetdex_rendering::named_objects::NamedObjects;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The namespace of an object that names none.
const DEFAULT_NAMESPACE: &str = "default";

/// Objects by namespace and name.
pub(crate) struct GivenObjects {
    pub(crate) distributions: Vec<Distribution>,
    pub(crate) clusters: Vec<Cluster>,
    pub(crate) named: NamedObjects,
}

/// The files do not have what is needed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GivenError {
    #[error("{source_name}: this {kind} cannot be read")]
    Read {
        source_name: String,
        kind: String,
        source: serde_json::Error,
    },
    #[error("no file of --filename has a Distribution of distribute.fleetdex.io/v1alpha1")]
    None,
}

impl GivenObjects {
    /// Objects of other kinds are ignored: files may have more than what is rendered.
    pub(crate) fn of(documents: Vec<SourceDocument>) -> Result<Self, GivenError> {
        let mut given = Self {
            distributions: Vec::new(),
            clusters: Vec::new(),
            named: NamedObjects {
                missing: "is in no file of --filename: add it",
                ..NamedObjects::default()
            },
        };
        for SourceDocument { source, content } in documents {
            let text = |field: &str| content[field].as_str().unwrap_or_default().to_owned();
            let key = key_of(&content);
            match (&*text("apiVersion"), &*text("kind")) {
                ("distribute.fleetdex.io/v1alpha1", "Distribution") => {
                    given.distributions.push(read(&source, content)?);
                }
                ("cluster.karmada.io/v1alpha1", "Cluster") => {
                    given.clusters.push(read(&source, content)?);
                }
                ("v1", "ConfigMap") => {
                    given.named.config_maps.insert(key, read(&source, content)?);
                }
                ("v1", "Secret") => {
                    given.named.secrets.insert(key, read(&source, content)?);
                }
                _ => {}
            }
        }
        if given.distributions.is_empty() {
            return Err(GivenError::None);
        }
        Ok(given)
    }
}

/// The namespace of an object.
pub(crate) fn namespace_of(namespace: Option<&str>) -> &str {
    namespace
        .filter(|namespace| !namespace.is_empty())
        .unwrap_or(DEFAULT_NAMESPACE)
}

fn key_of(object: &Value) -> (String, String) {
    let metadata = &object["metadata"];
    let namespace = namespace_of(metadata["namespace"].as_str());
    let name = metadata["name"].as_str().unwrap_or_default();
    (namespace.to_owned(), name.to_owned())
}

fn read<T: DeserializeOwned>(source_name: &str, content: Value) -> Result<T, GivenError> {
    let kind = content["kind"].as_str().map(quoted).unwrap_or_default();
    serde_json::from_value(content).map_err(|source| GivenError::Read {
        source_name: source_name.to_owned(),
        kind,
        source,
    })
}

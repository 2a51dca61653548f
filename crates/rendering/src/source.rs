//! What is rendered, as values: fetched, resolved and merged before.

use std::collections::BTreeSet;

use fleetdex_core::model::is_dns_label;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::archive::Archive;

/// The longest name of a release. Source: `maxReleaseNameLen` of helm's `pkg/chart/v2/util`.
pub const MAX_RELEASE_NAME: usize = 53;

/// What is rendered.
#[derive(Clone, Debug, PartialEq)]
pub enum RenderSource {
    /// A chart, by helm.
    Helm(HelmSource),
    /// A folder, by kustomize.
    Kustomize(KustomizeSource),
    /// Objects as they are: YAML or JSON.
    Manifests(String),
}

/// A chart and its values.
#[derive(Clone, Debug, PartialEq)]
pub struct HelmSource {
    /// The chart.
    pub chart: Archive,
    /// The name of the release.
    pub release_name: String,
    /// The namespace of the release.
    pub namespace: String,
    /// Values over those of the chart; `null` removes one of the chart.
    pub values: Map<String, Value>,
}

/// A folder with a kustomization, and what is changed of it.
#[derive(Clone, Debug, PartialEq)]
pub struct KustomizeSource {
    /// The folder.
    pub folder: Archive,
    /// The kustomization within it; empty: at its root.
    pub path: String,
    /// What is changed.
    pub overlay: KustomizeOverlay,
}

/// The fields of a kustomization over that of a folder.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct KustomizeOverlay {
    /// The namespace of all objects; empty: as in the folder.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Images by other names, tags or digests: `images` of a kustomization.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Value>,
    /// `patches` of a kustomization.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<Value>,
}

/// What the clusters have that objects are rendered for.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Capabilities {
    kubernetes_version: String,
    api_versions: BTreeSet<String>,
}

impl Capabilities {
    /// A version such as `1.34.0` (empty: that of the renderer), and API versions such as `apps/v1`
    /// and `apps/v1/Deployment`. helm adds these to those that it knows by itself.
    pub fn new(kubernetes_version: &str, api_versions: impl IntoIterator<Item = String>) -> Self {
        Self {
            kubernetes_version: kubernetes_version.trim_start_matches('v').to_owned(),
            api_versions: api_versions.into_iter().collect(),
        }
    }

    /// The version of Kubernetes, without `v`; empty: that of the renderer.
    pub fn kubernetes_version(&self) -> &str {
        &self.kubernetes_version
    }

    /// The API versions, each once and in order.
    pub fn api_versions(&self) -> impl Iterator<Item = &str> {
        self.api_versions.iter().map(String::as_str)
    }

    /// The same without some of the API versions.
    #[must_use]
    pub fn without(&self, api_versions: &BTreeSet<String>) -> Self {
        Self {
            kubernetes_version: self.kubernetes_version.clone(),
            api_versions: &self.api_versions - api_versions,
        }
    }

    /// This version, with the API versions that both have.
    #[must_use]
    pub fn common(&self, other: &Self) -> Self {
        Self {
            kubernetes_version: self.kubernetes_version.clone(),
            api_versions: &self.api_versions & &other.api_versions,
        }
    }

    /// How many of the API versions another one does not have.
    pub fn missing_in(&self, other: &Self) -> usize {
        self.api_versions.difference(&other.api_versions).count()
    }

    /// How many bytes it takes in memory, approximately.
    pub fn size(&self) -> usize {
        let texts = self.api_versions.iter();
        texts.map(|text| text.len() + size_of::<String>()).sum()
    }
}

/// Whether helm takes it as the name of a release: DNS labels with dots between them, of at most
/// [`MAX_RELEASE_NAME`] characters.
pub fn is_release_name(name: &str) -> bool {
    name.len() <= MAX_RELEASE_NAME && name.split('.').all(is_dns_label)
}

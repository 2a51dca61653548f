//! From a `Distribution` to what is rendered: archives are fetched, and values merged.

use std::sync::Arc;

use fleetdex_cli::documents::{self, DocumentError};
use fleetdex_crds::distribution::{
    ChartSource, ConfigMapKey, Distribution, FolderSource, ManifestSource, NamedSecret,
    ValuesReference,
};
use fleetdex_rendering::{
    archive::{Archive, ArchiveError},
    fetch::{ChartLocation, FetchError, FetchSettings, Fetcher},
    source::{HelmSource, KustomizeOverlay, KustomizeSource, RenderSource},
    values::{self, InvalidTargetPath, ReferencedValues},
};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    credentials::{SecretCredentials, text},
    given::{GivenError, GivenObjects, namespace_of},
    local::LocalArchives,
};

/// The key of a file of values.
const VALUES_KEY: &str = "values.yaml";

/// Resolves what `Distribution`s name.
pub(crate) struct SourceResolver<'g> {
    pub(crate) given: &'g GivenObjects,
    pub(crate) local: LocalArchives,
    pub(crate) permits_plain_http: bool,
}

/// A source cannot be resolved.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResolveError {
    #[error("Distribution {0}: use exactly one of helm, kustomize and manifests in spec.source")]
    Source(String),
    #[error("Distribution {name}: {flag} is given, but its source is {source_kind}")]
    Flag {
        name: String,
        flag: &'static str,
        source_kind: &'static str,
    },
    #[error("Distribution {0}: spec.source names neither an address nor a ConfigMap")]
    Location(String),
    #[error("{kind} {namespace}/{name} has no key {key:?}")]
    Key {
        kind: &'static str,
        namespace: String,
        name: String,
        key: String,
    },
    #[error("the values in key {key:?} of {name} are not a map")]
    Values { name: String, key: String },
    #[error(transparent)]
    Document(#[from] DocumentError),
    #[error(transparent)]
    Given(#[from] GivenError),
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    #[error(transparent)]
    TargetPath(#[from] InvalidTargetPath),
}

impl SourceResolver<'_> {
    /// What is rendered, and the namespace of objects that name none.
    pub(crate) async fn resolve(
        &self,
        distribution: &Distribution,
    ) -> Result<(RenderSource, String), ResolveError> {
        let name = distribution.metadata.name.clone().unwrap_or_default();
        let namespace = namespace_of(distribution.metadata.namespace.as_deref());
        let source = &distribution.spec.source;
        match (&source.helm, &source.kustomize, &source.manifests) {
            (Some(helm), None, None) => {
                refuse(self.local.folder.as_ref(), "--folder", "helm", &name)?;
                let source = self.helm(helm, namespace, &name).await?;
                let namespace = source.namespace.clone();
                Ok((RenderSource::Helm(source), namespace))
            }
            (None, Some(folder), None) => {
                refuse(self.local.chart.as_ref(), "--chart", "kustomize", &name)?;
                let source = self.kustomize(folder, namespace, &name).await?;
                Ok((RenderSource::Kustomize(source), namespace.to_owned()))
            }
            (None, None, Some(manifests)) => {
                let text = self.manifests(manifests, namespace, &name)?;
                Ok((RenderSource::Manifests(text), namespace.to_owned()))
            }
            _ => Err(ResolveError::Source(name)),
        }
    }

    async fn helm(
        &self,
        source: &ChartSource,
        namespace: &str,
        name: &str,
    ) -> Result<HelmSource, ResolveError> {
        let mut referenced = Vec::new();
        for reference in &source.values_from {
            referenced.extend(self.referenced(reference, namespace)?);
        }
        Ok(HelmSource {
            chart: self.chart(source, namespace, name).await?,
            release_name: source
                .release_name
                .clone()
                .unwrap_or_else(|| name.to_owned()),
            namespace: source
                .namespace
                .clone()
                .unwrap_or_else(|| namespace.to_owned()),
            values: values::merged(referenced, source.values.clone())?,
        })
    }

    async fn chart(
        &self,
        source: &ChartSource,
        namespace: &str,
        name: &str,
    ) -> Result<Archive, ResolveError> {
        if let Some(local) = &self.local.chart {
            return Ok(local.clone());
        }
        if let Some(reference) = &source.config_map_ref {
            return self.packed(reference, namespace);
        }
        let version = source.version.clone().unwrap_or_default();
        let location = match (&source.chart, &source.repository) {
            (Some(chart), Some(url)) => ChartLocation::Repository {
                url: url.clone(),
                name: chart.clone(),
                version,
            },
            (Some(address), None) => ChartLocation::Oci {
                address: address.clone(),
                version,
            },
            (None, _) => return Err(ResolveError::Location(name.to_owned())),
        };
        let fetcher = self.fetcher(source.secret_ref.as_ref(), namespace)?;
        Ok(fetcher.chart(&location).await?.archive)
    }

    async fn kustomize(
        &self,
        source: &FolderSource,
        namespace: &str,
        name: &str,
    ) -> Result<KustomizeSource, ResolveError> {
        let folder = if let Some(local) = &self.local.folder {
            local.clone()
        } else if let Some(reference) = &source.config_map_ref {
            self.packed(reference, namespace)?
        } else if let Some(address) = &source.oci {
            let fetcher = self.fetcher(source.secret_ref.as_ref(), namespace)?;
            fetcher.oci(address, "").await?.archive
        } else {
            return Err(ResolveError::Location(name.to_owned()));
        };
        Ok(KustomizeSource {
            folder,
            path: source.path.clone().unwrap_or_default(),
            overlay: KustomizeOverlay {
                namespace: source.namespace.clone().unwrap_or_default(),
                images: as_values(&source.images),
                patches: as_values(&source.patches),
            },
        })
    }

    fn manifests(
        &self,
        source: &ManifestSource,
        namespace: &str,
        name: &str,
    ) -> Result<String, ResolveError> {
        if let Some(text) = &source.inline {
            return Ok(text.clone());
        }
        let reference = source.config_map_ref.as_ref();
        let reference = reference.ok_or_else(|| ResolveError::Location(name.to_owned()))?;
        let config_map = self.given.config_map(namespace, &reference.name)?;
        let found = config_map
            .data
            .as_ref()
            .and_then(|all| all.get(&reference.key));
        found.cloned().ok_or_else(|| no_key(reference, namespace))
    }

    fn fetcher(
        &self,
        reference: Option<&NamedSecret>,
        namespace: &str,
    ) -> Result<Fetcher, ResolveError> {
        let secret = reference.map(|reference| self.given.secret(namespace, &reference.name));
        let policy = SecretCredentials {
            namespace: namespace.to_owned(),
            secret: secret.transpose()?.cloned(),
        };
        let settings = FetchSettings {
            permits_plain_http: self.permits_plain_http,
            ..FetchSettings::default()
        };
        Ok(Fetcher::new(&settings, Arc::new(policy))?)
    }

    /// An archive in a `ConfigMap`.
    fn packed(&self, reference: &ConfigMapKey, namespace: &str) -> Result<Archive, ResolveError> {
        let config_map = self.given.config_map(namespace, &reference.name)?;
        let bytes = config_map.binary_data.as_ref();
        let bytes = bytes.and_then(|all| all.get(&reference.key));
        let bytes = bytes.ok_or_else(|| no_key(reference, namespace))?;
        Ok(Archive::new(bytes.0.clone())?)
    }

    /// The values of a reference; none if it is optional and something is missing.
    fn referenced(
        &self,
        reference: &ValuesReference,
        namespace: &str,
    ) -> Result<Option<ReferencedValues>, ResolveError> {
        let key = reference.values_key.as_deref().unwrap_or(VALUES_KEY);
        let found = match self.referenced_text(reference, namespace, key) {
            Err(_) if reference.optional => return Ok(None),
            found => found?,
        };
        if let Some(path) = &reference.target_path {
            return Ok(Some(ReferencedValues::Target {
                path: path.clone(),
                text: found,
                is_literal: reference.literal,
            }));
        }
        let name = format!("{} {namespace}/{}", reference.kind, reference.name);
        let documents = documents::parse(&name, &found)?;
        match documents.into_iter().next() {
            None => Ok(Some(ReferencedValues::File(Map::new()))),
            Some(Value::Object(values)) => Ok(Some(ReferencedValues::File(values))),
            Some(_) => Err(ResolveError::Values {
                name,
                key: key.to_owned(),
            }),
        }
    }

    fn referenced_text(
        &self,
        reference: &ValuesReference,
        namespace: &str,
        key: &str,
    ) -> Result<String, ResolveError> {
        let name = &reference.name;
        let (kind, found) = if reference.kind == "Secret" {
            let secret = self.given.secret(namespace, name)?;
            ("Secret", text(secret, key))
        } else {
            let config_map = self.given.config_map(namespace, name)?;
            let found = config_map.data.as_ref().and_then(|all| all.get(key));
            ("ConfigMap", found.cloned())
        };
        found.ok_or_else(|| ResolveError::Key {
            kind,
            namespace: namespace.to_owned(),
            name: name.clone(),
            key: key.to_owned(),
        })
    }
}

/// Refuses an archive of another kind than the source.
fn refuse(
    local: Option<&Archive>,
    flag: &'static str,
    source_kind: &'static str,
    name: &str,
) -> Result<(), ResolveError> {
    if local.is_none() {
        return Ok(());
    }
    Err(ResolveError::Flag {
        name: name.to_owned(),
        flag,
        source_kind,
    })
}

fn no_key(reference: &ConfigMapKey, namespace: &str) -> ResolveError {
    ResolveError::Key {
        kind: "ConfigMap",
        namespace: namespace.to_owned(),
        name: reference.name.clone(),
        key: reference.key.clone(),
    }
}

/// The fields of a kustomization, whose names are those of the `Distribution`.
fn as_values<T: Serialize>(all: &[T]) -> Vec<Value> {
    // They are maps of texts.
    all.iter()
        .filter_map(|one| serde_json::to_value(one).ok())
        .collect()
}

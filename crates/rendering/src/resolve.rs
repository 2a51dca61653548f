//! From the source of a `Distribution` to what is rendered: archives are fetched, and values
//! merged.

use std::{sync::Arc, thread};

use fleetdex_core::yaml::reader;
use fleetdex_crds::distribution::{
    ChartSource, ConfigMapKey, DistributionSource, FolderSource, ManifestSource, NamedSecret,
    ValuesReference,
};
use k8s_openapi::api::core::v1::Secret;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    archive::{Archive, ArchiveError},
    fetch::{ChartLocation, FetchError, FetchSettings, FetchedArchive, Fetcher, HostPolicy},
    named_objects::{MissingObject, NamedObjects, secret_text},
    source::{HelmSource, KustomizeOverlay, KustomizeSource, RenderSource},
    values::{self, InvalidTargetPath, ReferencedValues},
};

/// The key of a file of values.
const VALUES_KEY: &str = "values.yaml";
/// Documents of a file of values, of which the first one counts.
const MOST_DOCUMENTS: usize = 16;
/// The stack of the parser of values, which calls itself for each level.
const PARSER_STACK_BYTES: usize = 64 << 20;

/// Resolves the sources of `Distribution`s.
pub struct SourceResolver<'o> {
    /// What sources name.
    pub objects: &'o NamedObjects,
    /// An archive in place of the chart or the folder that a source names.
    pub archive: Option<Archive>,
    /// How servers are spoken to.
    pub settings: FetchSettings,
    /// Which hosts are asked, with the Secret that a source names.
    pub hosts: &'o (dyn Fn(Option<&Secret>) -> Arc<dyn HostPolicy> + Sync),
}

/// A source with everything that it names.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedSource {
    /// What is rendered.
    pub source: RenderSource,
    /// The namespace of objects that name none.
    pub namespace: String,
    /// The version of what was fetched; empty: nothing was.
    pub version: String,
}

/// A source cannot be resolved.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// There is not exactly one source.
    #[error("Distribution {0}: use exactly one of helm, kustomize and manifests in spec.source")]
    Source(String),
    /// A source does not say where it is.
    #[error("Distribution {0}: spec.source names neither an address nor a ConfigMap")]
    Location(String),
    /// An object lacks a key.
    #[error("{kind} {namespace}/{name} has no key {key:?}")]
    Key {
        /// Its kind.
        kind: &'static str,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The key.
        key: String,
    },
    /// A file of values is no map.
    #[error("the values in key {key:?} of {name} are not a map")]
    Values {
        /// The kind, namespace and name of the object.
        name: String,
        /// The key.
        key: String,
    },
    /// A file of values is not YAML.
    #[error("the values in key {key:?} of {name} are not YAML: {reason}")]
    Yaml {
        /// The kind, namespace and name of the object.
        name: String,
        /// The key.
        key: String,
        /// What the parser says.
        reason: String,
    },
    /// An object is missing.
    #[error(transparent)]
    Missing(#[from] MissingObject),
    /// An archive cannot be fetched.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// An archive is refused.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// A path of values is not one.
    #[error(transparent)]
    TargetPath(#[from] InvalidTargetPath),
}

impl SourceResolver<'_> {
    /// What is rendered of a `Distribution` with this name.
    pub async fn resolve(
        &self,
        source: &DistributionSource,
        namespace: &str,
        name: &str,
    ) -> Result<ResolvedSource, ResolveError> {
        let mut version = String::new();
        let (source, namespace) = match (&source.helm, &source.kustomize, &source.manifests) {
            (Some(helm), None, None) => {
                let source = self.helm(helm, namespace, name, &mut version).await?;
                let namespace = source.namespace.clone();
                (RenderSource::Helm(source), namespace)
            }
            (None, Some(folder), None) => {
                let source = self
                    .kustomize(folder, namespace, name, &mut version)
                    .await?;
                (RenderSource::Kustomize(source), namespace.to_owned())
            }
            (None, None, Some(manifests)) => {
                let text = self.manifests(manifests, namespace, name)?;
                (RenderSource::Manifests(text), namespace.to_owned())
            }
            _ => return Err(ResolveError::Source(name.to_owned())),
        };
        Ok(ResolvedSource {
            source,
            namespace,
            version,
        })
    }

    async fn helm(
        &self,
        source: &ChartSource,
        namespace: &str,
        name: &str,
        version: &mut String,
    ) -> Result<HelmSource, ResolveError> {
        let mut referenced = Vec::new();
        for reference in &source.values_from {
            referenced.extend(self.referenced(reference, namespace)?);
        }
        Ok(HelmSource {
            chart: self.chart(source, namespace, name, version).await?,
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
        version: &mut String,
    ) -> Result<Archive, ResolveError> {
        if let Some(archive) = &self.archive {
            return Ok(archive.clone());
        }
        if let Some(reference) = &source.config_map_ref {
            return self.packed(reference, namespace);
        }
        let wanted = source.version.clone().unwrap_or_default();
        let location = match (&source.chart, &source.repository) {
            (Some(chart), Some(url)) => ChartLocation::Repository {
                url: url.clone(),
                name: chart.clone(),
                version: wanted,
            },
            (Some(address), None) => ChartLocation::Oci {
                address: address.clone(),
                version: wanted,
            },
            (None, _) => return Err(ResolveError::Location(name.to_owned())),
        };
        let fetcher = self.fetcher(source.secret_ref.as_ref(), namespace)?;
        Ok(noted(fetcher.chart(&location).await?, version))
    }

    async fn kustomize(
        &self,
        source: &FolderSource,
        namespace: &str,
        name: &str,
        version: &mut String,
    ) -> Result<KustomizeSource, ResolveError> {
        let folder = if let Some(archive) = &self.archive {
            archive.clone()
        } else if let Some(reference) = &source.config_map_ref {
            self.packed(reference, namespace)?
        } else if let Some(address) = &source.oci {
            let fetcher = self.fetcher(source.secret_ref.as_ref(), namespace)?;
            noted(fetcher.oci(address, "").await?, version)
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
        let config_map = self.objects.config_map(namespace, &reference.name)?;
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
        let secret = reference.map(|reference| self.objects.secret(namespace, &reference.name));
        let policy = (self.hosts)(secret.transpose()?);
        Ok(Fetcher::new(&self.settings, policy)?)
    }

    /// An archive in a `ConfigMap`.
    fn packed(&self, reference: &ConfigMapKey, namespace: &str) -> Result<Archive, ResolveError> {
        let config_map = self.objects.config_map(namespace, &reference.name)?;
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
        match parsed(&found, &name, key)? {
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
            let secret = self.objects.secret(namespace, name)?;
            ("Secret", secret_text(secret, key))
        } else {
            let config_map = self.objects.config_map(namespace, name)?;
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

/// The first document of a file of values; `None`: it has none.
fn parsed(text: &str, name: &str, key: &str) -> Result<Option<Value>, ResolveError> {
    let unreadable = |reason: String| ResolveError::Yaml {
        name: name.to_owned(),
        key: key.to_owned(),
        reason,
    };
    let parse =
        || reader::parse(text, MOST_DOCUMENTS).map_err(|error| error.without_snippet().to_string());
    let documents = thread::scope(|scope| {
        let parser = thread::Builder::new().stack_size(PARSER_STACK_BYTES);
        let parser = parser.spawn_scoped(scope, parse);
        let parser = parser.map_err(|error| error.to_string())?;
        parser
            .join()
            .unwrap_or_else(|_| Err("the parser failed".to_owned()))
    });
    let mut documents = documents.map_err(unreadable)?;
    documents
        .iter_mut()
        .for_each(reader::make_whole_numbers_integers);
    Ok(documents.into_iter().find(|document| !document.is_null()))
}

/// The archive; its version is noted.
fn noted(fetched: FetchedArchive, version: &mut String) -> Archive {
    *version = fetched.version;
    fetched.archive
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

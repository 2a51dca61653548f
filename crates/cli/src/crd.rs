//! `fleetdex crd`: prints the CRDs.

use std::io::{self, Write};

use fleetdex_api::{cluster::Cluster, cluster_cache, interpreter, registry::ResourceRegistry};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

/// The CRDs could not be printed.
#[derive(Debug, thiserror::Error)]
pub enum CrdError {
    /// A CRD does not serialize.
    #[error("cannot write the CRD {name} as YAML")]
    Serialize {
        /// The CRD.
        name: String,
        /// What the serializer said.
        source: Box<serde_saphyr::ser::Error>,
    },
    /// Standard output is closed.
    #[error("cannot print the CRDs")]
    Print(#[from] io::Error),
}

/// One CRD and the file that holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct CrdFile {
    /// Name of the file under `crds/`.
    pub file: String,
    /// The CRD.
    pub crd: CustomResourceDefinition,
}

impl CrdFile {
    fn new(crd: CustomResourceDefinition) -> Self {
        let names = &crd.spec.names;
        Self {
            file: format!("{}_{}.yaml", crd.spec.group, names.plural),
            crd,
        }
    }

    /// What the file holds.
    pub fn yaml(&self) -> Result<String, CrdError> {
        let text = serde_saphyr::to_string(&self.crd).map_err(|source| CrdError::Serialize {
            name: self.file.clone(),
            source: Box::new(source),
        })?;
        Ok(format!("---\n{text}"))
    }
}

/// Every CRD of Fleetdex.
pub fn all() -> Vec<CrdFile> {
    let caches = cluster_cache::GROUPS.map(cluster_cache::crd);
    [ResourceRegistry::crd(), Cluster::crd()]
        .into_iter()
        .chain(caches)
        .chain(interpreter::crds())
        .map(CrdFile::new)
        .collect()
}

/// Prints every CRD as YAML documents.
pub fn run(out: &mut dyn Write) -> Result<(), CrdError> {
    for file in all() {
        out.write_all(file.yaml()?.as_bytes())?;
    }
    Ok(())
}

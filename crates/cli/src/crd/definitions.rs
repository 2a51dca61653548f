//! The CRDs, made of the Rust types.

use fleetdex_crds::{
    binding, cluster::Cluster, cluster_cache, distribution, interpreter, policy, rebalancer,
    registry::ResourceRegistry,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

use super::{decision::VERSION_ANNOTATION, error::CrdError};

/// One CRD and the file that holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct CrdFile {
    /// Name of the file under `crds/`.
    pub file: String,
    /// The CRD.
    pub crd: CustomResourceDefinition,
}

impl CrdFile {
    fn new(mut crd: CustomResourceDefinition) -> Self {
        let annotations = crd.metadata.annotations.get_or_insert_default();
        annotations.insert(
            VERSION_ANNOTATION.to_owned(),
            env!("CARGO_PKG_VERSION").to_owned(),
        );
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

/// Every CRD of Fleetdex, with its version in the annotation `fleetdex.io/version`.
pub fn all() -> Vec<CrdFile> {
    let mut files = without_distribution();
    files.extend(of_distribution());
    files
}

/// The CRDs of an installation that distributes nothing.
pub fn without_distribution() -> Vec<CrdFile> {
    let caches = cluster_cache::GROUPS.map(cluster_cache::crd);
    [ResourceRegistry::crd(), Cluster::crd()]
        .into_iter()
        .chain(caches)
        .chain(interpreter::crds())
        .map(CrdFile::new)
        .collect()
}

/// The CRDs of policies, bindings, rebalancers and sets, which only distribution needs.
pub fn of_distribution() -> Vec<CrdFile> {
    policy::crds()
        .into_iter()
        .chain(binding::crds())
        .chain([rebalancer::crd(), distribution::crd()])
        .map(CrdFile::new)
        .collect()
}

pub(super) fn registries() -> CustomResourceDefinition {
    CrdFile::new(ResourceRegistry::crd()).crd
}

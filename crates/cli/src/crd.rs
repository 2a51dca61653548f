//! `fleetdex crd`: prints the CRDs; `fleetdex crd apply`: applies them to a control plane.

mod apply;
mod decision;
mod error;
mod managed_fields;

use std::{io::Write, process::ExitCode};

use fleetdex_api::{cluster::Cluster, cluster_cache, interpreter, registry::ResourceRegistry};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

use self::decision::VERSION_ANNOTATION;
pub use self::{apply::CrdApplyArgs, error::CrdError};
use super::console::{self, Console};

/// The custom resource definitions.
#[derive(Clone, Debug, clap::Args)]
pub struct CrdArgs {
    /// What to do; without a command they are printed.
    #[command(subcommand)]
    pub command: Option<CrdCommand>,
}

/// What to do with the CRDs.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum CrdCommand {
    /// Apply them to a control plane, but none that is of a newer Fleetdex or of Karmada
    Apply(CrdApplyArgs),
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
    let caches = cluster_cache::GROUPS.map(cluster_cache::crd);
    [ResourceRegistry::crd(), Cluster::crd()]
        .into_iter()
        .chain(caches)
        .chain(interpreter::crds())
        .map(CrdFile::new)
        .collect()
}

/// Prints every CRD as YAML documents.
pub fn print(out: &mut dyn Write) -> Result<(), CrdError> {
    for file in all() {
        out.write_all(file.yaml()?.as_bytes())?;
    }
    Ok(())
}

/// Prints or applies the CRDs.
pub async fn run(args: &CrdArgs) -> ExitCode {
    console::run(async |console: &mut Console<'_>| match &args.command {
        None => {
            print(console.out)?;
            Ok(true)
        }
        Some(CrdCommand::Apply(apply)) => apply::apply(apply, console).await,
    })
    .await
}

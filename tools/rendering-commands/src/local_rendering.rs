//! Renders `Distribution`s on this machine.

use std::{io, sync::Arc};

use fleetdex_crds::distribution::DistributionSource;
use fleetdex_rendering::{
    fetch::{FetchSettings, HostPolicy},
    named_objects::NamedObjects,
    rendered::RenderedSet,
    renderer::{RenderError, RenderLimits, Renderer},
    resolve::{ResolveError, ResolvedSource, SourceResolver},
    source::{Capabilities, RenderSource},
};
use k8s_openapi::api::core::v1::Secret;

use crate::{
    args::LocalSourceArgs,
    credentials::SecretCredentials,
    local::{LocalArchives, LocalError, OtherSource},
};

/// Renders `Distribution`s on this machine. Any host may be asked: the user chose the files.
pub struct LocalRendering {
    renderer: Renderer,
    archives: LocalArchives,
    permits_plain_http: bool,
}

/// A `Distribution` whose source is to be resolved.
pub struct LocalSource<'s> {
    /// Its namespace.
    pub namespace: &'s str,
    /// Its name.
    pub name: &'s str,
    /// Where its objects come from.
    pub source: &'s DistributionSource,
    /// What the source names.
    pub objects: &'s NamedObjects,
    /// Whether `--chart` and `--folder` take the place of what the source names.
    pub takes_archives: bool,
}

/// A `Distribution` cannot be rendered on this machine.
#[derive(Debug, thiserror::Error)]
pub enum LocalRenderError {
    /// The file of this program is not known.
    #[error("cannot find the file of this program, which starts helm and kustomize")]
    Program(#[source] io::Error),
    /// A chart or a folder of this machine cannot be read.
    #[error(transparent)]
    Local(#[from] LocalError),
    /// An archive of another kind than the source is given.
    #[error(transparent)]
    OtherSource(#[from] OtherSource),
    /// Its source cannot be resolved.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// It cannot be rendered.
    #[error(transparent)]
    Render(#[from] RenderError),
}

impl LocalRendering {
    /// With the programs and archives of flags.
    pub fn new(args: &LocalSourceArgs) -> Result<Self, LocalRenderError> {
        let programs = args.programs.find().map_err(LocalRenderError::Program)?;
        Ok(Self {
            renderer: Renderer::new(programs, RenderLimits::default()),
            archives: LocalArchives::read(args.chart.as_deref(), args.folder.as_deref())?,
            permits_plain_http: args.plain_http,
        })
    }

    /// Fetches and merges what a source names.
    pub async fn resolve(&self, set: &LocalSource<'_>) -> Result<ResolvedSource, LocalRenderError> {
        let hosts = |secret: Option<&Secret>| -> Arc<dyn HostPolicy> {
            Arc::new(SecretCredentials {
                namespace: set.namespace.to_owned(),
                secret: secret.cloned(),
            })
        };
        let archive = if set.takes_archives {
            self.archives.of(set.source, set.name)?
        } else {
            None
        };
        let resolver = SourceResolver {
            objects: set.objects,
            archive,
            settings: FetchSettings {
                permits_plain_http: self.permits_plain_http,
                ..FetchSettings::default()
            },
            hosts: &hosts,
        };
        let resolved = resolver.resolve(set.source, set.namespace, set.name);
        Ok(resolved.await?)
    }

    /// Renders what was resolved.
    pub async fn render(
        &self,
        source: &RenderSource,
        capabilities: &Capabilities,
    ) -> Result<RenderedSet, LocalRenderError> {
        Ok(self.renderer.render(source, capabilities).await?)
    }
}

//! What all sets are rendered with.

use std::sync::Arc;

use fleetdex_clusters::{
    discovery::Discovery,
    secret_hosts::{HostPattern, SecretHosts},
};
use fleetdex_distribution::sets::SetName;
use fleetdex_rendering::{cache::RenderCache, kept::StoredRendering, renderer::Renderer};
use kube::Client;
use tokio::sync::Semaphore;

use super::{
    failure::SetFailure, rendering_secrets::RenderingSecrets, set_rendering::SetRendering,
};
use crate::{blocking::run_blocking, copy_memory::CopyMemory};

/// What all sets are rendered with.
pub struct SetRenderer {
    /// The control plane.
    pub client: Client,
    /// Runs helm and kustomize.
    pub renderer: Renderer,
    /// Renderings by the digest of their inputs.
    pub cache: RenderCache,
    /// The hosts that may be fetched from.
    pub source_hosts: Vec<HostPattern>,
    /// The hosts that Secrets may be sent to.
    pub secret_hosts: SecretHosts,
    /// What the objects of all sets may take.
    pub memory: CopyMemory,
    /// How many sets are rendered at a time: what each may take meanwhile is bounded.
    pub permits: Semaphore,
    /// Renderings that outlive this process.
    pub secrets: RenderingSecrets,
}

impl SetRenderer {
    /// A rendering with the rights that it needs. `served`: what its clusters and the control plane
    /// serve.
    pub async fn rendering(
        &self,
        rendering: StoredRendering,
        served: &[Arc<Discovery>],
        is_kept: bool,
    ) -> Result<SetRendering, SetFailure> {
        let (served, memory) = (served.to_vec(), self.memory.clone());
        let made = run_blocking(move || SetRendering::new(rendering, &served, is_kept, &memory));
        made.await.map_err(|error| SetFailure::aborted(&error))?
    }

    /// A rendering that a Secret has; `None`: there is none.
    pub async fn kept(
        &self,
        name: &SetName,
        revision: &str,
        served: &[Arc<Discovery>],
    ) -> Result<Option<SetRendering>, SetFailure> {
        let Some(kept) = self.secrets.load(name, revision).await? else {
            return Ok(None);
        };
        self.rendering(kept, served, true).await.map(Some)
    }
}

//! Which control plane a command is for.

use std::path::PathBuf;

use super::api::{ApiserverClient, ClientError};

/// The control plane: the API server with the registries.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct ControlPlaneArgs {
    /// Kubeconfig of the control plane [default: KUBECONFIG, then ~/.kube/config, then the service account of the Pod]
    #[arg(long, value_name = "FILE", env = "FLEETDEX_KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME", env = "FLEETDEX_CONTEXT")]
    pub context: Option<String>,
}

impl ControlPlaneArgs {
    /// Reads the kubeconfig; sends no request.
    pub async fn connect(&self) -> Result<ApiserverClient, ClientError> {
        ApiserverClient::of_kubeconfig_or_pod(self.kubeconfig.as_deref(), self.context.as_deref())
            .await
    }
}

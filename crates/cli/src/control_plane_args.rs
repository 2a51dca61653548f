//! Which control plane a command is for.

use std::path::PathBuf;

use anyhow::Context as _;
use fleetdex_clusters::connect::control_plane_client;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

use super::api::{ApiserverClient, ClientError};

/// The control plane: the API server with the registries.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct ControlPlaneArgs {
    /// Kubeconfig of the control plane [default: KUBECONFIG, then ~/.kube/config, then the service
    /// account of the Pod]
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

    /// The connection that the flags name. Retries are Fleetdex' own, so those of
    /// kube are off.
    pub async fn config(&self) -> anyhow::Result<Config> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        let mut config = match &self.kubeconfig {
            Some(path) => {
                let kubeconfig = Kubeconfig::read_from(path)
                    .with_context(|| format!("cannot read the kubeconfig {}", path.display()))?;
                Config::from_custom_kubeconfig(kubeconfig, &options)
                    .await
                    .with_context(|| {
                        format!(
                            "the kubeconfig {} does not make a connection",
                            path.display()
                        )
                    })?
            }
            None if options.context.is_some() => Config::from_kubeconfig(&options)
                .await
                .context("no kubeconfig has that context; name one with --kubeconfig")?,
            None => Config::infer()
                .await
                .context("found no control plane; name a kubeconfig with --kubeconfig")?,
        };
        config.default_retry = false;
        Ok(config)
    }

    /// A client whose responses are bounded in size.
    pub fn client(config: &Config) -> anyhow::Result<Client> {
        control_plane_client(config).context("cannot make a client for the control plane")
    }
}

//! The connection to the control plane, and the identity of this installation.

use std::time::Duration;

use anyhow::Context as _;
use fleetdex_cli::ControlPlaneArgs;
use fleetdex_clusters::connect::control_plane_client;
use fleetdex_core::model::causes;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

/// How long the control plane may take to answer a small request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The owner of indices whose control plane could not be identified.
const UNKNOWN_INSTALLATION: &str = "fleetdex";

/// The connection that the flags name. Retries are Fleetdex' own, so those of kube are off.
pub(crate) async fn config(args: &ControlPlaneArgs) -> anyhow::Result<Config> {
    let options = KubeConfigOptions {
        context: args.context.clone(),
        ..KubeConfigOptions::default()
    };
    let mut config = match &args.kubeconfig {
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
pub(crate) fn client(config: &Config) -> anyhow::Result<Client> {
    control_plane_client(config).context("cannot make a client for the control plane")
}

/// Identifies this installation in the indices, by the UID of the control plane's namespace
/// `kube-system`, which survives a reinstallation.
pub(super) async fn installation_id(control_plane: &Client) -> String {
    let namespace = Api::<Namespace>::all(control_plane.clone());
    match tokio::time::timeout(REQUEST_TIMEOUT, namespace.get("kube-system")).await {
        Ok(Ok(found)) => found.metadata.uid.unwrap_or_default(),
        Ok(Err(error)) => {
            tracing::warn!(error = %causes(&error), "cannot read namespace kube-system; indices are marked with the name \"fleetdex\" as their owner");
            UNKNOWN_INSTALLATION.to_owned()
        }
        Err(_) => {
            tracing::warn!(
                "the control plane does not respond; indices are marked with the name \"fleetdex\" as their owner"
            );
            UNKNOWN_INSTALLATION.to_owned()
        }
    }
}

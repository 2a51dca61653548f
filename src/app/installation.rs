//! The identity of this installation.

use std::time::Duration;

use fleetdex_core::model::causes;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};

/// How long the control plane may take to answer a small request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The owner of indices whose control plane could not be identified.
const UNKNOWN_INSTALLATION: &str = "fleetdex";

/// Identifies this installation in the indices, by the UID of the control plane's namespace
/// `kube-system`, which survives a reinstallation.
pub(super) async fn id(control_plane: &Client) -> String {
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

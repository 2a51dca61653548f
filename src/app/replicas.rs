//! How this process takes part in a set of replicas.

use std::{net::SocketAddr, sync::Arc};

use anyhow::Context as _;
use fleetdex_clusters::connect::lease_client;
use fleetdex_replicas::{ReplicaConfig, Replicas};
use kube::Config;
use tokio::sync::Notify;

use super::args::RunArgs;

/// Joins the other replicas if the flags ask for it. `served` is where the query API is served
/// here.
pub(super) fn join(
    args: &RunArgs,
    control_plane: &Config,
    changed: &Arc<Notify>,
    served: SocketAddr,
) -> anyhow::Result<Replicas> {
    if !args.replicas {
        return Ok(Replicas::alone());
    }
    let name = match &args.replica_name {
        Some(name) => name.clone(),
        None => host_name()?
            .parse()
            .context("the host name is not a valid replica name; set --replica-name")?,
    };
    let namespace = args
        .replica_namespace
        .clone()
        .unwrap_or_else(|| control_plane.default_namespace.clone());
    let address = advertised_address(args, served);
    tracing::info!(replica = %name, namespace, address = address.map(tracing::field::display), "joining the other replicas");
    let leases = lease_client(control_plane)
        .context("cannot make a client for Leases in the control plane")?;
    Ok(Replicas::join(
        leases,
        ReplicaConfig {
            name,
            namespace,
            address,
            pod_uid: args.replica_pod_uid.clone(),
        },
        Arc::clone(changed),
    ))
}

/// The address at which the others reach the query API; `None` if it is served only on this
/// machine, or the address is unknown.
fn advertised_address(args: &RunArgs, served: SocketAddr) -> Option<SocketAddr> {
    if !args.secure_serving.is_on() {
        return None;
    }
    let known = args
        .replica_address
        .or_else(|| Some(served).filter(|address| !address.ip().is_unspecified()));
    if known.is_none() {
        tracing::warn!(
            "the other replicas cannot reach this one, so watches there receive no changes of the clusters that it reads; set --replica-address"
        );
    }
    known
}

fn host_name() -> anyhow::Result<String> {
    let name = hostname::get().context("cannot read the host name; set --replica-name")?;
    Ok(name.to_string_lossy().to_ascii_lowercase())
}

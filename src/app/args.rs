//! The flags of `fleetdex run`.

use std::net::SocketAddr;

use clap::Args;
use fleetdex_cli::ControlPlaneArgs;
use fleetdex_clusters::{
    secret_hosts::{HostPattern, SecretHosts},
    source::SourceArgs,
};
use fleetdex_distribution::brake::DeletionBrake;
use fleetdex_operator::controller::ConfigMapName;
use fleetdex_rendering_commands::ProgramArgs;
use fleetdex_replicas::ReplicaName;
use fleetdex_server::{auth::SecureServingArgs, http::serve::ServerArgs};
use fleetdex_store::opensearch::LIST_CONTEXTS;
use fleetdex_telemetry::admin::AdminArgs;

/// `fleetdex run`
#[derive(Args, Clone, Debug)]
pub struct RunArgs {
    /// The control plane.
    #[command(flatten)]
    pub control_plane: ControlPlaneArgs,

    /// Seconds between probes of a member; API discovery is repeated as often, so that new CRDs are
    /// noticed.
    #[arg(long, env = "FLEETDEX_PROBE_INTERVAL", default_value_t = 10.0, value_parser = seconds)]
    pub probe_interval: f64,

    /// Seconds between a failed attempt to connect to a member and the next.
    #[arg(long, env = "FLEETDEX_CONNECT_RETRY", default_value_t = 30.0, value_parser = seconds)]
    pub connect_retry: f64,

    /// Sustained requests per second to each member; probes do not count, and a watch counts once.
    #[arg(long, env = "FLEETDEX_MEMBER_QPS", default_value_t = 20.0, value_parser = requests_per_second)]
    pub member_qps: f64,

    /// Requests to each member that may be sent at once after a quiet time.
    #[arg(long, env = "FLEETDEX_MEMBER_BURST", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub member_burst: u32,

    /// Use only HTTP/1.1 towards members, with one connection for each watch: for a proxy that
    /// offers HTTP/2 and does not carry many long requests on one connection.
    #[arg(long, env = "FLEETDEX_MEMBER_HTTP1")]
    pub member_http1: bool,

    /// Do not write the status of Cluster objects, because a Karmada control plane writes it.
    #[arg(long, env = "FLEETDEX_LEAVE_CLUSTER_STATUS")]
    pub leave_cluster_status: bool,

    /// Average seconds between two audits of a kind of a member, which compare its documents with
    /// its objects. 0: never.
    #[arg(long, env = "FLEETDEX_AUDIT_INTERVAL", default_value_t = 1_800.0, value_parser = seconds_or_never)]
    pub audit_interval: f64,

    /// Point-in-time contexts that all users' lists together may hold on each OpenSearch; one user
    /// may hold half of them. A node has 300 (`search.max_open_pit_context`), which all replicas
    /// share.
    #[arg(long, env = "FLEETDEX_LIST_CONTEXTS", default_value_t = LIST_CONTEXTS, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub list_contexts: u64,

    /// `ConfigMap` of the control plane with Argo CD's health scripts, in its keys
    /// `resource.customizations`: they say which objects are healthy.
    #[arg(
        long,
        value_name = "NAMESPACE/NAME",
        env = "FLEETDEX_ARGOCD_HEALTH_CONFIG_MAP"
    )]
    pub argocd_health_config_map: Option<ConfigMapName>,

    /// Distribution.
    #[command(flatten)]
    pub distribution: DistributionArgs,

    /// Assign the clusters among the replicas of this installation: each renews a Lease, and reads
    /// the clusters that are assigned to it.
    #[arg(long, env = "FLEETDEX_REPLICAS")]
    pub replicas: bool,

    /// Unique name of this replica. Default: the host name, which is the name of the Pod.
    #[arg(long, env = "FLEETDEX_REPLICA_NAME", requires = "replicas")]
    pub replica_name: Option<ReplicaName>,

    /// UID of the Pod of this replica, whose name is that of the replica: its Lease and report are
    /// deleted with the Pod, by the garbage collector of the control plane. Without it they are
    /// deleted when the replica stops in order, or by another replica after ten minutes.
    #[arg(
        long,
        value_name = "UID",
        env = "FLEETDEX_REPLICA_POD_UID",
        requires = "replicas"
    )]
    pub replica_pod_uid: Option<String>,

    /// Namespace of the Leases and reports of replicas. Default: the namespace of the Pod or of the
    /// kubeconfig.
    #[arg(long, env = "FLEETDEX_REPLICA_NAMESPACE", requires = "replicas")]
    pub replica_namespace: Option<String>,

    /// Address at which the other replicas reach the query API of this one, so that watches there
    /// receive the changes that this one reads. Default: the address at which the API is served,
    /// unless that is a wildcard.
    #[arg(long, value_name = "IP:PORT", env = "FLEETDEX_REPLICA_ADDRESS", requires = "replicas", value_parser = socket_address)]
    pub replica_address: Option<SocketAddr>,

    /// The sources of clusters.
    #[command(flatten)]
    pub sources: SourceArgs,

    /// The hosts that Secrets may be sent to.
    #[command(flatten)]
    pub secret_hosts: SecretHosts,

    /// The query API.
    #[command(flatten)]
    pub server: ServerArgs,

    /// How clients other than the holder of the token file are authenticated.
    #[command(flatten)]
    pub secure_serving: SecureServingArgs,

    /// The admin port.
    #[command(flatten)]
    pub admin: AdminArgs,
}

/// Whether and how objects of the control plane are distributed.
#[derive(Args, Clone, Debug)]
pub struct DistributionArgs {
    /// Distribute objects of the control plane to the members, as its propagation policies say.
    #[arg(long, env = "FLEETDEX_DISTRIBUTE")]
    pub distribute: bool,

    /// Which part of what is distributed to a member one change may delete there, in percent,
    /// beyond ten objects; the rest is held until its bindings let it go. off: all of it.
    #[arg(
        long,
        value_name = "PERCENT",
        env = "FLEETDEX_DELETION_BRAKE",
        default_value_t
    )]
    pub deletion_brake: DeletionBrake,

    /// Hosts that charts and folders of Distributions may be fetched from, such as
    /// registry.example.com, *.example.com or 10.0.0.0/8; repeatable, or separated by commas.
    /// Without it, nothing is fetched, and charts come from `ConfigMap`s.
    #[arg(
        long,
        value_name = "HOST,…",
        value_delimiter = ',',
        env = "FLEETDEX_SOURCE_HOSTS"
    )]
    pub source_hosts: Vec<HostPattern>,

    /// The programs that render charts and folders.
    #[command(flatten)]
    pub programs: ProgramArgs,
}

/// Parses an address and a port. An IPv6 address may lack its brackets, because Kubernetes states
/// those of Pods so.
fn socket_address(text: &str) -> Result<SocketAddr, String> {
    let bare = || {
        let (address, port) = text.rsplit_once(':')?;
        Some(SocketAddr::new(address.parse().ok()?, port.parse().ok()?))
    };
    text.parse()
        .ok()
        .or_else(bare)
        .ok_or_else(|| "an address and a port, such as 10.1.2.3:8443".to_owned())
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("a number of seconds from 0.1 to 86400".to_owned()),
    }
}

fn requests_per_second(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (0.1..=10_000.0).contains(&rate) => Ok(rate),
        _ => Err("a number of requests from 0.1 to 10000".to_owned()),
    }
}

fn seconds_or_never(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds == 0.0 || (1.0..=604_800.0).contains(&seconds) => Ok(seconds),
        _ => Err("a number of seconds from 1 to 604800, or 0 for never".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_replica_may_be_an_ipv6_address_without_brackets() {
        for (text, address) in [
            ("10.1.2.3:8443", "10.1.2.3:8443"),
            ("fd00::7:8443", "[fd00::7]:8443"),
            ("[fd00::7]:8443", "[fd00::7]:8443"),
        ] {
            assert_eq!(socket_address(text).unwrap().to_string(), address);
        }
        for wrong in ["", "10.1.2.3", "fleetdex-0:8443", ":8443"] {
            assert!(socket_address(wrong).is_err(), "{wrong}");
        }
    }
}

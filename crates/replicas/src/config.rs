//! How this process takes part in a set of replicas.

use std::net::SocketAddr;

use super::assignment::ReplicaName;

/// How this replica takes part.
#[derive(Clone, Debug)]
pub struct ReplicaConfig {
    /// Its name.
    pub name: ReplicaName,
    /// The namespace of the Leases.
    pub namespace: String,
    /// Where the others reach its query API, if they can.
    pub address: Option<SocketAddr>,
    /// The UID of its Pod, with which its Lease is deleted.
    pub pod_uid: Option<String>,
}

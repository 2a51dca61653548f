//! The source of connections to members.

use std::time::Duration;

use fleetdex_clusters::{
    Clusters, Connection, connection_state::ConnectionHealth, events::ClusterEvents,
};
use fleetdex_core::model::ClusterName;
use tokio::sync::watch;

/// A member is not connected, or not a member. Wait for the event of its connect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cluster {cluster} is not connected: wait for the event of its connect")]
pub struct ClusterNotConnected {
    /// The member.
    pub cluster: ClusterName,
}

impl ClusterNotConnected {
    pub(super) fn of(cluster: &ClusterName) -> Self {
        Self {
            cluster: cluster.clone(),
        }
    }
}

/// The source of connections: [`Clusters`], or [`FakeClusters`](super::fake::FakeClusters) in a
/// test.
pub trait ClusterConnections: Send + Sync + 'static {
    /// All members, connected or not.
    fn clusters(&self) -> Vec<ClusterName>;
    /// The connection of a member, while it is connected.
    fn connection(&self, cluster: &ClusterName) -> Option<Connection>;
    /// The results of a member's connects and probes.
    fn health(&self, cluster: &ClusterName) -> ConnectionHealth;
    /// Subscribes to events; see [`Clusters::events`].
    fn events(&self, probe_failure: &[Duration]) -> ClusterEvents;
    /// A number that grows with every change.
    fn changed(&self) -> watch::Receiver<u64>;
}

impl ClusterConnections for Clusters {
    fn clusters(&self) -> Vec<ClusterName> {
        self.names()
    }

    fn connection(&self, cluster: &ClusterName) -> Option<Connection> {
        Self::connection(self, cluster)
    }

    fn health(&self, cluster: &ClusterName) -> ConnectionHealth {
        Self::health(self, cluster)
    }

    fn events(&self, probe_failure: &[Duration]) -> ClusterEvents {
        Self::events(self, probe_failure)
    }

    fn changed(&self) -> watch::Receiver<u64> {
        Self::changed(self)
    }
}

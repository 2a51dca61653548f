//! A new connection to a member, and what was read over it.

use std::sync::Arc;

use fleetdex_core::model::ClusterName;
use kube::Client;
use tokio::sync::watch;

use super::super::{
    connection_timing::ConnectionTiming,
    discovery::Discovery,
    fetch::{self, DiscoveryCache},
    request::RequestError,
    shared::SupervisorState,
};

/// A connection to a member that was ready, with its identity, version and discovery.
pub(super) struct ProbedConnection {
    pub(super) client: Client,
    pub(super) cluster_uid: Option<String>,
    pub(super) is_own: bool,
    pub(super) kubernetes_version: Option<String>,
    pub(super) discovery: Arc<Discovery>,
    discovery_cache: DiscoveryCache,
}

impl ProbedConnection {
    /// Checks that the member is ready, and reads its identity, version and discovery.
    pub(super) async fn open(
        client: Client,
        shared: &SupervisorState,
        name: &ClusterName,
    ) -> Result<Self, RequestError> {
        let timing = &shared.timing;
        fetch::ready(&client, timing.request_timeout).await?;
        let mut discovery_cache = DiscoveryCache::after(shared.discovery(name));
        let (kubernetes_version, cluster_uid, is_own, discovery) = tokio::join!(
            fetch::kubernetes_version(&client, timing.request_timeout),
            fetch::cluster_uid(&client, timing.request_timeout),
            fetch::is_own(&client, shared.own_pod.get(), timing.request_timeout),
            discovery_cache.refresh(&client, timing.discovery_timeout),
        );
        let (cluster_uid, is_own, discovery) = (cluster_uid?, is_own?, discovery?);
        Ok(Self {
            cluster_uid,
            is_own,
            discovery,
            kubernetes_version: kubernetes_version.ok(),
            client,
            discovery_cache,
        })
    }

    /// Whether the member is no longer the cluster that was connected, as its cluster UID has
    /// changed.
    pub(super) async fn is_another_cluster(&self, timing: &ConnectionTiming) -> bool {
        let now = fetch::cluster_uid(&self.client, timing.request_timeout).await;
        // A cluster that was just created has no kube-system yet.
        matches!(now, Ok(Some(now)) if Some(&now) != self.cluster_uid.as_ref())
    }

    /// Refreshes the discovery and sends it if it has changed. Returns whether it has. What is
    /// served changes with an upgrade, so that the version is read again then.
    pub(super) async fn refresh_discovery(
        &mut self,
        timing: &ConnectionTiming,
        sender: &watch::Sender<Arc<Discovery>>,
    ) -> Result<bool, RequestError> {
        let timeout = timing.discovery_timeout;
        self.discovery = self.discovery_cache.refresh(&self.client, timeout).await?;
        let differs = sender.send_if_modified(|known| {
            let differs = !Arc::ptr_eq(known, &self.discovery);
            known.clone_from(&self.discovery);
            differs
        });
        if differs {
            let version = fetch::kubernetes_version(&self.client, timing.request_timeout).await;
            self.kubernetes_version = version.ok().or(self.kubernetes_version.take());
        }
        Ok(differs)
    }
}

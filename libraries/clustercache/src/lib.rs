//! Clients, cached reads and watches of all members, for operators that manage many clusters.
//!
//! [`Clusters`](fleetdex_clusters::Clusters) keeps the members connected; a [`ClusterCache`] on top
//! of it provides what an operator needs:
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use fleetdex_clusters::Clusters;
//! # use fleetdex_clustercache::{ClusterCache, CacheOptions, WorkQueue, ClusterWatch};
//! # use k8s_openapi::api::core::v1::Node;
//! # async fn example(clusters: Arc<Clusters>) -> Result<(), Box<dyn std::error::Error>> {
//! let cache = ClusterCache::new(clusters, CacheOptions::new().nodes_by_provider_id());
//! let queue = WorkQueue::new();
//! let mut events = cache.events(&[]);
//! while let Some(event) = events.next().await {
//!     if event.reasons.connected {
//!         cache.watch(&event.cluster, &ClusterWatch::new("nodes").kind::<Node>(), &queue)?;
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! What it guarantees:
//!
//! - No call waits for another member, or for a connection: for a member that is not connected it
//!   fails at once with [`ClusterNotConnected`]. Then wait for the event of the connect instead of
//!   retrying.
//! - A watch is registered once per name, and restarts by itself after a reconnect.
//! - Cached reads return one consistent state of a kind, and end with their connection.
//! - Every request with a finite response has a timeout.
//!
//! The model is Cluster API's
//! [`clustercache`](https://github.com/kubernetes-sigs/cluster-api/tree/main/controllers/clustercache).
//! There a watch is dropped with its connection; here it is not. Names of caches, informers and
//! queues are those of client-go.

mod connection_cache;
mod connections;
pub mod fake;
mod indexer;
mod informer;
mod key;
mod members;
mod options;
mod queue;
mod reader;
mod resource;
mod timeout;
mod watch;

use std::{sync::Arc, time::Duration};

use fleetdex_clusters::events::ClusterEvents;
use fleetdex_core::model::ClusterName;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use tokio::sync::watch as channel;
use tokio_util::task::AbortOnDropHandle;

use self::members::CachedMembers;
pub use self::{
    connections::{ClusterConnections, ClusterNotConnected},
    indexer::ObjectChange,
    key::{ClientCertificateKey, KeyError},
    options::{CacheOptions, CacheSelectors, PROVIDER_ID},
    queue::{ReconcileRequest, WorkQueue},
    reader::{CachedReader, ClusterClient, ClusterReadError},
    resource::CacheableResource,
    timeout::{RequestTimedOut, with_request_timeout},
    watch::{ClusterWatch, ClusterWatchError},
};

/// Why there is no key for client certificates.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateKeyError {
    /// The member is not connected.
    #[error(transparent)]
    NotConnected(#[from] ClusterNotConnected),
    /// The key could not be generated.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// Clients, cached reads and watches of all members. Must be created on a tokio runtime. Dropping
/// it ends its tasks.
pub struct ClusterCache {
    members: Arc<CachedMembers>,
    _task: AbortOnDropHandle<()>,
}

impl ClusterCache {
    /// A cache over the members of `connections`.
    pub fn new(connections: Arc<dyn ClusterConnections>, options: CacheOptions) -> Self {
        let changed = connections.changed();
        let members = Arc::new(CachedMembers::new(connections, options));
        let task = tokio::spawn(update_connections(members.clone(), changed));
        Self {
            members,
            _task: AbortOnDropHandle::new(task),
        }
    }

    /// All members, connected or not.
    pub fn clusters(&self) -> Vec<ClusterName> {
        self.members.connections.clusters()
    }

    /// A client that reads from the cache and writes to the member.
    pub fn client(&self, cluster: &ClusterName) -> Result<ClusterClient, ClusterNotConnected> {
        Ok(ClusterClient {
            reader: self.reader(cluster)?,
        })
    }

    /// A reader of the cache.
    pub fn reader(&self, cluster: &ClusterName) -> Result<CachedReader, ClusterNotConnected> {
        let (connection_id, client) = self.members.client(cluster)?;
        Ok(CachedReader {
            members: self.members.clone(),
            cluster: cluster.clone(),
            connection_id,
            client,
        })
    }

    /// A `kube::Client` that sends every request to the member.
    pub fn uncached_client(&self, cluster: &ClusterName) -> Result<Client, ClusterNotConnected> {
        let (_, client) = self.members.client(cluster)?;
        Ok(client)
    }

    /// The configuration of the member with its current token, for other client libraries. It
    /// contains neither headers for a proxy nor the rate limit, and is not updated when the token
    /// changes.
    pub fn rest_config(&self, cluster: &ClusterName) -> Result<kube::Config, ClusterNotConnected> {
        let connection = self.members.connection(cluster)?;
        let config = connection.rest_config();
        config.ok_or_else(|| ClusterNotConnected::of(cluster))
    }

    /// Adds a request to the queue for every change of the watched kinds in a member, and first for
    /// every existing object. A name is registered once: a second watch of the same name has no
    /// effect. The watch lasts over reconnects, until the member is removed.
    pub fn watch(
        &self,
        cluster: &ClusterName,
        watch: &ClusterWatch,
        queue: &WorkQueue,
    ) -> Result<(), ClusterWatchError> {
        watch.check()?;
        Ok(self.members.add_watch(cluster, watch, queue)?)
    }

    /// When a member last answered a probe or a connect.
    pub fn last_probe_success(&self, cluster: &ClusterName) -> Option<Timestamp> {
        let success = self.members.connections.health(cluster).last_success?;
        let ago = tokio::time::Instant::now()
            .into_std()
            .saturating_duration_since(success);
        Timestamp::now()
            .checked_sub(SignedDuration::try_from(ago).ok()?)
            .ok()
    }

    /// Subscribes to each further connect and disconnect, and to each of these durations that
    /// passes without a successful probe.
    pub fn events(&self, probe_failure: &[Duration]) -> ClusterEvents {
        self.members.connections.events(probe_failure)
    }

    /// The key for client certificates of a member. It is generated on the first call, and stays
    /// the same until the member is removed.
    pub async fn client_certificate_key(
        &self,
        cluster: &ClusterName,
    ) -> Result<Arc<ClientCertificateKey>, CertificateKeyError> {
        self.members.connection(cluster)?;
        let cell = self.members.key(cluster);
        let key = cell.get_or_try_init(|| async {
            let key = tokio::task::spawn_blocking(ClientCertificateKey::generate).await;
            key.unwrap_or(Err(KeyError)).map(Arc::new)
        });
        Ok(key.await?.clone())
    }
}

async fn update_connections(members: Arc<CachedMembers>, mut changed: channel::Receiver<u64>) {
    loop {
        changed.borrow_and_update();
        members.update_connections();
        if changed.changed().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests;

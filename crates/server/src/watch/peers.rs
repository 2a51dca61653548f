//! Replicates the changes of the other replicas, so that watches on this replica see all clusters,
//! whichever replica reads them.
//!
//! While requests on this replica need a resource, it reads the changes of every other replica from
//! `changes/…` ([`super::changes`]), with its own credentials for the control plane, and appends
//! them to the local log.
//!
//! Guarantee: every change of another replica is replicated, or all watches of the resource end
//! with
//! 410. A replica that leaves in good order, which its log declares once the outcome of all its
//!      writes
//! is known, ends no watch. One that dies, leaves otherwise, or is unreachable for a while ends all
//! watches of the resource.

mod connection;
mod replication;
mod verification;

use std::{collections::BTreeMap, fmt, sync::Arc};

use fleetdex_core::{
    model::{ClusterName, StoreName},
    query::ResourceName,
};
use fleetdex_query_api::question::{ChangesRequest, ResourcePath};
use fleetdex_replicas::Replicas;
use fleetdex_store::{changes::Log, merged::StorePart};
use kube::Config;
use parking_lot::Mutex;
use tokio::sync::watch;

pub use self::connection::{ConnectFn, ConnectionError};
use self::{connection::over_tls, replication::ResourceReplication};
use crate::{
    api_error::ApiError,
    auth::certificate_rotation::PeerTrust,
    catalog::Catalog,
    read::{query_plan::QueryPlan, snapshot::log_of},
};

/// The other replicas. Clones share the replication.
#[derive(Clone, Default)]
pub struct Peers(Option<Arc<SharedPeers>>);

struct SharedPeers {
    replicas: Replicas,
    connect: ConnectFn,
    replications: Mutex<BTreeMap<(StoreName, ResourceName), Arc<ResourceReplication>>>,
}

impl fmt::Debug for Peers {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let replications = self
            .0
            .as_ref()
            .map(|shared| shared.replications.lock().len());
        out.debug_struct("Peers")
            .field("replications", &replications)
            .finish_non_exhaustive()
    }
}

/// The replication that one request needs.
pub struct PeerSubscription {
    replications: Vec<Arc<ResourceReplication>>,
    /// The requested clusters; empty: all.
    clusters: Vec<ClusterName>,
    /// Whether replicas share any of the stores. The embedded store of each replica has all
    /// clusters.
    is_shared: bool,
}

impl Peers {
    /// The replicas that share the clusters with this one. `config` is the control plane's;
    /// requests to other replicas use its credentials.
    pub fn new(
        replicas: Replicas,
        config: Config,
        peer_trust: watch::Receiver<Option<PeerTrust>>,
    ) -> Self {
        Self::connected(replicas, over_tls(config, peer_trust))
    }

    /// As [`Self::new`], with other connections.
    pub fn connected(replicas: Replicas, connect: ConnectFn) -> Self {
        Self(Some(Arc::new(SharedPeers {
            replicas,
            connect,
            replications: Mutex::default(),
        })))
    }

    /// Starts or renews the replication that a request needs. Waits for the connections the first
    /// time, within a timeout.
    pub async fn subscribe(
        &self,
        plan: &QueryPlan,
        resource_path: &ResourcePath,
    ) -> Result<PeerSubscription, ApiError> {
        let clusters = plan.query.clusters.clone();
        let parts = plan.stores.parts().iter();
        let shared_parts = parts.filter(|part| part.name != StoreName::embedded());
        let shared_parts: Vec<&StorePart> = shared_parts.collect();
        let is_shared = !shared_parts.is_empty();
        let mut replications = Vec::new();
        if let Some(shared) = &self.0 {
            for part in shared_parts {
                let log = log_of(&*part.store).await?;
                replications.push(shared.replicate(&part.name, resource_path, &log));
            }
        }
        for replication in &replications {
            replication.wait_until_connected().await;
        }
        Ok(PeerSubscription {
            replications,
            clusters,
            is_shared,
        })
    }
}

impl PeerSubscription {
    /// An error unless the changes of every replica that reads a requested cluster are replicated.
    pub fn check(&self, catalog: &Catalog) -> Result<(), ApiError> {
        let is_requested =
            |cluster: &ClusterName| self.clusters.is_empty() || self.clusters.contains(cluster);
        let mut elsewhere = catalog
            .peer_clusters()
            .filter(|(cluster, _)| self.is_shared && is_requested(cluster));
        if self.replications.is_empty() {
            return elsewhere.next().map_or(Ok(()), |(cluster, replica)| {
                Err(ApiError::bad_request(format!(
                    "cluster {cluster} is read by replica {replica}, which this replica cannot reach: a watch over several replicas needs them to serve one another over TLS (--api-service, --replica-address); or name other clusters with the parameter clusters"
                )))
            });
        }
        let problem = |replica: &str| {
            self.replications
                .iter()
                .find_map(|replication| replication.problem(replica))
        };
        match elsewhere.find_map(|(cluster, replica)| Some((cluster, replica, problem(replica)?))) {
            None => Ok(()),
            Some((cluster, replica, problem)) => Err(ApiError::Unavailable(format!(
                "cluster {cluster} is read by replica {replica}, whose changes do not reach this replica at the moment: {problem}"
            ))),
        }
    }

    /// Waits until everything that the other replicas have written by now is replicated. After a
    /// timeout it is an error: a watch could otherwise show objects as they were before the list.
    pub async fn wait_until_caught_up(&self) -> Result<(), ApiError> {
        for replication in &self.replications {
            if !replication.wait_until_caught_up().await {
                return Err(ApiError::Unavailable(
                    "another replica does not report the version of its changes in time; try again"
                        .to_owned(),
                ));
            }
        }
        Ok(())
    }
}

impl SharedPeers {
    fn replicate(
        self: &Arc<Self>,
        store: &StoreName,
        resource_path: &ResourcePath,
        log: &Arc<Log>,
    ) -> Arc<ResourceReplication> {
        let resource = ResourceName::new(&resource_path.group, &resource_path.plural);
        let key = (store.clone(), resource.clone());
        let mut replications = self.replications.lock();
        let known = replications.get(&key);
        if let Some(running) = known.filter(|replication| replication.renew()) {
            return Arc::clone(running);
        }
        let position = ChangesRequest {
            resource: ResourcePath {
                namespace: None,
                name: None,
                ..resource_path.clone()
            },
            store: store.clone(),
            watch: false,
            since: None,
        };
        let replication = ResourceReplication::start(
            self.replicas.clone(),
            Arc::clone(&self.connect),
            position,
            resource,
            Arc::clone(log),
        );
        replications.insert(key, Arc::clone(&replication));
        replication
    }
}

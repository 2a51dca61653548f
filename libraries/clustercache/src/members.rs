//! The cached state of all members, which the cache and its readers share.

use std::{collections::BTreeMap, sync::Arc};

use fleetdex_clusters::Connection;
use fleetdex_core::model::ClusterName;
use kube::Client;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::{
    connection_cache::{ConnectionCache, InformerContext},
    connections::{ClusterConnections, ClusterNotConnected},
    informer::Informer,
    key::ClientCertificateKey,
    options::CacheOptions,
    queue::WorkQueue,
    resource::CacheableResource,
    watch::ClusterWatch,
};

/// The cached state of all members.
pub(super) struct CachedMembers {
    pub(super) connections: Arc<dyn ClusterConnections>,
    pub(super) options: CacheOptions,
    members: Mutex<BTreeMap<ClusterName, CachedMember>>,
}

/// The cached state of a member, bounded by the watches that users register and the kinds that they
/// read.
#[derive(Default)]
struct CachedMember {
    watches: BTreeMap<Arc<str>, (ClusterWatch, WorkQueue)>,
    client_certificate_key: Arc<OnceCell<Arc<ClientCertificateKey>>>,
    connection: Option<ConnectionCache>,
}

impl CachedMembers {
    pub(super) fn new(connections: Arc<dyn ClusterConnections>, options: CacheOptions) -> Self {
        Self {
            connections,
            options,
            members: Mutex::default(),
        }
    }

    pub(super) fn connection(
        &self,
        cluster: &ClusterName,
    ) -> Result<Connection, ClusterNotConnected> {
        self.connections
            .connection(cluster)
            .ok_or_else(|| ClusterNotConnected::of(cluster))
    }

    /// The number and the client of a member's connection.
    pub(super) fn client(
        &self,
        cluster: &ClusterName,
    ) -> Result<(u64, Client), ClusterNotConnected> {
        let connection = self.connection(cluster)?;
        let context = self.context(cluster);
        let mut members = self.members.lock();
        let cache = members
            .entry(cluster.clone())
            .or_default()
            .connection_cache(&connection, &context);
        Ok((cache.connection_id, cache.client.clone()))
    }

    /// The informer of a kind over a connection, as long as that is the member's current
    /// connection.
    pub(super) fn informer<K: CacheableResource>(
        &self,
        cluster: &ClusterName,
        connection_id: u64,
    ) -> Result<Arc<Informer<K>>, ClusterNotConnected> {
        let current = self.connection(cluster)?;
        if current.id != connection_id {
            return Err(ClusterNotConnected::of(cluster));
        }
        let context = self.context(cluster);
        let mut members = self.members.lock();
        let cache = members
            .entry(cluster.clone())
            .or_default()
            .connection_cache(&current, &context);
        Ok(cache.informer::<K>(&context))
    }

    /// Registers a watch and starts it, unless one of its name is registered.
    pub(super) fn add_watch(
        &self,
        cluster: &ClusterName,
        watch: &ClusterWatch,
        queue: &WorkQueue,
    ) -> Result<(), ClusterNotConnected> {
        let connection = self.connection(cluster)?;
        let mut members = self.members.lock();
        let member = members.entry(cluster.clone()).or_default();
        if member.watches.contains_key(&watch.name) {
            return Ok(());
        }
        let context = self.context(cluster);
        watch.start(
            member.connection_cache(&connection, &context),
            &context,
            queue,
        );
        member
            .watches
            .insert(watch.name.clone(), (watch.clone(), queue.clone()));
        Ok(())
    }

    /// The cell of a member's key for client certificates.
    pub(super) fn key(&self, cluster: &ClusterName) -> Arc<OnceCell<Arc<ClientCertificateKey>>> {
        let mut members = self.members.lock();
        members
            .entry(cluster.clone())
            .or_default()
            .client_certificate_key
            .clone()
    }

    /// Drops the state of removed members and closed connections, and starts the watches of members
    /// that have a new connection.
    pub(super) fn update_connections(&self) {
        let clusters = self.connections.clusters();
        let mut members = self.members.lock();
        members.retain(|cluster, _| clusters.contains(cluster));
        for (cluster, member) in members.iter_mut() {
            let context = self.context(cluster);
            match self.connections.connection(cluster) {
                Some(connection) => {
                    member.connection_cache(&connection, &context);
                }
                None => member.connection = None,
            }
        }
    }

    fn context<'a>(&'a self, cluster: &'a ClusterName) -> InformerContext<'a> {
        InformerContext {
            cluster,
            options: &self.options,
        }
    }
}

impl CachedMember {
    /// The cache of this connection. For a new connection it is empty, and all watches are started.
    fn connection_cache(
        &mut self,
        connection: &Connection,
        context: &InformerContext<'_>,
    ) -> &mut ConnectionCache {
        let closed = self
            .connection
            .take_if(|cache| cache.connection_id != connection.id);
        drop(closed);
        self.connection.get_or_insert_with(|| {
            let mut cache = ConnectionCache::new(connection, context.options);
            for (watch, queue) in self.watches.values() {
                watch.start(&mut cache, context, queue);
            }
            cache
        })
    }
}

//! The client and informers of one connection of a member.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    sync::Arc,
    time::Duration,
};

use fleetdex_clusters::Connection;
use fleetdex_core::model::ClusterName;
use kube::Client;

use super::{
    informer::Informer, options::CacheOptions, resource::CacheableResource,
    timeout::with_request_timeout,
};

/// Timeout of each list page of a cached kind; the API server itself gives up after one minute.
const LIST_TIMEOUT: Duration = Duration::from_secs(65);

/// The client and informers of one connection; they end with it.
pub(super) struct ConnectionCache {
    pub(super) connection_id: u64,
    /// The client for users of the cache.
    pub(super) client: Client,
    /// The client for informers, whose lists have a longer timeout.
    list_client: Client,
    informers: HashMap<TypeId, Box<dyn Any + Send + Sync>>,
}

/// What an informer is started with.
pub(super) struct InformerContext<'a> {
    pub(super) cluster: &'a ClusterName,
    pub(super) options: &'a CacheOptions,
}

impl ConnectionCache {
    pub(super) fn new(connection: &Connection, options: &CacheOptions) -> Self {
        let client = with_request_timeout(connection.client.clone(), options.request_timeout);
        let list_client = with_request_timeout(connection.client.clone(), LIST_TIMEOUT);
        Self {
            connection_id: connection.id,
            client,
            list_client,
            informers: HashMap::new(),
        }
    }

    /// The informer of a kind, which is started on the first call.
    pub(super) fn informer<K: CacheableResource>(
        &mut self,
        context: &InformerContext<'_>,
    ) -> Arc<Informer<K>> {
        let existing = self
            .informers
            .get(&TypeId::of::<K>())
            .and_then(|existing| existing.downcast_ref::<Arc<Informer<K>>>());
        if let Some(existing) = existing {
            return existing.clone();
        }
        let options = context.options.of::<K>();
        let informer = Informer::start(
            context.cluster,
            self.list_client.clone(),
            &options,
            context.options.resync,
        );
        let informer = Arc::new(informer);
        self.informers
            .insert(TypeId::of::<K>(), Box::new(informer.clone()));
        informer
    }
}

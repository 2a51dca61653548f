//! Cached and uncached reads of a member's objects.

use std::{ops::Deref, sync::Arc, time::Duration};

use fleetdex_core::model::ClusterName;
use k8s_openapi::NamespaceResourceScope;
use kube::{
    Api, Client, ResourceExt,
    api::{GetParams, ListParams, ObjectList},
    core::{Request as KubeRequest, Selector, SelectorExt},
};

use super::{
    connections::ClusterNotConnected, indexer::ObjectKey, informer::Informer,
    members::CachedMembers, resource::CacheableResource,
};

/// Why a read failed.
#[derive(Debug, thiserror::Error)]
pub enum ClusterReadError {
    /// The connection is closed.
    #[error(transparent)]
    NotConnected(#[from] ClusterNotConnected),
    /// The informer of a kind has not synced in time.
    #[error(
        "{kind} of cluster {cluster} could not be listed within {limit:?}: check that the account may list and watch it; the list is retried"
    )]
    NotSynced {
        /// The member.
        cluster: ClusterName,
        /// The kind.
        kind: String,
        /// The timeout.
        limit: Duration,
    },
    /// There is no index of that name.
    #[error(
        "there is no index {index:?} of {kind}: declare it with CacheOptions::index, for a kind that is cached"
    )]
    NoIndex {
        /// The kind.
        kind: String,
        /// The name.
        index: String,
    },
    /// An uncached kind could not be read.
    #[error("{kind} of cluster {cluster} could not be read")]
    Uncached {
        /// The member.
        cluster: ClusterName,
        /// The kind.
        kind: String,
        /// The error of the member.
        source: Box<kube::Error>,
    },
}

/// Reads the cache of one connection of a member. The first read of a kind waits for its complete
/// list.
///
/// After the connection is closed, every read fails with [`ClusterReadError::NotConnected`].
#[derive(Clone)]
pub struct CachedReader {
    pub(super) members: Arc<CachedMembers>,
    pub(super) cluster: ClusterName,
    pub(super) connection_id: u64,
    pub(super) client: Client,
}

impl CachedReader {
    /// The member.
    pub fn cluster(&self) -> &ClusterName {
        &self.cluster
    }

    /// Gets one object; `None` if it does not exist. `namespace` is `None` for cluster-scoped
    /// kinds.
    pub async fn get<K: CacheableResource>(
        &self,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Arc<K>>, ClusterReadError> {
        if self.is_uncached::<K>() {
            return Ok(self
                .get_uncached(namespace, name)
                .await
                .map_err(|error| self.failed::<K>(error))?
                .map(Arc::new));
        }
        let key = ObjectKey {
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        };
        Ok(self.synced::<K>().await?.read(|indexer| indexer.get(&key)))
    }

    /// Lists the objects of all namespaces or of one that match a label selector.
    pub async fn list<K: CacheableResource>(
        &self,
        namespace: Option<&str>,
        labels: &Selector,
    ) -> Result<Vec<Arc<K>>, ClusterReadError> {
        if self.is_uncached::<K>() {
            let list = self
                .list_uncached::<K>(namespace, labels)
                .await
                .map_err(|error| self.failed::<K>(error))?;
            return Ok(list.items.into_iter().map(Arc::new).collect());
        }
        let matches = |object: &&Arc<K>| {
            let here = namespace.is_none() || object.meta().namespace.as_deref() == namespace;
            here && labels.matches(object.labels())
        };
        Ok(self
            .synced::<K>()
            .await?
            .read(|indexer| indexer.all().filter(matches).cloned().collect()))
    }

    /// Lists the objects with a value in an index that was declared with
    /// [`CacheOptions::index`](super::CacheOptions::index).
    pub async fn by_index<K: CacheableResource>(
        &self,
        index: &str,
        value: &str,
    ) -> Result<Vec<Arc<K>>, ClusterReadError> {
        let none = || ClusterReadError::NoIndex {
            kind: K::kind(&()).into_owned(),
            index: index.to_owned(),
        };
        if self.is_uncached::<K>() {
            return Err(none());
        }
        self.synced::<K>()
            .await?
            .read(|indexer| indexer.by_index(index, value))
            .ok_or_else(none)
    }

    fn is_uncached<K: CacheableResource>(&self) -> bool {
        self.members.options.of::<K>().is_uncached
    }

    async fn synced<K: CacheableResource>(&self) -> Result<Arc<Informer<K>>, ClusterReadError> {
        let informer = self
            .members
            .informer::<K>(&self.cluster, self.connection_id)?;
        let limit = self.members.options.request_timeout;
        match tokio::time::timeout(limit, informer.synced()).await {
            Ok(true) => Ok(informer),
            Ok(false) => Err(ClusterNotConnected::of(&self.cluster).into()),
            Err(_) => Err(ClusterReadError::NotSynced {
                cluster: self.cluster.clone(),
                kind: K::kind(&()).into_owned(),
                limit,
            }),
        }
    }

    async fn get_uncached<K: CacheableResource>(
        &self,
        namespace: Option<&str>,
        name: &str,
    ) -> kube::Result<Option<K>> {
        let requests = KubeRequest::new(K::url_path(&(), namespace));
        let request = requests.get(name, &GetParams::default());
        let request = request.map_err(kube::Error::BuildRequest)?;
        match self.client.request(request).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            response => response.map(Some),
        }
    }

    async fn list_uncached<K: CacheableResource>(
        &self,
        namespace: Option<&str>,
        labels: &Selector,
    ) -> kube::Result<ObjectList<K>> {
        let requests = KubeRequest::new(K::url_path(&(), namespace));
        let parameters = ListParams::default().labels_from(labels);
        let request = requests.list(&parameters);
        let request = request.map_err(kube::Error::BuildRequest)?;
        self.client.request(request).await
    }

    fn failed<K: CacheableResource>(&self, source: kube::Error) -> ClusterReadError {
        ClusterReadError::Uncached {
            cluster: self.cluster.clone(),
            kind: K::kind(&()).into_owned(),
            source: Box::new(source),
        }
    }
}

/// A [`CachedReader`] that can also write. Every request with a finite response has a timeout.
#[derive(Clone)]
pub struct ClusterClient {
    pub(super) reader: CachedReader,
}

impl ClusterClient {
    /// The API of a cluster-scoped kind, or of a kind in all namespaces, for writes and uncached
    /// reads.
    pub fn all<K: CacheableResource>(&self) -> Api<K> {
        Api::all(self.reader.client.clone())
    }

    /// The API of a kind in one namespace, for writes and uncached reads.
    pub fn namespaced<K>(&self, namespace: &str) -> Api<K>
    where
        K: CacheableResource + kube::Resource<Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.reader.client.clone(), namespace)
    }
}

impl Deref for ClusterClient {
    type Target = CachedReader;

    fn deref(&self) -> &CachedReader {
        &self.reader
    }
}

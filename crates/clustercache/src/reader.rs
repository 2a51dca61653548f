//! Reads of a member's objects.

use std::{ops::Deref, sync::Arc, time::Duration};

use fleetdex_core::model::ClusterName;
use k8s_openapi::NamespaceResourceScope;
use kube::{
    Api, Client, ResourceExt,
    api::{GetParams, ListParams, ObjectList},
    core::{Request as KubeRequest, Selector, SelectorExt},
};

use super::{ClusterNotConnected, Kind, Shared, informer::Informer, objects::Key};

/// A read failed.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The connection is gone.
    #[error(transparent)]
    NotConnected(#[from] ClusterNotConnected),
    /// A kind is read for the first time, and the member has not listed it in time.
    #[error(
        "{kind} of cluster {cluster} could not be listed within {limit:?}: see whether the account may list and watch it; it is tried again all the time"
    )]
    NotFilled {
        /// The member.
        cluster: ClusterName,
        /// The kind.
        kind: String,
        /// How long was waited.
        limit: Duration,
    },
    /// No index of that name.
    #[error(
        "there is no index {index:?} of {kind}: declare it with Options::index, and not for a kind that is read live"
    )]
    NoIndex {
        /// The kind.
        kind: String,
        /// The name.
        index: String,
    },
    /// A kind that is read live could not be read.
    #[error("{kind} of cluster {cluster} could not be read")]
    Live {
        /// The member.
        cluster: ClusterName,
        /// The kind.
        kind: String,
        /// What the member said.
        source: Box<kube::Error>,
    },
}

/// Reads from memory what one connection of a member has shown. The first read of a kind waits until all of it is there.
///
/// It ends with its connection: then every read is [`ReadError::NotConnected`].
#[derive(Clone)]
pub struct Reader {
    pub(super) shared: Arc<Shared>,
    pub(super) cluster: ClusterName,
    pub(super) connection: u64,
    pub(super) client: Client,
}

impl Reader {
    /// The member.
    pub fn cluster(&self) -> &ClusterName {
        &self.cluster
    }

    /// One object; `None` if there is none. `namespace` is `None` for kinds without them.
    pub async fn get<K: Kind>(
        &self,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Arc<K>>, ReadError> {
        if self.is_live::<K>() {
            return Ok(self
                .get_live(namespace, name)
                .await
                .map_err(|error| self.failed::<K>(error))?
                .map(Arc::new));
        }
        let key = Key {
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        };
        Ok(self.filled::<K>().await?.read(|objects| objects.get(&key)))
    }

    /// All objects, or those of one namespace, that have the labels.
    pub async fn list<K: Kind>(
        &self,
        namespace: Option<&str>,
        labels: &Selector,
    ) -> Result<Vec<Arc<K>>, ReadError> {
        if self.is_live::<K>() {
            let list = self
                .list_live::<K>(namespace, labels)
                .await
                .map_err(|error| self.failed::<K>(error))?;
            return Ok(list.items.into_iter().map(Arc::new).collect());
        }
        let wanted = |object: &&Arc<K>| {
            let here = namespace.is_none() || object.meta().namespace.as_deref() == namespace;
            here && labels.matches(object.labels())
        };
        Ok(self
            .filled::<K>()
            .await?
            .read(|objects| objects.all().filter(wanted).cloned().collect()))
    }

    /// The objects with a value under an index that [`Options::index`](super::Options::index) has declared.
    pub async fn by_index<K: Kind>(
        &self,
        index: &str,
        value: &str,
    ) -> Result<Vec<Arc<K>>, ReadError> {
        let none = || ReadError::NoIndex {
            kind: K::kind(&()).into_owned(),
            index: index.to_owned(),
        };
        if self.is_live::<K>() {
            return Err(none());
        }
        self.filled::<K>()
            .await?
            .read(|objects| objects.by_index(index, value))
            .ok_or_else(none)
    }

    fn is_live<K: Kind>(&self) -> bool {
        self.shared.options.of::<K>().is_live
    }

    async fn filled<K: Kind>(&self) -> Result<Arc<Informer<K>>, ReadError> {
        let informer = self.shared.informer::<K>(&self.cluster, self.connection)?;
        let limit = self.shared.options.request_timeout;
        match tokio::time::timeout(limit, informer.filled()).await {
            Ok(true) => Ok(informer),
            Ok(false) => Err(ClusterNotConnected {
                cluster: self.cluster.clone(),
            }
            .into()),
            Err(_) => Err(ReadError::NotFilled {
                cluster: self.cluster.clone(),
                kind: K::kind(&()).into_owned(),
                limit,
            }),
        }
    }

    async fn get_live<K: Kind>(
        &self,
        namespace: Option<&str>,
        name: &str,
    ) -> kube::Result<Option<K>> {
        let requests = KubeRequest::new(K::url_path(&(), namespace));
        let request = requests
            .get(name, &GetParams::default())
            .map_err(kube::Error::BuildRequest)?;
        match self.client.request(request).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            answer => answer.map(Some),
        }
    }

    async fn list_live<K: Kind>(
        &self,
        namespace: Option<&str>,
        labels: &Selector,
    ) -> kube::Result<ObjectList<K>> {
        let requests = KubeRequest::new(K::url_path(&(), namespace));
        let parameters = ListParams::default().labels_from(labels);
        self.client
            .request(
                requests
                    .list(&parameters)
                    .map_err(kube::Error::BuildRequest)?,
            )
            .await
    }

    fn failed<K: Kind>(&self, source: kube::Error) -> ReadError {
        ReadError::Live {
            cluster: self.cluster.clone(),
            kind: K::kind(&()).into_owned(),
            source: Box::new(source),
        }
    }
}

/// Reads as [`Reader`] does, and writes. Every request that has an end fails when it is not answered in time.
#[derive(Clone)]
pub struct ClusterClient {
    pub(super) reader: Reader,
}

impl ClusterClient {
    /// A kind without namespaces, or a kind in all of them: for writes, and for reads that must be fresh.
    pub fn all<K: Kind>(&self) -> Api<K> {
        Api::all(self.reader.client.clone())
    }

    /// A kind in one namespace: for writes, and for reads that must be fresh.
    pub fn namespaced<K>(&self, namespace: &str) -> Api<K>
    where
        K: Kind + kube::Resource<Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.reader.client.clone(), namespace)
    }
}

impl Deref for ClusterClient {
    type Target = Reader;

    fn deref(&self) -> &Reader {
        &self.reader
    }
}

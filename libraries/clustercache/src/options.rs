//! The options of a cache.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    sync::Arc,
    time::Duration,
};

use k8s_openapi::{NamespaceResourceScope, api::core::v1::Node};
use kube::{Api, Client};

use super::{indexer::IndexFunction, resource::CacheableResource};

/// The index of nodes by `spec.providerID`; see [`CacheOptions::nodes_by_provider_id`].
pub const PROVIDER_ID: &str = "spec.providerID";

/// Default timeout of requests with a finite response. Source: Cluster API's `clustercache`.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Changes an object before it is cached.
pub(super) type Transform<K> = Arc<dyn Fn(&mut K) + Send + Sync>;

/// Creates the API of a kind.
pub(super) type MakeApi<K> = Arc<dyn Fn(Client) -> Api<K> + Send + Sync>;

/// Selectors that restrict which objects of a kind are cached and watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheSelectors {
    /// A label selector in Kubernetes' syntax.
    pub label_selector: Option<String>,
    /// A field selector in Kubernetes' syntax.
    pub field_selector: Option<String>,
}

/// How one kind is cached.
#[derive(Clone)]
pub(super) struct KindOptions<K> {
    pub(super) is_uncached: bool,
    pub(super) selectors: CacheSelectors,
    pub(super) api: MakeApi<K>,
    pub(super) indexes: Vec<(&'static str, IndexFunction<K>)>,
    pub(super) transform: Transform<K>,
}

/// By default objects are cached without `metadata.managedFields`, which are often half of their
/// size and rarely used.
impl<K: CacheableResource> Default for KindOptions<K> {
    fn default() -> Self {
        let transform: Transform<K> = Arc::new(|object| object.meta_mut().managed_fields = None);
        Self {
            is_uncached: false,
            selectors: CacheSelectors::default(),
            api: Arc::new(Api::all),
            indexes: Vec::new(),
            transform,
        }
    }
}

/// The options of a [`ClusterCache`](super::ClusterCache). Kinds without options are cached
/// completely on their first read.
pub struct CacheOptions {
    pub(super) request_timeout: Duration,
    pub(super) resync: Option<Duration>,
    kinds: HashMap<TypeId, Box<dyn Any + Send + Sync>>,
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self {
            request_timeout: REQUEST_TIMEOUT,
            resync: None,
            kinds: HashMap::new(),
        }
    }
}

impl CacheOptions {
    /// The default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Timeout of requests with a finite response, and of the first read of a kind; 10 seconds by
    /// default.
    #[must_use]
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// Passes every object to the watches again after each period; never by default.
    #[must_use]
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// Reads a kind always from the member, never from the cache.
    #[must_use]
    pub fn uncached<K: CacheableResource>(self) -> Self {
        self.with::<K>(|kind| kind.is_uncached = true)
    }

    /// Caches and watches only the objects of a kind that match the selectors.
    #[must_use]
    pub fn restrict<K: CacheableResource>(self, selectors: CacheSelectors) -> Self {
        self.with::<K>(|kind| kind.selectors = selectors)
    }

    /// Caches and watches only one namespace of a kind, which needs no rights in others.
    #[must_use]
    pub fn restrict_to_namespace<K>(self, namespace: impl Into<String>) -> Self
    where
        K: CacheableResource + kube::Resource<Scope = NamespaceResourceScope>,
    {
        let namespace = namespace.into();
        self.with::<K>(|kind| {
            kind.api = Arc::new(move |client| Api::namespaced(client, &namespace));
        })
    }

    /// Adds an index of a kind by the values that `values` returns; see
    /// [`CachedReader::by_index`](super::CachedReader::by_index). It replaces an index of the
    /// same name.
    #[must_use]
    pub fn index<K: CacheableResource>(
        self,
        name: &'static str,
        values: impl Fn(&K) -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        self.with::<K>(|kind| {
            kind.indexes.retain(|(known, _)| *known != name);
            kind.indexes.push((name, Arc::new(values)));
        })
    }

    /// Adds the index [`PROVIDER_ID`] of nodes by the ID of their cloud provider.
    #[must_use]
    pub fn nodes_by_provider_id(self) -> Self {
        self.index::<Node>(PROVIDER_ID, |node| {
            let id = node.spec.as_ref().and_then(|spec| spec.provider_id.clone());
            id.filter(|id| !id.is_empty()).into_iter().collect()
        })
    }

    /// Changes objects of a kind before they are cached, in place of the default, which removes
    /// `metadata.managedFields`.
    #[must_use]
    pub fn transform<K: CacheableResource>(
        self,
        transform: impl Fn(&mut K) + Send + Sync + 'static,
    ) -> Self {
        self.with::<K>(|kind| kind.transform = Arc::new(transform))
    }

    pub(super) fn of<K: CacheableResource>(&self) -> KindOptions<K> {
        let known = self
            .kinds
            .get(&TypeId::of::<K>())
            .and_then(|kind| kind.downcast_ref::<KindOptions<K>>());
        known.cloned().unwrap_or_default()
    }

    fn with<K: CacheableResource>(mut self, change: impl FnOnce(&mut KindOptions<K>)) -> Self {
        let mut kind = self.of::<K>();
        change(&mut kind);
        self.kinds.insert(TypeId::of::<K>(), Box::new(kind));
        self
    }
}

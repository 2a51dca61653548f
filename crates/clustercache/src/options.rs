//! What a cache keeps, and how.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    sync::Arc,
    time::Duration,
};

use k8s_openapi::{NamespaceResourceScope, api::core::v1::Node};
use kube::{Api, Client};

use super::{kind::Kind, objects::Values};

/// The index of nodes by `spec.providerID`; see [`Options::nodes_by_provider_id`].
pub const PROVIDER_ID: &str = "spec.providerID";

/// Longest wait for an answer that has an end, unless told otherwise. That of Cluster API's cluster cache.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Changes an object before it is kept.
pub(super) type Transform<K> = Arc<dyn Fn(&mut K) + Send + Sync>;

/// Makes the requests of a kind.
pub(super) type MakeApi<K> = Arc<dyn Fn(Client) -> Api<K> + Send + Sync>;

/// What part of a kind is cached and watched; the whole kind unless narrowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restriction {
    /// Objects with these labels only, in Kubernetes' syntax.
    pub label_selector: Option<String>,
    /// Objects with these fields only, in Kubernetes' syntax.
    pub field_selector: Option<String>,
}

/// How one kind is cached.
pub(super) struct KindOptions<K> {
    pub(super) is_live: bool,
    pub(super) restriction: Restriction,
    pub(super) api: MakeApi<K>,
    pub(super) indexes: Vec<(&'static str, Values<K>)>,
    pub(super) transform: Transform<K>,
}

/// Objects are kept without `metadata.managedFields`, which are often half of them and of no use here.
impl<K: Kind> Default for KindOptions<K> {
    fn default() -> Self {
        let transform: Transform<K> = Arc::new(|object| object.meta_mut().managed_fields = None);
        Self {
            is_live: false,
            restriction: Restriction::default(),
            api: Arc::new(Api::all),
            indexes: Vec::new(),
            transform,
        }
    }
}

impl<K> Clone for KindOptions<K> {
    fn clone(&self) -> Self {
        Self {
            is_live: self.is_live,
            restriction: self.restriction.clone(),
            api: self.api.clone(),
            indexes: self.indexes.clone(),
            transform: self.transform.clone(),
        }
    }
}

/// What a [`ClusterCache`](super::ClusterCache) keeps, and how. Kinds that are not mentioned are cached whole when they
/// are first read.
pub struct Options {
    pub(super) request_timeout: Duration,
    pub(super) resync: Option<Duration>,
    kinds: HashMap<TypeId, Box<dyn Any + Send + Sync>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            request_timeout: REQUEST_TIMEOUT,
            resync: None,
            kinds: HashMap::new(),
        }
    }
}

impl Options {
    /// Nothing special.
    pub fn new() -> Self {
        Self::default()
    }

    /// Longest wait for an answer that has an end, and for a kind that is read for the first time; 10 seconds by default.
    #[must_use]
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// Tells watches of every object again each time that this has passed; never by default.
    #[must_use]
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// Always reads a kind from the member, never from memory.
    #[must_use]
    pub fn read_live<K: Kind>(self) -> Self {
        self.with::<K>(|kind| kind.is_live = true)
    }

    /// Caches and watches a part of a kind only.
    #[must_use]
    pub fn restrict<K: Kind>(self, restriction: Restriction) -> Self {
        self.with::<K>(|kind| kind.restriction = restriction)
    }

    /// Caches and watches one namespace of a kind only, which takes no right to see others.
    #[must_use]
    pub fn restrict_to_namespace<K>(self, namespace: impl Into<String>) -> Self
    where
        K: Kind + kube::Resource<Scope = NamespaceResourceScope>,
    {
        let namespace = namespace.into();
        self.with::<K>(|kind| {
            kind.api = Arc::new(move |client| Api::namespaced(client, &namespace));
        })
    }

    /// Finds objects of a kind by what `values` says of them; see [`Reader::by_index`](super::Reader::by_index). A second
    /// index of the same name takes the place of the first.
    #[must_use]
    pub fn index<K: Kind>(
        self,
        name: &'static str,
        values: impl Fn(&K) -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        self.with::<K>(|kind| {
            kind.indexes.retain(|(known, _)| *known != name);
            kind.indexes.push((name, Arc::new(values)));
        })
    }

    /// Finds nodes by the ID that their cloud knows them by, under [`PROVIDER_ID`].
    #[must_use]
    pub fn nodes_by_provider_id(self) -> Self {
        self.index::<Node>(PROVIDER_ID, |node| {
            let id = node.spec.as_ref().and_then(|spec| spec.provider_id.clone());
            id.filter(|id| !id.is_empty()).into_iter().collect()
        })
    }

    /// Changes objects of a kind before they are kept, in place of leaving out their `metadata.managedFields`.
    #[must_use]
    pub fn transform<K: Kind>(self, transform: impl Fn(&mut K) + Send + Sync + 'static) -> Self {
        self.with::<K>(|kind| kind.transform = Arc::new(transform))
    }

    pub(super) fn of<K: Kind>(&self) -> KindOptions<K> {
        let known = self
            .kinds
            .get(&TypeId::of::<K>())
            .and_then(|kind| kind.downcast_ref::<KindOptions<K>>());
        known.cloned().unwrap_or_default()
    }

    fn with<K: Kind>(mut self, change: impl FnOnce(&mut KindOptions<K>)) -> Self {
        let mut kind = self.of::<K>();
        change(&mut kind);
        self.kinds.insert(TypeId::of::<K>(), Box::new(kind));
        self
    }
}

//! Clients, cached reads and watches of all members, for whoever builds an operator on many clusters.
//!
//! [`Clusters`] keeps the members connected; a [`ClusterCache`] over it hands out what an operator needs:
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use fleetdex_clusters::Clusters;
//! # use fleetdex_clustercache::{ClusterCache, Options, Queue, Watch};
//! # use k8s_openapi::api::core::v1::Node;
//! # async fn example(clusters: Arc<Clusters>) -> Result<(), Box<dyn std::error::Error>> {
//! let cache = ClusterCache::new(clusters, Options::new().nodes_by_provider_id());
//! let queue = Queue::new();
//! let mut events = cache.events(&[]);
//! while let Some(event) = events.next().await {
//!     if event.reasons.connected {
//!         cache.watch(&event.cluster, &Watch::new("nodes").kind::<Node>(), &queue)?;
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! What it guarantees:
//!
//! - No call waits for another member, or for a connection: what is not connected is [`ClusterNotConnected`] at once. The way to
//!   deal with that is to wait for the event of the connect, not to ask again.
//! - A watch is registered once per name, and comes back by itself after a reconnect.
//! - Reads from memory show one consistent moment of a kind, and end with their connection.
//! - Every request that has an end fails when it is not answered in time.
//!
//! The model is Cluster API's [`clustercache`](https://github.com/kubernetes-sigs/cluster-api/tree/main/controllers/clustercache).
//! There a watch is forgotten with its connection; here it is not.

pub mod fake;
mod informer;
mod key;
mod kind;
mod limit;
mod objects;
mod options;
mod queue;
mod reader;
mod watch;

use std::{
    any::{Any, TypeId},
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use fleetdex_clusters::{Clusters, Connection, events::Events, state::Health};
use fleetdex_core::model::ClusterName;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use parking_lot::Mutex;
use tokio::sync::{OnceCell, watch as channel};
use tokio_util::task::AbortOnDropHandle;

use self::informer::Informer;
pub use self::{
    key::{ClientCertificateKey, KeyError},
    kind::Kind,
    limit::{TimedOut, limited},
    objects::Change,
    options::{Options, PROVIDER_ID, Restriction},
    queue::{Queue, Request},
    reader::{ClusterClient, ReadError, Reader},
    watch::{Watch, WatchError},
};

/// How long the list of a kind that is cached may take, page by page; the API server itself gives up after one minute.
const LIST_TIMEOUT: Duration = Duration::from_secs(65);

/// A member has no connection just now, or is none. Wait for the event of its connect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cluster {cluster} is not connected: wait for the event of its connect")]
pub struct ClusterNotConnected {
    /// The member.
    pub cluster: ClusterName,
}

/// No key for client certificates.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateKeyError {
    /// The member is not connected.
    #[error(transparent)]
    NotConnected(#[from] ClusterNotConnected),
    /// The key could not be made.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// Where connections come from: [`Clusters`], or [`fake::FakeClusters`] in a test.
pub trait Connections: Send + Sync + 'static {
    /// All members, connected or not.
    fn clusters(&self) -> Vec<ClusterName>;
    /// The connection of a member, while there is one.
    fn connection(&self, cluster: &ClusterName) -> Option<Connection>;
    /// What connects and probes of a member have shown.
    fn health(&self, cluster: &ClusterName) -> Health;
    /// Events from now on; see [`Clusters::events`].
    fn events(&self, probe_failure: &[Duration]) -> Events;
    /// A number that grows with every change.
    fn changed(&self) -> channel::Receiver<u64>;
}

impl Connections for Clusters {
    fn clusters(&self) -> Vec<ClusterName> {
        self.names()
    }

    fn connection(&self, cluster: &ClusterName) -> Option<Connection> {
        Self::connection(self, cluster)
    }

    fn health(&self, cluster: &ClusterName) -> Health {
        Self::health(self, cluster)
    }

    fn events(&self, probe_failure: &[Duration]) -> Events {
        Self::events(self, probe_failure)
    }

    fn changed(&self) -> channel::Receiver<u64> {
        Self::changed(self)
    }
}

/// Clients, cached reads and watches of all members. Must be made on a tokio runtime; what it runs ends with it.
pub struct ClusterCache {
    shared: Arc<Shared>,
    _task: AbortOnDropHandle<()>,
}

pub(crate) struct Shared {
    connections: Arc<dyn Connections>,
    options: Options,
    members: Mutex<BTreeMap<ClusterName, Member>>,
}

/// What is kept of a member. It is bounded by what its users register and the kinds that they read.
#[derive(Default)]
struct Member {
    watches: BTreeMap<Arc<str>, (Watch, Queue)>,
    key: Arc<OnceCell<Arc<ClientCertificateKey>>>,
    live: Option<Live>,
}

/// What is kept of a connection, and ends with it.
struct Live {
    connection: u64,
    /// For whoever asks.
    client: Client,
    /// For informers, whose lists may take longer.
    listing: Client,
    informers: HashMap<TypeId, Box<dyn Any + Send + Sync>>,
}

/// What an informer is made with.
struct Context<'a> {
    cluster: &'a ClusterName,
    options: &'a Options,
}

impl Live {
    fn new(connection: &Connection, options: &Options) -> Self {
        let client = limited(connection.client.clone(), options.request_timeout);
        let listing = limited(connection.client.clone(), LIST_TIMEOUT);
        Self {
            connection: connection.id,
            client,
            listing,
            informers: HashMap::new(),
        }
    }

    fn informer<K: Kind>(&mut self, context: &Context<'_>) -> Arc<Informer<K>> {
        let known = self
            .informers
            .get(&TypeId::of::<K>())
            .and_then(|known| known.downcast_ref::<Arc<Informer<K>>>());
        if let Some(known) = known {
            return known.clone();
        }
        let options = context.options.of::<K>();
        let informer = Informer::start(
            context.cluster,
            self.listing.clone(),
            &options,
            context.options.resync,
        );
        let informer = Arc::new(informer);
        self.informers
            .insert(TypeId::of::<K>(), Box::new(informer.clone()));
        informer
    }
}

impl ClusterCache {
    /// A cache over the members of `connections`.
    pub fn new(connections: Arc<dyn Connections>, options: Options) -> Self {
        let changed = connections.changed();
        let shared = Arc::new(Shared {
            connections,
            options,
            members: Mutex::default(),
        });
        let task = tokio::spawn(follow(shared.clone(), changed));
        Self {
            shared,
            _task: AbortOnDropHandle::new(task),
        }
    }

    /// All members, connected or not.
    pub fn clusters(&self) -> Vec<ClusterName> {
        self.shared.connections.clusters()
    }

    /// Reads from memory and writes to the member. A [`Reader`] that can write.
    pub fn client(&self, cluster: &ClusterName) -> Result<ClusterClient, ClusterNotConnected> {
        Ok(ClusterClient {
            reader: self.reader(cluster)?,
        })
    }

    /// Reads from memory.
    pub fn reader(&self, cluster: &ClusterName) -> Result<Reader, ClusterNotConnected> {
        let (connection, client) = self.shared.live(cluster)?;
        Ok(Reader {
            shared: self.shared.clone(),
            cluster: cluster.clone(),
            connection,
            client,
        })
    }

    /// A client of kube that asks the member each time.
    pub fn uncached_client(&self, cluster: &ClusterName) -> Result<Client, ClusterNotConnected> {
        let (_, client) = self.shared.live(cluster)?;
        Ok(client)
    }

    /// How the member is reached, with the token of this moment, for clients of another make. Headers for a proxy cannot be
    /// said in it, and neither the limit on requests nor a later token goes with it.
    pub fn rest_config(&self, cluster: &ClusterName) -> Result<kube::Config, ClusterNotConnected> {
        let connection = self.shared.connection(cluster)?;
        connection.rest_config().ok_or_else(|| ClusterNotConnected {
            cluster: cluster.clone(),
        })
    }

    /// Puts what changes in a member into a queue, beginning with all objects that there are. A name is registered once: a
    /// second watch of the same name changes nothing. It lasts over reconnects, until the member is removed.
    pub fn watch(
        &self,
        cluster: &ClusterName,
        watch: &Watch,
        queue: &Queue,
    ) -> Result<(), WatchError> {
        if watch.name.is_empty() {
            return Err(WatchError::NameMissing);
        }
        if watch.kinds.is_empty() {
            return Err(WatchError::KindsMissing {
                name: watch.name.to_string(),
            });
        }
        let connection = self.shared.connection(cluster)?;
        let mut members = self.shared.members.lock();
        let member = members.entry(cluster.clone()).or_default();
        if member.watches.contains_key(&watch.name) {
            return Ok(());
        }
        let context = Context {
            cluster,
            options: &self.shared.options,
        };
        watch.start(member.be_connected(&connection, &context), &context, queue);
        member
            .watches
            .insert(watch.name.clone(), (watch.clone(), queue.clone()));
        Ok(())
    }

    /// When a member last answered a probe or a connect.
    pub fn last_probe_success(&self, cluster: &ClusterName) -> Option<Timestamp> {
        let success = self.shared.connections.health(cluster).last_success?;
        let ago = tokio::time::Instant::now()
            .into_std()
            .saturating_duration_since(success);
        Timestamp::now()
            .checked_sub(SignedDuration::try_from(ago).ok()?)
            .ok()
    }

    /// Tells of each connect and disconnect from now on, and once of each of these times that pass without a successful
    /// probe.
    pub fn events(&self, probe_failure: &[Duration]) -> Events {
        self.shared.connections.events(probe_failure)
    }

    /// The key for client certificates of a member: made when it is first asked for, and the same until the member is
    /// removed.
    pub async fn client_certificate_key(
        &self,
        cluster: &ClusterName,
    ) -> Result<Arc<ClientCertificateKey>, CertificateKeyError> {
        self.shared.connection(cluster)?;
        let cell = self
            .shared
            .members
            .lock()
            .entry(cluster.clone())
            .or_default()
            .key
            .clone();
        let made = cell.get_or_try_init(|| async {
            let made = tokio::task::spawn_blocking(ClientCertificateKey::generate).await;
            made.unwrap_or(Err(KeyError)).map(Arc::new)
        });
        Ok(made.await?.clone())
    }
}

impl Shared {
    fn connection(&self, cluster: &ClusterName) -> Result<Connection, ClusterNotConnected> {
        self.connections
            .connection(cluster)
            .ok_or_else(|| ClusterNotConnected {
                cluster: cluster.clone(),
            })
    }

    /// The number and the client of a member's connection.
    fn live(&self, cluster: &ClusterName) -> Result<(u64, Client), ClusterNotConnected> {
        let connection = self.connection(cluster)?;
        let context = Context {
            cluster,
            options: &self.options,
        };
        let mut members = self.members.lock();
        let live = members
            .entry(cluster.clone())
            .or_default()
            .be_connected(&connection, &context);
        Ok((live.connection, live.client.clone()))
    }

    /// What follows a kind over a connection, as long as that is the member's connection.
    fn informer<K: Kind>(
        &self,
        cluster: &ClusterName,
        connection: u64,
    ) -> Result<Arc<Informer<K>>, ClusterNotConnected> {
        let current = self.connection(cluster)?;
        if current.id != connection {
            return Err(ClusterNotConnected {
                cluster: cluster.clone(),
            });
        }
        let context = Context {
            cluster,
            options: &self.options,
        };
        let mut members = self.members.lock();
        let live = members
            .entry(cluster.clone())
            .or_default()
            .be_connected(&current, &context);
        Ok(live.informer::<K>(&context))
    }

    /// Ends what belongs to connections that are gone, and puts watches onto those that are new.
    fn catch_up(&self) {
        let clusters = self.connections.clusters();
        let mut members = self.members.lock();
        members.retain(|cluster, _| clusters.contains(cluster));
        for (cluster, member) in members.iter_mut() {
            let context = Context {
                cluster,
                options: &self.options,
            };
            match self.connections.connection(cluster) {
                Some(connection) => {
                    member.be_connected(&connection, &context);
                }
                None => member.live = None,
            }
        }
    }
}

impl Member {
    /// Keeps what there is of this connection, or begins anew with all watches.
    fn be_connected(&mut self, connection: &Connection, context: &Context<'_>) -> &mut Live {
        let gone = self.live.take_if(|live| live.connection != connection.id);
        drop(gone);
        self.live.get_or_insert_with(|| {
            let mut live = Live::new(connection, context.options);
            for (watch, queue) in self.watches.values() {
                watch.start(&mut live, context, queue);
            }
            live
        })
    }
}

async fn follow(shared: Arc<Shared>, mut changed: channel::Receiver<u64>) {
    loop {
        changed.borrow_and_update();
        shared.catch_up();
        if changed.changed().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests;

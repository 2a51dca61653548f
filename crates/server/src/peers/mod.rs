//! The other replicas, as far as watches need them: what they change is told to those who watch here.
//!
//! While somebody here is interested in a resource, every other replica is followed by its `changes/…` ([`super::changes`]), with this process's own
//! credentials for the control plane. What it tells becomes part of this replica's log. So whoever watches here is told of all clusters, whoever
//! reads them.
//!
//! Guarantee: every change of another replica is told, or those who watch the resource are told that they have to list again. A replica that leaves
//! in good order, which its log declares when the outcome of each of its writes is known, ends no watch; one that dies, that leaves without
//! that, or that is not reached for a while, ends all of the resource.

mod connection;
mod follow;

use std::{collections::BTreeMap, fmt, sync::Arc};

use fleetdex_core::{
    model::{ClusterName, StoreName},
    query::ResourceName,
};
use fleetdex_operator::replicas::Replicas;
use fleetdex_store::{changes::Log, merged::Part};
use kube::Config;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

pub use self::connection::{Connect, ConnectionError};
use self::{connection::over_tls, follow::Follow};
use super::{
    catalog::Catalog, front::keeper::Recognition, moment::log_of, request::NativePath,
    status::ApiError, target::Target,
};

/// The other replicas. Clones share what is known of them.
#[derive(Clone, Default)]
pub struct Peers(Option<Arc<Shared>>);

struct Shared {
    replicas: Replicas,
    connect: Connect,
    follows: Mutex<BTreeMap<(StoreName, ResourceName), Arc<Follow>>>,
}

impl fmt::Debug for Peers {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let followed = self.0.as_ref().map(|shared| shared.lock().len());
        out.debug_struct("Peers")
            .field("followed", &followed)
            .finish_non_exhaustive()
    }
}

/// How the others are followed for one question.
pub struct Following {
    follows: Vec<Arc<Follow>>,
    /// Empty: all of them.
    clusters: Vec<ClusterName>,
    /// Whether the replicas share any of the stores. What is held in memory every replica reads by itself.
    is_shared: bool,
}

impl Peers {
    /// The replicas that share the clusters with this one. `config` is that of the control plane; its credentials are those that the others are asked
    /// with.
    pub fn new(
        replicas: Replicas,
        config: Config,
        recognition: watch::Receiver<Option<Recognition>>,
    ) -> Self {
        Self::connected(replicas, over_tls(config, recognition))
    }

    /// The same, reached by other means.
    pub fn connected(replicas: Replicas, connect: Connect) -> Self {
        Self(Some(Arc::new(Shared {
            replicas,
            connect,
            follows: Mutex::default(),
        })))
    }

    /// Sees to it that the others are followed for what is asked. Waits for them the first time, but not for ever.
    pub async fn follow(
        &self,
        target: &Target,
        native: &NativePath,
    ) -> Result<Following, ApiError> {
        let clusters = target.query.clusters.clone();
        let shared_parts: Vec<&Part> = target
            .stores
            .parts()
            .iter()
            .filter(|part| part.name != StoreName::embedded())
            .collect();
        let is_shared = !shared_parts.is_empty();
        let mut follows = Vec::new();
        if let Some(shared) = &self.0 {
            for part in shared_parts {
                follows.push(shared.follow(&part.name, native, &log_of(&*part.store).await?));
            }
        }
        for follow in &follows {
            follow.is_complete().await;
        }
        Ok(Following {
            follows,
            clusters,
            is_shared,
        })
    }
}

impl Following {
    /// Refused unless everybody is followed who reads any of the clusters asked for.
    pub fn check(&self, catalog: &Catalog) -> Result<(), ApiError> {
        let is_asked =
            |cluster: &ClusterName| self.clusters.is_empty() || self.clusters.contains(cluster);
        let mut elsewhere = catalog
            .read_elsewhere()
            .filter(|(cluster, _)| self.is_shared && is_asked(cluster));
        if self.follows.is_empty() {
            return elsewhere.next().map_or(Ok(()), |(cluster, replica)| {
                Err(ApiError::bad_request(format!(
                    "cluster {cluster} is read by replica {replica}, which cannot be asked from here: a watch over several replicas needs them to serve one another over TLS (--api-service, --replica-address); or name other clusters with the parameter clusters"
                )))
            });
        }
        let problem = |replica: &str| {
            self.follows
                .iter()
                .find_map(|follow| follow.problem(replica))
        };
        match elsewhere.find_map(|(cluster, replica)| Some((cluster, replica, problem(replica)?))) {
            None => Ok(()),
            Some((cluster, replica, problem)) => Err(ApiError::Unavailable(format!(
                "cluster {cluster} is read by replica {replica}, whose changes are not known here at the moment: {problem}"
            ))),
        }
    }

    /// Waits until everything is known that the others have written by now. Refused if they do not say how far they are: a watch that begins all the
    /// same would show objects as they were before the list.
    pub async fn settled(&self) -> Result<(), ApiError> {
        for follow in &self.follows {
            if !follow.settled().await {
                return Err(ApiError::Unavailable(
                    "another replica does not say in time how far its changes are; try again"
                        .to_owned(),
                ));
            }
        }
        Ok(())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(StoreName, ResourceName), Arc<Follow>>> {
        self.follows.lock()
    }

    fn follow(
        self: &Arc<Self>,
        store: &StoreName,
        native: &NativePath,
        log: &Arc<Log>,
    ) -> Arc<Follow> {
        let resource = ResourceName::new(&native.group, &native.plural);
        let key = (store.clone(), resource.clone());
        let mut follows = self.lock();
        if let Some(follow) = follows.get(&key).filter(|follow| follow.renew()) {
            return Arc::clone(follow);
        }
        let path = connection::path(native, store);
        let follow = Follow::start(
            self.replicas.clone(),
            Arc::clone(&self.connect),
            path,
            resource,
            Arc::clone(log),
        );
        follows.insert(key, Arc::clone(&follow));
        follow
    }
}

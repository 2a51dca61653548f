//! A cache of clients that impersonate the caller at a member: a session of kubectl is many small
//! requests.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use fleetdex_clusters::{
    Clusters, MemberState,
    impersonate::{ImpersonateError, Impersonation},
};
use fleetdex_core::model::ClusterName;
use kube::Client;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::auth::caller::Caller;

/// Clients at a time. Each holds few idle connections (about 50 kB with TLS) for a session of one
/// person with one cluster.
const MAX_CLIENTS: usize = 256;
/// A client keeps the credentials that it was made with: rotated ones take effect after this at the
/// latest.
const LIFETIME: Duration = Duration::from_mins(5);
/// Groups that a member adds by itself, and that cannot be impersonated.
const IMPLIED_GROUPS: [&str; 2] = ["system:authenticated", "system:unauthenticated"];
/// The prefix of extra keys by which the control plane describes credentials. They grant no rights,
/// and members rarely allow impersonating them.
const CREDENTIAL_EXTRA: &str = "authentication.kubernetes.io/";

/// Clients by member and impersonated user.
pub struct ClientCache {
    clusters: Arc<Clusters>,
    cached: Mutex<Vec<CachedClient>>,
}

struct CachedClient {
    cluster: ClusterName,
    who: Impersonation,
    /// The member's connection at that time. If it is another one now, or none, the client is
    /// dropped.
    connection: Option<u64>,
    client: Client,
    created: Instant,
    used: Instant,
}

impl ClientCache {
    /// An empty cache.
    pub fn new(clusters: Arc<Clusters>) -> Self {
        Self {
            clusters,
            cached: Mutex::default(),
        }
    }

    /// The states of all members.
    pub fn states(&self) -> BTreeMap<ClusterName, MemberState> {
        self.clusters.states()
    }

    /// A client for `cluster` that impersonates `who`. Making one reads credentials, which takes at
    /// most the timeout of a small request.
    pub async fn get(
        &self,
        cluster: &ClusterName,
        who: &Impersonation,
    ) -> Result<Client, ImpersonateError> {
        let connection = self.clusters.connection(cluster);
        let connection = connection.map(|connection| connection.id);
        if let Some(client) = self.cached(cluster, who, connection) {
            return Ok(client);
        }
        let client = self.clusters.client_as(cluster, who.clone()).await?;
        let now = Instant::now();
        let new = CachedClient {
            cluster: cluster.clone(),
            who: who.clone(),
            connection,
            client: client.clone(),
            created: now,
            used: now,
        };
        let mut cached = self.cached.lock();
        cached.retain(|old| !old.is(cluster, who));
        if cached.len() >= MAX_CLIENTS {
            let numbered = cached.iter().enumerate();
            let oldest = numbered.min_by_key(|(_, old)| old.used);
            let oldest = oldest.map(|(position, _)| position);
            oldest.map(|position| cached.swap_remove(position));
        }
        cached.push(new);
        Ok(client)
    }

    /// Drops a client whose credentials were refused.
    pub fn forget(&self, cluster: &ClusterName, who: &Impersonation) {
        self.cached.lock().retain(|cached| !cached.is(cluster, who));
    }

    fn cached(
        &self,
        cluster: &ClusterName,
        who: &Impersonation,
        connection: Option<u64>,
    ) -> Option<Client> {
        let now = Instant::now();
        let mut all = self.cached.lock();
        all.retain(|cached| {
            now.duration_since(cached.created) < LIFETIME
                && (cached.cluster != *cluster || cached.connection == connection)
        });
        let cached = all.iter_mut().find(|cached| cached.is(cluster, who))?;
        cached.used = now;
        Some(cached.client.clone())
    }
}

impl CachedClient {
    fn is(&self, cluster: &ClusterName, who: &Impersonation) -> bool {
        self.cluster == *cluster && self.who == *who
    }
}

impl fmt::Debug for ClientCache {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ClientCache")
            .field("cached", &self.cached.lock().len())
            .finish_non_exhaustive()
    }
}

/// The user that is impersonated for a caller. `fleetdex local` does not impersonate: the user of
/// the kubeconfig has started it.
///
/// The UID is not sent: it is one of the control plane, and a member's own user of that name has
/// another. Groups and extra keys that could restrict the caller at the member are always sent.
pub fn impersonation(caller: &Caller, is_local: bool) -> Impersonation {
    if is_local && caller.is_local() {
        return Impersonation::default();
    }
    let mut groups = caller.groups.clone();
    groups.retain(|group| !IMPLIED_GROUPS.contains(&group.as_str()));
    let mut extra = caller.extra.clone();
    extra.retain(|key, _| !key.starts_with(CREDENTIAL_EXTRA));
    Impersonation {
        user: Some(caller.name.clone()),
        uid: None,
        groups,
        extra,
    }
}

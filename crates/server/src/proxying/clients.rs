//! Clients that ask members as the caller, kept for a while: a session of kubectl is many small requests.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use fleetdex_clusters::{
    Clusters, MemberState,
    impersonate::{ImpersonateError, Impersonation},
};
use fleetdex_core::model::ClusterName;
use kube::Client;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::super::caller::Caller;

/// Clients at a time. Each holds few idle connections (about 50 kB with TLS) for a session of one person with one cluster.
const MAX_CLIENTS: usize = 256;
/// A client has the credentials of the time at which it was made: new ones take effect at the latest after this.
const LIFETIME: Duration = Duration::from_mins(5);
/// Groups that a member adds by itself, and that nobody may ask for.
const IMPLIED_GROUPS: [&str; 2] = ["system:authenticated", "system:unauthenticated"];
/// What the control plane notes about how somebody came to it. It gives and takes no rights, and members rarely allow it to be sent.
const CREDENTIAL_NOTES: &str = "authentication.kubernetes.io/";

/// Clients by member and by whom they ask as.
pub struct Clients {
    clusters: Arc<Clusters>,
    kept: Mutex<Vec<Kept>>,
}

struct Kept {
    cluster: ClusterName,
    who: Impersonation,
    /// The connection that the member had then: with another one, or none, something about the member has changed.
    connection: Option<u64>,
    client: Client,
    made: Instant,
    used: Instant,
}

impl Clients {
    /// None yet.
    pub fn new(clusters: Arc<Clusters>) -> Self {
        Self {
            clusters,
            kept: Mutex::default(),
        }
    }

    /// Where all members stand.
    pub fn states(&self) -> BTreeMap<ClusterName, MemberState> {
        self.clusters.states()
    }

    /// A client that asks `cluster` as `who`. Making one reads credentials, which takes at most the time of a small request.
    pub async fn get(
        &self,
        cluster: &ClusterName,
        who: &Impersonation,
    ) -> Result<Client, ImpersonateError> {
        let connection = self
            .clusters
            .connection(cluster)
            .map(|connection| connection.id);
        if let Some(client) = self.kept(cluster, who, connection) {
            return Ok(client);
        }
        let client = self.clusters.client_as(cluster, who.clone()).await?;
        let now = Instant::now();
        let new = Kept {
            cluster: cluster.clone(),
            who: who.clone(),
            connection,
            client: client.clone(),
            made: now,
            used: now,
        };
        let mut kept = self.lock();
        kept.retain(|old| !old.is(cluster, who));
        if kept.len() >= MAX_CLIENTS {
            let oldest = kept
                .iter()
                .enumerate()
                .min_by_key(|(_, old)| old.used)
                .map(|(position, _)| position);
            oldest.map(|position| kept.swap_remove(position));
        }
        kept.push(new);
        Ok(client)
    }

    /// Drops a client whose credentials were refused.
    pub fn forget(&self, cluster: &ClusterName, who: &Impersonation) {
        self.lock().retain(|kept| !kept.is(cluster, who));
    }

    fn kept(
        &self,
        cluster: &ClusterName,
        who: &Impersonation,
        connection: Option<u64>,
    ) -> Option<Client> {
        let now = Instant::now();
        let mut all = self.lock();
        all.retain(|kept| {
            now.duration_since(kept.made) < LIFETIME
                && (kept.cluster != *cluster || kept.connection == connection)
        });
        let kept = all.iter_mut().find(|kept| kept.is(cluster, who))?;
        kept.used = now;
        Some(kept.client.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.kept.lock()
    }
}

impl Kept {
    fn is(&self, cluster: &ClusterName, who: &Impersonation) -> bool {
        self.cluster == *cluster && self.who == *who
    }
}

impl fmt::Debug for Clients {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Clients")
            .field("kept", &self.lock().len())
            .finish_non_exhaustive()
    }
}

/// As whom a member is asked for a caller. In `fleetdex local` that is whoever the kubeconfig says: the one who started it.
///
/// The UID is not sent: it is one of the control plane, and a member's own user of that name has another. Nothing that the caller has
/// beyond its name is left out if it could take rights away.
pub fn impersonation(caller: &Caller, is_local: bool) -> Impersonation {
    if is_local && caller.is_local() {
        return Impersonation::default();
    }
    let groups = caller
        .groups
        .iter()
        .filter(|group| !IMPLIED_GROUPS.contains(&group.as_str()))
        .cloned();
    let extra = caller
        .extra
        .iter()
        .filter(|(key, _)| !key.starts_with(CREDENTIAL_NOTES));
    Impersonation {
        user: Some(caller.name.clone()),
        uid: None,
        groups: groups.collect(),
        extra: extra
            .map(|(key, values)| (key.clone(), values.clone()))
            .collect(),
    }
}

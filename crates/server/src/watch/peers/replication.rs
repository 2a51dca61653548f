//! Replicates the changes of one resource from all other replicas into the local log, while
//! requests on this replica need them.

mod peer_stream;
mod state;
mod supervisor;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fleetdex_core::query::ResourceName;
use fleetdex_query_api::question::ChangesRequest;
use fleetdex_replicas::{ReplicaName, Replicas};
use fleetdex_store::changes::Log;
use futures::future::join_all;
use kube::Client;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use self::{
    peer_stream::{ReplicationError, settled_version},
    state::{CompleteFrom, PeerState, ReplicationState},
};
use super::connection::ConnectFn;

/// How long the first requests wait until all replicas are connected. It mostly takes some ten
/// milliseconds.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a watch waits until this replica has caught up with the others, which takes as long as
/// a request to each of them.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(5);

/// The replication of one resource. Stops when it has been idle for a while, or is dropped.
pub(super) struct ResourceReplication {
    state: Arc<ReplicationState>,
    _task: AbortOnDropHandle<()>,
}

impl ResourceReplication {
    pub(super) fn start(
        replicas: Replicas,
        connect: ConnectFn,
        position: ChangesRequest,
        resource: ResourceName,
        log: Arc<Log>,
    ) -> Arc<Self> {
        let state = Arc::new(ReplicationState::new(
            replicas, connect, position, resource, log,
        ));
        let task = AbortOnDropHandle::new(tokio::spawn(supervisor::run(Arc::clone(&state))));
        Arc::new(Self { state, _task: task })
    }

    /// Renews the idle deadline; `false` once replication has stopped.
    pub(super) fn renew(&self) -> bool {
        self.state.renew()
    }

    /// Waits until all replicas are connected, or the timeout since the start has expired.
    pub(super) async fn wait_until_connected(&self) {
        let state = &self.state;
        let deadline = state.started + CONNECT_TIMEOUT;
        let mut peers = state.peers.subscribe();
        let connected = peers.wait_for(|states| state.is_connected(states));
        if timeout_at(deadline, connected).await.is_err() {
            tracing::debug!(resource = %state.resource.plural, "not all replicas are connected");
        }
        // After a 410 because of lost changes, a list that does not show them yet would lead to
        // another 410.
        let CompleteFrom { number, since } = *state.complete_from.lock();
        let patience = (since + CONNECT_TIMEOUT).saturating_duration_since(Instant::now());
        state.log.reaches(number, patience).await;
    }

    /// Why a replica's changes are not replicated; `None` if they are.
    pub(super) fn problem(&self, replica: &str) -> Option<String> {
        let peers = self.state.peers.borrow();
        let found = peers.iter().find(|(name, _)| name.as_str() == replica);
        match found {
            Some((_, PeerState::Replicating(..) | PeerState::Ended)) => None,
            Some((_, PeerState::Connecting(problem))) => Some(problem.clone()),
            None => Some("the connection to it is being established; try again".to_owned()),
        }
    }

    /// Waits until everything that the other replicas have written by now is replicated; `false`
    /// after a timeout.
    pub(super) async fn wait_until_caught_up(&self) -> bool {
        let connected: Vec<(ReplicaName, Client)> = {
            let peers = self.state.peers.borrow();
            let connected = peers.iter().filter_map(|(name, state)| match state {
                PeerState::Replicating(_, client) => Some((name.clone(), client.clone())),
                PeerState::Connecting(_) | PeerState::Ended => None,
            });
            connected.collect()
        };
        let connected = connected.iter();
        let all = connected.map(|(name, client)| catch_up(&self.state, name, client));
        timeout(CATCH_UP_TIMEOUT, join_all(all)).await.is_ok()
    }
}

async fn catch_up(state: &ReplicationState, replica: &ReplicaName, client: &Client) {
    let caught_up = async {
        let version = settled_version(client, &state.position).await?;
        let has_reached = |peers: &BTreeMap<ReplicaName, PeerState>| match peers.get(replica) {
            Some(PeerState::Replicating(replicated, _)) => *replicated >= version,
            // Watches get a 410 in this case.
            _ => true,
        };
        drop(state.peers.subscribe().wait_for(has_reached).await);
        Ok::<_, ReplicationError>(())
    };
    if let Err(error) = caught_up.await {
        tracing::debug!(%replica, %error, "cannot read the version of a replica");
    }
}

//! What has been replicated of one resource, from which replicas.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fleetdex_core::{
    model::{ClusterName, FleetVersion},
    query::ResourceName,
};
use fleetdex_query_api::question::ChangesRequest;
use fleetdex_replicas::{PeerReplica, ReplicaName, Replicas};
use fleetdex_store::changes::{Log, ReplicatedChange};
use kube::Client;
use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};

use crate::watch::peers::connection::ConnectFn;

/// How long after the last request for a resource its replication continues: as long as the log is
/// kept.
const IDLE_TIMEOUT: Duration = Duration::from_mins(10);
/// How long after another replica has started with a cluster a change of the previous one counts as
/// late. A handover takes longer than any change is in transit, unless something is wrong.
const HANDOVER: Duration = Duration::from_secs(10);

/// The replication from another replica.
#[derive(Clone)]
pub(super) enum PeerState {
    /// Not established, for this reason.
    Connecting(String),
    /// Everything up to this version has been replicated.
    Replicating(FleetVersion, Client),
    /// The replica has ended in good order, and everything has been replicated.
    Ended,
}

/// The state of replicating one resource.
pub(super) struct ReplicationState {
    pub(super) replicas: Replicas,
    pub(super) connect: ConnectFn,
    /// Asks another replica for its position.
    pub(super) position: ChangesRequest,
    pub(super) resource: ResourceName,
    pub(super) log: Arc<Log>,
    pub(super) started: Instant,
    idle: Mutex<IdleTimer>,
    pub(super) peers: watch::Sender<BTreeMap<ReplicaName, PeerState>>,
    pub(super) complete_from: Mutex<CompleteFrom>,
    /// The replica that sent the last change of each cluster, and since when it sends them.
    sources: Mutex<BTreeMap<ClusterName, (ReplicaName, Instant)>>,
}

/// From where on the log has all changes of the replicas that are connected.
#[derive(Clone, Copy)]
pub(super) struct CompleteFrom {
    pub(super) number: u64,
    pub(super) since: Instant,
}

struct IdleTimer {
    last_used: Instant,
    stopped: bool,
}

impl ReplicationState {
    pub(super) fn new(
        replicas: Replicas,
        connect: ConnectFn,
        position: ChangesRequest,
        resource: ResourceName,
        log: Arc<Log>,
    ) -> Self {
        let now = Instant::now();
        Self {
            replicas,
            connect,
            position,
            resource,
            log,
            started: now,
            idle: Mutex::new(IdleTimer {
                last_used: now,
                stopped: false,
            }),
            peers: watch::Sender::new(BTreeMap::new()),
            complete_from: Mutex::new(CompleteFrom {
                number: 0,
                since: now,
            }),
            sources: Mutex::default(),
        }
    }

    /// Renews the idle deadline; `false` once replication has stopped.
    pub(super) fn renew(&self) -> bool {
        let mut idle = self.idle.lock();
        idle.last_used = Instant::now();
        !idle.stopped
    }

    /// Stops replication if it is idle and the resource has no watches; returns whether it has
    /// stopped.
    pub(super) fn stop_if_idle(&self) -> bool {
        let mut idle = self.idle.lock();
        idle.stopped =
            idle.last_used.elapsed() >= IDLE_TIMEOUT && !self.log.is_watched(&self.resource);
        idle.stopped
    }

    /// Whether all other replicas are connected, or have ended.
    pub(super) fn is_connected(&self, states: &BTreeMap<ReplicaName, PeerState>) -> bool {
        let is_connected = |peer: &PeerReplica| {
            let state = states.get(&peer.name);
            matches!(state, Some(PeerState::Replicating(..) | PeerState::Ended))
        };
        let peers = self.replicas.peers();
        peers.is_none_or(|peers| peers.iter().all(is_connected))
    }

    pub(super) fn set(&self, replica: &ReplicaName, state: PeerState) {
        self.peers
            .send_modify(|peers| drop(peers.insert(replica.clone(), state)));
    }

    /// Declares that changes up to now may be missing: watches end with 410.
    pub(super) fn lose_changes(&self) {
        let mut complete_from = self.complete_from.lock();
        *complete_from = CompleteFrom {
            number: self.log.lose(&self.resource),
            since: Instant::now(),
        };
    }

    /// Removes a replica that has left.
    pub(super) fn remove(&self, replica: &ReplicaName) {
        let mut has_ended = false;
        self.peers.send_modify(|peers| {
            has_ended = matches!(peers.remove(replica), Some(PeerState::Ended));
        });
        if !has_ended {
            tracing::debug!(%replica, resource = %self.resource.plural, "a replica has left without ending its changes in good order");
            self.lose_changes();
        }
    }

    pub(super) fn has_ended(&self, replica: &ReplicaName) -> bool {
        matches!(self.peers.borrow().get(replica), Some(PeerState::Ended))
    }

    /// Appends a replica's changes to the local log.
    pub(super) fn append(&self, replica: &ReplicaName, changes: Vec<ReplicatedChange>) {
        let mut clusters = changes.iter().filter_map(|change| change.cluster.as_ref());
        let is_late = clusters.any(|cluster| self.is_late(replica, cluster));
        self.log.append_replicated(changes);
        if is_late {
            tracing::debug!(%replica, "received a change after those of the replica that reads the cluster now");
            self.lose_changes();
        }
    }

    /// Whether another replica may have sent newer changes of a cluster already.
    fn is_late(&self, replica: &ReplicaName, cluster: &ClusterName) -> bool {
        if self.replicas.assignment().may_start(cluster) {
            return true;
        }
        let mut sources = self.sources.lock();
        let now = Instant::now();
        match sources.get(cluster) {
            Some((source, _)) if source == replica => false,
            earlier => {
                let is_late =
                    earlier.is_some_and(|(_, since)| now.duration_since(*since) < HANDOVER);
                sources.insert(cluster.clone(), (replica.clone(), now));
                is_late
            }
        }
    }
}

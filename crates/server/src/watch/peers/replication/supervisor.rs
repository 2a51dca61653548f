//! Runs one task for each other replica.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fleetdex_replicas::{PeerReplica, ReplicaName};
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;

use super::{peer_stream, state::ReplicationState};

/// Interval between looks at the list of replicas.
const INTERVAL: Duration = Duration::from_millis(250);
/// How long the last lines of a replica whose Lease is gone may take: it has written them before.
const LAST_LINES_TIMEOUT: Duration = Duration::from_secs(3);

/// The task that replicates from one replica.
struct PeerTask {
    peer: PeerReplica,
    /// Since when its Lease is gone.
    gone_since: Option<Instant>,
    _task: AbortOnDropHandle<()>,
}

impl PeerTask {
    fn start(state: &Arc<ReplicationState>, peer: PeerReplica) -> Self {
        let task = AbortOnDropHandle::new(tokio::spawn(peer_stream::run(
            Arc::clone(state),
            peer.clone(),
        )));
        Self {
            peer,
            gone_since: None,
            _task: task,
        }
    }

    /// Whether to continue. A replica that leaves releases its Lease once it has sent everything,
    /// but its last lines may be in transit.
    fn continues(&mut self, peers: &[PeerReplica], state: &ReplicationState) -> bool {
        if peers.contains(&self.peer) {
            self.gone_since = None;
            return true;
        }
        let gone_since = *self.gone_since.get_or_insert_with(Instant::now);
        let has_successor = peers.iter().any(|peer| peer.name == self.peer.name);
        !has_successor
            && !state.has_ended(&self.peer.name)
            && gone_since.elapsed() < LAST_LINES_TIMEOUT
    }
}

/// Starts and stops tasks as replicas come and go, until replication is idle.
pub(super) async fn run(state: Arc<ReplicationState>) {
    let mut tasks: BTreeMap<ReplicaName, PeerTask> = BTreeMap::new();
    while !state.stop_if_idle() {
        // `None` while this replica itself is cut off from the control plane.
        if let Some(peers) = state.replicas.peers() {
            tasks.retain(|name, task| {
                let continues = task.continues(&peers, &state);
                if !continues {
                    state.remove(name);
                }
                continues
            });
            for peer in peers {
                tasks
                    .entry(peer.name.clone())
                    .or_insert_with(|| PeerTask::start(&state, peer));
            }
            // Wakes those that wait for replicas that have left.
            state.peers.send_modify(|_| {});
        }
        sleep(INTERVAL).await;
    }
}

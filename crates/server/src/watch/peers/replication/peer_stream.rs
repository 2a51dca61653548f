//! Reads the changes of one other replica, and reconnects until the task is dropped.

use std::{sync::Arc, time::Duration};

use fleetdex_core::model::{FleetVersion, MAX_OBJECT_BYTES, causes};
use fleetdex_query_api::question::ChangesRequest;
use fleetdex_replicas::PeerReplica;
use fleetdex_store::changes::{InvalidLine, LineReader};
use futures::{AsyncBufReadExt as _, AsyncReadExt as _};
use kube::Client;
use tokio::time::{Instant, sleep, timeout};

use super::state::{PeerState, ReplicationState};
use crate::watch::{
    changes::HEARTBEAT,
    peers::connection::{ConnectionError, Lines, ask},
};

/// Pause before a reconnect.
const RECONNECT_DELAY: Duration = Duration::from_millis(500);
/// Three heartbeats: a replica that sends nothing for so long is gone.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(3 * HEARTBEAT.as_secs());
/// How long a replica may be unreachable until watches end with 410.
const LONGEST_BREAK: Duration = Duration::from_secs(15);
/// The longest line of another replica: an object before and after a change, each of the largest
/// size, with its terms.
const MAX_LINE_BYTES: u64 = 4 * MAX_OBJECT_BYTES as u64;

/// How much of another replica's changes has been replicated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplicatedTo {
    Nothing,
    /// Everything up to this version of the replica.
    Version(FleetVersion),
    /// Everything: the replica has ended cleanly.
    Everything,
}

impl ReplicatedTo {
    fn version(self) -> Option<FleetVersion> {
        match self {
            Self::Version(version) => Some(version),
            Self::Nothing | Self::Everything => None,
        }
    }
}

/// Why the replication from a replica is interrupted.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReplicationError {
    #[error("it has no address (--replica-address)")]
    NoAddress,
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    #[error("it has sent nothing for {} s", SILENCE_TIMEOUT.as_secs())]
    Silent,
    #[error("it sends a line longer than {MAX_LINE_BYTES} bytes")]
    TooLong,
    #[error("the connection has ended")]
    Closed,
    #[error("the connection is broken: {0}")]
    Io(#[from] std::io::Error),
    #[error("its changes cannot be parsed; do both run the same version? {}", causes(.0))]
    InvalidLine(#[from] InvalidLine),
}

/// Replicates from a replica for ever.
pub(super) async fn run(state: Arc<ReplicationState>, peer: PeerReplica) {
    let mut reader = LineReader::default();
    let mut replicated = ReplicatedTo::Nothing;
    let mut broken_since: Option<Instant> = None;
    loop {
        let before = replicated;
        let outcome = replicate(&state, &peer, &mut reader, &mut replicated).await;
        if replicated != before {
            broken_since = None;
        }
        match outcome {
            Ok(()) => state.set(&peer.name, PeerState::Ended),
            Err(ReplicationError::Connection(ConnectionError::TooOld)) => {
                replicated = ReplicatedTo::Nothing;
            }
            Err(error) => {
                tracing::debug!(replica = %peer.name, %error, resource = %state.resource.plural, "the replication from a replica is interrupted");
                if replicated != ReplicatedTo::Everything {
                    state.set(&peer.name, PeerState::Connecting(error.to_string()));
                }
                let since = *broken_since.get_or_insert_with(Instant::now);
                if replicated.version().is_some() && since.elapsed() >= LONGEST_BREAK {
                    replicated = ReplicatedTo::Nothing;
                    state.lose_changes();
                }
            }
        }
        sleep(RECONNECT_DELAY).await;
    }
}

/// Replicates over one connection; an error unless the replica ends cleanly.
async fn replicate(
    state: &ReplicationState,
    peer: &PeerReplica,
    reader: &mut LineReader,
    replicated: &mut ReplicatedTo,
) -> Result<(), ReplicationError> {
    let client = (state.connect)(peer.address.ok_or(ReplicationError::NoAddress)?)?;
    let changes = ChangesRequest {
        watch: true,
        since: replicated.version(),
        ..state.position.clone()
    };
    let mut lines = ask(&client, changes).await?;
    let mut pending = Vec::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = timeout(SILENCE_TIMEOUT, read_line(&mut lines, &mut line))
            .await
            .map_err(|_| ReplicationError::Silent)??;
        if length == 0 {
            return Err(ReplicationError::Closed);
        }
        let change = reader.read(&line)?;
        if change.cluster.is_some() {
            pending.push(change);
            continue;
        }
        // A replica that already reported its end reports it again on reconnect; it wrote nothing
        // in between.
        if *replicated == ReplicatedTo::Nothing
            || (*replicated == ReplicatedTo::Everything && !change.is_last)
        {
            state.lose_changes();
        }
        state.append(&peer.name, std::mem::take(&mut pending));
        if change.is_last {
            *replicated = ReplicatedTo::Everything;
            return Ok(());
        }
        *replicated = ReplicatedTo::Version(change.version);
        state.set(
            &peer.name,
            PeerState::Replicating(change.version, client.clone()),
        );
    }
}

/// Appends the next line to `line`, and returns its length; 0 at the end.
async fn read_line(lines: &mut Lines, line: &mut Vec<u8>) -> Result<usize, ReplicationError> {
    let length = lines.take(MAX_LINE_BYTES).read_until(b'\n', line).await?;
    if length as u64 == MAX_LINE_BYTES && line.last() != Some(&b'\n') {
        return Err(ReplicationError::TooLong);
    }
    Ok(length)
}

/// The version of a replica once its changes in flight have ended.
pub(super) async fn settled_version(
    client: &Client,
    changes: &ChangesRequest,
) -> Result<FleetVersion, ReplicationError> {
    let mut lines = ask(client, changes.clone()).await?;
    let mut line = Vec::new();
    read_line(&mut lines, &mut line).await?;
    Ok(LineReader::default().read(&line)?.version)
}

//! The changes of this replica, for the other replicas, which send them to their watches.
//!
//! `changes/<native path>?store=…&watch=true` is a stream of lines
//! ([`fleetdex_store::changes::LineReader`]); without `watch`, one line with this replica's version
//! once the changes in flight have ended. It contains all objects of the resource, whatever the
//! caller can see: so the caller needs the verb `replicate` on `changes`, which replicas have and
//! users do not need.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::body::Body;
use bytes::Bytes;
use fleetdex_core::query::ResourceName;
use fleetdex_query_api::question::ChangesRequest;
use fleetdex_store::{
    StoreError,
    changes::{ReplicationLines, Tail, write_end, write_position},
};
use futures::{Stream, stream::unfold};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use crate::{
    api_error::ApiError,
    catalog::Catalog,
    read::snapshot::{log_of, sequence_number},
};

/// Interval of lines without changes, which show that this replica is alive.
pub const HEARTBEAT: Duration = Duration::from_secs(5);

/// Starts the response to another replica. The stream ends when the sender of `shutdown` is
/// dropped.
pub async fn respond(
    catalog: &Catalog,
    request: &ChangesRequest,
    shutdown: watch::Receiver<Arc<Catalog>>,
) -> Result<Body, ApiError> {
    let ChangesRequest {
        resource: resource_path,
        store: name,
        watch,
        since,
    } = request;
    let store = catalog
        .store(name)
        .ok_or_else(|| ApiError::Unavailable(format!("store {name} is not connected yet")))?;
    let log = log_of(&**store).await?;
    if !watch {
        let mut line = Vec::new();
        let version = log.sequence().version(log.settled().await);
        write_position(&mut line, version)?;
        return Ok(line.into());
    }
    let after = since
        .map(|version| sequence_number(std::slice::from_ref(&log), version))
        .transpose()?;
    let resource = ResourceName::new(&resource_path.group, &resource_path.plural);
    let expired =
        |_| ApiError::VersionExpired("the changes since then are no longer known".to_owned());
    let tail = log.tail(&resource, after).map_err(expired)?;
    let stream = ChangeStream {
        tail,
        shutdown,
        next_heartbeat: Instant::now(),
        has_sent: false,
        has_ended: false,
    };
    Ok(Body::from_stream(stream.chunks()))
}

/// The changes for one other replica.
struct ChangeStream {
    tail: Tail,
    /// Closed when this replica stops.
    shutdown: watch::Receiver<Arc<Catalog>>,
    next_heartbeat: Instant,
    has_sent: bool,
    /// Whether the last line was sent.
    has_ended: bool,
}

impl ChangeStream {
    fn chunks(self) -> impl Stream<Item = Result<Bytes, Infallible>> {
        unfold(Some(self), async |state| {
            let mut stream: Self = state?;
            if stream.has_ended {
                stream.wait_until_read().await;
                return None;
            }
            let is_first = !std::mem::replace(&mut stream.has_sent, true);
            match stream.next().await {
                Ok((lines, true)) => Some((Ok(lines.into()), Some(stream))),
                Ok((lines, false)) => {
                    stream.has_ended = true;
                    // A replica that connects again had read everything.
                    Some((Ok(lines.into()), (!is_first).then_some(stream)))
                }
                // The other replica notices that the last line is missing.
                Err(error) => {
                    tracing::debug!(%error, "ending the changes for another replica with an error");
                    None
                }
            }
        })
    }

    /// Waits for the other replica to close the connection, which it does when it has read the last
    /// line. The subscription of the tail, which lasts as long, keeps this replica from releasing
    /// its Lease: while lines are in transit, the other one must not take over.
    async fn wait_until_read(&mut self) {
        while self.shutdown.changed().await.is_ok() {}
    }

    /// The next lines, and whether more come.
    async fn next(&mut self) -> Result<(Vec<u8>, bool), StoreError> {
        loop {
            tokio::select! {
                biased;
                changed = self.shutdown.changed() => {
                    if changed.is_err() {
                        return Ok((self.rest()?, false));
                    }
                }
                changes = self.tail.next() => {
                    let mut changes = changes?;
                    let lines = std::mem::take(&mut changes.lines);
                    return Ok((with_position(&changes, lines)?, !changes.is_last));
                }
                () = sleep_until(self.next_heartbeat) => {
                    self.next_heartbeat = Instant::now() + HEARTBEAT;
                    let mut lines = Vec::new();
                    write_position(&mut lines, self.tail.position())?;
                    return Ok((lines, true));
                }
            }
        }
    }

    /// The last changes when this replica stops. Only the log can declare that they are complete.
    /// If a write was abandoned without a known outcome, it does not, and the other replica treats
    /// the end of the stream as a broken connection.
    fn rest(&mut self) -> Result<Vec<u8>, StoreError> {
        let mut lines = Vec::new();
        loop {
            let before = self.tail.position();
            let mut changes = self.tail.available()?;
            lines.append(&mut changes.lines);
            if changes.is_last || changes.position == before {
                return with_position(&changes, lines);
            }
        }
    }
}

/// Appends the line with the position after the changes, or with the end.
fn with_position(changes: &ReplicationLines, mut lines: Vec<u8>) -> Result<Vec<u8>, StoreError> {
    let write = if changes.is_last {
        write_end
    } else {
        write_position
    };
    write(&mut lines, changes.position)?;
    Ok(lines)
}

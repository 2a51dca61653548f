//! What this replica changes, for the other replicas: they tell it to those who watch there.
//!
//! `changes/<native path>?store=…&watch=true` is a stream of lines ([`fleetdex_store::changes::Reader`]); without `watch`, one line that says how far
//! this replica is once what is under way is done. Everything of the resource is in it, whoever may see what of it: beside `get` on `changes/*` that
//! takes `replicate` on `changes`, which replicas have and people need not.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::body::Body;
use bytes::Bytes;
use fleetdex_core::query::ResourceName;
use fleetdex_store::{
    StoreError,
    changes::{Tail, Told, write_end, write_position},
};
use futures::{Stream, stream::unfold};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use super::{
    catalog::Catalog,
    moment::{log_of, number},
    request::ChangesRequest,
    status::ApiError,
};

/// How often something is told, so that the other replica knows that this one is there.
pub const HEARTBEAT: Duration = Duration::from_secs(5);

/// Begins to tell.
pub async fn answer(
    catalog: &Catalog,
    wanted: &ChangesRequest,
    registered: watch::Receiver<Arc<Catalog>>,
) -> Result<Body, ApiError> {
    let ChangesRequest {
        native,
        store: name,
        watch,
        since,
    } = wanted;
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
        .map(|version| number(std::slice::from_ref(&log), version))
        .transpose()?;
    let resource = ResourceName::new(&native.group, &native.plural);
    let unknown =
        |_| ApiError::VersionExpired("the changes since then are not known any more".to_owned());
    let tail = log.tail(&resource, after).map_err(unknown)?;
    let telling = Telling {
        tail,
        registered,
        next_heartbeat: Instant::now(),
    };
    Ok(Body::from_stream(telling.chunks()))
}

/// A replica that is told.
struct Telling {
    tail: Tail,
    /// Ends when this replica stops.
    registered: watch::Receiver<Arc<Catalog>>,
    next_heartbeat: Instant,
}

impl Telling {
    fn chunks(self) -> impl Stream<Item = Result<Bytes, Infallible>> {
        unfold(Some(self), async |state| {
            let mut telling = state?;
            match telling.next().await {
                Ok((lines, true)) => Some((Ok(lines.into()), Some(telling))),
                Ok((lines, false)) => Some((Ok(lines.into()), None)),
                // The other replica notices that the stream does not end as it should.
                Err(error) => {
                    tracing::debug!(%error, "another replica is not told any more");
                    None
                }
            }
        })
    }

    /// The next lines, and whether more come.
    async fn next(&mut self) -> Result<(Vec<u8>, bool), StoreError> {
        loop {
            tokio::select! {
                biased;
                changed = self.registered.changed() => {
                    if changed.is_err() {
                        return Ok((self.rest()?, false));
                    }
                }
                told = self.tail.next() => {
                    let mut told = told?;
                    let lines = std::mem::take(&mut told.lines);
                    return Ok((ended_or_at(&told, lines)?, !told.is_last));
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

    /// What is left when this replica stops. That this is all only the log can say: where a write is given up whose outcome is not known, it does
    /// not, and the other replica takes the end of the stream for a connection that broke.
    fn rest(&mut self) -> Result<Vec<u8>, StoreError> {
        let mut lines = Vec::new();
        loop {
            let before = self.tail.position();
            let mut told = self.tail.now()?;
            lines.append(&mut told.lines);
            if told.is_last || told.position == before {
                return ended_or_at(&told, lines);
            }
        }
    }
}

/// Lines, and how far they go.
fn ended_or_at(told: &Told, mut lines: Vec<u8>) -> Result<Vec<u8>, StoreError> {
    let write = if told.is_last {
        write_end
    } else {
        write_position
    };
    write(&mut lines, told.position)?;
    Ok(lines)
}

//! Another replica that follows what this one changes.

use std::sync::Arc;

use fleetdex_core::{
    model::FleetVersion,
    planted::{Bug, planted},
    query::ResourceName,
};

use super::{
    Log, TooOld,
    log::{FollowerKind, ForReplica},
    place::Place,
    retold,
    watch::numbered,
};
use crate::{StoreError, packed::Unpacker};

/// Changes that are told in one go: some hundred kilobytes of usual objects.
const LOOK: usize = 128;

/// Follows what this replica changes of one resource. What it has heard from others is left to them.
pub struct Tail {
    place: Place,
    resource: ResourceName,
}

/// What a [`Tail`] has come by.
#[derive(Debug)]
pub struct Told {
    /// A line for each change, as a [`Reader`](super::Reader) reads them.
    pub lines: Vec<u8>,
    /// The version of this replica up to which everything is told.
    pub position: FleetVersion,
    /// Whether this is all: the replica changes nothing any more.
    pub is_last: bool,
}

impl Log {
    /// Follows what this replica changes of a resource, for another one: from the change after `after`, or from now on.
    pub fn tail(
        self: &Arc<Self>,
        resource: &ResourceName,
        after: Option<u64>,
    ) -> Result<Tail, TooOld> {
        Tail::new(Arc::clone(self), resource, after)
    }
}

impl Tail {
    pub(super) fn new(
        log: Arc<Log>,
        resource: &ResourceName,
        after: Option<u64>,
    ) -> Result<Self, TooOld> {
        Ok(Self {
            place: Place::take(log, resource, after, FollowerKind::Replica)?,
            resource: resource.clone(),
        })
    }

    /// The version of this replica up to which everything has been told.
    pub fn position(&self) -> FleetVersion {
        self.place.version()
    }

    /// What there is after that already, which may be nothing.
    pub fn now(&mut self) -> Result<Told, StoreError> {
        let mut lines = Vec::new();
        self.place.look();
        let mut looked_at = self.place.after();
        let ForReplica {
            batch,
            last,
            has_ended,
        } = self
            .place
            .log()
            .after_for_replica(looked_at)
            .map_err(|_| StoreError::Expired)?;
        let is_last = has_ended && batch.is_none();
        if let Some(batch) = batch {
            let mut unpacker = Unpacker::new();
            for (sequence, change) in numbered(&batch, looked_at)
                .take(LOOK)
                .take_while(|(sequence, _)| *sequence <= last)
            {
                looked_at = sequence;
                let is_asked = change
                    .document()
                    .is_some_and(|document| document.origin.resource == self.resource);
                if is_asked && !batch.is_foreign {
                    let version = self.place.log().sequence().version(sequence);
                    retold::write_line(&mut lines, version, change, &mut unpacker)?;
                }
            }
        } else if !planted(Bug::PositionOfChangesOnly) {
            // The log counts on without a change where changes of others were lost. The other replica waits for that number.
            looked_at = looked_at.max(last);
        }
        self.place.move_to(looked_at);
        Ok(Told {
            lines,
            position: self.position(),
            is_last,
        })
    }

    /// The next changes; waits for them. May be dropped and called again without loss.
    pub async fn next(&mut self) -> Result<Told, StoreError> {
        loop {
            let before = self.place.after();
            let told = self.now()?;
            if self.place.after() > before || told.is_last {
                return Ok(told);
            }
            self.place.news().await;
        }
    }
}

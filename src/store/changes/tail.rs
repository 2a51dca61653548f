//! Another replica that follows what this one changes.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::sync::watch;

use super::{Log, TooOld, log::FollowerKind, retold, watch::numbered};
use crate::{model::FleetVersion, query::ResourceName, store::StoreError, store::codec::Unpacker};

/// Changes that are told in one go: some hundred kilobytes of usual objects.
const LOOK: usize = 128;

/// Follows what this replica changes of one resource. What it has heard from others is left to them.
pub struct Tail {
    log: Arc<Log>,
    newest: watch::Receiver<u64>,
    number: u64,
    position: Arc<AtomicU64>,
    after: u64,
    resource: ResourceName,
}

/// What a [`Tail`] has come by.
#[derive(Debug)]
pub struct Told {
    /// A line for each change, as a [`Reader`](super::Reader) reads them.
    pub lines: Vec<u8>,
    /// The version of this replica up to which everything is told.
    pub position: FleetVersion,
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.log.leave(self.number);
    }
}

impl Tail {
    pub(super) fn new(log: Arc<Log>, resource: &ResourceName, after: Option<u64>) -> Result<Self, TooOld> {
        let newest = log.subscribe();
        let (number, position) = log.follow(resource, after, FollowerKind::Replica)?;
        let after = position.load(Ordering::Acquire);
        Ok(Self { log, newest, number, position, after, resource: resource.clone() })
    }

    /// The version of this replica up to which everything has been told.
    pub fn position(&self) -> FleetVersion {
        self.log.sequence().version(self.after)
    }

    /// What there is after that already, which may be nothing.
    pub fn now(&mut self) -> Result<Told, StoreError> {
        let mut lines = Vec::new();
        self.newest.mark_unchanged();
        if let Some(batch) = self.log.after(self.after).map_err(|_| StoreError::Expired)? {
            let mut unpacker = Unpacker::new();
            for (sequence, change) in numbered(&batch, self.after).take(LOOK) {
                self.after = sequence;
                let is_asked = change.document().is_some_and(|document| document.origin.resource == self.resource);
                if is_asked && !batch.is_foreign {
                    let version = self.log.sequence().version(sequence);
                    retold::write_line(&mut lines, version, change, &mut unpacker)?;
                }
            }
            self.position.store(self.after, Ordering::Release);
        }
        Ok(Told { lines, position: self.position() })
    }

    /// The next changes; waits for them. May be dropped and called again without loss.
    pub async fn next(&mut self) -> Result<Told, StoreError> {
        loop {
            let before = self.after;
            let told = self.now()?;
            if self.after > before {
                return Ok(told);
            }
            // The sender lives in the log, which is held here.
            drop(self.newest.changed().await);
        }
    }
}

//! How another replica follows the changes of this one.

use std::sync::Arc;

use fleetdex_core::{
    model::FleetVersion,
    planted::{Bug, planted},
    query::ResourceName,
};

use super::{
    Log, TooOld, log::SubscriberKind, replication, subscription::LogSubscription, watch::numbered,
};
use crate::{StoreError, compressed::Decompressor};

/// Changes to return at once: some hundred kilobytes of usual objects.
const MAX_CHANGES: usize = 128;

/// Follows the changes that this replica makes to one resource. Changes of other replicas are left
/// to these.
pub struct Tail {
    subscription: LogSubscription,
    resource: ResourceName,
}

/// The next lines of a [`Tail`].
#[derive(Debug)]
pub struct ReplicationLines {
    /// A line for each change, for a [`LineReader`](super::LineReader).
    pub lines: Vec<u8>,
    /// This replica's version up to which all changes have been returned.
    pub position: FleetVersion,
    /// Whether this replica makes no more changes.
    pub is_last: bool,
}

impl Log {
    /// Follows the changes that this replica makes to a resource, for another replica: from the
    /// change after `after`, or from now on.
    pub fn tail(
        self: &Arc<Self>,
        resource: &ResourceName,
        after: Option<u64>,
    ) -> Result<Tail, TooOld> {
        let (log, resources) = (Arc::clone(self), [resource.clone()].into());
        Ok(Tail {
            subscription: LogSubscription::new(log, resources, after, SubscriberKind::Replica)?,
            resource: resource.clone(),
        })
    }
}

impl Tail {
    /// This replica's version up to which all changes have been returned.
    pub fn position(&self) -> FleetVersion {
        self.subscription.version()
    }

    /// Returns the lines that are available, which may be none.
    pub fn available(&mut self) -> Result<ReplicationLines, StoreError> {
        let mut lines = Vec::new();
        self.subscription.mark_seen();
        let mut position = self.subscription.read_to;
        let next = self.subscription.log.after_for_replica(position);
        let next = next.map_err(|_| StoreError::Expired)?;
        let (is_last, last) = (next.has_ended && next.batch.is_none(), next.last);
        if let Some(batch) = next.batch {
            let mut decompressor = Decompressor::new();
            for (sequence, change) in numbered(&batch, position)
                .take(MAX_CHANGES)
                .take_while(|(sequence, _)| *sequence <= last)
            {
                position = sequence;
                let is_of_resource = change
                    .document()
                    .is_some_and(|document| document.origin.resource == self.resource);
                if is_of_resource && !batch.is_replicated {
                    let version = self.subscription.log.sequence().version(sequence);
                    replication::write_line(&mut lines, version, change, &mut decompressor)?;
                }
            }
        } else if !planted(Bug::PositionOfChangesOnly) {
            // Numbers are taken without a change where changes of others were lost. The other
            // replica waits for that number.
            position = position.max(last);
        }
        self.subscription.move_to(position);
        Ok(ReplicationLines {
            lines,
            position: self.position(),
            is_last,
        })
    }

    /// Waits for the next changes. Cancel safe.
    pub async fn next(&mut self) -> Result<ReplicationLines, StoreError> {
        loop {
            let before = self.subscription.read_to;
            let lines = self.available()?;
            if self.subscription.read_to > before || lines.is_last {
                return Ok(lines);
            }
            self.subscription.changed().await;
        }
    }
}

//! Subscriptions: how the log knows what its readers follow, and how far they are.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use fleetdex_core::{model::FleetVersion, query::ResourceName};
use tokio::sync::watch;

use super::{Log, TooOld, log::SubscriberKind};

/// A reader's position in a log. Dropping it ends the subscription.
pub(super) struct LogSubscription {
    pub(super) log: Arc<Log>,
    /// The resources that it follows.
    pub(super) resources: Arc<BTreeSet<ResourceName>>,
    newest: watch::Receiver<u64>,
    subscriber: u64,
    /// The copy of `read_to` that the log reads.
    position: Arc<AtomicU64>,
    /// Number of the last change that has been read.
    pub(super) read_to: u64,
}

impl Drop for LogSubscription {
    fn drop(&mut self) {
        self.log.leave(self.subscriber);
    }
}

impl LogSubscription {
    /// Follows resources after a number; without one, after the last change.
    pub(super) fn new(
        log: Arc<Log>,
        resources: BTreeSet<ResourceName>,
        after: Option<u64>,
        kind: SubscriberKind,
    ) -> Result<Self, TooOld> {
        let newest = log.newest.subscribe();
        let resources = Arc::new(resources);
        let (subscriber, position) = log.follow(&resources, after, kind)?;
        let read_to = position.load(Ordering::Acquire);
        Ok(Self {
            log,
            resources,
            newest,
            subscriber,
            position,
            read_to,
        })
    }

    /// The fleet version up to which everything has been read.
    pub(super) fn version(&self) -> FleetVersion {
        self.log.sequence().version(self.read_to)
    }

    /// Marks everything up to a number as read.
    pub(super) fn move_to(&mut self, number: u64) {
        self.read_to = number;
        self.position.store(number, Ordering::Release);
    }

    /// Marks what is in the log now as seen by [`changed`](Self::changed).
    pub(super) fn mark_seen(&mut self) {
        self.newest.mark_unchanged();
    }

    /// Waits until something has been added since the last [`mark_seen`](Self::mark_seen).
    pub(super) async fn changed(&mut self) {
        // The sender lives in the log, which this holds.
        drop(self.newest.changed().await);
    }
}

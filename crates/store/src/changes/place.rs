//! Where somebody is who follows a log. As long as somebody has a place, the log knows what is followed and how far.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use fleetdex_core::{model::FleetVersion, query::ResourceName};
use tokio::sync::watch;

use super::{Log, TooOld, log::FollowerKind};

/// A place in a log. It is given back when it is dropped.
pub(super) struct Place {
    log: Arc<Log>,
    newest: watch::Receiver<u64>,
    follower: u64,
    position: Arc<AtomicU64>,
    after: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.log.leave(self.follower);
    }
}

impl Place {
    /// Begins to follow a resource after a number; without one, after the last change.
    pub(super) fn take(
        log: Arc<Log>,
        resource: &ResourceName,
        after: Option<u64>,
        kind: FollowerKind,
    ) -> Result<Self, TooOld> {
        let newest = log.subscribe();
        let (follower, position) = log.follow(resource, after, kind)?;
        let after = position.load(Ordering::Acquire);
        Ok(Self {
            log,
            newest,
            follower,
            position,
            after,
        })
    }

    pub(super) fn log(&self) -> &Log {
        &self.log
    }

    /// Number of the last change that has been looked at.
    pub(super) fn after(&self) -> u64 {
        self.after
    }

    /// The version of the fleet up to which everything has been looked at.
    pub(super) fn version(&self) -> FleetVersion {
        self.log.sequence().version(self.after)
    }

    /// Everything up to a number has been looked at.
    pub(super) fn move_to(&mut self, number: u64) {
        self.after = number;
        self.position.store(number, Ordering::Release);
    }

    /// From now on, what is added counts as news.
    pub(super) fn look(&mut self) {
        self.newest.mark_unchanged();
    }

    /// Waits until something has been added since the last look.
    pub(super) async fn news(&mut self) {
        // The sender lives in the log, which is held here.
        drop(self.newest.changed().await);
    }
}

//! Publishes connects, disconnects and probe failures of members to subscribers.
//!
//! A slow subscriber delays no other and loses no event: pending events of one member are merged
//! into one.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use fleetdex_core::model::ClusterName;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{connection::Connection, connection_state::ConnectionHealth};

/// What an event reports; several reasons may be set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventReasons {
    /// The member was connected.
    pub connected: bool,
    /// The member was disconnected.
    pub disconnected: bool,
    /// No probe has succeeded for one of the subscribed thresholds.
    pub probe_failure: bool,
}

/// An event of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterEvent {
    /// The member.
    pub cluster: ClusterName,
    /// What it reports.
    pub reasons: EventReasons,
}

impl EventReasons {
    /// The reasons for a change from one connection to another.
    pub fn between(before: Option<&Connection>, after: Option<&Connection>) -> Self {
        let other = before != after;
        Self {
            connected: other && after.is_some(),
            disconnected: other && before.is_some(),
            probe_failure: false,
        }
    }

    fn is_any_set(self) -> bool {
        self.connected || self.disconnected || self.probe_failure
    }

    fn union(self, other: Self) -> Self {
        Self {
            connected: self.connected || other.connected,
            disconnected: self.disconnected || other.disconnected,
            probe_failure: self.probe_failure || other.probe_failure,
        }
    }
}

/// The pending events of one subscriber. Dropping it ends the subscription.
#[derive(Debug)]
pub struct ClusterEvents {
    subscription: Arc<Subscription>,
}

impl ClusterEvents {
    /// Waits for the next event; `None` after the publisher was dropped. Cancel-safe.
    pub async fn next(&mut self) -> Option<ClusterEvent> {
        loop {
            let woken = self.subscription.woken.notified();
            let first = self
                .subscription
                .pending
                .lock()
                .reasons_by_cluster
                .pop_first();
            if let Some((cluster, reasons)) = first {
                return Some(ClusterEvent { cluster, reasons });
            }
            if self.subscription.closed.load(Ordering::Acquire) {
                return None;
            }
            woken.await;
        }
    }
}

#[derive(Debug)]
struct Subscription {
    probe_failure_thresholds: Vec<Duration>,
    pending: Mutex<PendingEvents>,
    woken: Notify,
    closed: AtomicBool,
}

/// Both maps are bounded by the number of members: entries of removed members are removed.
#[derive(Debug, Default)]
struct PendingEvents {
    last_event: BTreeMap<ClusterName, Instant>,
    reasons_by_cluster: BTreeMap<ClusterName, EventReasons>,
}

impl Subscription {
    fn publish(
        &self,
        cluster: &ClusterName,
        change: EventReasons,
        health: &ConnectionHealth,
        now: Instant,
    ) {
        let mut pending = self.pending.lock();
        let last_event = pending.last_event.get(cluster).copied();
        let probe_failure = self
            .probe_failure_thresholds
            .iter()
            .any(|threshold| health.is_probe_failure_due(*threshold, last_event, now));
        let reasons = EventReasons {
            probe_failure,
            ..change
        };
        if !reasons.is_any_set() {
            return;
        }
        pending.last_event.insert(cluster.clone(), now);
        let merged = pending
            .reasons_by_cluster
            .entry(cluster.clone())
            .or_default();
        *merged = merged.union(reasons);
        drop(pending);
        self.woken.notify_one();
    }
}

/// Publishes events to all subscribers.
#[derive(Debug, Default)]
pub struct Publisher(Mutex<Vec<Weak<Subscription>>>);

impl Publisher {
    /// Subscribes to all further events, and to probe failures that last as long as one of the
    /// thresholds.
    pub fn subscribe(&self, probe_failure_thresholds: &[Duration]) -> ClusterEvents {
        let subscription = Arc::new(Subscription {
            probe_failure_thresholds: probe_failure_thresholds.to_vec(),
            pending: Mutex::default(),
            woken: Notify::new(),
            closed: AtomicBool::new(false),
        });
        let mut all = self.0.lock();
        all.retain(|known| known.strong_count() > 0);
        all.push(Arc::downgrade(&subscription));
        ClusterEvents { subscription }
    }

    /// Publishes a change of a member, and the probe failures that are due by its `health`.
    pub fn publish(
        &self,
        cluster: &ClusterName,
        change: EventReasons,
        health: &ConnectionHealth,
        now: Instant,
    ) {
        for subscription in self.0.lock().iter().filter_map(Weak::upgrade) {
            subscription.publish(cluster, change, health, now);
        }
    }

    /// Drops the pending events of a removed member. A later member of the same name is another
    /// one.
    pub fn forget(&self, cluster: &ClusterName) {
        for subscription in self.0.lock().iter().filter_map(Weak::upgrade) {
            let mut pending = subscription.pending.lock();
            pending.last_event.remove(cluster);
            pending.reasons_by_cluster.remove(cluster);
        }
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        for subscription in self.0.lock().iter().filter_map(Weak::upgrade) {
            subscription.closed.store(true, Ordering::Release);
            subscription.woken.notify_one();
        }
    }
}

#[cfg(test)]
mod tests;

//! Fake members for tests of operators that use a [`ClusterCache`](super::ClusterCache).

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use fleetdex_clusters::{
    Connection,
    connection_state::ConnectionHealth,
    events::{ClusterEvents, EventReasons, Publisher},
};
use fleetdex_core::model::ClusterName;
use kube::Client;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::ClusterConnections;

#[derive(Default)]
struct FakeMemberState {
    connection: Option<Connection>,
    health: ConnectionHealth,
}

/// Fake members that a test connects and disconnects, each with a client of the test.
#[derive(Default)]
pub struct FakeClusters {
    members: Mutex<BTreeMap<ClusterName, FakeMemberState>>,
    events: Publisher,
    changed: watch::Sender<u64>,
    last_connection: AtomicU64,
}

impl FakeClusters {
    /// No members.
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// Connects a member, or reconnects it.
    pub fn connect(&self, cluster: &ClusterName, client: Client) {
        let id = self.last_connection.fetch_add(1, Ordering::Relaxed) + 1;
        let connection = Connection::new(id, client, None);
        let health = ConnectionHealth {
            last_probe: Some(now()),
            last_success: Some(now()),
            ..ConnectionHealth::default()
        };
        self.set(cluster, Some(connection), |_| health);
    }

    /// Disconnects a member.
    pub fn disconnect(&self, cluster: &ClusterName) {
        self.set(cluster, None, |health| health);
    }

    /// Reports a failed probe of a member, which stays connected.
    pub fn fail_probe(&self, cluster: &ClusterName) {
        let connection = self.connection(cluster);
        let failed = |health: ConnectionHealth| ConnectionHealth {
            failures: health.failures + 1,
            last_probe: Some(now()),
            ..health
        };
        self.set(cluster, connection, failed);
    }

    /// Removes a member.
    pub fn remove(&self, cluster: &ClusterName) {
        self.members.lock().remove(cluster);
        self.events.forget(cluster);
        self.changed.send_modify(|number| *number += 1);
    }

    fn set(
        &self,
        cluster: &ClusterName,
        connection: Option<Connection>,
        health: impl FnOnce(ConnectionHealth) -> ConnectionHealth,
    ) {
        let mut members = self.members.lock();
        let member = members.entry(cluster.clone()).or_default();
        let reasons = EventReasons::between(member.connection.as_ref(), connection.as_ref());
        member.connection = connection;
        member.health = health(member.health);
        let shown = member.health;
        drop(members);
        self.changed.send_modify(|number| *number += 1);
        self.events.publish(cluster, reasons, &shown, now());
    }
}

impl ClusterConnections for FakeClusters {
    fn clusters(&self) -> Vec<ClusterName> {
        self.members.lock().keys().cloned().collect()
    }

    fn connection(&self, cluster: &ClusterName) -> Option<Connection> {
        self.members.lock().get(cluster)?.connection.clone()
    }

    fn health(&self, cluster: &ClusterName) -> ConnectionHealth {
        self.members
            .lock()
            .get(cluster)
            .map(|member| member.health)
            .unwrap_or_default()
    }

    fn events(&self, probe_failure: &[Duration]) -> ClusterEvents {
        self.events.subscribe(probe_failure)
    }

    fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

//! Members without clusters, for tests of what is built on a [`ClusterCache`](super::ClusterCache).

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
    events::{Events, Publisher, Reasons},
    state::Health,
};
use fleetdex_core::model::ClusterName;
use kube::Client;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::Connections;

#[derive(Default)]
struct Member {
    connection: Option<Connection>,
    health: Health,
}

/// Members that are connected and disconnected by hand, each with a client of the test's own.
#[derive(Default)]
pub struct FakeClusters {
    members: Mutex<BTreeMap<ClusterName, Member>>,
    events: Publisher,
    changed: watch::Sender<u64>,
    last_connection: AtomicU64,
}

impl FakeClusters {
    /// No members yet.
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// Connects a member, anew if it is connected.
    pub fn connect(&self, cluster: &ClusterName, client: Client) {
        let id = self.last_connection.fetch_add(1, Ordering::Relaxed) + 1;
        let connection = Connection::new(id, client, None);
        let health = Health {
            last_probe: Some(now()),
            last_success: Some(now()),
            ..Health::default()
        };
        self.set(cluster, Some(connection), |_| health);
    }

    /// Cuts a member's connection.
    pub fn disconnect(&self, cluster: &ClusterName) {
        self.set(cluster, None, |health| health);
    }

    /// Lets a probe of a member fail. The connection stays.
    pub fn fail_probe(&self, cluster: &ClusterName) {
        let connection = self.connection(cluster);
        let failed = |health: Health| Health {
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
        health: impl FnOnce(Health) -> Health,
    ) {
        let mut members = self.members.lock();
        let member = members.entry(cluster.clone()).or_default();
        let reasons = Reasons::between(member.connection.as_ref(), connection.as_ref());
        member.connection = connection;
        member.health = health(member.health);
        let shown = member.health;
        drop(members);
        self.changed.send_modify(|number| *number += 1);
        self.events.tell(cluster, reasons, &shown, now());
    }
}

impl Connections for FakeClusters {
    fn clusters(&self) -> Vec<ClusterName> {
        self.members.lock().keys().cloned().collect()
    }

    fn connection(&self, cluster: &ClusterName) -> Option<Connection> {
        self.members.lock().get(cluster)?.connection.clone()
    }

    fn health(&self, cluster: &ClusterName) -> Health {
        self.members
            .lock()
            .get(cluster)
            .map(|member| member.health)
            .unwrap_or_default()
    }

    fn events(&self, probe_failure: &[Duration]) -> Events {
        self.events.subscribe(probe_failure)
    }

    fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

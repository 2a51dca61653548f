//! The task of one member: connect, watch over the connection, reconnect.

use std::{convert::Infallible, sync::Arc};

use kube::Client;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep, sleep_until, timeout},
};

use super::{
    connect::ConnectError,
    credentials::Credentials,
    discovery::Discovery,
    fetch::{self, DiscoveryCache},
    member::{Access, Member},
    request::{RequestError, causes},
    source::Asking,
    state::{Accessor, Fault, Happened, Next, Phase, Timing},
    supervisor::{Connection, MemberState, Shared},
};
use crate::model::ClusterName;

const NO_IDENTITY: &str = "the namespace kube-system may not be read, so a cluster that is created anew behind this \
                           address cannot be told from this one: allow get on it";

/// What one member's task works with. A clone starts over.
#[derive(Clone)]
pub(super) struct MemberTask {
    id: u64,
    name: ClusterName,
    shared: Arc<Shared>,
    member: watch::Receiver<Arc<Member>>,
    wake: Arc<Notify>,
    accessor: Accessor,
    /// What the last connect used.
    used: Option<Credentials>,
}

/// A connection and what was seen over it.
struct Live {
    client: Client,
    uid: Option<String>,
    kubernetes_version: Option<String>,
    discovery: Arc<Discovery>,
    cache: DiscoveryCache,
}

impl MemberTask {
    pub(super) fn new(id: u64, shared: Arc<Shared>, member: watch::Receiver<Arc<Member>>, wake: Arc<Notify>) -> Self {
        let name = member.borrow().name.clone();
        Self { id, name, shared, member, wake, accessor: Accessor::default(), used: None }
    }

    pub(super) fn name(&self) -> &ClusterName {
        &self.name
    }

    pub(super) fn timing(&self) -> &Timing {
        &self.shared.timing
    }

    /// Keeps the member connected until dropped.
    pub(super) async fn run(mut self) -> Infallible {
        loop {
            let member = self.member.borrow_and_update().clone();
            let changes = self.member.clone();
            tokio::select! {
                biased;
                () = replaced(changes, &member) => self.start_over(),
                () = self.attempt(&member) => {}
            }
        }
    }

    /// One connect, and what follows from it until the next one is due.
    async fn attempt(&mut self, member: &Member) {
        self.observe(Happened::ConnectStarted);
        match self.connect(member).await {
            Ok(live) => self.watch_over(member, live).await,
            Err(fault) => {
                tracing::warn!(cluster = %self.name, reason = fault.reason, "cluster not connected: {}", fault.message);
                self.observe(Happened::ConnectFailed(fault));
                self.wait_before_connect(member).await;
            }
        }
    }

    async fn connect(&mut self, member: &Member) -> Result<Live, Fault> {
        self.used = None;
        let credentials = self.read_credentials(member, Asking::Anew).await?;
        self.used = Some(credentials.clone());
        let client = self.shared.connect.connect(member, &credentials).await?;
        fetch::ready(&client, self.timing().request_timeout).await.map_err(|error| self.fault(member, &error))?;
        self.look_around(client).await.map_err(|error| self.fault(member, &error))
    }

    async fn look_around(&self, client: Client) -> Result<Live, RequestError> {
        let timing = self.timing();
        let mut cache = DiscoveryCache::after(self.shared.discovery(&self.name));
        let (kubernetes_version, uid, discovery) = tokio::join!(
            fetch::kubernetes_version(&client, timing.request_timeout),
            fetch::identity(&client, timing.request_timeout),
            cache.refresh(&client, timing.discovery_timeout),
        );
        Ok(Live { uid: uid?, discovery: discovery?, kubernetes_version: kubernetes_version.ok(), client, cache })
    }

    /// Publishes the connection, and probes it until it is given up.
    async fn watch_over(&mut self, member: &Member, live: Live) {
        let Live { client, uid, kubernetes_version, discovery, mut cache } = live;
        let note = uid.is_none().then_some(NO_IDENTITY);
        let connection = Connection { id: self.shared.connection_id(), client: client.clone(), uid: uid.clone() };
        tracing::info!(cluster = %self.name, connection = connection.id, "cluster connected");
        self.accessor.observe(Happened::Connected, &self.shared.timing);
        self.show_with(&self.accessor, |state| {
            state.connection = Some(connection);
            state.discovery = Some(discovery);
            state.kubernetes_version = kubernetes_version;
            state.note = note;
        });
        loop {
            self.pause().await;
            let (credentials_changed, probe) =
                tokio::join!(self.credentials_changed(member), fetch::ready(&client, self.timing().request_timeout));
            if credentials_changed {
                tracing::info!(cluster = %self.name, "the Secret changed: the cluster is connected anew");
                return self.start_over();
            }
            match self.judge(member, probe) {
                Next::Connect => return,
                Next::ConnectLater => return self.wait_before_connect(member).await,
                Next::Probe => {}
            }
            if self.accessor.phase() == Phase::Ready {
                if self.is_another(&client, uid.as_deref()).await {
                    tracing::warn!(cluster = %self.name, "another cluster answers under this address: it is connected anew");
                    return self.start_over();
                }
                self.rediscover(&client, &mut cache).await;
            }
        }
    }

    /// Whether the member is not the cluster that was connected. It may have been replaced between two probes.
    async fn is_another(&self, client: &Client, uid: Option<&str>) -> bool {
        let now = fetch::identity(client, self.timing().request_timeout).await;
        // One that was made a moment ago has no kube-system yet.
        matches!(now, Ok(Some(now)) if Some(now.as_str()) != uid)
    }

    fn judge(&mut self, member: &Member, probe: Result<(), RequestError>) -> Next {
        match probe {
            Ok(()) => self.observe(Happened::ProbeSucceeded),
            Err(error) => {
                tracing::debug!(cluster = %self.name, %error, "a probe failed");
                self.observe(Happened::ProbeFailed(self.fault(member, &error)))
            }
        }
    }

    /// A member that cannot say what it serves now keeps what it said before.
    async fn rediscover(&self, client: &Client, cache: &mut DiscoveryCache) {
        match cache.refresh(client, self.timing().discovery_timeout).await {
            Ok(found) => self.shared.publish(&self.name, self.id, |state| state.discovery = Some(found)),
            Err(error) => tracing::debug!(cluster = %self.name, %error, "discovery failed; the last one stays"),
        }
    }

    /// Waits for the next connect: cut short by a refresh, or by a Secret that now says something else.
    async fn wait_before_connect(&self, member: &Member) {
        let due = Instant::now() + self.timing().connect_wait(fastrand::f64());
        loop {
            tokio::select! {
                biased;
                () = sleep_until(due) => return,
                () = self.wake.notified() => return,
                () = sleep(self.timing().probe_interval) => {}
            }
            if self.credentials_changed(member).await {
                return;
            }
        }
    }

    /// The time between probes: cut short by a refresh.
    async fn pause(&self) {
        let woken = timeout(self.timing().probe_interval, self.wake.notified());
        let (Ok(()) | Err(_)) = woken.await;
    }

    fn start_over(&mut self) {
        self.observe(Happened::Changed);
    }

    fn observe(&mut self, happened: Happened) -> Next {
        let next = self.accessor.observe(happened, &self.shared.timing);
        self.show(&self.accessor);
        next
    }

    /// Publishes where the member stands.
    pub(super) fn show(&self, accessor: &Accessor) {
        self.show_with(accessor, |_| {});
    }

    /// Publishes where the member stands together with what else changed. Without a live phase there is no connection.
    fn show_with(&self, accessor: &Accessor, change: impl FnOnce(&mut MemberState)) {
        let connected = matches!(accessor.phase(), Phase::Ready | Phase::Unhealthy);
        self.shared.publish(&self.name, self.id, |state| {
            state.phase = accessor.phase();
            state.reason = accessor.reason();
            state.message = accessor.message(&self.shared.timing);
            change(state);
            if !connected {
                state.connection = None;
                state.note = None;
            }
        });
    }

    /// Whether the Secret can be read and says something else than the last connect used. A Secret that is gone or
    /// unreadable is no reason to cut a connection that works.
    async fn credentials_changed(&self, member: &Member) -> bool {
        match self.read_credentials(member, Asking::Again).await {
            Ok(credentials) => self.used.as_ref() != Some(&credentials),
            Err(error) => {
                tracing::debug!(cluster = %self.name, %error, "the Secret was not read again");
                false
            }
        }
    }

    async fn read_credentials(&self, member: &Member, asking: Asking) -> Result<Credentials, ConnectError> {
        self.shared.loader.load(&member.access, asking, self.timing().request_timeout).await
    }

    fn fault(&self, member: &Member, error: &RequestError) -> Fault {
        let server = self.used.as_ref().map_or("", Credentials::server);
        Fault {
            reason: error.reason(),
            message: format!("{server}: {error}{}", advice(error, &member.access)),
            unauthorized: error.reason() == "Unauthorized",
        }
    }
}

/// Returns when the member must be connected to in another way.
async fn replaced(mut changes: watch::Receiver<Arc<Member>>, member: &Member) {
    while changes.changed().await.is_ok() {
        if !changes.borrow_and_update().connects_like(member) {
            return;
        }
    }
    // The supervisor is gone and stops this task.
    std::future::pending::<()>().await;
}

impl From<ConnectError> for Fault {
    fn from(error: ConnectError) -> Self {
        Self { reason: error.reason(), message: causes(&error), unauthorized: false }
    }
}

fn advice(error: &RequestError, access: &Access) -> String {
    match error.reason() {
        "Unauthorized" => format!(". Put valid credentials into {}", access.place()),
        "Forbidden" => ". Allow it to the account that the credentials belong to".to_owned(),
        "CertificateInvalid" => match access {
            Access::Endpoint(_) => format!(". Put the PEM certificates of its CA into key \"caBundle\" of {}", access.place()),
            _ => {
                format!(". Put the PEM certificates of its CA, in base64, as certificate-authority-data into {}", access.place())
            }
        },
        _ => String::new(),
    }
}

//! The task of one member: connects it, probes the connection and reconnects.

mod credentials;
mod probed_connection;
mod wake;

use std::{borrow::Cow, convert::Infallible, sync::Arc};

use fleetdex_core::model::ClusterName;
use kube::Client;
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};

use self::{
    credentials::{CredentialsChange, CredentialsInUse},
    probed_connection::ProbedConnection,
    wake::{MemberChange, WakeReason},
};
use super::{
    advice,
    connection::Connection,
    connection_state::{
        ConnectionEvent, ConnectionPhase, ConnectionState, MemberFault, NextAction,
    },
    connection_timing::ConnectionTiming,
    credentials::Credentials,
    credentials_watcher::CredentialsWatcher,
    definitions,
    discovery::Discovery,
    fetch,
    member::Member,
    request::RequestError,
    shared::{MemberState, SupervisorState, clock_reading},
};

/// The note on a connection whose cluster UID may not be read.
const CLUSTER_UID_UNKNOWN: &str = "the namespace kube-system may not be read, so a cluster that is recreated at this address \
     cannot be distinguished from this one: allow get on it";

/// The task of one member. A clone starts from the beginning.
#[derive(Clone)]
pub(super) struct MemberTask {
    id: u64,
    name: ClusterName,
    shared: Arc<SupervisorState>,
    member: watch::Receiver<Arc<Member>>,
    wake: Arc<Notify>,
    connection_state: ConnectionState,
    credentials_watcher: CredentialsWatcher,
    credentials: CredentialsInUse,
}

/// When to reconnect after a connection has been closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reconnect {
    AtOnce,
    WhenDue,
}

impl MemberTask {
    /// Publishes that the task has panicked.
    pub(super) fn panicked(&self) {
        let fault = MemberFault {
            reason: "InternalError",
            message:
                "this program failed while it was connected to the member: see its log and report it"
                    .to_owned(),
            unauthorized: false,
        };
        let mut connection_state = ConnectionState::default();
        connection_state.observe(
            ConnectionEvent::ConnectFailed(fault),
            clock_reading(),
            self.timing(),
        );
        self.publish(&connection_state);
    }

    pub(super) fn new(
        id: u64,
        shared: Arc<SupervisorState>,
        member: watch::Receiver<Arc<Member>>,
        wake: Arc<Notify>,
    ) -> Self {
        let name = member.borrow().name.clone();
        Self {
            id,
            name,
            shared,
            member,
            wake,
            connection_state: ConnectionState::default(),
            credentials_watcher: CredentialsWatcher::default(),
            credentials: CredentialsInUse::default(),
        }
    }

    pub(super) fn name(&self) -> &ClusterName {
        &self.name
    }

    pub(super) fn timing(&self) -> &ConnectionTiming {
        &self.shared.timing
    }

    /// Keeps the member connected until dropped.
    pub(super) async fn run(mut self) -> Infallible {
        loop {
            let member = self.member.borrow_and_update().clone();
            let changes = self.member.clone();
            let (shared, watcher) = (self.shared.clone(), self.credentials_watcher.clone());
            let watching = watcher.run(shared.loader.control_plane(), &member.access);
            tokio::select! {
                biased;
                MemberChange::Reconnect = wake::until_changed(changes, &member) => self.reset(),
                Some(never) = watching => match never {},
                never = self.keep_connected(&member) => match never {},
            }
        }
    }

    async fn keep_connected(&mut self, member: &Member) -> Infallible {
        loop {
            self.attempt(member).await;
        }
    }

    /// Connects once, and runs the connection or waits until the next connect is due.
    async fn attempt(&mut self, member: &Member) {
        self.observe(ConnectionEvent::ConnectStarted);
        match self.connect(member).await {
            Ok(connection) => self.run_connection(member, connection).await,
            Err(failed) => {
                self.observe(failed);
                let (reason, message) = (
                    self.connection_state.reason(),
                    self.connection_state.message(self.timing()),
                );
                tracing::warn!(cluster = %self.name, reason, "cluster not connected: {message}");
                self.wait_before_connect(member).await;
            }
        }
    }

    async fn connect(&mut self, member: &Member) -> Result<ProbedConnection, ConnectionEvent> {
        let config = self.credentials.load(&self.shared, member).await?;
        let client = self
            .shared
            .connect
            .connect(member, &config.credentials, &config.bearer)
            .await?;
        let failed = |error| ConnectionEvent::ConnectFailed(self.fault(member, &error));
        ProbedConnection::open(client, &self.shared, &self.name)
            .await
            .map_err(failed)
    }

    /// Publishes the connection, and probes it until it is closed.
    async fn run_connection(&mut self, member: &Member, probed: ProbedConnection) {
        let client = probed.client.clone();
        let note = probed
            .cluster_uid
            .is_none()
            .then_some(Cow::Borrowed(CLUSTER_UID_UNKNOWN));
        let mut connection = Connection::new(
            self.shared.connection_id(),
            client.clone(),
            probed.cluster_uid.clone(),
        );
        if let Some(config) = self.credentials.config() {
            connection = connection.with_config(config, probed.is_own);
        }
        tracing::info!(cluster = %self.name, connection = connection.id, "cluster connected");
        self.connection_state.observe(
            ConnectionEvent::Connected,
            clock_reading(),
            &self.shared.timing,
        );
        self.warn_of_left_out(&probed.discovery);
        let (discovery_sender, discovery_receiver) = watch::channel(Arc::clone(&probed.discovery));
        self.publish_with(&self.connection_state, |state| {
            state.connection = Some(connection);
            state.discovery = Some(Arc::clone(&probed.discovery));
            if probed.kubernetes_version.is_some() {
                state
                    .kubernetes_version
                    .clone_from(&probed.kubernetes_version);
            }
            state.note = note;
        });
        let (shared, name, id) = (Arc::clone(&self.shared), self.name.clone(), self.id);
        let publish = move |found| shared.set_definitions(&name, id, found);
        let definitions = definitions::poll(
            client,
            self.timing().discovery_timeout,
            discovery_receiver,
            publish,
        );
        let reconnect = tokio::select! {
            never = definitions => match never {},
            reconnect = self.probe_until_closed(member, probed, &discovery_sender) => reconnect,
        };
        if reconnect == Reconnect::WhenDue {
            self.wait_before_connect(member).await;
        }
    }

    async fn probe_until_closed(
        &mut self,
        member: &Member,
        mut probed: ProbedConnection,
        discovery_sender: &watch::Sender<Arc<Discovery>>,
    ) -> Reconnect {
        loop {
            let (change, mut probe) = self.wait_and_check(member, &probed.client).await;
            match change {
                CredentialsChange::None => {}
                CredentialsChange::Token(credentials) => {
                    self.replace_token(*credentials);
                    probe = Some(self.probe(&probed.client).await);
                }
                CredentialsChange::Connection => {
                    tracing::info!(cluster = %self.name, "the credentials changed: reconnecting the cluster");
                    self.reset();
                    return Reconnect::AtOnce;
                }
            }
            let Some(probe) = probe else { continue };
            match self.observe_probe(member, probe) {
                NextAction::Probe(_) => {}
                NextAction::Connect(_) | NextAction::Wait => return Reconnect::WhenDue,
                NextAction::ConnectNow => return Reconnect::AtOnce,
            }
            if self.connection_state.phase() == ConnectionPhase::Ready {
                if probed.is_another_cluster(self.timing()).await {
                    tracing::warn!(cluster = %self.name, "another cluster answers at this address: reconnecting");
                    self.reset();
                    return Reconnect::AtOnce;
                }
                self.refresh_discovery(&mut probed, discovery_sender).await;
            }
        }
    }

    /// Waits for the next action, and checks the credentials, probes the member, or both.
    async fn wait_and_check(
        &self,
        member: &Member,
        client: &Client,
    ) -> (CredentialsChange, Option<Result<(), RequestError>>) {
        let probe = self.probe(client);
        match self.pause().await {
            WakeReason::CredentialsChanged | WakeReason::CredentialsPoll => {
                (self.credentials_change(member).await, None)
            }
            WakeReason::Due if self.credentials_watcher.is_watching() => {
                (CredentialsChange::None, Some(probe.await))
            }
            // In parallel, as a credential plugin may be slow.
            WakeReason::Due => {
                let (change, probe) = tokio::join!(self.credentials_change(member), probe);
                (change, Some(probe))
            }
        }
    }

    fn replace_token(&mut self, credentials: Credentials) {
        if self.credentials.replace_token(credentials) {
            tracing::info!(cluster = %self.name, "the token changed: replaced it in the open connection");
        }
    }

    async fn probe(&self, client: &Client) -> Result<(), RequestError> {
        fetch::ready(client, self.timing().request_timeout).await
    }

    fn observe_probe(&mut self, member: &Member, probe: Result<(), RequestError>) -> NextAction {
        match probe {
            Ok(()) => self.observe(ConnectionEvent::ProbeSucceeded),
            Err(error) => {
                tracing::debug!(cluster = %self.name, %error, "a probe failed");
                self.observe(ConnectionEvent::ProbeFailed(self.fault(member, &error)))
            }
        }
    }

    /// Refreshes the discovery of a member. If that fails, the last discovery is kept.
    async fn refresh_discovery(
        &self,
        probed: &mut ProbedConnection,
        discovery_sender: &watch::Sender<Arc<Discovery>>,
    ) {
        match probed
            .refresh_discovery(self.timing(), discovery_sender)
            .await
        {
            Ok(differs) => {
                if differs {
                    self.warn_of_left_out(&probed.discovery);
                }
                self.publish_with(&self.connection_state, |state| {
                    state.discovery = Some(Arc::clone(&probed.discovery));
                    if probed.kubernetes_version.is_some() {
                        state
                            .kubernetes_version
                            .clone_from(&probed.kubernetes_version);
                    }
                });
            }
            Err(error) => {
                tracing::debug!(cluster = %self.name, %error, "discovery failed; the last one is kept");
            }
        }
    }

    fn warn_of_left_out(&self, discovery: &Discovery) {
        if let Some(note) = discovery.note() {
            tracing::warn!(cluster = %self.name, "{note}");
        }
    }

    /// Waits until the next connect is due, a refresh is requested, or the credentials have
    /// changed.
    async fn wait_before_connect(&self, member: &Member) {
        loop {
            match self.pause().await {
                WakeReason::Due => return,
                WakeReason::CredentialsChanged | WakeReason::CredentialsPoll => {
                    if !matches!(
                        self.credentials_change(member).await,
                        CredentialsChange::None
                    ) {
                        return;
                    }
                }
            }
        }
    }

    /// Waits until the next action is due or the credentials have to be checked.
    async fn pause(&self) -> WakeReason {
        let due = self.connection_state.next().wait(Instant::now().into_std());
        wake::wait(
            due,
            &self.wake,
            &self.credentials_watcher,
            self.timing().probe_interval,
        )
        .await
    }

    fn reset(&mut self) {
        self.observe(ConnectionEvent::Changed);
    }

    fn observe(&mut self, event: ConnectionEvent) -> NextAction {
        let next = self
            .connection_state
            .observe(event, clock_reading(), &self.shared.timing);
        self.publish(&self.connection_state);
        next
    }

    /// Publishes the state of the member.
    fn publish(&self, connection_state: &ConnectionState) {
        self.publish_with(connection_state, |_| {});
    }

    /// Publishes the state of the member after `change`. A phase without a connection removes the
    /// connection.
    fn publish_with(
        &self,
        connection_state: &ConnectionState,
        change: impl FnOnce(&mut MemberState),
    ) {
        self.shared
            .publish(&self.name, self.id, connection_state.health(), |state| {
                state.phase = connection_state.phase();
                state.reason = connection_state.reason();
                state.message = connection_state.message(&self.shared.timing);
                change(state);
                if !connection_state.is_connected() {
                    state.connection = None;
                    state.note = None;
                }
            });
    }

    async fn credentials_change(&self, member: &Member) -> CredentialsChange {
        self.credentials.change(&self.shared, member).await
    }

    fn fault(&self, member: &Member, error: &RequestError) -> MemberFault {
        advice::fault(error, self.credentials.server(), &member.access)
    }
}

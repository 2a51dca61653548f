//! The task of one member: connect, watch over the connection, reconnect.

use std::{borrow::Cow, convert::Infallible, sync::Arc, time::Duration};

use fleetdex_core::model::ClusterName;
use kube::Client;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep},
};

use super::{
    advice,
    bearer::Bearer,
    connect::ConnectError,
    connection::{Connection, Way},
    credentials::Credentials,
    definitions::{self, Definitions},
    discovery::Discovery,
    fetch::{self, DiscoveryCache},
    follow::Follow,
    member::Member,
    request::RequestError,
    shared::{MemberState, Shared, moment},
    source::Asking,
    state::{Accessor, Fault, Happened, Next, Phase, Timing},
};

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
    /// Tells of changes of what the credentials come from.
    follow: Follow,
    /// What the last connect used.
    used: Option<Way>,
}

/// Why a wait came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Woken {
    /// What was waited for is due, or somebody asks for it now.
    Due,
    /// The credentials may have changed.
    Credentials,
    /// Nobody would tell if the credentials changed.
    Look,
}

/// What has become of the credentials since the last connect.
#[derive(Debug)]
enum Renewal {
    /// Nothing, or nothing that can be read.
    None,
    /// There is another token.
    Token(Box<Credentials>),
    /// The member is reached in another way.
    Everything,
}

/// What comes after a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lost {
    /// The next one, at once.
    Connect,
    /// The next one, when it is due.
    Wait,
}

/// A connection and what was seen over it.
struct Live {
    client: Client,
    uid: Option<String>,
    is_own: bool,
    kubernetes_version: Option<String>,
    discovery: Arc<Discovery>,
    cache: DiscoveryCache,
}

impl MemberTask {
    /// Shows that the task has panicked.
    pub(super) fn panicked(&self) {
        let fault = Fault {
            reason: "InternalError",
            message:
                "this program failed while it watched over the member: see its log and report it"
                    .to_owned(),
            unauthorized: false,
        };
        let mut accessor = Accessor::default();
        accessor.observe(Happened::ConnectFailed(fault), moment(), self.timing());
        self.show(&accessor);
    }

    pub(super) fn new(
        id: u64,
        shared: Arc<Shared>,
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
            accessor: Accessor::default(),
            follow: Follow::default(),
            used: None,
        }
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
            let (shared, follow) = (self.shared.clone(), self.follow.clone());
            tokio::select! {
                biased;
                () = replaced(changes, &member) => self.start_over(),
                never = follow.run(shared.loader.hub(), &member.access) => match never {},
                never = self.keep_connected(&member) => match never {},
            }
        }
    }

    async fn keep_connected(&mut self, member: &Member) -> Infallible {
        loop {
            self.attempt(member).await;
        }
    }

    /// One connect, and what follows from it until the next one is due.
    async fn attempt(&mut self, member: &Member) {
        self.observe(Happened::ConnectStarted);
        match self.connect(member).await {
            Ok(live) => self.watch_over(member, live).await,
            Err(failed) => {
                self.observe(failed);
                let (reason, message) =
                    (self.accessor.reason(), self.accessor.message(self.timing()));
                tracing::warn!(cluster = %self.name, reason, "cluster not connected: {message}");
                self.wait_before_connect(member).await;
            }
        }
    }

    async fn connect(&mut self, member: &Member) -> Result<Live, Happened> {
        self.used = None;
        let credentials = self.read_credentials(member, Asking::Anew).await?;
        let bearer = Bearer::new(credentials.token());
        self.used = Some(Way {
            credentials: credentials.clone(),
            bearer: bearer.clone(),
        });
        let client = self
            .shared
            .connect
            .connect(member, &credentials, &bearer)
            .await?;
        let failed = |error| Happened::ConnectFailed(self.fault(member, &error));
        fetch::ready(&client, self.timing().request_timeout)
            .await
            .map_err(failed)?;
        self.look_around(client).await.map_err(failed)
    }

    async fn look_around(&self, client: Client) -> Result<Live, RequestError> {
        let timing = self.timing();
        let mut cache = DiscoveryCache::after(self.shared.discovery(&self.name));
        let (kubernetes_version, uid, is_own, discovery) = tokio::join!(
            fetch::kubernetes_version(&client, timing.request_timeout),
            fetch::identity(&client, timing.request_timeout),
            fetch::is_own(&client, self.shared.own_pod.get(), timing.request_timeout),
            cache.refresh(&client, timing.discovery_timeout),
        );
        let (uid, is_own, discovery) = (uid?, is_own?, discovery?);
        Ok(Live {
            uid,
            is_own,
            discovery,
            kubernetes_version: kubernetes_version.ok(),
            client,
            cache,
        })
    }

    /// Publishes the connection, and probes it until it is given up.
    async fn watch_over(&mut self, member: &Member, live: Live) {
        let Live {
            client,
            uid,
            is_own,
            kubernetes_version,
            discovery,
            cache,
        } = live;
        let note = uid.is_none().then_some(Cow::Borrowed(NO_IDENTITY));
        let mut connection =
            Connection::new(self.shared.connection_id(), client.clone(), uid.clone());
        if let Some(way) = self.used.clone() {
            connection = connection.made(way, is_own);
        }
        tracing::info!(cluster = %self.name, connection = connection.id, "cluster connected");
        self.accessor
            .observe(Happened::Connected, moment(), &self.shared.timing);
        self.warn_of_left_out(&discovery);
        let (told, tells) = watch::channel(Arc::clone(&discovery));
        self.show_with(&self.accessor, |state| {
            state.connection = Some(connection);
            state.discovery = Some(discovery);
            state.kubernetes_version = kubernetes_version;
            state.note = note;
        });
        let (shared, name, id) = (Arc::clone(&self.shared), self.name.clone(), self.id);
        let show = move |found: Option<Definitions>| {
            let left_out = found.as_ref().map_or(0, Definitions::left_out);
            if left_out > 0 {
                tracing::warn!(cluster = %name, left_out, "some of what a member defines of its custom resources is too much and is left out");
            }
            shared.set_definitions(&name, id, found);
        };
        let definitions =
            definitions::follow(client.clone(), self.timing().discovery_timeout, tells, show);
        let lost = tokio::select! {
            never = definitions => match never {},
            lost = self.probe_until_lost(member, &client, uid.as_deref(), cache, &told) => lost,
        };
        if lost == Lost::Wait {
            self.wait_before_connect(member).await;
        }
    }

    /// Probes a connection until it is given up.
    async fn probe_until_lost(
        &mut self,
        member: &Member,
        client: &Client,
        uid: Option<&str>,
        mut cache: DiscoveryCache,
        told: &watch::Sender<Arc<Discovery>>,
    ) -> Lost {
        loop {
            let (renewal, mut probe) = self.look_at(member, client).await;
            match renewal {
                Renewal::None => {}
                Renewal::Token(renewed) => {
                    self.exchange_token(*renewed);
                    probe = Some(fetch::ready(client, self.timing().request_timeout).await);
                }
                Renewal::Everything => {
                    tracing::info!(cluster = %self.name, "the credentials changed: the cluster is connected anew");
                    self.start_over();
                    return Lost::Connect;
                }
            }
            let Some(probe) = probe else { continue };
            match self.judge(member, probe) {
                Next::Probe(_) => {}
                Next::Connect(_) | Next::Wait => return Lost::Wait,
                Next::ConnectNow => return Lost::Connect,
            }
            if self.accessor.phase() == Phase::Ready {
                if self.is_another(client, uid).await {
                    tracing::warn!(cluster = %self.name, "another cluster answers under this address: it is connected anew");
                    self.start_over();
                    return Lost::Connect;
                }
                self.rediscover(client, &mut cache, told).await;
            }
        }
    }

    /// Waits for what is next, and looks at it: at the credentials, at the member, or at both.
    async fn look_at(
        &self,
        member: &Member,
        client: &Client,
    ) -> (Renewal, Option<Result<(), RequestError>>) {
        let probe = fetch::ready(client, self.timing().request_timeout);
        match self.pause().await {
            Woken::Credentials | Woken::Look => (self.renewal(member).await, None),
            Woken::Due if self.follow.is_watching() => (Renewal::None, Some(probe.await)),
            // A credential plugin may take its time.
            Woken::Due => {
                let (renewal, probe) = tokio::join!(self.renewal(member), probe);
                (renewal, Some(probe))
            }
        }
    }

    /// Requests bear another token from now on; streams that are open go on.
    fn exchange_token(&mut self, renewed: Credentials) {
        if let Some(used) = &mut self.used {
            tracing::info!(cluster = %self.name, "the token changed: it is exchanged, and the connection goes on");
            used.bearer.exchange(renewed.token());
            used.credentials = renewed;
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
    async fn rediscover(
        &self,
        client: &Client,
        cache: &mut DiscoveryCache,
        told: &watch::Sender<Arc<Discovery>>,
    ) {
        match cache.refresh(client, self.timing().discovery_timeout).await {
            Ok(found) => {
                let differs = told.send_if_modified(|known| {
                    let differs = !Arc::ptr_eq(known, &found);
                    known.clone_from(&found);
                    differs
                });
                if differs {
                    self.warn_of_left_out(&found);
                }
                self.show_with(&self.accessor, |state| state.discovery = Some(found));
            }
            Err(error) => {
                tracing::debug!(cluster = %self.name, %error, "discovery failed; the last one stays");
            }
        }
    }

    fn warn_of_left_out(&self, discovery: &Discovery) {
        if let Some(note) = discovery.note() {
            tracing::warn!(cluster = %self.name, "{note}");
        }
    }

    /// Waits for the next connect: cut short by a refresh, or by credentials that are now others.
    async fn wait_before_connect(&self, member: &Member) {
        loop {
            match self.pause().await {
                Woken::Due => return,
                Woken::Credentials | Woken::Look => {
                    if !matches!(self.renewal(member).await, Renewal::None) {
                        return;
                    }
                }
            }
        }
    }

    /// Waits until the next step is due, or until there is something else to look at.
    async fn pause(&self) -> Woken {
        let due = self.accessor.next().wait(Instant::now().into_std());
        let look = (!self.follow.is_watching()).then_some(self.timing().probe_interval);
        tokio::select! {
            biased;
            () = self.wake.notified() => Woken::Due,
            () = sleep_if(due) => Woken::Due,
            () = self.follow.changed() => Woken::Credentials,
            () = sleep_if(look) => Woken::Look,
        }
    }

    fn start_over(&mut self) {
        self.observe(Happened::Changed);
    }

    fn observe(&mut self, happened: Happened) -> Next {
        let next = self
            .accessor
            .observe(happened, moment(), &self.shared.timing);
        self.show(&self.accessor);
        next
    }

    /// Publishes where the member stands.
    pub(super) fn show(&self, accessor: &Accessor) {
        self.show_with(accessor, |_| {});
    }

    /// Publishes where the member stands together with what else changed. Without a live phase there is no connection.
    fn show_with(&self, accessor: &Accessor, change: impl FnOnce(&mut MemberState)) {
        self.shared
            .publish(&self.name, self.id, accessor.health(), |state| {
                state.phase = accessor.phase();
                state.reason = accessor.reason();
                state.message = accessor.message(&self.shared.timing);
                change(state);
                if !accessor.is_connected() {
                    state.connection = None;
                    state.note = None;
                }
            });
    }

    /// What has become of the credentials. Those that are gone or unreadable are no reason to cut a connection that works; those that may not be sent to the
    /// member any more are.
    async fn renewal(&self, member: &Member) -> Renewal {
        let read = match self.read_credentials(member, Asking::Again).await {
            Ok(read) => read,
            // The owner of the Secret has taken it back.
            Err(ConnectError::HostNotAllowed(_)) => return Renewal::Everything,
            Err(error) => {
                tracing::debug!(cluster = %self.name, %error, "the credentials were not read again");
                return Renewal::None;
            }
        };
        match self.used.as_ref().map(|used| &used.credentials) {
            Some(used) if *used == read => Renewal::None,
            Some(used) if read.differs_in_token_only(used) => Renewal::Token(Box::new(read)),
            Some(_) | None => Renewal::Everything,
        }
    }

    async fn read_credentials(
        &self,
        member: &Member,
        asking: Asking,
    ) -> Result<Credentials, ConnectError> {
        self.shared
            .loader
            .load(&member.access, asking, self.timing().request_timeout)
            .await
    }

    fn fault(&self, member: &Member, error: &RequestError) -> Fault {
        let server = self
            .used
            .as_ref()
            .map_or("", |used| used.credentials.server());
        advice::fault(error, server, &member.access)
    }
}

/// Without a time there is nothing to wait for.
async fn sleep_if(wait: Option<Duration>) {
    match wait {
        Some(wait) => sleep(wait).await,
        None => std::future::pending().await,
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

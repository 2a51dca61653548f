//! The supervisor against a fleet of fake members, on paused time.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use fleetdex_crds::cluster::LocalSecretReference;
use futures::{StreamExt, channel::mpsc};
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody, combinators::UnsyncBoxBody};
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use tower::{BoxError, service_fn};

use super::*;
use crate::{
    bearer::Bearer,
    connection_state::ConnectionPhase,
    credentials::Impersonation,
    events::{ClusterEvent, EventReasons},
    impersonate::ImpersonateError,
    member::ApiServerEndpoint,
    secret_hosts::ALLOWED_HOSTS_ANNOTATION,
};

const CERTIFICATE: &str = include_str!("../testdata/ca.pem");

/// The responses of the fake control plane and the fake members.
#[derive(Clone)]
struct Fleet(Arc<Mutex<Answers>>);

#[derive(Default)]
struct Answers {
    /// Secret name → token.
    secrets: BTreeMap<String, String>,
    /// The hosts that every Secret may be sent to; any host if `None`.
    hosts: Option<String>,
    /// The CA bundle in every Secret.
    bundle: Option<String>,
    /// Whether Secrets may be watched.
    watchable: bool,
    /// Open watches of Secrets, by name.
    watches: Vec<(String, mpsc::UnboundedSender<Bytes>)>,
    last_version: u32,
    members: BTreeMap<ClusterName, Fake>,
    requests: Vec<String>,
    /// The control plane does not answer.
    silent: bool,
    clients: u32,
}

#[derive(Clone, Default)]
struct Fake {
    /// The token that it accepts; any if empty.
    token: String,
    /// What `/readyz` answers, 200 if `None`.
    ready: Option<u16>,
    hangs: bool,
    panics: bool,
    /// The user and token of the last impersonating client.
    impersonated: Option<(Impersonation, Option<String>)>,
    /// The status of reading the namespace kube-system, in place of its UID.
    identity: Option<u16>,
    /// Kinds beside pods.
    kinds: Vec<&'static str>,
    discovery: Option<u16>,
}

impl Fleet {
    fn new(members: &[&str]) -> Self {
        let fleet = Self(Arc::default());
        for name in members {
            fleet.answers(|answers| {
                answers
                    .secrets
                    .insert((*name).to_owned(), "token".to_owned())
            });
            fleet.member(name, |_| {});
        }
        fleet
    }

    fn answers<T>(&self, use_them: impl FnOnce(&mut Answers) -> T) -> T {
        use_them(&mut self.0.lock())
    }

    fn member(&self, name: &str, change: impl FnOnce(&mut Fake)) {
        self.answers(|answers| change(answers.members.entry(name.parse().unwrap()).or_default()));
    }

    fn requests(&self, of: &str, path: &str) -> usize {
        let asked = format!("{of} {path}");
        self.answers(|answers| {
            answers
                .requests
                .iter()
                .filter(|request| **request == asked)
                .count()
        })
    }

    fn control_plane(&self) -> Client {
        let fleet = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let fleet = fleet.clone();
            async move {
                let name = request.uri().path().rsplit('/').next().unwrap().to_owned();
                fleet.answers(|answers| {
                    answers
                        .requests
                        .push(format!("control-plane {}", request.uri().path()));
                });
                if fleet.answers(|answers| answers.silent) {
                    std::future::pending::<()>().await;
                }
                if name == "secrets" {
                    return Ok(fleet.secrets(request.uri().query().unwrap_or_default()));
                }
                let token = fleet.answers(|answers| answers.secrets.get(&name).cloned());
                let Some(token) = token else {
                    return Ok::<_, BoxError>(boxed(answer(404, &failure(404))));
                };
                let bundle = fleet
                    .answers(|answers| answers.bundle.clone())
                    .unwrap_or_else(|| CERTIFICATE.to_owned());
                let data =
                    json!({ "token": STANDARD.encode(token), "caBundle": STANDARD.encode(bundle) });
                let hosts = fleet
                    .answers(|answers| answers.hosts.clone())
                    .unwrap_or_else(|| "*".to_owned());
                let metadata =
                    json!({ "name": name, "annotations": { ALLOWED_HOSTS_ANNOTATION: hosts } });
                Ok(boxed(answer(
                    200,
                    &json!({ "metadata": metadata, "data": data }),
                )))
            }
        });
        Client::new(service, "default")
    }

    /// Lists or watches one Secret. The list is empty: only its version is used.
    fn secrets(&self, query: &str) -> Response<UnsyncBoxBody<Bytes, BoxError>> {
        if !self.answers(|answers| answers.watchable) {
            return boxed(answer(403, &failure(403)));
        }
        if !query.contains("watch=true") {
            return boxed(answer(
                200,
                &json!({ "metadata": { "resourceVersion": "1" }, "items": [] }),
            ));
        }
        let name = query.split("metadata.name%3D").nth(1).unwrap().to_owned();
        let (sender, lines) = mpsc::unbounded();
        self.answers(|answers| answers.watches.push((name, sender)));
        Response::new(
            StreamBody::new(lines.map(|line| Ok::<_, BoxError>(Frame::data(line)))).boxed_unsync(),
        )
    }

    /// Changes or deletes a Secret, and sends the event to its watches.
    fn secret(&self, name: &str, token: Option<&str>) {
        self.answers(|answers| {
            match token {
                Some(token) => answers.secrets.insert(name.to_owned(), token.to_owned()),
                None => answers.secrets.remove(name),
            };
            answers.last_version += 1;
            let kind = if token.is_some() { "MODIFIED" } else { "DELETED" };
            let object = json!({ "metadata": { "name": name, "resourceVersion": answers.last_version.to_string() } });
            let line = format!("{}\n", json!({ "type": kind, "object": object }));
            for (_, watch) in answers.watches.iter().filter(|(watched, _)| watched == name) {
                let _gone = watch.unbounded_send(line.clone().into());
            }
        });
    }

    fn client(&self, name: &ClusterName, token: Bearer) -> Client {
        let (fleet, name) = (self.clone(), name.clone());
        let service = service_fn(move |request: Request<Body>| {
            let (fleet, name, token) = (fleet.clone(), name.clone(), token.clone());
            async move {
                let path = request.uri().path().to_owned();
                let fake = fleet.answers(|answers| {
                    answers.requests.push(format!("{name} {path}"));
                    answers.members[&name].clone()
                });
                if fake.hangs {
                    std::future::pending::<()>().await;
                }
                let tag = request.headers().get("if-none-match").cloned();
                Ok::<_, BoxError>(fake.answer(
                    &path,
                    &token.token().unwrap_or_default(),
                    tag.as_ref().and_then(|tag| tag.to_str().ok()),
                ))
            }
        });
        Client::new(service, "default")
    }

    fn start(&self, members: Vec<Member>) -> Clusters {
        let clusters = Clusters::new(
            self.control_plane(),
            Arc::new(self.clone()),
            ConnectionTiming::default(),
            CancellationToken::new(),
        );
        clusters.set_members(members);
        clusters
    }
}

impl Fake {
    fn answer(&self, path: &str, token: &str, tag: Option<&str>) -> Response<Body> {
        if !self.token.is_empty() && self.token != token {
            return answer(401, &failure(401));
        }
        let refused = match path {
            "/readyz" => self.ready,
            "/apis" => self.discovery,
            "/api/v1/namespaces/kube-system" => self.identity,
            _ => None,
        };
        if let Some(code) = refused {
            return answer(code, &failure(code));
        }
        match path {
            "/readyz" => Response::new(Body::from(b"ok".to_vec())),
            "/version" => answer(200, &json!({ "gitVersion": "v1.36.3" })),
            "/api/v1/namespaces/kube-system" => {
                answer(200, &json!({ "metadata": { "uid": "system-uid" } }))
            }
            "/api" => Self::groups("", &["Pod"], tag),
            "/apis" => Self::groups("example.io", &self.kinds, tag),
            _ => answer(404, &failure(404)),
        }
    }

    fn groups(group: &str, kinds: &[&str], tag: Option<&str>) -> Response<Body> {
        let current = format!("\"{}\"", kinds.join(","));
        if tag == Some(&current) {
            return answer(304, &Value::Null);
        }
        let resource = |kind: &&str| {
            json!({ "resource": format!("{}s", kind.to_lowercase()), "responseKind": { "kind": kind },
                    "scope": "Namespaced", "verbs": ["list", "watch"] })
        };
        let resources: Vec<Value> = kinds.iter().map(resource).collect();
        let mut answer = answer(
            200,
            &json!({ "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": [
                { "metadata": { "name": group }, "versions": [{ "version": "v1", "resources": resources }] }
            ] }),
        );
        answer
            .headers_mut()
            .insert("etag", current.parse().unwrap());
        answer
    }
}

#[async_trait]
impl Connect for Fleet {
    async fn connect(
        &self,
        member: &Member,
        credentials: &Credentials,
        bearer: &Bearer,
    ) -> Result<Client, ConnectError> {
        if credentials.impersonation != Impersonation::default() {
            let asked = (credentials.impersonation.clone(), bearer.token());
            self.member(member.name.as_str(), |fake| fake.impersonated = Some(asked));
        }
        self.answers(|answers| answers.clients += 1);
        let panics = self.answers(|answers| answers.members[&member.name].panics);
        assert!(!panics, "planted");
        Ok(self.client(&member.name, bearer.clone()))
    }
}

fn boxed(response: Response<Body>) -> Response<UnsyncBoxBody<Bytes, BoxError>> {
    response.map(|body| body.map_err(Into::into).boxed_unsync())
}

fn answer(code: u16, body: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(serde_json::to_vec(body).unwrap()));
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    response
}

fn failure(code: u16) -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": "planted", "reason": "Planted" })
}

fn member(name: &str) -> Member {
    Member {
        name: name.parse().unwrap(),
        uid: format!("{name}-uid"),
        generation: Some(1),
        labels: BTreeMap::new(),
        provider: None,
        region: None,
        zones: Vec::new(),
        origin: format!("Cluster {name}"),
        created: None,
        access: MemberAccess::Endpoint(endpoint(name)),
    }
}

fn endpoint(name: &str) -> ApiServerEndpoint {
    ApiServerEndpoint {
        url: format!("https://{name}:6443"),
        secret: Some(LocalSecretReference {
            namespace: "fleet".into(),
            name: name.into(),
        }),
        insecure: true,
        ..ApiServerEndpoint::default()
    }
}

fn state(clusters: &Clusters, name: &str) -> MemberState {
    clusters.state(&name.parse().unwrap()).unwrap()
}

fn started(names: &[&str]) -> (Fleet, Clusters) {
    let fleet = Fleet::new(names);
    let clusters = fleet.start(names.iter().map(|name| member(name)).collect());
    (fleet, clusters)
}

/// The connections of the members a and b.
fn connections(clusters: &Clusters) -> (u64, u64) {
    (connection(clusters, "a"), connection(clusters, "b"))
}

fn connection(clusters: &Clusters, name: &str) -> u64 {
    state(clusters, name).connection.unwrap().id
}

/// Waits until a member's state matches, for at most an hour of paused time.
async fn until(
    clusters: &Clusters,
    name: &str,
    wanted: impl Fn(&MemberState) -> bool,
) -> MemberState {
    let mut changed = clusters.changed();
    let search = async {
        loop {
            changed.borrow_and_update();
            let now = state(clusters, name);
            if wanted(&now) {
                return now;
            }
            changed.changed().await.unwrap();
        }
    };
    let found = timeout(Duration::from_hours(1), search).await;
    found.unwrap_or_else(|_| panic!("{:?}", state(clusters, name)))
}

async fn until_phase(clusters: &Clusters, name: &str, phase: ConnectionPhase) -> MemberState {
    until(clusters, name, |state| state.phase == phase).await
}

async fn until_lost(clusters: &Clusters, name: &str) -> MemberState {
    until_phase(clusters, name, ConnectionPhase::Disconnected).await
}

async fn until_reconnected(clusters: &Clusters, name: &str, before: u64) -> MemberState {
    let is_new = |state: &MemberState| {
        state
            .connection
            .as_ref()
            .is_some_and(|live| live.id != before)
    };
    until(clusters, name, is_new).await
}

async fn until_ready(clusters: &Clusters, name: &str) -> MemberState {
    until_phase(clusters, name, ConnectionPhase::Ready).await
}

#[tokio::test(start_paused = true)]
async fn a_connected_member_has_its_uid_version_and_resources() {
    let clusters = Fleet::new(&["a"]).start(vec![member("a")]);
    assert_eq!(state(&clusters, "a").reason, "Connecting");
    let ready = until_ready(&clusters, "a").await;
    assert_eq!(ready.connection.unwrap().uid.as_deref(), Some("system-uid"));
    assert_eq!(ready.kubernetes_version.as_deref(), Some("v1.36.3"));
    let kinds: Vec<_> = ready
        .discovery
        .unwrap()
        .served
        .iter()
        .map(|served| served.resource.gvk.to_string())
        .collect();
    assert_eq!(
        (kinds, ready.reason, ready.note),
        (vec!["v1/Pod".to_owned()], "Ready", None)
    );
}

#[tokio::test(start_paused = true)]
async fn a_hanging_member_delays_no_other_and_is_unreachable() {
    let fleet = Fleet::new(&["a", "b"]);
    fleet.member("a", |fake| fake.hangs = true);
    let clusters = fleet.start(vec![member("a"), member("b")]);
    let started = Instant::now();
    until_ready(&clusters, "b").await;
    assert_eq!(started.elapsed(), Duration::ZERO);
    let hanging = until_lost(&clusters, "a").await;
    assert_eq!(
        (hanging.reason, started.elapsed().as_secs()),
        ("Unreachable", 5)
    );
    assert!(
        hanging
            .message
            .starts_with("https://a:6443: GET /readyz was not answered within 5s"),
        "{}",
        hanging.message
    );
}

#[tokio::test(start_paused = true)]
async fn a_secret_is_sent_only_to_allowed_hosts_and_can_be_revoked() {
    let fleet = Fleet::new(&["a"]);
    fleet.answers(|answers| answers.hosts = Some("b".to_owned()));
    let clusters = fleet.start(vec![member("a")]);
    let refused = until_lost(&clusters, "a").await;
    assert_eq!(refused.reason, "HostNotAllowed");
    assert!(
        refused.message.contains("add a:6443 to it"),
        "{}",
        refused.message
    );
    assert_eq!(fleet.requests("a", "/readyz"), 0);
    let impersonated = clusters
        .client_as(&"a".parse().unwrap(), Impersonation::default())
        .await;
    assert!(impersonated.is_err());
    fleet.answers(|answers| answers.hosts = Some("a".to_owned()));
    until_ready(&clusters, "a").await;
    fleet.answers(|answers| answers.hosts = Some("b".to_owned()));
    let taken_back = until_lost(&clusters, "a").await;
    assert_eq!(taken_back.reason, "HostNotAllowed");
}

#[tokio::test(start_paused = true)]
async fn a_missing_secret_is_reported_and_the_member_connects_soon_after_it_appears() {
    let fleet = Fleet::new(&["a"]);
    fleet.answers(|answers| answers.secrets.clear());
    let clusters = fleet.start(vec![member("a")]);
    let missing = until_lost(&clusters, "a").await;
    assert_eq!(missing.reason, "SecretNotFound");
    assert!(
        missing.message.contains("Secret fleet/a does not exist"),
        "{}",
        missing.message
    );
    fleet.answers(|answers| answers.secrets.insert("a".into(), "token".into()));
    let repaired = Instant::now();
    until_ready(&clusters, "a").await;
    assert!(repaired.elapsed() <= Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_member_is_retried_about_every_half_minute() {
    let fleet = Fleet::new(&["a"]);
    fleet.member("a", |fake| fake.ready = Some(500));
    let clusters = fleet.start(vec![member("a")]);
    let failed = until_lost(&clusters, "a").await;
    assert_eq!(failed.reason, "NotReady");
    sleep(Duration::from_mins(5)).await;
    let tried = fleet.requests("a", "/readyz");
    assert!((9..=13).contains(&tried), "{tried}");
    fleet.member("a", |fake| fake.ready = None);
    until_ready(&clusters, "a").await;
}

#[tokio::test(start_paused = true)]
async fn five_failed_probes_disconnect_and_the_discovery_is_kept() {
    let (fleet, clusters) = started(&["a"]);
    let first = until_ready(&clusters, "a").await;
    fleet.member("a", |fake| fake.ready = Some(500));
    let failing = Instant::now();
    let unhealthy = until_phase(&clusters, "a", ConnectionPhase::Unhealthy).await;
    assert_eq!(unhealthy.connection, first.connection);
    let lost = until_lost(&clusters, "a").await;
    assert!(
        (48..=50).contains(&failing.elapsed().as_secs()),
        "{:?}",
        failing.elapsed()
    );
    assert_eq!((lost.connection, lost.discovery), (None, first.discovery));
    fleet.member("a", |fake| fake.ready = None);
    let again = until_ready(&clusters, "a").await;
    assert_ne!(again.connection, first.connection);
}

#[tokio::test(start_paused = true)]
async fn refused_credentials_are_read_again_at_once() {
    let (fleet, clusters) = started(&["a"]);
    let first = until_ready(&clusters, "a").await;
    fleet.member("a", |fake| fake.ready = Some(401));
    let refused = until_lost(&clusters, "a").await;
    assert_eq!((refused.reason, refused.connection), ("Unauthorized", None));
    assert_eq!(fleet.answers(|answers| answers.clients), 2);
    fleet.member("a", |fake| fake.ready = None);
    assert_ne!(
        until_ready(&clusters, "a").await.connection,
        first.connection
    );
}

/// A fleet whose Secrets are watched, all its members ready.
async fn watched(names: &[&str], insecure: bool) -> (Fleet, Clusters) {
    let fleet = Fleet::new(names);
    fleet.answers(|answers| answers.watchable = true);
    let of = |name: &&str| {
        let mut member = member(name);
        member.access = MemberAccess::Endpoint(ApiServerEndpoint {
            insecure,
            ..endpoint(name)
        });
        member
    };
    let clusters = fleet.start(names.iter().map(of).collect());
    for name in names {
        until_ready(&clusters, name).await;
    }
    sleep(Duration::from_secs(1)).await;
    (fleet, clusters)
}

#[tokio::test(start_paused = true)]
async fn checklist_49_a_new_token_is_used_at_once_in_the_open_connection() {
    let (fleet, clusters) = watched(&["a", "b"], true).await;
    let before = connections(&clusters);
    // The Secrets are not polled: they are watched.
    let asked = fleet.requests("control-plane", "/api/v1/namespaces/fleet/secrets/a");
    sleep(Duration::from_mins(1)).await;
    assert_eq!(
        fleet.requests("control-plane", "/api/v1/namespaces/fleet/secrets/a"),
        asked
    );

    fleet.member("a", |fake| fake.token = "new".to_owned());
    fleet.secret("a", Some("new"));
    let clients = fleet.answers(|answers| answers.clients);
    sleep(Duration::from_millis(1)).await;
    let probes = fleet.requests("a", "/readyz");
    sleep(Duration::from_mins(2)).await;
    assert!(fleet.requests("a", "/readyz") > probes);
    assert_eq!(connections(&clusters), before);
    assert_eq!(
        (
            state(&clusters, "a").phase,
            fleet.answers(|answers| answers.clients)
        ),
        (ConnectionPhase::Ready, clients)
    );
}

#[tokio::test(start_paused = true)]
async fn checklist_49_a_new_certificate_authority_reconnects_only_its_member_at_once() {
    let (fleet, clusters) = watched(&["a", "b"], false).await;
    let before = connections(&clusters);
    fleet.answers(|answers| answers.bundle = Some(format!("{CERTIFICATE}\n{CERTIFICATE}")));
    let changed = Instant::now();
    fleet.secret("a", Some("token"));
    until_reconnected(&clusters, "a", before.0).await;
    assert_eq!(
        (changed.elapsed(), connection(&clusters, "b")),
        (Duration::ZERO, before.1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_member_reconnects_at_once_when_its_deleted_secret_is_recreated() {
    let (fleet, clusters) = watched(&["a"], true).await;
    let before = connection(&clusters, "a");
    fleet.secret("a", None);
    sleep(Duration::from_mins(1)).await;
    assert_eq!(connection(&clusters, "a"), before);
    // The member rejects the token, and there is no other.
    fleet.member("a", |fake| fake.token = "new".to_owned());
    until(&clusters, "a", |state| state.reason == "SecretNotFound").await;
    fleet.secret("a", Some("new"));
    let made = Instant::now();
    until_ready(&clusters, "a").await;
    assert_eq!(made.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn secrets_are_polled_while_their_watch_is_forbidden_or_broken() {
    let (fleet, clusters) = started(&["a"]);
    until_ready(&clusters, "a").await;
    let exchange = async |token: &str| {
        fleet.member("a", |fake| fake.token = token.to_owned());
        fleet.secret("a", Some(token));
        sleep(Duration::from_secs(11)).await;
        fleet.requests("a", "/readyz");
        assert_eq!(
            state(&clusters, "a").phase,
            ConnectionPhase::Ready,
            "{token}"
        );
    };
    let first = connection(&clusters, "a");
    fleet.member("a", |fake| fake.token = String::new());
    fleet.secret("a", Some("second"));
    sleep(Duration::from_secs(11)).await;
    fleet.member("a", |fake| fake.token = "second".to_owned());
    sleep(Duration::from_mins(3)).await;
    assert_eq!(connection(&clusters, "a"), first);
    // The right is granted, and the watch is opened and then cut.
    fleet.answers(|answers| answers.watchable = true);
    sleep(Duration::from_mins(3)).await;
    assert_eq!(fleet.answers(|answers| answers.watches.len()), 1);
    exchange("third").await;
    fleet.answers(|answers| answers.watches.clear());
    sleep(Duration::from_mins(1)).await;
    assert_eq!(fleet.answers(|answers| answers.watches.len()), 1);
    exchange("fourth").await;
    assert_eq!(connection(&clusters, "a"), first);
}

#[tokio::test(start_paused = true)]
async fn deleting_the_secret_does_not_close_a_working_connection() {
    let (fleet, clusters) = started(&["a"]);
    let first = until_ready(&clusters, "a").await;
    fleet.answers(|answers| answers.secrets.clear());
    sleep(Duration::from_mins(2)).await;
    assert_eq!(state(&clusters, "a"), first);
}

#[tokio::test(start_paused = true)]
async fn checklist_2_and_13_a_removed_member_leaves_no_state_requests_or_events() {
    let (fleet, clusters) = started(&["a", "b"]);
    until_ready(&clusters, "a").await;
    until_ready(&clusters, "b").await;
    let mut events = clusters.events(&[]);
    for _ in 0..2 {
        clusters.set_members(vec![member("b")]);
        let a = "a".parse().unwrap();
        assert_eq!(
            (clusters.state(&a), clusters.health(&a)),
            (None, ConnectionHealth::default())
        );
    }
    let asked = fleet.requests("a", "/readyz");
    sleep(Duration::from_mins(1)).await;
    assert_eq!(fleet.requests("a", "/readyz"), asked);
    assert!(
        timeout(Duration::from_mins(1), events.next())
            .await
            .is_err()
    );
}

#[tokio::test(start_paused = true)]
async fn checklist_22_to_24_connects_disconnects_and_probe_failures_are_published() {
    let fleet = Fleet::new(&["a"]);
    let clusters = Clusters::new(
        fleet.control_plane(),
        Arc::new(fleet.clone()),
        ConnectionTiming::default(),
        CancellationToken::new(),
    );
    let mut events = clusters.events(&[Duration::from_mins(5)]);
    clusters.set_members(vec![member("a")]);
    let event = |connected, disconnected, probe_failure| {
        let reasons = EventReasons {
            connected,
            disconnected,
            probe_failure,
        };
        Some(ClusterEvent {
            cluster: "a".parse().unwrap(),
            reasons,
        })
    };
    until_ready(&clusters, "a").await;
    assert_eq!(events.next().await, event(true, false, false));
    let answered = Instant::now();
    fleet.member("a", |fake| fake.ready = Some(500));
    assert_eq!(events.next().await, event(false, true, false));
    assert_eq!(events.next().await, event(false, false, true));
    let silent = answered.elapsed().as_secs();
    assert!((300..=340).contains(&silent), "{silent} s");
    assert!(
        timeout(Duration::from_hours(1), events.next())
            .await
            .is_err()
    );
    fleet.member("a", |fake| fake.ready = None);
    assert_eq!(events.next().await, event(true, false, false));
}

#[tokio::test(start_paused = true)]
async fn checklist_47_and_48_twenty_broken_members_do_not_disturb_eighty_others() {
    let names: Vec<String> = (0..100).map(|number| format!("m{number}")).collect();
    let fleet = Fleet::new(&names.iter().map(String::as_str).collect::<Vec<_>>());
    for (number, name) in names.iter().enumerate().take(20) {
        fleet.member(name, |fake| match number % 4 {
            0 => fake.hangs = true,
            1 => fake.ready = Some(500),
            2 => fake.token = "another".to_owned(),
            _ => fake.identity = Some(500),
        });
    }
    let clusters = fleet.start(names.iter().map(|name| member(name)).collect());
    sleep(Duration::from_secs(1)).await;
    let connections: Vec<u64> = names[20..]
        .iter()
        .map(|name| connection(&clusters, name))
        .collect();
    let probes = |name: &str| fleet.requests(name, "/readyz");
    let before: Vec<usize> = names.iter().map(|name| probes(name)).collect();
    for _ in 0..60 {
        sleep(Duration::from_secs(1)).await;
        for name in &names {
            assert_eq!(
                state(&clusters, name).connection.is_some(),
                !names[..20].contains(name),
                "{name}"
            );
        }
    }
    for (number, name) in names.iter().enumerate() {
        let asked = probes(name) - before[number];
        let expected = if number < 20 { 1..=3 } else { 5..=8 };
        assert!(expected.contains(&asked), "{name}: {asked} in a minute");
    }
    assert_eq!(
        names[20..]
            .iter()
            .map(|name| connection(&clusters, name))
            .collect::<Vec<_>>(),
        connections
    );
}

#[tokio::test(start_paused = true)]
async fn only_a_change_of_its_access_reconnects_a_member() {
    let (_fleet, clusters) = started(&["a", "b"]);
    until_ready(&clusters, "a").await;
    until_ready(&clusters, "b").await;
    let before = connections(&clusters);

    let mut labelled = member("a");
    labelled.labels.insert("tier".into(), "gold".into());
    clusters.set_members(vec![labelled.clone(), member("b")]);
    sleep(Duration::from_mins(1)).await;
    assert_eq!(connections(&clusters), before);
    assert_eq!(*state(&clusters, "a").member, labelled);

    labelled.access = MemberAccess::Endpoint(ApiServerEndpoint {
        url: "https://elsewhere:6443".into(),
        ..endpoint("a")
    });
    clusters.set_members(vec![labelled, member("b")]);
    until_reconnected(&clusters, "a", before.0).await;
    assert_eq!(connection(&clusters, "b"), before.1);
}

#[tokio::test(start_paused = true)]
async fn a_removed_member_is_stopped_and_a_recreated_one_starts_afresh() {
    let (fleet, clusters) = started(&["a", "b"]);
    until_ready(&clusters, "a").await;
    clusters.set_members(vec![member("a")]);
    assert_eq!(
        clusters
            .states()
            .into_keys()
            .map(String::from)
            .collect::<Vec<_>>(),
        ["a"]
    );
    clusters.set_members(vec![Member {
        uid: "another".into(),
        ..member("a")
    }]);
    let fresh = state(&clusters, "a");
    assert_eq!(
        (fresh.phase, fresh.connection, fresh.discovery),
        (ConnectionPhase::Connecting, None, None)
    );
    until_ready(&clusters, "a").await;
    let asked = fleet.requests("b", "/readyz");
    sleep(Duration::from_mins(1)).await;
    assert_eq!(fleet.requests("b", "/readyz"), asked);
}

#[tokio::test(start_paused = true)]
async fn a_new_kind_is_discovered_over_the_same_connection() {
    let (fleet, clusters) = started(&["a"]);
    let first = until_ready(&clusters, "a").await;
    let quiet = *clusters.changed().borrow();
    sleep(Duration::from_mins(1)).await;
    assert!(fleet.requests("a", "/apis") >= 5);
    assert_eq!(*clusters.changed().borrow(), quiet);
    fleet.member("a", |fake| fake.kinds.push("Widget"));
    let more = until(&clusters, "a", |state| state.discovery != first.discovery).await;
    assert_eq!(more.discovery.as_ref().unwrap().served.len(), 2);
    assert_eq!(more.connection, first.connection);
    fleet.member("a", |fake| fake.discovery = Some(503));
    sleep(Duration::from_mins(1)).await;
    assert_eq!(state(&clusters, "a"), more);
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_cluster_uid_is_noted_and_an_unreadable_one_prevents_the_connect() {
    let fleet = Fleet::new(&["a", "b"]);
    fleet.member("a", |fake| fake.identity = Some(403));
    fleet.member("b", |fake| fake.identity = Some(500));
    let clusters = fleet.start(vec![member("a"), member("b")]);
    let noted = until_ready(&clusters, "a").await;
    assert_eq!(noted.connection.unwrap().uid, None);
    assert!(noted.note.unwrap().contains("kube-system"));
    let failed = until_phase(&clusters, "b", ConnectionPhase::Disconnected).await;
    assert_eq!(failed.reason, "NotReady");
}

#[tokio::test(start_paused = true)]
async fn a_panicked_task_restarts_and_disturbs_no_other_member() {
    let fleet = Fleet::new(&["a", "b"]);
    fleet.member("a", |fake| fake.panics = true);
    let clusters = fleet.start(vec![member("a"), member("b")]);
    until_ready(&clusters, "b").await;
    let broken = until_lost(&clusters, "a").await;
    assert_eq!(broken.reason, "InternalError");
    fleet.member("a", |fake| fake.panics = false);
    until_ready(&clusters, "a").await;
}

#[tokio::test(start_paused = true)]
async fn a_refresh_probes_the_member_at_once() {
    let (fleet, clusters) = started(&["a"]);
    let first = until_ready(&clusters, "a").await;
    fleet.member("a", |fake| fake.kinds.push("Widget"));
    let asked = Instant::now();
    clusters.refresh(&"a".parse().unwrap());
    until(&clusters, "a", |state| state.discovery != first.discovery).await;
    assert_eq!(asked.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_refresh_connects_a_disconnected_member_at_once() {
    let fleet = Fleet::new(&["a"]);
    fleet.member("a", |fake| fake.ready = Some(500));
    let clusters = fleet.start(vec![member("a")]);
    until_lost(&clusters, "a").await;
    fleet.member("a", |fake| fake.ready = None);
    let asked = Instant::now();
    clusters.refresh(&"a".parse().unwrap());
    until_ready(&clusters, "a").await;
    assert_eq!(asked.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn an_unresponsive_control_plane_keeps_connections_and_is_reported_for_new_members() {
    let fleet = Fleet::new(&["a", "b"]);
    let clusters = fleet.start(vec![member("a")]);
    let first = until_ready(&clusters, "a").await;
    fleet.answers(|answers| answers.silent = true);
    clusters.set_members(vec![member("a"), member("b")]);
    let waiting = until_phase(&clusters, "b", ConnectionPhase::Disconnected).await;
    assert_eq!(waiting.reason, "SecretUnreadable");
    assert!(
        waiting.message.contains("fleet/b") && waiting.message.contains("no response within 5s"),
        "{}",
        waiting.message
    );
    sleep(Duration::from_mins(2)).await;
    assert_eq!(state(&clusters, "a"), first);
    fleet.answers(|answers| answers.silent = false);
    until_ready(&clusters, "b").await;
}

#[tokio::test(start_paused = true)]
async fn a_replaced_task_cannot_publish() {
    let clusters = Fleet::new(&["a"]).start(vec![member("a")]);
    let before = until_ready(&clusters, "a").await;
    clusters.shared.publish(
        &"a".parse().unwrap(),
        4711,
        ConnectionHealth::default(),
        |state| {
            state.reason = "Stale";
        },
    );
    assert_eq!(state(&clusters, "a"), before);
}

#[tokio::test(start_paused = true)]
async fn impersonation_uses_the_token_of_the_impersonator_secret() {
    let fleet = Fleet::new(&["a", "b"]);
    fleet.secret("a-impersonator", Some("may-impersonate"));
    let impersonator = Some(LocalSecretReference {
        namespace: "fleet".into(),
        name: "a-impersonator".into(),
    });
    let a = Member {
        access: MemberAccess::Endpoint(ApiServerEndpoint {
            impersonator,
            ..endpoint("a")
        }),
        ..member("a")
    };
    let clusters = fleet.start(vec![a, member("b")]);
    until_ready(&clusters, "a").await;
    let alice = Impersonation {
        user: Some("alice".into()),
        groups: vec!["dev".into()],
        ..Impersonation::default()
    };
    clusters
        .client_as(&"a".parse().unwrap(), alice.clone())
        .await
        .unwrap();
    let asked =
        fleet.answers(|answers| answers.members[&"a".parse().unwrap()].impersonated.clone());
    assert_eq!(
        asked,
        Some((alice.clone(), Some("may-impersonate".to_owned())))
    );
    let refused = clusters
        .client_as(&"b".parse().unwrap(), alice.clone())
        .await
        .err()
        .unwrap();
    assert!(
        matches!(refused, ImpersonateError::NoImpersonator { .. }),
        "{refused}"
    );
    let stranger = clusters
        .client_as(&"c".parse().unwrap(), alice)
        .await
        .err()
        .unwrap();
    assert!(
        matches!(stranger, ImpersonateError::NotAMember { .. }),
        "{stranger}"
    );
}

#[tokio::test(start_paused = true)]
async fn checklist_1_an_awaited_member_is_not_connected_until_it_changes() {
    let fleet = Fleet::new(&["a"]);
    let awaited = MemberAccess::Awaited {
        reason: "WaitingForInfrastructure",
        message: "it is being made".into(),
    };
    let clusters = fleet.start(vec![Member {
        access: awaited,
        ..member("a")
    }]);
    let mut events = clusters.events(&[]);
    let waiting = until_lost(&clusters, "a").await;
    assert_eq!(
        (waiting.reason, waiting.connection),
        ("WaitingForInfrastructure", None)
    );
    assert!(
        timeout(Duration::from_hours(1), events.next())
            .await
            .is_err()
    );
    assert_eq!(fleet.answers(|answers| answers.clients), 0);
    let made = Instant::now();
    clusters.set_members(vec![member("a")]);
    until_ready(&clusters, "a").await;
    assert_eq!(made.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_every_task() {
    let fleet = Fleet::new(&["a", "b"]);
    fleet.member("a", |fake| fake.hangs = true);
    let shutdown = CancellationToken::new();
    let clusters = Clusters::new(
        fleet.control_plane(),
        Arc::new(fleet.clone()),
        ConnectionTiming::default(),
        shutdown.clone(),
    );
    clusters.set_members(vec![member("a"), member("b")]);
    until_ready(&clusters, "b").await;
    shutdown.cancel();
    timeout(Duration::from_secs(1), clusters.stopped())
        .await
        .unwrap();
}

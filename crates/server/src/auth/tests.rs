//! Authentication and authorization as clients see them, with a fake control plane and certificates
//! of several authorities.

mod across_kinds;
mod bindings;
mod completions;
mod rights;
mod search_watch;
mod tls;
mod visibility;

use std::{collections::BTreeMap, sync::Arc};

use axum::{Router, body::Body, extract::Request};
use fleetdex_core::{
    model::{ClusterName, Scope, Unit},
    query::{Grant, Group, Groups, Permitted},
};
use fleetdex_store::fake::PreparedReader;
use fleetdex_telemetry::{Metrics, Readiness};
use http::{Response, StatusCode};
use http_body_util::BodyExt as _;
use k8s_openapi::api::authorization::v1::SubjectAccessReviewSpec;
use kube::{Client, client::Body as KubeBody};
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tower::{ServiceExt as _, service_fn};

use super::{
    authenticate::RemoteClient,
    authentication_mode::{AuthenticationMode, DelegatedAuth},
    authorize::AuthorizationMode,
    client_trust::ClientTrust,
    reviews::Reviews,
};
use crate::{
    answers::Answers,
    catalog::{
        Catalog,
        planned_stream::{NoAudit, PlannedStream},
    },
    fake::{self, catalog, cursor, no_clusters, page},
    http::{api_state::ApiState, serve::router},
    limits::{LimitArgs, RequestLimits},
    proxying::MemberProxy,
    read::bindings::BindingReader,
};

const LOCALHOST: std::net::IpAddr = std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

pub(super) const SEARCH: &str = "/apis/search.fleetdex.io/v1alpha1/search";
pub(super) const PODS: &str = "/apis/search.fleetdex.io/v1alpha1/search/api/v1/pods";

/// An authority that signs client certificates.
pub(super) struct Authority {
    pub(super) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key.
pub(super) struct Identity {
    pub(super) certificate: CertificateDer<'static>,
    pub(super) key: PrivateKeyDer<'static>,
}

impl Authority {
    pub(super) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().unwrap();
        Self {
            pem: params.self_signed(&key).unwrap().pem(),
            issuer: Issuer::new(params, key),
        }
    }

    pub(super) fn client(&self, name: &str, groups: &[&str]) -> Identity {
        self.issue(name, groups, ExtendedKeyUsagePurpose::ClientAuth, 1)
    }

    fn issue(
        &self,
        name: &str,
        groups: &[&str],
        usage: ExtendedKeyUsagePurpose,
        days: i64,
    ) -> Identity {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        for group in groups {
            // One attribute for each group; rcgen keeps only the last attribute of a type.
            params
                .distinguished_name
                .push(DnType::OrganizationName, *group);
        }
        params.extended_key_usages = vec![usage];
        let now = time::OffsetDateTime::now_utc();
        params.not_before = now - time::Duration::days(2);
        params.not_after = now + time::Duration::days(days);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Identity {
            certificate: certificate.der().clone(),
            key: PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap(),
        }
    }
}

/// A control plane that reviews tokens and access.
#[derive(Default)]
pub(super) struct ControlPlane {
    /// Tokens and their users.
    tokens: BTreeMap<&'static str, &'static str>,
    /// What is allowed: `user verb group/resource namespace name`, with `*` for anything, in the
    /// order of the words.
    pub(super) rules: Mutex<Vec<&'static str>>,
    /// Responds with 403 to everything, as to an operator that may not review.
    pub(super) refuses: Mutex<bool>,
    reviews: Mutex<Vec<Value>>,
}

impl ControlPlane {
    fn review(&self, path: &str, body: &Value) -> (u16, Value) {
        self.reviews.lock().push(body["spec"].clone());
        if *self.refuses.lock() {
            let status = json!({ "kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": "no reviews for you" });
            return (403, status);
        }
        let mut response = body.clone();
        if path.ends_with("/tokenreviews") {
            let owner = self.tokens.get(body["spec"]["token"].as_str().unwrap());
            response["status"] = match owner {
                Some(name) => {
                    json!({ "authenticated": true, "user": { "username": name, "groups": ["dev"] } })
                }
                None => json!({ "authenticated": false }),
            };
        } else {
            let spec: SubjectAccessReviewSpec =
                serde_json::from_value(body["spec"].clone()).unwrap();
            let words = words(&spec);
            let allowed = self.rules.lock().iter().any(|rule| fits(rule, &words));
            response["status"] = json!({ "allowed": allowed });
        }
        (201, response)
    }

    pub(super) fn client(self: &Arc<Self>) -> Client {
        let this = Arc::clone(self);
        let service = service_fn(move |request: http::Request<KubeBody>| {
            let this = Arc::clone(&this);
            async move {
                let path = request.uri().path().to_owned();
                if request.method() == http::Method::GET {
                    let body = KubeBody::from(bindings::answer(&path).to_string().into_bytes());
                    return Ok(Response::new(body));
                }
                let bytes = request.into_body().collect().await.unwrap().to_bytes();
                let (code, response) = this.review(&path, &serde_json::from_slice(&bytes).unwrap());
                let body = KubeBody::from(response.to_string().into_bytes());
                Ok::<_, std::convert::Infallible>(
                    Response::builder().status(code).body(body).unwrap(),
                )
            }
        });
        Client::new(service, "default")
    }

    pub(super) fn count(&self) -> usize {
        self.reviews.lock().len()
    }
}

fn words(spec: &SubjectAccessReviewSpec) -> Vec<String> {
    let user = spec.user.clone().unwrap();
    if let Some(path) = &spec.non_resource_attributes {
        return vec![user, path.verb.clone().unwrap(), path.path.clone().unwrap()];
    }
    let access = spec.resource_attributes.clone().unwrap();
    let mut resource = format!(
        "{}/{}",
        access.group.unwrap_or_default(),
        access.resource.unwrap()
    );
    if let Some(below) = access.subresource {
        resource = format!("{resource}/{below}");
    }
    vec![
        user,
        access.verb.unwrap(),
        resource,
        access.namespace.unwrap_or_default(),
        access.name.unwrap_or_default(),
    ]
}

fn fits(rule: &str, words: &[String]) -> bool {
    let rule: Vec<&str> = rule.split(' ').collect();
    rule.len() == words.len()
        && rule
            .iter()
            .zip(words)
            .all(|(pattern, word)| *pattern == "*" || pattern == word)
}

pub(super) struct World {
    pub(super) app: Router,
    pub(super) control_plane: Arc<ControlPlane>,
    /// What is registered.
    pub(super) catalog: watch::Sender<Arc<Catalog>>,
    trust: watch::Sender<Arc<ClientTrust>>,
    client_authority: Authority,
    front_authority: Authority,
    pub(super) store: Arc<PreparedReader>,
}

/// Rules that allow all requests to the server; further rules decide what callers see.
pub(super) const OUTER: [&str; 2] = [
    "* get search.fleetdex.io/search/v1  *",
    "* get search.fleetdex.io/clusters  *",
];

impl World {
    pub(super) fn new(rules: &[&'static str]) -> Self {
        Self::over(
            counting(&[
                ("member1", "web", 3),
                ("member2", "web", 1),
                ("member1", "db", 1),
            ]),
            rules,
            false,
        )
    }

    /// A world with [`OUTER`] and these rules.
    pub(super) fn beyond_outer(rules: &[&'static str]) -> Self {
        Self::new(&[&OUTER[..], rules].concat())
    }

    pub(super) fn over(
        store: Arc<PreparedReader>,
        rules: &[&'static str],
        allows_any_name: bool,
    ) -> Self {
        Self::with_members(store, rules, allows_any_name, None)
    }

    /// A world in which the members decide.
    fn with_members(
        store: Arc<PreparedReader>,
        rules: &[&'static str],
        allows_any_name: bool,
        members: Option<BTreeMap<&'static str, Arc<ControlPlane>>>,
    ) -> Self {
        let control_plane = Arc::new(ControlPlane {
            tokens: BTreeMap::from([
                ("alices", "alice"),
                ("bobs", "bob"),
                ("locals", "fleetdex:local"),
            ]),
            rules: Mutex::new(rules.to_vec()),
            ..ControlPlane::default()
        });
        let (client_authority, front_authority) =
            (Authority::new("client-ca"), Authority::new("front-ca"));
        let (trust, reader) = watch::channel(Arc::new(ClientTrust::new(allows_any_name)));
        let mode = if members.is_some() {
            AuthorizationMode::Members
        } else {
            AuthorizationMode::ControlPlane
        };
        let client = move |name: &ClusterName| {
            members
                .as_ref()?
                .get(name.as_str())
                .map(ControlPlane::client)
        };
        let reviews = Reviews::new(
            control_plane.client(),
            Arc::new(client),
            Vec::new(),
            Counter::default(),
        );
        let metrics = Arc::new(Metrics::new());
        let authentication_mode =
            AuthenticationMode::Delegated(DelegatedAuth::new(reader, reviews, mode, &metrics));
        let (catalog, receiver) = watch::channel(Arc::new(catalog(store.clone())));
        let limits = RequestLimits::new(&LimitArgs::default(), &metrics);
        let members = Arc::new(MemberProxy::new(no_clusters(), CancellationToken::new()));
        let api = ApiState::new(
            Answers {
                bindings: Some(BindingReader::new(control_plane.client())),
                ..Answers::new(receiver, authentication_mode, limits, metrics)
            },
            members,
        );
        let world = Self {
            app: router(api, Readiness::new()),
            control_plane,
            catalog,
            trust,
            client_authority,
            front_authority,
            store,
        };
        world.configure(&world.data());
        world
    }

    /// The `ConfigMap` of a control plane with the recommended flags.
    fn data(&self) -> BTreeMap<String, String> {
        let lists = [
            ("client-ca-file", self.client_authority.pem.as_str()),
            (
                "requestheader-client-ca-file",
                self.front_authority.pem.as_str(),
            ),
            ("requestheader-username-headers", r#"["X-Remote-User"]"#),
            ("requestheader-uid-headers", r#"["X-Remote-Uid"]"#),
            ("requestheader-group-headers", r#"["X-Remote-Group"]"#),
            (
                "requestheader-extra-headers-prefix",
                r#"["X-Remote-Extra-"]"#,
            ),
            ("requestheader-allowed-names", r#"["front-proxy-client"]"#),
        ];
        lists
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into()
    }

    fn configure(&self, data: &BTreeMap<String, String>) {
        let (next, _problems) = self.trust.borrow().updated(data);
        self.trust.send_replace(Arc::new(next));
    }

    /// Configures the recommended flags, except for this one.
    fn configure_with(&self, key: &str, value: &str) {
        let mut data = self.data();
        data.insert(key.to_owned(), value.to_owned());
        self.configure(&data);
    }

    pub(super) fn front_proxy(&self) -> Identity {
        self.front_authority.client("front-proxy-client", &[])
    }

    async fn ask(
        &self,
        shown: Option<&Identity>,
        headers: &[(&str, &str)],
        path: &str,
    ) -> (u16, Value) {
        let certificates = shown
            .map(|identity| vec![identity.certificate.clone()])
            .unwrap_or_default();
        self.send_over(&RemoteClient::at(LOCALHOST, certificates), headers, path)
            .await
    }

    async fn send_over(
        &self,
        peer: &Arc<RemoteClient>,
        headers: &[(&str, &str)],
        path: &str,
    ) -> (u16, Value) {
        let mut request = Request::get(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(Body::empty()).unwrap();
        request.extensions_mut().insert(Arc::clone(peer));
        let response = self.app.clone().oneshot(request).await.unwrap();
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    /// The code of `/version` for Alice, over this connection.
    async fn code_over(&self, peer: &Arc<RemoteClient>) -> u16 {
        self.send_over(peer, &AS_ALICE, "/version").await.0
    }

    pub(super) async fn ask_as(&self, token: &str, path: &str) -> (u16, Value) {
        self.ask(None, &[("authorization", &format!("Bearer {token}"))], path)
            .await
    }

    async fn code(&self, shown: Option<&Identity>, headers: &[(&str, &str)], path: &str) -> u16 {
        self.ask(shown, headers, path).await.0
    }

    /// [`OK`], or the reason why `/version` is refused.
    async fn version(&self, shown: Option<&Identity>, headers: &[(&str, &str)]) -> String {
        ok_or_reason(self.ask(shown, headers, "/version").await)
    }

    /// [`OK`], or the reason why a list below `api/v1` of the search is refused.
    async fn list(&self, token: &str, resource: &str) -> String {
        ok_or_reason(
            self.ask_as(token, &format!("{SEARCH}/api/v1/{resource}"))
                .await,
        )
    }

    pub(super) async fn code_as(&self, token: &str, path: &str) -> u16 {
        self.ask_as(token, path).await.0
    }

    pub(super) async fn refusal_as(&self, token: &str, path: &str) -> String {
        reason(self.ask_as(token, path).await)
    }

    pub(super) async fn response_to(&self, token: &str, path: &str) -> Response<Body> {
        let request = Request::get(path).header("authorization", format!("Bearer {token}"));
        let request = request.body(Body::empty()).unwrap();
        self.app.clone().oneshot(request).await.unwrap()
    }

    /// The first warning of Alice's successful list of pods.
    async fn warning_of_pods(&self) -> String {
        let response = self.response_to("alices", PODS).await;
        assert_eq!(response.status(), StatusCode::OK);
        response.headers()["warning"].to_str().unwrap().to_owned()
    }

    fn last_caller(&self) -> Value {
        self.control_plane.reviews.lock().last().cloned().unwrap()
    }

    /// The restriction of the last query.
    fn permitted(&self) -> Permitted {
        self.store.asked().last().unwrap().0.permitted.clone()
    }

    fn grants(&self) -> Vec<Grant> {
        match self.permitted() {
            Permitted::Only(grants) => grants,
            Permitted::Everything => panic!("the query is not restricted"),
        }
    }
}

fn ok_or_reason(answer: (u16, Value)) -> String {
    if answer.0 == 200 {
        return OK.to_owned();
    }
    reason(answer)
}

/// A store with this many objects by cluster and namespace.
pub(super) fn counting(groups: &[(&str, &str, u64)]) -> Arc<PreparedReader> {
    let group = |(cluster, namespace, count): &(&str, &str, u64)| Group {
        values: vec![Some((*cluster).to_owned()), Some((*namespace).to_owned())],
        count: *count,
    };
    let groups: Vec<Group> = groups.iter().map(group).collect();
    PreparedReader::counting(Groups {
        total: groups.iter().map(|group| group.count).sum(),
        groups,
        others: 0,
    })
}

/// One object in each of this many namespaces of member1.
fn namespaces_of_member1(count: usize) -> Vec<(&'static str, &'static str, u64)> {
    let name = |number| &*String::leak(format!("n{number}"));
    (0..count)
        .map(|number| ("member1", name(number), 1))
        .collect()
}

fn grant(clusters: &[&str], namespaces: Option<&[&str]>) -> Grant {
    let parsed = |names: &[&str]| names.iter().map(|name| name.parse().unwrap()).collect();
    Grant {
        clusters: Some(clusters.iter().map(|name| name.parse().unwrap()).collect()),
        namespaces: namespaces.map(parsed),
    }
}

/// The pods of a cluster in the store `main`.
pub(super) fn stopped_stream(name: &str) -> PlannedStream {
    let unit = Unit {
        cluster: fake::cluster(name),
        resource: fake::pods().resource,
        scope: Scope::All,
    };
    PlannedStream {
        unit,
        store: fake::store("main"),
        audit: Err(NoAudit::NotRunning("it is stopped".to_owned())),
    }
}

pub(super) fn reason((code, status): (u16, Value)) -> String {
    assert!(
        status["kind"] == "Status" && status["code"] == code,
        "{code} {status}"
    );
    format!(
        "{code} {}: {}",
        status["reason"].as_str().unwrap(),
        status["message"].as_str().unwrap()
    )
}

const AS_ALICE: [(&str, &str); 1] = [("x-remote-user", "alice")];
const OK: &str = "200";
const UNAUTHORIZED: &str = "401 Unauthorized: Unauthorized";

#[tokio::test]
async fn identity_headers_are_trusted_only_from_a_front_proxy() {
    let world = World::new(&["* * *"]);
    let proxy = world.front_proxy();
    let stranger = Authority::new("other-ca").client("front-proxy-client", &[]);
    let admin = world
        .client_authority
        .client("front-proxy-client", &["admins"]);
    let other_name = world.front_authority.client("somebody", &[]);
    let issue = |usage, days| {
        world
            .front_authority
            .issue("front-proxy-client", &[], usage, days)
    };
    let server = issue(ExtendedKeyUsagePurpose::ServerAuth, 1);
    let expired = issue(ExtendedKeyUsagePurpose::ClientAuth, -1);
    assert_eq!(world.version(None, &AS_ALICE).await, UNAUTHORIZED);
    for refused in [&stranger, &other_name, &server, &expired] {
        assert_eq!(world.version(Some(refused), &AS_ALICE).await, UNAUTHORIZED);
    }
    assert_eq!(world.control_plane.count(), 0, "those need no review");
    assert_eq!(world.version(Some(&proxy), &AS_ALICE).await, OK);
    assert_eq!(world.last_caller()["user"], "alice");
    assert_eq!(world.version(Some(&admin), &AS_ALICE).await, OK);
    let caller = world.last_caller();
    assert_eq!(
        (&caller["user"], &caller["groups"]),
        (
            &json!("front-proxy-client"),
            &json!(["admins", "system:authenticated"])
        )
    );
    let id = caller["extra"]["authentication.kubernetes.io/credential-id"][0]
        .as_str()
        .unwrap();
    assert!(id.starts_with("X509SHA256=") && id.len() == 11 + 64, "{id}");
}

#[tokio::test]
async fn all_identity_headers_of_a_front_proxy_are_used() {
    let world = World::new(&["* * *"]);
    let proxy = world.front_proxy();
    let headers = [
        ("x-remote-user", "alice"),
        ("x-remote-uid", "u1"),
        ("x-remote-group", "dev"),
        ("x-remote-group", "ops"),
        ("x-remote-extra-foo%2fbar", "a"),
        ("x-remote-extra-foo%2fbar", "b"),
    ];
    assert_eq!(world.version(Some(&proxy), &headers).await, OK);
    insta::assert_json_snapshot!(world.last_caller(), @r#"
    {
      "extra": {
        "foo/bar": [
          "a",
          "b"
        ]
      },
      "groups": [
        "dev",
        "ops",
        "system:authenticated"
      ],
      "nonResourceAttributes": {
        "path": "/version",
        "verb": "get"
      },
      "uid": "u1",
      "user": "alice"
    }
    "#);
}

#[tokio::test]
async fn a_front_proxy_without_a_user_is_unauthenticated() {
    let world = World::new(&["* * *"]);
    let proxy = world.front_proxy();
    let group = [("x-remote-group", "system:masters")];
    assert_eq!(world.version(Some(&proxy), &[]).await, UNAUTHORIZED);
    assert_eq!(world.version(Some(&proxy), &group).await, UNAUTHORIZED);
    let token = [("authorization", "bearer  alices")];
    assert_eq!(
        world.version(Some(&proxy), &token).await,
        OK,
        "a token still counts"
    );
}

#[tokio::test]
async fn without_allowed_names_no_front_proxy_is_trusted_unless_the_flag_is_set() {
    let store = || PreparedReader::counting(Groups::default());
    for (allows_any_name, expected) in [(false, UNAUTHORIZED), (true, OK)] {
        let world = World::over(store(), &["* * *"], allows_any_name);
        for empty in ["[]", ""] {
            world.configure_with("requestheader-allowed-names", empty);
            let other = world.front_authority.client("other", &[]);
            assert_eq!(world.version(Some(&other), &AS_ALICE).await, expected);
            assert_eq!(
                world.version(None, &AS_ALICE).await,
                UNAUTHORIZED,
                "never without a certificate"
            );
        }
    }
}

#[tokio::test]
async fn authorities_are_replaced_on_open_connections_and_never_removed() {
    let world = World::new(&["* * *"]);
    let old = RemoteClient::at(LOCALHOST, vec![world.front_proxy().certificate]);
    assert_eq!(world.code_over(&old).await, 200);
    world.configure(&BTreeMap::new());
    assert_eq!(
        world.code_over(&old).await,
        200,
        "an empty ConfigMap says nothing"
    );
    for broken in [
        "",
        "no certificate",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ] {
        world.configure_with("requestheader-client-ca-file", broken);
        assert_eq!(world.code_over(&old).await, 200, "{broken}");
    }
    let next = Authority::new("next-front-ca");
    world.configure_with("requestheader-client-ca-file", &next.pem);
    let next = next.client("front-proxy-client", &[]);
    assert_eq!(world.code_over(&old).await, 401);
    assert_eq!(world.version(Some(&next), &AS_ALICE).await, OK);
}

#[tokio::test]
async fn invalid_header_lists_change_nothing() {
    let world = World::new(&["* * *"]);
    let mut data = world.data();
    data.insert(
        "requestheader-username-headers".to_owned(),
        "X-Remote-User".to_owned(),
    );
    let (next, problems) = world.trust.borrow().updated(&data);
    assert_eq!(next.headers.username, ["X-Remote-User"]);
    assert_eq!(
        problems,
        [
            "requestheader-username-headers is not a JSON list of strings; keeping the previous value"
        ]
    );
}

#[tokio::test]
async fn no_certificate_is_trusted_before_the_config_map_is_read() {
    let world = World::new(&["* * *"]);
    let carol = world.client_authority.client("carol", &[]);
    let proxy = world.front_proxy();
    world.trust.send_replace(Arc::new(ClientTrust::new(true)));
    assert_eq!(world.version(Some(&proxy), &AS_ALICE).await, UNAUTHORIZED);
    assert_eq!(world.version(Some(&carol), &[]).await, UNAUTHORIZED);
}

#[tokio::test]
async fn token_reviews_are_cached_for_ten_seconds_and_unknown_tokens_are_refused() {
    let world = World::new(&["* * *"]);
    for _ in 0..3 {
        assert_eq!(world.code_as("alices", "/version").await, 200);
        assert_eq!(world.refusal_as("nobodys", "/version").await, UNAUTHORIZED);
    }
    assert_eq!(
        world.control_plane.count(),
        3,
        "two token reviews and one access review"
    );
    for no_token in ["Bearer", "Bearer ", "Basic alices", "alices"] {
        let header = [("authorization", no_token)];
        assert_eq!(world.version(None, &header).await, UNAUTHORIZED);
    }
    *world.control_plane.refuses.lock() = true;
    assert_eq!(
        world.refusal_as("bobs", "/version").await,
        UNAUTHORIZED,
        "a review that fails is no yes"
    );
    *world.control_plane.refuses.lock() = false;
    assert_eq!(
        world.code_as("bobs", "/version").await,
        200,
        "and is not remembered"
    );
}

#[tokio::test]
async fn no_user_can_have_the_name_of_the_local_caller() {
    let world = World::new(&["* * *"]);
    let proxy = world.front_proxy();
    let headers = [
        ("x-remote-user", "fleetdex:local"),
        ("x-remote-group", "system:masters"),
    ];
    assert_eq!(world.version(Some(&proxy), &headers).await, UNAUTHORIZED);
    assert_eq!(world.refusal_as("locals", "/version").await, UNAUTHORIZED);
    let certificate = world
        .client_authority
        .client("fleetdex:local", &["system:masters"]);
    assert_eq!(world.version(Some(&certificate), &[]).await, UNAUTHORIZED);
}

#[tokio::test]
async fn impersonation_is_refused() {
    let world = World::new(&["* * *"]);
    let headers = [
        ("authorization", "Bearer alices"),
        ("impersonate-user", "bob"),
    ];
    assert_eq!(
        world.version(None, &headers).await,
        "400 BadRequest: this server does not support impersonation; send the request through the control plane"
    );
    assert_eq!(world.version(None, &headers[1..]).await, UNAUTHORIZED);
}

#[tokio::test]
async fn system_masters_and_health_checks_need_no_review() {
    let world = World::new(&[]);
    let headers = [
        ("x-remote-user", "admin"),
        ("x-remote-group", "system:masters"),
    ];
    let proxy = world.front_proxy();
    assert_eq!(world.code(Some(&proxy), &headers, PODS).await, 200);
    assert_eq!(
        (world.control_plane.count(), world.permitted()),
        (0, Permitted::Everything)
    );
    *world.control_plane.refuses.lock() = true;
    assert_eq!(world.code(None, &[], "/healthz").await, 200);
    assert_eq!(world.code(None, &[], "/livez").await, 200);
    assert_eq!(
        world.code(None, &[], "/readyz").await,
        503,
        "open without credentials, and not ready yet"
    );
}

#[tokio::test]
async fn a_failed_review_is_an_error_and_a_denial_is_403_as_by_the_apiserver() {
    let world = World::new(&[]);
    assert_eq!(
        world.list("alices", "pods").await,
        r#"403 Forbidden: search.search.fleetdex.io "api" is forbidden: User "alice" cannot get resource "search/v1" in API group "search.fleetdex.io" at the cluster scope"#
    );
    assert_eq!(
        world.refusal_as("alices", "/version").await,
        r#"403 Forbidden: forbidden: User "alice" cannot get path "/version""#
    );
    assert_eq!(world.code_as("bobs", "/version").await, 403);
    *world.control_plane.refuses.lock() = true;
    let down = world.list("bobs", "pods").await;
    assert!(
        down.starts_with(
            "500 InternalError: cannot authorize the request: the review by the control plane failed"
        ),
        "{down}"
    );
}

#[tokio::test]
async fn rights_in_some_namespaces_restrict_the_query_to_them() {
    let world = World::beyond_outer(&["alice list /pods web ", "alice list /pods elsewhere "]);
    assert_eq!(world.list("alices", "pods").await, OK);
    assert_eq!(
        world.grants(),
        [Grant::of_namespaces(vec!["web".parse().unwrap()])]
    );
    let reviews = world.control_plane.count();
    assert_eq!(world.list("alices", "pods?labelSelector=app").await, OK);
    assert_eq!(
        world.control_plane.count(),
        reviews,
        "everything is known by now"
    );
    assert_eq!(
        world.list("bobs", "pods").await,
        r#"403 Forbidden: pods is forbidden: User "bob" cannot list resource "pods" in API group "" at the cluster scope"#
    );
    assert_eq!(
        world.list("alices", "namespaces/db/pods").await,
        r#"403 Forbidden: pods is forbidden: User "alice" cannot list resource "pods" in API group "" in the namespace "db""#
    );
    assert_eq!(world.list("alices", "namespaces/web/pods").await, OK);
    assert_eq!(
        world.list("alices", "namespaces/web/pods/a").await,
        r#"403 Forbidden: pods "a" is forbidden: User "alice" cannot get resource "pods" in API group "" in the namespace "web""#
    );
    assert_eq!(
        world
            .code_as("alices", &format!("{SEARCH}/api/v1/nodes"))
            .await,
        403
    );
}

#[tokio::test]
async fn only_replicas_can_read_the_changes_of_a_replica() {
    let everything = [
        "alice get search.fleetdex.io/changes/v1  *",
        "alice * /pods  ",
        "bob replicate search.fleetdex.io/changes  ",
    ];
    let world = World::new(&everything);
    let path = "/apis/search.fleetdex.io/v1alpha1/changes/api/v1/pods?store=other&watch=true";
    assert_eq!(
        world.refusal_as("alices", path).await,
        r#"403 Forbidden: changes.search.fleetdex.io is forbidden: User "alice" cannot replicate resource "changes" in API group "search.fleetdex.io" at the cluster scope"#
    );
    assert_eq!(
        world.refusal_as("bobs", path).await,
        "503 ServiceUnavailable: store other is not connected yet"
    );
}

#[tokio::test]
async fn a_watch_needs_the_right_to_watch() {
    let world = World::beyond_outer(&["alice list /pods  ", "alice get /pods web a"]);
    assert_eq!(
        world.list("alices", "pods?watch=true").await,
        r#"403 Forbidden: pods is forbidden: User "alice" cannot watch resource "pods" in API group "" at the cluster scope"#
    );
    assert_eq!(world.list("alices", "namespaces/web/pods/a").await, OK);
}

#[tokio::test]
async fn named_namespaces_without_permission_are_omitted_with_a_warning() {
    let world = World::beyond_outer(&["alice list /pods web "]);
    let response = world
        .response_to("alices", &format!("{PODS}?namespaces=web,db"))
        .await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(
        response.headers()["warning"],
        r#"299 - "you may not list pods in db: left out""#
    );
}

#[tokio::test]
async fn permission_in_all_namespaces_is_one_review_and_no_restriction() {
    let world = World::beyond_outer(&["alice list /pods  "]);
    assert_eq!(world.list("alices", "pods").await, OK);
    assert_eq!(world.permitted(), Permitted::Everything);
}

#[tokio::test]
async fn clusters_can_be_denied_by_name() {
    let rules = [
        "* get search.fleetdex.io/search/v1  *",
        "* get search.fleetdex.io/clusters/api  *",
        "* get search.fleetdex.io/clusters  member1",
        "bob get search.fleetdex.io/clusters  member2",
        "* list /pods  ",
        "* get search.fleetdex.io/search/apps  *",
        "* list apps/deployments  ",
    ];
    let world = World::new(&rules);
    assert_eq!(world.list("alices", "pods").await, OK);
    assert_eq!(world.grants(), [grant(&["member1"], None)]);
    let denied = r#"403 Forbidden: clusters.search.fleetdex.io "member2" is forbidden: User "alice" cannot get resource "clusters" in API group "search.fleetdex.io" at the cluster scope"#;
    assert_eq!(
        world.list("alices", "pods?clusters=member1,member2").await,
        denied
    );
    let path = "/apis/search.fleetdex.io/v1alpha1/clusters/member2/api/v1/pods";
    assert_eq!(world.refusal_as("alices", path).await, denied);
    assert_eq!(world.code_as("bobs", path).await, 200);
    for (token, warnings) in [("alices", 0), ("bobs", 1)] {
        let response = world
            .response_to(token, &format!("{SEARCH}/apis/apps/v1beta1/deployments"))
            .await;
        assert_eq!(
            response.headers().get_all("warning").iter().count(),
            warnings,
            "warnings about member2"
        );
    }
}

/// A member with these rules.
fn member(rules: &[&'static str]) -> Arc<ControlPlane> {
    Arc::new(ControlPlane {
        rules: Mutex::new(rules.to_vec()),
        ..ControlPlane::default()
    })
}

#[tokio::test]
async fn in_members_mode_a_user_sees_no_more_than_each_member_shows() {
    let store = counting(&[
        ("member1", "web", 3),
        ("member1", "db", 1),
        ("member2", "web", 1),
        ("member2", "db", 1),
    ]);
    let members = [
        (
            "member1",
            member(&["alice list /pods  ", "bob list /pods web "]),
        ),
        (
            "member2",
            member(&["alice list /pods web ", "bob list /pods web "]),
        ),
    ];
    let mut rules = OUTER.to_vec();
    // The control plane's rules have no effect.
    rules.push("carol list /pods  ");
    let world = World::with_members(store, &rules, false, Some(members.into()));
    assert_eq!(world.list("alices", "pods").await, OK);
    assert_eq!(
        world.grants(),
        [
            grant(&["member1"], None),
            grant(&["member2"], Some(&["web"]))
        ]
    );
    assert_eq!(world.list("bobs", "pods").await, OK);
    assert_eq!(
        world.grants(),
        [grant(&["member1", "member2"], Some(&["web"]))]
    );
    let carol = world.client_authority.client("carol", &[]);
    let refused = reason(world.ask(Some(&carol), &[], PODS).await);
    assert!(
        refused.starts_with(r#"403 Forbidden: pods is forbidden: User "carol" cannot list"#),
        "{refused}"
    );
}

#[tokio::test]
async fn a_member_that_cannot_review_is_omitted_with_a_warning() {
    let broken = member(&["alice list /pods  "]);
    *broken.refuses.lock() = true;
    for member2 in [Some(("member2", broken)), None] {
        let members = [("member1", member(&["alice list /pods  "]))]
            .into_iter()
            .chain(member2)
            .collect();
        let store = counting(&[("member1", "web", 1), ("member2", "web", 1)]);
        let world = World::with_members(store, &OUTER, false, Some(members));
        let warning = world.warning_of_pods().await;
        assert!(
            warning.contains(
                "cluster member2 is left out, because your access to it cannot be reviewed"
            ),
            "{warning}"
        );
        assert_eq!(world.grants(), [grant(&["member1"], None)]);
    }
}

#[tokio::test]
async fn too_many_namespaces_have_to_be_named() {
    let world = World::over(counting(&namespaces_of_member1(1_001)), &OUTER, false);
    let refused = world.list("alices", "pods").await;
    assert_eq!(
        refused,
        "400 BadRequest: you may not list pods in all namespaces, and more than 1000 hold some; name those that you want with the parameter namespaces"
    );
}

#[tokio::test]
async fn a_cluster_with_too_many_namespaces_does_not_break_lists_of_others() {
    let mut groups = namespaces_of_member1(1_000);
    groups.push(("member2", "web", 1));
    let rules = [&OUTER[..], &["alice list /pods web "]].concat();
    let world = World::over(counting(&groups), &rules, false);
    let warning = world.warning_of_pods().await;
    assert!(
        warning.contains("left out: member1, because you may not list pods in all namespaces, and more than 1000 hold some"),
        "{warning}"
    );
    assert_eq!(world.grants(), [grant(&["member2"], Some(&["web"]))]);
}

#[tokio::test]
async fn decisions_about_ten_thousand_bytes_of_the_callers_choice_are_not_cached() {
    let world = World::new(&["* * *"]);
    let path = format!("/apis/{}", "x".repeat(10_000));
    world.ask_as("alices", &path).await;
    let reviews = world.control_plane.count();
    world.ask_as("alices", &path).await;
    assert_eq!(world.control_plane.count(), reviews + 1);
}

#[tokio::test]
async fn the_continue_token_of_one_user_is_refused_for_another() {
    let first = || Ok(page(&["a"], Some(cursor(1)), Some(1)));
    let store = PreparedReader::with(vec![first(), first(), Ok(page(&["b"], None, None))]);
    let rules = [OUTER.to_vec(), vec!["* list /pods  "]].concat();
    let world = World::over(Arc::clone(&store), &rules, false);
    let pods = format!("{PODS}?limit=1");
    let (_, list) = world.ask_as("alices", &pods).await;
    let next = format!(
        "{pods}&continue={}",
        list["metadata"]["continue"].as_str().unwrap()
    );
    assert_eq!(
        world.refusal_as("bobs", &next).await,
        "400 BadRequest: parameter continue: the continue token was issued to another user; start the list again without it"
    );
    assert_eq!(store.asked().len(), 1, "the store is not queried");
    let (code, list) = world.ask_as("alices", &next).await;
    assert_eq!(
        (code, &list["items"][0]["metadata"]["name"]),
        (200, &json!("a"))
    );
    assert_eq!(store.asked().last().unwrap().1, Some(cursor(1)));
    let mut moved = Catalog::default();
    moved.add_store(fake::store("other"), store);
    fake::add(&mut moved, "other", "member1", &fake::pods());
    world.catalog.send_replace(Arc::new(moved));
    assert_eq!(
        world.code_as("alices", &next).await,
        410,
        "a registry has moved to another store"
    );
}

#[tokio::test]
async fn watches_with_many_names_are_shared_among_users() {
    let world = World::new(&[OUTER[0], OUTER[1], "* watch /pods  "]);
    // 65 kB of a URI, which take about 2 MB in memory.
    let names = (0..13_000)
        .map(|number| format!("{number:x}"))
        .collect::<Vec<_>>()
        .join(",");
    let watch = async |token: &str, names: &str| {
        let path = format!("{PODS}?watch=true&names={names}");
        world.response_to(token, &path).await
    };
    let mut watches = Vec::new();
    loop {
        let response = watch("alices", &names).await;
        if response.status() != StatusCode::OK {
            assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
            break;
        }
        watches.push(response);
        assert!(watches.len() < 100, "2,000 of them would take all memory");
    }
    assert!(watches.len() > 5, "{}", watches.len());
    assert_eq!(
        watch("alices", "a,b").await.status(),
        StatusCode::OK,
        "small questions are not counted"
    );
    assert_eq!(
        watch("alices", &vec!["a"; 30_000].join(",")).await.status(),
        StatusCode::OK,
        "nor are repetitions"
    );
    assert_eq!(watch("bobs", &names).await.status(), StatusCode::OK);
    watches.pop();
    assert_eq!(watch("alices", &names).await.status(), StatusCode::OK);
}

//! Fake members on local ports, which record requests and respond as a test wants.

use std::{collections::BTreeMap, fs, net::SocketAddr, sync::Arc};

use axum::{Router, body::Body, extract::Request, response::Response};
use fleetdex_clusters::{
    Clusters, ConnectionTiming,
    connect::Network,
    source::{Loader, contexts, read_kubeconfig},
};
use fleetdex_core::query::{HeldMemory, Hit};
use fleetdex_query_api::{fleet_request, uri::RequestUri};
use fleetdex_telemetry::Metrics;
use http::StatusCode;
use http_body_util::BodyExt;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{MemberProxy, handle};
use crate::{
    answers::Answers,
    api_error::ApiError,
    auth::{authentication_mode::AuthenticationMode, caller::Caller, token_file::TokenVerifier},
    catalog::Catalog,
    fake::cluster,
    http::{api_state::ApiState, listen::Listener},
    limits::{LimitArgs, RequestLimits},
};

/// A request that a member received.
#[derive(Clone, Debug)]
pub(super) struct ReceivedRequest {
    pub(super) line: String,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: String,
}

type Handler = dyn Fn(&ReceivedRequest) -> Response + Send + Sync;

/// Members that all respond alike.
pub(super) struct FakeFleet {
    pub(super) received: Arc<Mutex<Vec<ReceivedRequest>>>,
    pub(super) clusters: Arc<Clusters>,
    pub(super) cancel: CancellationToken,
    _folder: TempDir,
}

impl FakeFleet {
    /// `member1` and `member2`, which answer with `handler`; `member3` is unreachable.
    pub(super) async fn start(
        handler: impl Fn(&ReceivedRequest) -> Response + Send + Sync + 'static,
    ) -> Self {
        let (cancel, received) = (CancellationToken::new(), Arc::new(Mutex::new(Vec::new())));
        let handler: Arc<Handler> = Arc::new(handler);
        let (record, answers) = (Arc::clone(&received), Arc::clone(&handler));
        let router = Router::new().fallback(move |request: Request| {
            member(request, Arc::clone(&record), Arc::clone(&answers))
        });
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), "--test")
            .await
            .unwrap();
        let address = listener.address();
        tokio::spawn(listener.serve(router, cancel.clone()));
        Self::at(
            [address, address, SocketAddr::from(([127, 0, 0, 1], 1))],
            received,
            cancel,
        )
        .await
    }

    /// Three members at these addresses.
    pub(super) async fn at(
        addresses: [SocketAddr; 3],
        received: Arc<Mutex<Vec<ReceivedRequest>>>,
        cancel: CancellationToken,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        let names = ["member1", "member2", "member3"];
        let servers = names.iter().zip(addresses);
        let servers: Vec<Value> = servers
            .map(|(name, address)| json!({ "name": name, "cluster": { "server": format!("http://{address}") } }))
            .collect();
        let config = json!({
            "clusters": servers,
            "users": [{ "name": "us", "user": { "token": "member-token" } }],
            "contexts": names.map(|name| json!({ "name": name, "context": { "cluster": name, "user": "us" } })),
        });
        fs::write(&path, config.to_string()).unwrap();
        let kubeconfig = read_kubeconfig(Some(&path)).await.unwrap();
        let network = Arc::new(Network::default());
        let clusters = Clusters::new(
            Loader::without_control_plane(),
            network,
            ConnectionTiming::default(),
            cancel.clone(),
        );
        clusters.set_members(contexts(&kubeconfig, Some(&path), &[]).members);
        Self {
            received,
            clusters: Arc::new(clusters),
            cancel,
            _folder: folder,
        }
    }

    /// The state of a server with these members.
    pub(super) fn api(&self, catalog: Catalog) -> ApiState {
        let (_sender, catalog) = watch::channel(Arc::new(catalog));
        let metrics = Arc::new(Metrics::new());
        ApiState::new(
            Answers::new(
                catalog,
                AuthenticationMode::LoopbackToken(TokenVerifier::new("secret")),
                RequestLimits::new(&LimitArgs::default(), &metrics),
                metrics,
            ),
            Arc::new(MemberProxy::new(
                Arc::clone(&self.clusters),
                self.cancel.clone(),
            )),
        )
    }

    /// What the members were asked by users, not by our own probes.
    pub(super) fn received(&self) -> Vec<ReceivedRequest> {
        self.received
            .lock()
            .iter()
            .filter(|seen| seen.headers.contains_key("impersonate-user"))
            .cloned()
            .collect()
    }

    /// Waits until a member is connected.
    pub(super) async fn connected(&self, name: &str) {
        let mut changed = self.clusters.changed();
        while self.clusters.connection(&cluster(name)).is_none() {
            changed.changed().await.unwrap();
        }
    }
}

async fn member(
    request: Request,
    record: Arc<Mutex<Vec<ReceivedRequest>>>,
    handler: Arc<Handler>,
) -> Response {
    let (head, body) = request.into_parts();
    let mut headers = BTreeMap::new();
    for (name, value) in &head.headers {
        let text: &mut String = headers.entry(name.to_string()).or_default();
        let comma = if text.is_empty() { "" } else { ", " };
        *text = format!("{text}{comma}{}", value.to_str().unwrap());
    }
    let body = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    let seen = ReceivedRequest {
        line: format!("{} {}", head.method, head.uri),
        headers,
        body,
    };
    record.lock().push(seen.clone());
    if seen.headers.contains_key("impersonate-user") {
        return handler(&seen);
    }
    match head.uri.path() {
        "/readyz" | "/healthz" => Response::new(Body::from("ok")),
        "/version" => reply(
            200,
            &json!({ "major": "1", "minor": "35", "gitVersion": "v1.35.2" }),
        ),
        "/api" | "/apis" => reply(
            200,
            &json!({ "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": [] }),
        ),
        _ => reply(404, &json!({ "kind": "Status", "code": 404 })),
    }
}

/// A JSON response.
pub(super) fn reply(code: u16, body: &Value) -> Response {
    let response = Response::builder()
        .status(code)
        .header("content-type", "application/json");
    response.body(Body::from(body.to_string())).unwrap()
}

pub(super) fn hit(cluster_name: &str, object: &Value) -> Hit {
    Hit {
        interpretation: None,
        cluster: cluster(cluster_name),
        object: serde_json::value::to_raw_value(object).unwrap().into(),
        memory: HeldMemory::default(),
    }
}

/// A user with few groups.
pub(super) fn alice() -> Caller {
    Caller {
        name: "alice".to_owned(),
        uid: Some("u-1".to_owned()),
        groups: vec!["dev".to_owned(), "system:authenticated".to_owned()],
        extra: BTreeMap::from([
            ("scopes".to_owned(), vec!["view".to_owned()]),
            (
                "authentication.kubernetes.io/credential-id".to_owned(),
                vec!["X509SHA256=1".to_owned()],
            ),
        ]),
    }
}

#[derive(Debug)]
pub(super) struct TestResponse {
    pub(super) code: u16,
    pub(super) response: http::response::Parts,
    pub(super) body: String,
}

impl TestResponse {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// The path of the proxy.
pub(super) const PROXY: &str = "/apis/search.fleetdex.io/v1alpha1/proxying/karmada/proxy";

/// The response to a request below [`PROXY`].
pub(super) async fn respond_as(
    api: &ApiState,
    caller: &Caller,
    request: Request,
) -> Result<Response, ApiError> {
    let uri = request.uri().clone();
    let uri = RequestUri::parse(uri.path(), uri.query())?;
    let asked = fleet_request::parse(request.method().as_str(), &uri).unwrap()?;
    handle(&api.answers, &api.members, caller, &uri, asked, request).await
}

/// Sends `method path` as Alice; `path` is what follows `proxying/karmada/proxy`.
pub(super) async fn send(
    api: &ApiState,
    line: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Result<TestResponse, ApiError> {
    send_body(api, line, headers, Body::from(body.to_owned())).await
}

pub(super) async fn send_body(
    api: &ApiState,
    line: &str,
    headers: &[(&str, &str)],
    body: Body,
) -> Result<TestResponse, ApiError> {
    let (method, path) = line.split_once(' ').unwrap();
    let mut request = Request::builder()
        .method(method)
        .uri(format!("{PROXY}{path}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(body).unwrap();
    let (response, body) = respond_as(api, &alice(), request).await?.into_parts();
    let body = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    Ok(TestResponse {
        code: response.status.as_u16(),
        response,
        body,
    })
}

/// The code and message of a refusal.
pub(super) async fn refusal(
    api: &ApiState,
    line: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> String {
    let error = send(api, line, headers, body).await.err().unwrap();
    format!(
        "{} {}",
        StatusCode::from_u16(error.code()).unwrap().as_u16(),
        error
    )
}

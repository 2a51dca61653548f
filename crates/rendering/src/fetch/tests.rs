use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering},
};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{Response, StatusCode, header},
};

use super::*;
use crate::digest::Sha256Digest;

/// A status, headers and a body.
type FakeAnswer = (StatusCode, Vec<(&'static str, String)>, Vec<u8>);

/// What a fake server answers by path and query, and what it was asked with which authorization.
#[derive(Default)]
struct FakeServer {
    answers: BTreeMap<String, FakeAnswer>,
    asked: parking_lot::Mutex<Vec<(String, String)>>,
    requests: AtomicUsize,
}

impl FakeServer {
    fn answer(&mut self, path: &str, body: impl Into<Vec<u8>>) {
        let answer = (StatusCode::OK, Vec::new(), body.into());
        self.answers.insert(path.to_owned(), answer);
    }

    fn redirect(&mut self, path: &str, to: String) {
        let headers = vec![("location", to)];
        let answer = (StatusCode::TEMPORARY_REDIRECT, headers, Vec::new());
        self.answers.insert(path.to_owned(), answer);
    }

    async fn start(self) -> (String, Arc<Self>) {
        let server = Arc::new(self);
        let app = Router::new()
            .fallback(respond)
            .with_state(Arc::clone(&server));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, app).await });
        (address.to_string(), server)
    }

    fn asked(&self) -> Vec<(String, String)> {
        self.asked.lock().clone()
    }
}

/// A path below `/private` needs the token.
async fn respond(State(server): State<Arc<FakeServer>>, request: Request) -> Response<Body> {
    server.requests.fetch_add(1, Ordering::Relaxed);
    let path = request.uri().path_and_query().unwrap().to_string();
    let authorization = request.headers().get(header::AUTHORIZATION);
    let authorization = authorization
        .map_or("", |value| value.to_str().unwrap())
        .to_owned();
    server
        .asked
        .lock()
        .push((path.clone(), authorization.clone()));
    if path.contains("/private/") && authorization != "Bearer secret" {
        let challenge = server.answers["challenge"].2.clone();
        return Response::builder()
            .status(StatusCode::UNAUTHORIZED)
            .header(header::WWW_AUTHENTICATE, challenge)
            .body(Body::empty())
            .unwrap();
    }
    let Some((status, headers, body)) = server.answers.get(&path) else {
        return Response::builder().status(404).body(Body::empty()).unwrap();
    };
    let mut response = Response::builder().status(*status);
    for (name, value) in headers {
        response = response.header(*name, value);
    }
    response.body(Body::from(body.clone())).unwrap()
}

/// Hosts with the credentials that are bound to them.
struct KnownHosts(Vec<(String, Option<BasicCredentials>)>);

impl KnownHosts {
    fn find(&self, host: &RemoteHost) -> Option<&(String, Option<BasicCredentials>)> {
        self.0.iter().find(|(known, _)| *known == host.to_string())
    }
}

impl HostPolicy for KnownHosts {
    fn is_allowed(&self, host: &RemoteHost) -> bool {
        self.find(host).is_some()
    }

    fn credentials(&self, host: &RemoteHost) -> Option<BasicCredentials> {
        self.find(host)?.1.clone()
    }
}

fn fetcher(hosts: &[(&str, bool)]) -> Fetcher {
    let _first = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let credentials = BasicCredentials {
        username: "user".to_owned(),
        password: "password".to_owned(),
    };
    let hosts = hosts.iter().map(|(host, has_credentials)| {
        (
            (*host).to_owned(),
            has_credentials.then(|| credentials.clone()),
        )
    });
    let settings = FetchSettings {
        permits_plain_http: true,
        ..FetchSettings::default()
    };
    Fetcher::new(&settings, Arc::new(KnownHosts(hosts.collect()))).unwrap()
}

const CHART: &[u8] = b"an archive";
/// `user:password`.
const BASIC: &str = "Basic dXNlcjpwYXNzd29yZA==";

fn manifest() -> String {
    let layer = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
    let digest = Sha256Digest::of(CHART);
    format!(
        r#"{{"layers":[{{"mediaType":"application/vnd.cncf.helm.chart.provenance.v1.prov","digest":"x"}},
        {{"mediaType":"{layer}","digest":"{digest}","size":10}}]}}"#
    )
}

fn registry(name: &str) -> FakeServer {
    let mut server = FakeServer::default();
    let digest = Sha256Digest::of(CHART);
    for version in [
        "1.2.0",
        "1.10.0",
        "2.0.0_build",
        &*Sha256Digest::of(manifest().as_bytes()).to_string(),
    ] {
        server.answer(&format!("/v2/{name}/manifests/{version}"), manifest());
    }
    server.answer(&format!("/v2/{name}/blobs/{digest}"), CHART);
    server
}

fn oci(address: &str, version: &str) -> ChartLocation {
    ChartLocation::Oci {
        address: address.to_owned(),
        version: version.to_owned(),
    }
}

#[tokio::test]
async fn charts_are_pulled_by_tag_by_digest_and_by_constraint() {
    let mut server = registry("charts/web");
    let next = (
        StatusCode::OK,
        vec![(
            "link",
            "</v2/charts/web/tags/list?last=b>; rel=\"next\"".to_owned(),
        )],
    );
    server.answers.insert(
        "/v2/charts/web/tags/list".to_owned(),
        (next.0, next.1, br#"{"tags":["1.2.0","latest"]}"#.to_vec()),
    );
    server.answer(
        "/v2/charts/web/tags/list?last=b",
        r#"{"tags":["1.10.0","2.0.0_build"]}"#,
    );
    let (host, _server) = server.start().await;
    let fetcher = fetcher(&[(&host, false)]);
    let digest = Sha256Digest::of(manifest().as_bytes());
    let name = format!("oci://{host}/charts/web");
    for (address, version, expected) in [
        (format!("{name}:1.2.0"), "", "1.2.0"),
        (format!("{name}@{digest}"), "", digest.as_str()),
        (name.clone(), "1.2.0", "1.2.0"),
        (name.clone(), "^1", "1.10.0"),
        (name.clone(), "", "2.0.0_build"),
        (name.clone(), "2.0.0+build", "2.0.0_build"),
    ] {
        let fetched = fetcher.chart(&oci(&address, version)).await.unwrap();
        assert_eq!(fetched.version, expected);
        assert_eq!(*fetched.archive.digest(), Sha256Digest::of(CHART));
    }
    let error = fetcher.chart(&oci(&name, "^3")).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("{host}/charts/web has no version \"^3\" among 4 versions")
    );
}

#[tokio::test]
async fn what_has_another_digest_is_refused() {
    let mut server = registry("web");
    let other = Sha256Digest::of(b"other");
    server.answer(&format!("/v2/web/manifests/{other}"), manifest());
    server.answer(
        &format!("/v2/web/blobs/{}", Sha256Digest::of(CHART)),
        "changed",
    );
    let (host, _server) = server.start().await;
    let fetcher = fetcher(&[(&host, false)]);
    for address in [
        format!("oci://{host}/web@{other}"),
        format!("oci://{host}/web:1.2.0"),
    ] {
        let error = fetcher.chart(&oci(&address, "")).await.unwrap_err();
        assert!(matches!(error, FetchError::Digest { .. }), "{error}");
    }
}

#[tokio::test]
async fn credentials_go_to_the_hosts_that_they_are_bound_to() {
    let (tokens, token_server) = {
        let mut server = FakeServer::default();
        let query = "service=r&scope=repository%3Aprivate%2Fweb%3Apull";
        server.answer(&format!("/token?{query}"), r#"{"access_token":"secret"}"#);
        server.start().await
    };
    let mut server = registry("private/web");
    let challenge = format!("Bearer realm=\"http://{tokens}/token\",service=\"r\"");
    server.answer("challenge", challenge);
    let (host, server) = server.start().await;
    let location = oci(&format!("oci://{host}/private/web:1.2.0"), "");
    for (has_registry, has_service, expected) in
        [(true, true, BASIC), (true, false, ""), (false, true, BASIC)]
    {
        let fetcher = fetcher(&[(&host, has_registry), (&tokens, has_service)]);
        token_server.asked.lock().clear();
        fetcher.chart(&location).await.unwrap();
        let sent: Vec<String> = token_server
            .asked()
            .into_iter()
            .map(|(_, sent)| sent)
            .collect();
        assert_eq!(sent, [expected, expected]);
    }
    assert!(
        server
            .asked()
            .iter()
            .all(|(_, sent)| sent.is_empty() || sent == "Bearer secret")
    );
    // The registry names a host that is not allowed.
    let error = fetcher(&[(&host, true)])
        .chart(&location)
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with(&format!("nothing may be fetched from {tokens}"))
    );
}

#[tokio::test]
async fn a_registry_that_asks_for_a_password_gets_the_one_that_is_bound_to_it() {
    let mut server = registry("private/web");
    server.answer("challenge", "Basic realm=\"r\"");
    let (host, server) = server.start().await;
    let location = oci(&format!("oci://{host}/private/web:1.2.0"), "");
    for (has_credentials, expected) in [(true, vec!["", BASIC]), (false, vec![""])] {
        server.asked.lock().clear();
        // The fake takes no password.
        let error = fetcher(&[(&host, has_credentials)])
            .chart(&location)
            .await
            .unwrap_err();
        assert!(
            error
                .to_string()
                .contains("fleetdex.io/allowed-hosts lists 127.0.0.1:"),
            "{error}"
        );
        let sent: Vec<String> = server.asked().into_iter().map(|(_, sent)| sent).collect();
        assert_eq!(sent, expected);
    }
}

#[tokio::test]
async fn redirects_lead_to_allowed_hosts_without_tokens() {
    let blob = format!("/v2/web/blobs/{}", Sha256Digest::of(CHART));
    let mut storage = FakeServer::default();
    storage.answer("/storage", CHART);
    let (storage_host, storage) = storage.start().await;
    let mut server = registry("web");
    server.redirect(&blob, format!("http://{storage_host}/storage"));
    server.redirect(
        "/v2/web/manifests/1.10.0",
        "/v2/web/manifests/1.10.0".to_owned(),
    );
    let (host, _server) = server.start().await;
    let location = oci(&format!("oci://{host}/web:1.2.0"), "");
    fetcher(&[(&host, false), (&storage_host, false)])
        .chart(&location)
        .await
        .unwrap();
    assert_eq!(storage.asked(), [("/storage".to_owned(), String::new())]);
    let error = fetcher(&[(&host, false)])
        .chart(&location)
        .await
        .unwrap_err();
    assert!(matches!(error, FetchError::Host(_)), "{error}");
    assert_eq!(storage.requests.load(Ordering::Relaxed), 1);
    let location = oci(&format!("oci://{host}/web:1.10.0"), "");
    let error = fetcher(&[(&host, false)])
        .chart(&location)
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("it redirects more than 5 times"),
        "{error}"
    );
}

#[tokio::test]
async fn answers_are_bounded() {
    let mut server = registry("web");
    server.answer("/v2/web/manifests/1.2.0", vec![b' '; (4 << 20) + 1]);
    let (host, _server) = server.start().await;
    let location = oci(&format!("oci://{host}/web:1.2.0"), "");
    let error = fetcher(&[(&host, false)])
        .chart(&location)
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            FetchError::Bytes {
                limit: 4_194_304,
                ..
            }
        ),
        "{error}"
    );
}

#[tokio::test]
async fn repositories_have_charts_of_several_versions() {
    let digest = Sha256Digest::of(CHART).to_string().replace("sha256:", "");
    let mut server = FakeServer::default();
    server.answer(
        "/charts/index.yaml",
        format!(
            "apiVersion: v1\nentries:\n  web:\n  - {{version: 1.2.0, urls: [web-1.2.0.tgz], digest: {digest}}}\n  \
             - {{version: 1.10.0, urls: [web-1.10.0.tgz]}}\n  - {{version: 3.0.0, urls: [web-1.2.0.tgz], digest: 'ab'}}\n"
        ),
    );
    server.answer("/charts/web-1.2.0.tgz", CHART);
    server.answer("/charts/web-1.10.0.tgz", CHART);
    let (host, server) = server.start().await;
    let fetcher = fetcher(&[(&host, true)]);
    let location = |name: &str, version: &str| ChartLocation::Repository {
        url: format!("http://{host}/charts"),
        name: name.to_owned(),
        version: version.to_owned(),
    };
    for (version, expected) in [("1.2.0", "1.2.0"), ("^1", "1.10.0"), ("~1.2", "1.2.0")] {
        let fetched = fetcher.chart(&location("web", version)).await.unwrap();
        assert_eq!(fetched.version, expected);
    }
    assert!(server.asked().iter().all(|(_, sent)| sent == BASIC));
    let error = fetcher.chart(&location("web", "")).await.unwrap_err();
    assert!(matches!(error, FetchError::Digest { .. }), "{error}");
    let error = fetcher.chart(&location("other", "")).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "other has no version \"\" among 0 versions"
    );
}

#[tokio::test]
async fn addresses_have_to_be_https() {
    let _first = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let policy = Arc::new(KnownHosts(Vec::new()));
    let fetcher = Fetcher::new(&FetchSettings::default(), policy).unwrap();
    let location = |url: &str| ChartLocation::Repository {
        url: url.to_owned(),
        name: "web".to_owned(),
        version: String::new(),
    };
    for (url, reason) in [
        ("http://example.com", "use https"),
        ("file:///etc", "use https"),
        (
            "https://user:password@example.com",
            "credentials belong into a Secret",
        ),
    ] {
        let error = fetcher.chart(&location(url)).await.unwrap_err().to_string();
        assert!(error.ends_with(reason), "{error}");
    }
}

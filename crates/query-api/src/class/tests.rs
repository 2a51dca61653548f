//! Of each kind of request: its class, its RBAC attributes and its route, as a golden file.

use std::{env, fmt::Write as _, fs, path::Path};

use super::*;
use crate::{rbac_attributes::Attributes, route::route};

const GROUP: &str = "/apis/search.fleetdex.io/v1alpha1";

/// Requests below the group and version.
const BELOW_GROUP: &[(&str, &str)] = &[
    ("GET", ""),
    ("GET", "/search/api/v1/pods"),
    ("GET", "/search/api/v1/pods?watch=true"),
    ("GET", "/search/api/v1/pods?watch=0"),
    ("HEAD", "/search/api/v1/pods?watch"),
    ("PUT", "/search/api/v1/pods?watch=1"),
    ("GET", "/search/cache/api/v1/namespaces/web/pods/a"),
    ("GET", "/search/opensearch/apis/apps/v1/deployments?limit=5"),
    (
        "GET",
        "/search/opensearch/apis/apps/v1/deployments?limit=x&watch=1",
    ),
    ("GET", "/search/log"),
    ("GET", "/clusters"),
    ("GET", "/clusters/member1"),
    ("GET", "/clusters/member1/api/v1/pods?watch=yes"),
    ("GET", "/aggregate/api/v1/pods?by=cluster"),
    ("GET", "/objects?kinds=pods"),
    ("GET", "/objects?q=web"),
    ("GET", "/objects?q=web&watch=true"),
    ("GET", "/objects?q=web&watch=true&limit=1"),
    ("GET", "/completions?q=kind:"),
    ("GET", "/images"),
    ("GET", "/related/api/v1/namespaces/web/secrets/db"),
    (
        "GET",
        "/merged/apis/apps/v1/namespaces/web/deployments/shop",
    ),
    ("POST", "/interpret"),
    ("GET", "/interpret"),
    ("POST", "/verify"),
    ("POST", "/verify?clusters=member1"),
    ("GET", "/verify"),
    ("POST", "/changes/verify"),
    ("GET", "/changes/apis/apps/v1/deployments?store=embedded"),
    (
        "GET",
        "/changes/apis/apps/v1/deployments?store=embedded&watch=true",
    ),
    ("OPTIONS", "/search/api/v1/pods"),
    ("BREW", "/search/api/v1/pods"),
    ("POST", "/objects?q=web&watch=true"),
    ("GET", "/verify?watch=1"),
    ("GET", "/changes/verify?watch=1"),
    ("GET", "/secret"),
    ("GET", "/secret/db"),
    ("GET", "/%73earch/api/v1/pods?%77atch=1"),
    ("GET", "/proxying/karmada/proxy"),
    ("GET", "/proxying/karmada/proxy/"),
    ("GET", "/proxying/karmada/proxyx"),
    ("GET", "/proxying/karmada/proxy/version?watch=true"),
    ("GET", "/proxying/karmada/proxy/openapi/v2"),
    ("GET", "/proxying/karmada/proxy/apis/apps/v1"),
    ("GET", "/proxying/karmada/proxy/api/v1/pods"),
    ("GET", "/proxying/karmada/proxy/api/v1/pods?watch=1"),
    (
        "GET",
        "/proxying/karmada/proxy/api/v1/namespaces/web/pods/a",
    ),
    (
        "GET",
        "/proxying/karmada/proxy/api/v1/namespaces/web/pods/a?watch=1",
    ),
    (
        "GET",
        "/proxying/karmada/proxy/api/v1/namespaces/web/pods/a/log",
    ),
    (
        "POST",
        "/proxying/karmada/proxy/api/v1/namespaces/web/pods/a/exec?command=ls",
    ),
    (
        "GET",
        "/proxying/karmada/proxy/clusters/m/api/v1/namespaces/web/services/a/proxy/x",
    ),
    (
        "PATCH",
        "/proxying/karmada/proxy/clusters/m/api/v1/namespaces/web/pods/a",
    ),
    (
        "DELETE",
        "/proxying/karmada/proxy/api/v1/namespaces/web/pods",
    ),
    (
        "POST",
        "/proxying/karmada/proxy/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    ),
    ("GET", "/proxying/karmada/proxy/api/v1/watch/pods"),
    ("GET", "/proxying/karmada/proxy/api/v1/pods/a%2Fb"),
    ("GET", "/proxying/other/proxy/api/v1/pods"),
];

/// Requests elsewhere.
const ELSEWHERE: &[(&str, &str)] = &[
    ("GET", "/"),
    ("GET", "/version"),
    ("GET", "/version?watch=true"),
    ("OPTIONS", "/version"),
    ("GET", "/healthz"),
    ("GET", "/apis"),
    ("GET", "/apis/search.fleetdex.io"),
    ("GET", "/apis/search.karmada.io"),
    (
        "GET",
        "/apis/search.karmada.io/v1alpha1/search/api/v1/pods?watch=1",
    ),
    (
        "GET",
        "/apis/search.karmada.io/v1alpha1/changes/api/v1/pods?store=embedded",
    ),
    (
        "GET",
        "/apis/search.karmada.io/v1alpha1/proxying/karmada/proxy/api/v1/pods?watch=1",
    ),
    (
        "GET",
        "/apis/search.fleetdex.io/v1beta1/search/api/v1/pods?watch=1",
    ),
    ("GET", "/apis/other.io/v1/search"),
    ("GET", "/openapi/v2"),
    ("GET", "/openapi/v3"),
    ("GET", "/openapi/v3/apis/search.fleetdex.io/v1alpha1"),
];

fn name(class: RequestClass) -> &'static str {
    match class {
        RequestClass::Replication => "replication",
        RequestClass::ReplicationStream => "long replication",
        RequestClass::LongRunning => "long",
        RequestClass::Discovery => "discovery",
        RequestClass::List => "lists",
        RequestClass::Search => "searches",
        RequestClass::Objects => "objects",
    }
}

fn line(method: &str, path: &str) -> String {
    let method: Method = method.parse().unwrap();
    let (before, query) = path
        .split_once('?')
        .map_or((path, None), |(path, query)| (path, Some(query)));
    let uri = match RequestUri::parse(before, query) {
        Ok(uri) => uri,
        Err(error) => return error.to_string(),
    };
    let attributes = match Attributes::of(&method, &uri) {
        Attributes::Path { verb, path } => format!("{verb:?} {path}"),
        Attributes::Resource(access) => format!(
            "{:?} {} {} {} {}{}",
            access.verb,
            access.group,
            access.version,
            access.resource,
            access.name.as_deref().unwrap_or("-"),
            access
                .subresource
                .map(|below| format!(" {below}"))
                .unwrap_or_default()
        ),
    };
    format!(
        "{} | {attributes} | {}",
        name(RequestClass::of(&method, &uri)),
        route(before).as_deref().unwrap_or("-")
    )
}

#[test]
fn each_request_has_its_class_its_attributes_and_its_route() {
    let mut table = String::new();
    let below = BELOW_GROUP
        .iter()
        .map(|(method, path)| (*method, format!("{GROUP}{path}")));
    let elsewhere = ELSEWHERE
        .iter()
        .map(|(method, path)| (*method, (*path).to_owned()));
    for (method, path) in below.chain(elsewhere) {
        writeln!(table, "{method} {path}\n    {}", line(method, &path)).unwrap();
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/class/requests.txt");
    if env::var_os("UPDATE_QUESTIONS").is_some() {
        fs::write(&file, &table).unwrap();
    }
    assert_eq!(table, fs::read_to_string(&file).unwrap());
}

const SEARCH: &str = "/apis/search.fleetdex.io/v1alpha1/search/api/v1";
const PROXY: &str = "/apis/search.fleetdex.io/v1alpha1/proxying/karmada/proxy";

fn lasts(method: &str, path: &str) -> bool {
    let (path, query) = path
        .split_once('?')
        .map_or((path, None), |(path, query)| (path, Some(query)));
    let uri = RequestUri::parse(path, query).unwrap();
    let method = method.parse().unwrap();
    RequestClass::of(&method, &uri).is_long_running()
}

#[test]
fn watches_and_forwarded_connections_are_long_running() {
    for query in [
        "watch=true",
        "limit=1&watch=1",
        "watch",
        "watch=",
        "%77atch=yes",
    ] {
        assert!(lasts("GET", &format!("{SEARCH}/pods?{query}")), "{query}");
        assert!(
            lasts("GET", &format!("{PROXY}/api/v1/pods?{query}")),
            "{query}"
        );
    }
    for path in [
        "pods/a/exec?command=ls",
        "pods/a/log",
        "services/a/proxy",
        "services/a/proxy/x/y",
    ] {
        assert!(
            lasts(
                "GET",
                &format!("{PROXY}/clusters/m/api/v1/namespaces/n/{path}")
            ),
            "{path}"
        );
    }
    assert!(lasts("POST", "/apis/search.fleetdex.io/v1alpha1/verify"));
    for path in [
        "/changes/verify",
        "/changes/api/v1/pods?store=embedded&watch=1",
    ] {
        let method = if path.ends_with("verify") {
            "POST"
        } else {
            "GET"
        };
        assert!(lasts(method, &format!("{GROUP}{path}")), "{path}");
    }
}

#[test]
fn short_requests_are_short_whatever_their_parameters() {
    for query in [
        "",
        "watch=false",
        "watch=False",
        "watch=%30",
        "watch=0",
        "labelSelector=watch%3Dtrue",
    ] {
        for method in ["GET", "PUT"] {
            assert!(
                !lasts(method, &format!("{SEARCH}/pods?{query}")),
                "{method} {query}"
            );
            assert!(
                !lasts(method, &format!("{PROXY}/api/v1/pods?{query}")),
                "{method} {query}"
            );
        }
    }
    let others = [
        (
            "PUT",
            format!("{PROXY}/clusters/m/api/v1/namespaces/n/pods/a?watch=true"),
        ),
        (
            "GET",
            format!("{PROXY}/clusters/m/api/v1/namespaces/n/pods/a?watch=true"),
        ),
        ("GET", format!("{PROXY}/version?watch=true")),
        ("GET", "/version?watch=true".to_owned()),
        (
            "GET",
            "/apis/search.fleetdex.io/v1alpha1/search/log".to_owned(),
        ),
        ("POST", format!("{SEARCH}/verify")),
        ("POST", format!("{SEARCH}/pods?watch=true")),
        ("GET", format!("{GROUP}/changes/api/v1/pods?store=embedded")),
    ];
    for (method, path) in others {
        assert!(!lasts(method, &path), "{method} {path}");
    }
}

use proptest::prelude::*;

use super::*;
use crate::percent::decode_segment;

const PREFIX: &str = "/apis/search.fleetdex.io/v1alpha1/proxying/karmada/proxy";

fn parse(method: &str, path: &str, query: Option<&str>) -> Result<FleetRequest, QuestionError> {
    let path = format!("{PREFIX}{path}");
    let uri = RequestUri::parse(&path, query)?;
    super::parse(method, &uri)
        .unwrap_or_else(|| Err(QuestionError::NoSuchPath { path: path.clone() }))
}

fn info(method: &str, path: &str, query: &str) -> FleetRequest {
    parse(method, path, Some(query)).unwrap()
}

fn resource_of(method: &str, path: &str, query: &str) -> ResourceInfo {
    match info(method, path, query).target {
        RequestTarget::Resource(info) => info,
        RequestTarget::NonResource(path) => panic!("{path:?} leads to no resource"),
    }
}

/// `verb group/version namespace resource/name/subresource/rest`, `-` for what is not there.
fn shown(method: &str, path: &str, query: &str) -> String {
    let info = resource_of(method, path, query);
    let text = |value: Option<&str>| value.unwrap_or("-").to_owned();
    let parts = [
        &info.plural,
        &text(info.name.as_deref()),
        &text(info.subresource.as_deref()),
    ]
    .map(String::as_str)
    .join("/");
    let namespace = text(info.namespace.as_ref().map(Namespace::as_str));
    let rest = if info.rest.is_empty() {
        String::new()
    } else {
        format!(" {}", info.rest.join("/"))
    };
    format!(
        "{} {}/{} {namespace} {parts}{rest}",
        info.verb,
        text(Some(&info.group)),
        info.version
    )
}

#[test]
fn only_paths_below_the_proxy_are_proxied() {
    let below = |path: &str| {
        let uri = RequestUri::parse(path, None).unwrap();
        super::below(&uri).map(|proxied| (proxied.path.to_owned(), proxied.segments.join(" ")))
    };
    assert_eq!(
        below("/apis/search.fleetdex.io/v1alpha1/proxying/karmada/proxy/api/v1/pods"),
        Some(("/api/v1/pods".to_owned(), "api v1 pods".to_owned()))
    );
    assert_eq!(
        below("/apis/search.karmada.io/v1alpha1/proxying/karmada/proxy"),
        Some((String::new(), String::new()))
    );
    for elsewhere in [
        "/proxying/karmada/proxy/api",
        "/apis/search.fleetdex.io/v1alpha1/proxying/karmada/proxyx/api",
    ] {
        assert_eq!(below(elsewhere), None, "{elsewhere}");
    }
}

#[test]
fn methods_and_paths_are_read_as_an_apiserver_reads_them() {
    let rows = [
        ("GET", "/api/v1/pods", ""),
        ("GET", "/api/v1/pods", "watch=true"),
        ("GET", "/api/v1/pods", "watch=1&limit=5"),
        ("GET", "/api/v1/pods", "watch=False"),
        ("GET", "/api/v1/namespaces/web/pods", ""),
        ("GET", "/api/v1/namespaces/web/pods/p", "watch=true"),
        ("HEAD", "/api/v1/namespaces/web/pods/p", ""),
        ("DELETE", "/api/v1/namespaces/web/pods", ""),
        ("DELETE", "/api/v1/namespaces/web/pods/p", ""),
        ("POST", "/api/v1/namespaces/web/pods", ""),
        ("POST", "/api/v1/namespaces/web/pods/p/eviction", ""),
        ("GET", "/api/v1/namespaces", ""),
        ("GET", "/api/v1/namespaces/web", ""),
        ("PUT", "/api/v1/namespaces/web/status", ""),
        ("PUT", "/api/v1/namespaces/web/finalize", ""),
        (
            "PATCH",
            "/apis/apps/v1/namespaces/web/deployments/d/scale",
            "",
        ),
        ("GET", "/apis/apps/v1/deployments/", ""),
        ("GET", "/api/v1/namespaces/web/services/s/proxy/a/b/", ""),
        ("GET", "/api/v1/nodes/n%3A1", ""),
    ];
    let read = rows.map(|(method, path, query)| {
        format!("{method} {path}?{query} {}", shown(method, path, query))
    });
    insta::assert_snapshot!(read.join("\n"), @r"
    GET /api/v1/pods? list /v1 - pods/-/-
    GET /api/v1/pods?watch=true watch /v1 - pods/-/-
    GET /api/v1/pods?watch=1&limit=5 watch /v1 - pods/-/-
    GET /api/v1/pods?watch=False list /v1 - pods/-/-
    GET /api/v1/namespaces/web/pods? list /v1 web pods/-/-
    GET /api/v1/namespaces/web/pods/p?watch=true get /v1 web pods/p/-
    HEAD /api/v1/namespaces/web/pods/p? get /v1 web pods/p/-
    DELETE /api/v1/namespaces/web/pods? deletecollection /v1 web pods/-/-
    DELETE /api/v1/namespaces/web/pods/p? delete /v1 web pods/p/-
    POST /api/v1/namespaces/web/pods? create /v1 web pods/-/-
    POST /api/v1/namespaces/web/pods/p/eviction? create /v1 web pods/p/eviction
    GET /api/v1/namespaces? list /v1 - namespaces/-/-
    GET /api/v1/namespaces/web? get /v1 - namespaces/web/-
    PUT /api/v1/namespaces/web/status? update /v1 - namespaces/web/status
    PUT /api/v1/namespaces/web/finalize? update /v1 - namespaces/web/finalize
    PATCH /apis/apps/v1/namespaces/web/deployments/d/scale? patch apps/v1 web deployments/d/scale
    GET /apis/apps/v1/deployments/? list apps/v1 - deployments/-/-
    GET /api/v1/namespaces/web/services/s/proxy/a/b/? get /v1 web services/s/proxy a/b
    GET /api/v1/nodes/n%3A1? get /v1 - nodes/n:1/-
    ");
}

#[test]
fn a_path_without_a_resource_is_a_non_resource_request() {
    for (path, segments) in [
        ("", &[][..]),
        ("/", &[]),
        ("/api", &["api"]),
        ("/api/v1", &["api", "v1"]),
        ("/apis/apps/v1", &["apis", "apps", "v1"]),
        ("/version/", &["version"]),
        (
            "/openapi/v3/apis/apps/v1",
            &["openapi", "v3", "apis", "apps", "v1"],
        ),
    ] {
        assert_eq!(
            info("GET", path, "").target,
            RequestTarget::NonResource(segments.iter().map(|&word| word.to_owned()).collect()),
            "{path}"
        );
    }
}

#[test]
fn a_path_may_name_the_cluster() {
    let found = info("POST", "/clusters/fleet%2Fmember1/api/v1/namespaces", "");
    assert_eq!(found.cluster.unwrap().as_str(), "fleet/member1");
    assert_eq!(
        shown("GET", "/clusters/m/api/v1/pods", ""),
        "list /v1 - pods/-/-"
    );
    assert_eq!(
        info("GET", "/clusters/m", "").target,
        RequestTarget::NonResource(Vec::new())
    );
}

#[test]
fn ambiguous_paths_are_refused() {
    let tricks = [
        "//api/v1/pods",
        "/api//v1/pods",
        "/api/v1/pods//",
        "//",
        "/api/v1/namespaces/web/../../pods",
        "/api/v1/namespaces/web/%2e%2E/secrets",
        "/api/v1/namespaces/./pods",
        "/api/v1/namespaces/web%2Fpods/p",
        "/api/v1/namespaces/web/pods/a%2fb",
        "/api/v1/namespaces/web/pods/a%252Fb",
        "/api/v1/namespaces/web/pods/a%00b",
        "/api/v1/namespaces/web/pods/a%0d%0ab",
        "/api/v1/namespaces/web/pods/%zz",
        "/api/v1/namespaces/web/pods/%ff",
        "/api/v1/namespaces/web/services/s/proxy/%2e%2e/x",
        "/api/v1/watch/pods",
        "/api/v1/proxy/nodes/n",
        "/clusters/%2e%2e/api/v1/pods",
    ];
    for path in tricks {
        let refused = parse("GET", path, None).unwrap_err();
        assert_eq!(refused.code(), 400, "{path}: {refused}");
    }
    assert_eq!(
        parse("TRACE", "/api/v1/pods", None).unwrap_err().code(),
        405
    );
}

fn word() -> impl Strategy<Value = String> {
    "[a-z0-9:@+ .()*~!$&'=,;é-]{1,12}"
        .prop_filter("dot segments", |word| word != "." && word != "..")
}

fn any_info() -> impl Strategy<Value = ResourceInfo> {
    let name = prop::option::of((
        word(),
        prop::option::of((word(), prop::collection::vec(word(), 0..3))),
    ));
    let inside = word().prop_filter("a path of its own", |word| {
        !DEPRECATED_PREFIXES.contains(&word.as_str()) && word != "namespaces"
    });
    let namespace = prop::option::of(word());
    (
        prop_oneof![Just(String::new()), word()],
        word(),
        inside,
        namespace,
        name,
    )
        .prop_map(|(group, version, plural, namespace, name)| {
            let namespace =
                namespace.filter(|_| !NAMESPACE_SUBRESOURCES.contains(&plural.as_str()));
            let (name, below) = name.map_or((None, None), |(name, below)| (Some(name), below));
            let (subresource, rest) = below.map_or((None, Vec::new()), |(subresource, rest)| {
                (Some(subresource), rest)
            });
            let verb = if name.is_some() {
                Verb::Get
            } else {
                Verb::List
            };
            let namespace = namespace.map(|name| name.parse().unwrap());
            ResourceInfo {
                verb,
                group,
                version,
                plural,
                namespace,
                name,
                subresource,
                rest,
                ends_with_slash: false,
            }
        })
}

proptest! {
    #[test]
    fn the_forwarded_path_is_parsed_as_the_received_one(info in any_info()) {
        prop_assert_eq!(resource_of("GET", &info.path(), ""), info);
    }

    #[test]
    fn an_accepted_path_is_forwarded_unambiguously_and_parsed_alike_again(path in "(/(api|apis|v1|namespaces|a|%2e|%2f|%25|\\.|\\.\\.|proxy|watch|clusters|status|%41|é|))*") {
        let Ok(FleetRequest { target: RequestTarget::Resource(info), .. }) = parse("GET", &path, None) else { return Ok(()) };
        let onward = info.path();
        for segment in onward.trim_matches('/').split('/') {
            let decoded = decode_segment(segment).unwrap();
            prop_assert!(!decoded.is_empty() && decoded != "." && decoded != ".." && !decoded.contains('/'), "{}", onward);
        }
        let again = resource_of("GET", &onward, "");
        prop_assert_eq!(again.segments(), info.segments());
    }

    #[test]
    fn nothing_makes_the_parser_panic(method in "[A-Z]{0,7}", path in ".*", query in ".*") {
        let _ = parse(&method, &path, Some(&query));
    }
}

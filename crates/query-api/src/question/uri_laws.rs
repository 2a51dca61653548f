//! A question that is written as a URI and parsed again is the same question.

use std::{collections::BTreeSet, mem::discriminant};

use proptest::{
    collection::vec, prelude::*, sample::select, strategy::ValueTree as _, test_runner::TestRunner,
};

use super::*;
use crate::percent::encode;

/// What comes behind the group and version, or elsewhere.
const PATHS: &[&str] = &[
    "search/",
    "search/cache/",
    "search/opensearch/",
    "clusters/member1/",
    "aggregate/",
    "related/",
    "merged/",
    "changes/",
    "objects",
    "objects",
    "completions",
    "images",
    "interpret",
    "clusters",
    "verify",
    "changes/verify",
    "",
];
const ELSEWHERE: &[&str] = &[
    "/version",
    "/apis",
    "/apis/search.karmada.io",
    "/apis/search.karmada.io/v1alpha1",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/apis/search.karmada.io/v1alpha1",
];
const RESOURCES: &[&str] = &[
    "api/v1/pods",
    "api/v1/namespaces",
    "api/v1/namespaces/web",
    "api/v1/namespaces/web/pods",
    "api/v1/namespaces/web/secrets/db",
    "apis/apps/v1/namespaces/web/deployments/a%2Eb",
    "apis/apps/v1/deployments",
    "apis/e%C3%A4.io/v%201/thing%3Fs/n+1",
];
/// Parameters, each with values of which most are valid for some question.
const PARAMETERS: &[(&str, &[&str])] = &[
    ("clusters", &["a", "b,a", "a,a", ""]),
    ("namespaces", &["web", "web,db,web"]),
    ("names", &["x", "x,y y,z&=%"]),
    (
        "labelSelector",
        &[
            "app=web,tier in (b,a),!x,y",
            "a!=b,c notin (d,e),f>5",
            "search.clusterpedia.io/clusters in (b,a),search.clusterpedia.io/owner-uid=u1,k",
            "search.clusterpedia.io/orderby=name_desc,search.clusterpedia.io/size=5",
        ],
    ),
    (
        "fieldSelector",
        &[
            "metadata.name=a",
            "spec.x!=b\\,c,status.phase in (A,B)",
            "n>5",
        ],
    ),
    ("limit", &["0", "5", "100000"]),
    ("continue", &["token+/=", ""]),
    ("store", &["embedded", "main"]),
    ("orderBy", &["name", "status.phase desc,name asc"]),
    ("orderby", &["name desc"]),
    ("ownerUID", &["u1,u2", "u 3"]),
    ("ownerName", &["web"]),
    ("ownerGR", &["deployments.apps", "pods"]),
    ("ownerSeniority", &["0", "3", "any"]),
    (
        "since",
        &["2026-01-31", "1769860800", "2026-01-31T12:00:00.123Z"],
    ),
    ("before", &["1769860800123", "2001-01-01 00:00:00"]),
    ("onlyMetadata", &["", "false", "true"]),
    ("withRemainingCount", &["0", "true"]),
    ("withContinue", &["true"]),
    ("explain", &["true", "0"]),
    ("watch", &["true", "0", ""]),
    (
        "resourceVersion",
        &["0", "77", "", "720856573542400512-00000000000000ff"],
    ),
    ("resourceVersionMatch", &["Exact", "NotOlderThan"]),
    ("sendInitialEvents", &["true", "0"]),
    ("allowWatchBookmarks", &["true", "false"]),
    ("timeoutSeconds", &["0", "300"]),
    ("timeout", &["5s"]),
    ("pretty", &["true"]),
    (
        "by",
        &[
            "cluster",
            "namespace,label:app,status.phase",
            "metadata.namespace",
        ],
    ),
    ("top", &["1", "10000"]),
    (
        "kinds",
        &["pods, deployments.apps", ".", ".apps,pods", "a.b.c"],
    ),
    (
        "q",
        &[
            "",
            "web kind:Pod -ns:kube-system label:app=\"a b\"",
            "health:Degraded äß%",
        ],
    ),
    ("facets", &["kind,cluster", "kind,kind"]),
    ("cursor", &["0", ""]),
    ("depth", &["1", "5"]),
    ("color of the sky", &["red", ""]),
];

fn uri() -> impl Strategy<Value = (String, String)> {
    let path = prop_oneof![
        9 => (select(PATHS), select(RESOURCES)).prop_map(|(path, resource)| {
            let resource = if path.ends_with('/') { resource } else { "" };
            format!("/apis/search.fleetdex.io/v1alpha1/{path}{resource}")
        }),
        1 => select(ELSEWHERE).prop_map(str::to_owned),
    ];
    let parameter = select(PARAMETERS).prop_flat_map(|(key, values)| {
        select(values).prop_map(move |value| format!("{}={}", encode(key), encode(value)))
    });
    (path, vec(parameter, 0..5)).prop_map(|(path, parameters)| (path, parameters.join("&")))
}

fn parsed(path: &str, query: &str) -> Result<Question, QuestionError> {
    super::parse(&RequestUri::parse(path, Some(query))?)
}

/// Parameters that mean something only together.
const TOGETHER: &[&str] = &[
    "objects?q=web&watch=true&resourceVersion=720856573542400512-00000000000000ff&timeoutSeconds=30",
    "objects?q=web&watch=true&timeoutSeconds=0",
    "objects?q=web&watch=true&labelSelector=app%3Dweb&clusters=a,b",
    "objects?q=web&resourceVersion=720856573542400512-00000000000000ff&facets=kind&limit=5",
    "objects?q=web&explain=true&continue=token",
    "search/api/v1/pods?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1",
    "search/api/v1/pods?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=77&timeoutSeconds=5",
    "search/api/v1/pods?resourceVersion=77&resourceVersionMatch=Exact",
    "search/api/v1/pods?ownerName=a,b&ownerGR=deployments.apps&ownerSeniority=any&orderBy=name%20desc&limit=5&store=main",
    "search/cache/api/v1/pods?ownerUID=u1&ownerSeniority=3&since=1769860800&before=1769860800123&onlyMetadata=1&withRemainingCount=0",
    "aggregate/api/v1/pods?by=cluster,label:app&top=3&explain=1&clusters=a&namespaces=web",
    "related/api/v1/namespaces/web/secrets/db?depth=3&limit=7&clusters=a,b",
    "completions?q=kind:P&cursor=2",
    "changes/api/v1/pods?store=main&watch=1&resourceVersion=77",
    "verify?clusters=a,b",
];

#[test]
fn a_question_reads_the_same_as_it_is_written() {
    let mut runner = TestRunner::deterministic();
    let mut written = BTreeSet::new();
    let mut kinds = Vec::new();
    let together = TOGETHER.iter().map(|uri| {
        let (path, query) = uri.split_once('?').unwrap();
        let path = format!("/apis/search.fleetdex.io/v1alpha1/{path}");
        parsed(&path, query).expect(uri);
        (path, query.to_owned())
    });
    let mixed = (0..20_000).map(|_| uri().new_tree(&mut runner).unwrap().current());
    for (path, query) in together.chain(mixed) {
        let Ok(question) = parsed(&path, &query) else {
            continue;
        };
        let uri = question.to_uri();
        let (again, parameters) = uri.split_once('?').unwrap_or((&uri, ""));
        let read = parsed(again, parameters);
        assert_eq!(read.as_ref(), Ok(&question), "{path}?{query} as {uri}");
        assert_eq!(read.map(|read| read.to_uri()).as_ref(), Ok(&uri));
        if !kinds.contains(&discriminant(&question)) {
            kinds.push(discriminant(&question));
        }
        written.insert(uri);
    }
    assert_eq!(kinds.len(), 15, "questions of all kinds");
    assert!(
        written.len() > 2_000,
        "{} different questions",
        written.len()
    );
}

use std::num::NonZeroUsize;

use fleetdex_core::{
    model::{FieldPath, StoreName},
    query::GroupKey,
};

use super::*;
use crate::{uri::QueryParameters, watch_options::WatchOptions};

fn parse(path: &str, query: Option<&str>) -> Result<Question, QuestionError> {
    super::parse(&RequestUri::parse(path, query)?)
}

fn ignored(request: &Question, query: &str) -> Vec<String> {
    super::ignored(request, &QueryParameters::parse(query)).unwrap()
}

const SEARCH: &str = "/apis/search.fleetdex.io/v1alpha1/search";

fn list(path: &str, query: &str) -> Result<ListRequest, QuestionError> {
    match parse(path, Some(query))? {
        Question::List(request) => Ok(*request),
        other => panic!("{path} is no list but {other:?}"),
    }
}

fn message(path: &str, query: &str) -> String {
    let error = parse(path, Some(query)).unwrap_err();
    format!("{} {error}", error.code())
}

#[test]
fn resource_paths_are_read_as_the_apiserver_reads_them() {
    let read = |native: &str| {
        let found = list(&format!("{SEARCH}/{native}"), "").unwrap().resource;
        let namespace = found.namespace.map(String::from).unwrap_or_default();
        let name = found.name.unwrap_or_default();
        format!(
            "{}|{}|{}|{namespace}|{name}",
            found.group, found.version, found.plural
        )
    };
    assert_eq!(read("api/v1/pods"), "|v1|pods||");
    assert_eq!(read("api/v1/namespaces/web/pods"), "|v1|pods|web|");
    assert_eq!(read("api/v1/namespaces/web/pods/p-1"), "|v1|pods|web|p-1");
    assert_eq!(read("api/v1/namespaces"), "|v1|namespaces||");
    assert_eq!(read("api/v1/namespaces/web"), "|v1|namespaces||web");
    assert_eq!(read("api/v1/nodes/n-1"), "|v1|nodes||n-1");
    assert_eq!(read("apis/apps/v1/deployments/"), "apps|v1|deployments||");
    assert_eq!(
        read("apis/apps/v1/namespaces/web/deployments/a%2Eb"),
        "apps|v1|deployments|web|a.b"
    );
    assert_eq!(
        read("opensearch/apis/apps/v1/deployments"),
        "apps|v1|deployments||"
    );
}

#[test]
fn karmadas_group_has_the_same_paths() {
    let ours = list(&format!("{SEARCH}/api/v1/pods"), "limit=5").unwrap();
    assert_eq!(
        list(
            "/apis/search.karmada.io/v1alpha1/search/api/v1/pods",
            "limit=5"
        )
        .unwrap(),
        ours
    );
}

#[test]
fn a_cluster_in_the_path_is_the_only_one_queried() {
    let found = list(
        "/apis/search.fleetdex.io/v1alpha1/clusters/team%2Fprod/api/v1/pods",
        "",
    )
    .unwrap();
    assert_eq!(found.path_cluster, Some("team/prod".parse().unwrap()));
    assert_eq!(found.clusters, ["team/prod".parse().unwrap()]);
}

#[test]
fn a_path_may_name_the_kind_of_store() {
    let engine = |path: &str| {
        list(&format!("{SEARCH}{path}/api/v1/pods"), "")
            .unwrap()
            .store_kind
    };
    assert_eq!(
        [engine(""), engine("/cache"), engine("/opensearch")],
        [None, Some(StoreKind::Embedded), Some(StoreKind::OpenSearch)]
    );
    assert!(
        StoreKind::Embedded.is_of(&StoreName::embedded())
            && !StoreKind::OpenSearch.is_of(&StoreName::embedded())
    );
}

#[test]
fn parameters_become_types() {
    let query = "labelSelector=app%20in%20(web,api)&fieldSelector=status.phase%3DRunning&limit=20&continue=abc\
                     &clusters=member1,member2&namespaces=a&names=x,y&store=main&pretty=true&timeoutSeconds=30&watch=false";
    let found = list(&format!("{SEARCH}/api/v1/pods"), query).unwrap();
    assert_eq!(found.labels, "app in (api,web)".parse().unwrap());
    assert_eq!(found.fields, "status.phase=Running".parse().unwrap());
    assert_eq!(found.limit.map(NonZeroUsize::get), Some(20));
    assert_eq!(found.continue_token.as_deref(), Some("abc"));
    assert_eq!(
        found.clusters,
        ["member1".parse().unwrap(), "member2".parse().unwrap()]
    );
    assert_eq!(found.namespaces, ["a".parse().unwrap()]);
    assert_eq!(found.names, ["x", "y"]);
    assert_eq!(found.store, Some("main".parse().unwrap()));
    assert_eq!(
        found.watch_options,
        WatchOptions {
            timeout_seconds: Some(30),
            ..WatchOptions::default()
        }
    );
}

#[test]
fn empty_and_zero_values_count_as_not_given() {
    let bare = list(&format!("{SEARCH}/api/v1/pods"), "").unwrap();
    let empty = "labelSelector=&fieldSelector=&limit=0&continue=&clusters=&namespaces=&names=&store=&watch=0&resourceVersion=&orderBy=";
    assert_eq!(list(&format!("{SEARCH}/api/v1/pods"), empty).unwrap(), bare);
}

#[test]
fn an_invalid_value_is_refused_with_its_parameter() {
    let pods = format!("{SEARCH}/api/v1/pods");
    let refused = [
        "resourceVersion=newest",
        "sendInitialEvents=true",
        "resourceVersion=7&continue=abc",
        "watch=true&ownerName=web",
        "orderBy=name down",
        "limit=-1",
        "limit=ten",
        "limit=1&limit=2",
        "labelSelector=a%2",
        "clusters=a,,b",
        "labelSelector=app+in+(web",
    ];
    let messages: Vec<String> = refused.iter().map(|query| message(&pods, query)).collect();
    insta::assert_snapshot!(messages.join("\n"), @r#"
        400 parameter resourceVersion: "newest" is no resourceVersion of the fleet: those are positive decimal integers, as lists and watches over the fleet give them
        400 parameter sendInitialEvents means nothing without watch=true
        400 parameter resourceVersion: further pages show what the first one showed; leave it out with continue
        400 parameter ownerName: owners are looked up once, so a watch cannot follow them
        400 parameter orderBy: "name down" is neither `field`, `field asc` nor `field desc`
        400 parameter limit: "-1" is not a whole number of 0 or more
        400 parameter limit: "ten" is not a whole number of 0 or more
        400 parameter "limit" is given twice
        400 query: "a%2" has a '%' that two hexadecimal digits do not follow
        400 parameter clusters: "a,,b" has an empty item
        400 parameter labelSelector: "app in (web": at character 12: found end of text, expected a value, ',' or ')'
        "#);
}

#[test]
fn the_error_of_an_unknown_path_says_why() {
    let base = "/apis/search.fleetdex.io/v1alpha1";
    let refused = [
        "/".to_owned(),
        "/api/v1/pods".to_owned(),
        "/apis/apps".to_owned(),
        "/apis/search.fleetdex.io/v1".to_owned(),
        format!("{base}/search"),
        format!("{base}/search/api/v1"),
        format!("{base}/search/api/v1/watch/pods"),
        format!("{base}/search/api/v1/namespaces/web/pods/p/log"),
        format!("{base}/search/api/v1/namespaces//pods"),
        format!("{base}/clusters/member1"),
        format!("{base}/aggregate"),
        format!("{base}/verify/member1"),
        format!("{base}/proxying/karmada"),
        format!("{base}/%70roxying/karmada/proxy/api/v1/pods"),
    ];
    let messages: Vec<String> = refused.iter().map(|path| message(path, "")).collect();
    insta::assert_snapshot!(messages.join("\n"), @r#"
        404 the server could not find /
        404 the server could not find /api/v1/pods
        404 the server could not find /apis/apps
        404 the server could not find /apis/search.fleetdex.io/v1
        404 path "/apis/search.fleetdex.io/v1alpha1/search" names no resource; it must end with a path such as api/v1/pods or apis/apps/v1/namespaces/default/deployments
        404 path "/apis/search.fleetdex.io/v1alpha1/search/api/v1" names no resource; it must end with a path such as api/v1/pods or apis/apps/v1/namespaces/default/deployments
        400 path segment "watch" is not supported yet
        404 path "/apis/search.fleetdex.io/v1alpha1/search/api/v1/namespaces/web/pods/p/log": subresource "log" is not in the index, only objects are
        400 path "/apis/search.fleetdex.io/v1alpha1/search/api/v1/namespaces//pods" has an empty segment
        404 the server could not find /apis/search.fleetdex.io/v1alpha1/clusters/member1
        404 path "/apis/search.fleetdex.io/v1alpha1/aggregate" names no resource; it must end with a path such as api/v1/pods or apis/apps/v1/namespaces/default/deployments
        404 the server could not find /apis/search.fleetdex.io/v1alpha1/verify/member1
        404 the server could not find /apis/search.fleetdex.io/v1alpha1/proxying/karmada
        404 the server could not find /apis/search.fleetdex.io/v1alpha1/%70roxying/karmada/proxy/api/v1/pods
        "#);
}

#[test]
fn counts_take_group_keys_and_the_filters_of_lists() {
    let path = "/apis/search.fleetdex.io/v1alpha1/aggregate/api/v1/pods";
    let counts = |query: &str| match parse(path, Some(query)) {
        Ok(Question::Aggregate(request)) => *request,
        other => panic!("{query} is {other:?}"),
    };
    let found =
        counts("by=cluster,namespace,label:x.io/app,status.phase&top=5&labelSelector=a%3Db");
    let label = GroupKey::Label("x.io/app".to_owned());
    let phase = GroupKey::Field(FieldPath::new("status.phase"));
    assert_eq!(
        found.by,
        [GroupKey::Cluster, GroupKey::Namespace, label, phase]
    );
    assert_eq!(
        (found.top, found.list.labels.to_string().as_str()),
        (5, "a=b")
    );
    assert_eq!((counts("").by, counts("by=&top=").top), (Vec::new(), 1_000));
    let refused = [
        "by=cluster,,a",
        "by=label:-",
        "by=cluster,cluster",
        "by=a,b,c,d,e",
        "top=0",
        "top=10001",
        "limit=5",
        "labelSelector=search.clusterpedia.io/limit%3D5",
    ];
    let messages: Vec<String> = refused.iter().map(|query| message(path, query)).collect();
    insta::assert_snapshot!(messages.join("\n"), @r#"
        400 parameter by: "cluster,,a" has an empty item
        400 parameter by: label key "-" is invalid: must consist of letters, digits, '-', '_' or '.', and start and end with a letter or digit
        400 parameter by: cluster is given twice
        400 parameter by: at most 4 keys are possible
        400 parameter top: "0" is not a whole number from 1 to 10000
        400 parameter top: "10001" is not a whole number from 1 to 10000
        400 parameter limit: counts are not paged; use top for fewer groups
        400 parameter labelSelector: an order or a page means nothing for counts
        "#);
}

#[test]
fn a_request_has_a_bounded_number_of_parameters() {
    let query = |count: usize| {
        (0..count)
            .map(|number| format!("x{number}"))
            .collect::<Vec<_>>()
            .join("&")
    };
    assert!(parse("/version", Some(&query(256))).is_ok());
    assert_eq!(
        message("/version", &query(257)),
        "400 query: it has more than 256 parameters"
    );
}

#[test]
fn a_replica_requests_all_changes_of_one_resource_in_one_store() {
    let path = "/apis/search.fleetdex.io/v1alpha1/changes/apis/apps/v1/deployments";
    let Question::Changes(asked) = parse(
        path,
        Some("store=http%3A%2F%2Fa%3A9200&watch=true&resourceVersion=77"),
    )
    .unwrap() else {
        panic!("{path} asks for something else");
    };
    let since = asked.since.map(|version| version.to_string());
    assert_eq!(
        (
            asked.resource.plural.as_str(),
            asked.store.as_str(),
            asked.watch
        ),
        ("deployments", "http://a:9200", true)
    );
    assert_eq!(since.as_deref(), Some("77"));
    let refused = [
        message(path, "watch=true"),
        message(path, "store=a&resourceVersion=0"),
        message(path, "store=a&labelSelector=app"),
        message(&format!("{path}/web"), "store=a"),
    ];
    insta::assert_snapshot!(refused.join("\n"), @r#"
    400 parameter store is missing: it names the store of the changes
    400 parameter resourceVersion: "0" is no resourceVersion of the fleet: those are positive decimal integers, as lists and watches over the fleet give them
    400 parameter "labelSelector" is unknown; known are store, watch and resourceVersion
    400 changes are streamed for all objects of a resource; leave out the namespace and the name
    "#);
}

#[test]
fn an_unknown_parameter_is_ignored_and_reported() {
    let pods = format!("{SEARCH}/api/v1/pods");
    let found = list(&pods, "color=red&limit=5&lImit=7").unwrap();
    assert_eq!(
        (found.ignored, found.limit.map(NonZeroUsize::get)),
        (vec!["color".to_owned(), "lImit".to_owned()], Some(5))
    );
    let Question::Aggregate(counts) = parse(
        &pods.replace("/search/api", "/aggregate/api"),
        Some("by=cluster&color=red"),
    )
    .unwrap() else {
        panic!("no counts");
    };
    assert_eq!(counts.list.ignored, ["color"]);
}

#[test]
fn booleans_are_read_as_in_kubernetes() {
    let pods = format!("{SEARCH}/api/v1/pods");
    for (query, expected) in [
        ("watch=True", true),
        ("watch=1", true),
        ("watch=", true),
        ("watch", true),
        ("watch=False", false),
        ("watch=0", false),
        ("", false),
    ] {
        assert_eq!(
            list(&pods, query).unwrap().watch_options.watch,
            expected,
            "{query}"
        );
    }
}

#[test]
fn a_parameter_cannot_contradict_the_path() {
    let path = format!("{SEARCH}/api/v1/namespaces/web/pods");
    assert_eq!(
        message(&path, "namespaces=db"),
        "400 parameter namespaces: the path names one already; give either the path or the parameter"
    );
}

#[test]
fn a_verification_covers_all_clusters_or_the_named_ones() {
    let path = "/apis/search.fleetdex.io/v1alpha1/verify";
    assert_eq!(
        parse(path, None).unwrap(),
        Question::Verify(VerifyRequest::default())
    );
    let some = VerifyRequest {
        clusters: ["a".parse().unwrap(), "team/prod".parse().unwrap()].to_vec(),
        is_of_replica: false,
    };
    assert_eq!(
        parse("/apis/search.fleetdex.io/v1alpha1/changes/verify", None).unwrap(),
        Question::Verify(VerifyRequest {
            clusters: Vec::new(),
            is_of_replica: true
        })
    );
    assert_eq!(
        parse(path, Some("clusters=a,team%2Fprod&timeout=9s")).unwrap(),
        Question::Verify(some)
    );
    assert_eq!(
        parse(path, Some("cluster=a")).unwrap(),
        Question::Verify(VerifyRequest::default())
    );
    assert_eq!(
        ignored(
            &Question::Verify(VerifyRequest::default()),
            "cluster=a&clusters=b&timeout=9s"
        ),
        ["cluster"]
    );
    assert_eq!(
        message(path, "clusters=a,,b"),
        "400 parameter clusters: \"a,,b\" has an empty item"
    );
}

#[test]
fn unknown_parameters_of_discovery_are_ignored_and_reported() {
    let path = "/apis/search.fleetdex.io/v1alpha1";
    let resources = Question::Discovery(GroupDiscovery::Resources("search.fleetdex.io"));
    assert_eq!(parse(path, Some("timeout=32s")).unwrap(), resources);
    assert_eq!(parse(path, Some("limit=5")).unwrap(), resources);
    assert_eq!(ignored(&resources, "limit=5&timeout=32s"), ["limit"]);
    assert_eq!(
        ignored(&Question::OpenApi(OpenApi::V2), "hash=5"),
        Vec::<String>::new()
    );
    assert_eq!(parse("/version", None).unwrap(), Question::Version);
}

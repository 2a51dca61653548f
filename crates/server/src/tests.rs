//! The query API as a client sees it, over stores in memory.

mod across_kinds;
mod completions;
mod merged;
mod page;
pub(crate) mod search;
mod search_watch;
mod webhooks;

use std::{collections::BTreeSet, sync::Arc};

use axum::{
    Router,
    body::{Body, Bytes},
    http::{Request, Response, StatusCode},
};
use fleetdex_core::{
    model::{FieldPath, FieldType},
    query::{Cursor, Group, GroupKey, Groups, Relation, ResourceName, Sort, SortKey},
};
use fleetdex_query_api::report::ReportLine;
use fleetdex_store::{StoreError, fake::PreparedReader};
use fleetdex_sync::audit::fake::AuditFixture;
use fleetdex_telemetry::{Metrics, Readiness};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::{
    catalog::Catalog,
    fake::{
        self, add, catalog, cluster, cursor, page, pods, relative, store,
        watched_fleet::{POD, WatchedFleet},
    },
    proxying::MemberProxy,
};
use crate::{
    answers::Answers,
    auth::{authentication_mode::AuthenticationMode, token_file::TokenVerifier},
    catalog::planned_stream::{NoAudit, PlannedStream},
    http::{api_state::ApiState, serve::router},
    limits::{LimitArgs, RequestLimits},
    read::interpreters::Interpreters,
};

const SEARCH: &str = "/apis/search.fleetdex.io/v1alpha1/search";
const PODS: &str = "/apis/search.fleetdex.io/v1alpha1/search/api/v1/pods";

fn app(catalog: Catalog) -> Router {
    app_with(catalog, Interpreters::default())
}

/// Over a store without objects.
fn empty_app() -> Router {
    app_of(&PreparedReader::with(vec![]))
}

fn app_of(reader: &Arc<PreparedReader>) -> Router {
    app(catalog(reader.clone()))
}

fn counting(groups: Vec<Group>, total: u64, others: u64) -> Arc<PreparedReader> {
    PreparedReader::counting(Groups {
        groups,
        total,
        others,
    })
}

fn app_with(catalog: Catalog, interpreters: Interpreters) -> Router {
    router(state(catalog, interpreters), Readiness::new())
}

fn state(catalog: Catalog, interpreters: Interpreters) -> ApiState {
    let (_sender, receiver) = watch::channel(Arc::new(catalog));
    state_over(receiver, interpreters)
}

/// Over a catalog that can be replaced.
fn state_over(receiver: watch::Receiver<Arc<Catalog>>, interpreters: Interpreters) -> ApiState {
    let members = Arc::new(MemberProxy::new(
        fake::no_clusters(),
        CancellationToken::new(),
    ));
    let authentication_mode = AuthenticationMode::LoopbackToken(TokenVerifier::new("secret"));
    let metrics = Arc::new(Metrics::new());
    let limits = RequestLimits::new(&LimitArgs::default(), &metrics);
    ApiState::new(
        Answers {
            interpreters,
            ..Answers::new(receiver, authentication_mode, limits, metrics)
        },
        members,
    )
}

async fn send(app: &Router, request: Request<Body>) -> Response<Body> {
    app.clone().oneshot(request).await.unwrap()
}

fn get(path: &str) -> Request<Body> {
    Request::get(path)
        .header("authorization", "Bearer secret")
        .body(Body::empty())
        .unwrap()
}

fn get_with(path: &str, header: &'static str, value: &str) -> Request<Body> {
    let mut request = get(path);
    request.headers_mut().insert(header, value.parse().unwrap());
    request
}

async fn fetch(app: &Router, path: &str) -> (u16, Value) {
    let response = send(app, get(path)).await;
    let code = response.status().as_u16();
    (code, body(response).await)
}

async fn code(app: &Router, path: &str) -> u16 {
    fetch(app, path).await.0
}

async fn bytes(response: Response<Body>) -> Bytes {
    response.into_body().collect().await.unwrap().to_bytes()
}

async fn body(response: Response<Body>) -> Value {
    serde_json::from_slice(&bytes(response).await).unwrap()
}

fn warnings_of(response: &Response<Body>) -> Vec<String> {
    let values = response.headers().get_all("warning").iter();
    values
        .map(|value| value.to_str().unwrap().to_owned())
        .collect()
}

/// The warnings of a request that is served.
async fn warnings(app: &Router, path: &str) -> Vec<String> {
    let response = send(app, get(path)).await;
    assert_eq!(response.status(), StatusCode::OK, "{path}");
    warnings_of(&response)
}

async fn refusal(app: &Router, path: &str) -> String {
    let (code, status) = fetch(app, path).await;
    assert_eq!(status["kind"], "Status");
    assert_eq!(status["code"], code);
    format!(
        "{code} {}: {}",
        status["reason"].as_str().unwrap(),
        status["message"].as_str().unwrap()
    )
}

#[tokio::test]
async fn a_list_without_a_limit_is_complete() {
    let main = PreparedReader::with(vec![
        Ok(page(&["a", "b"], Some(cursor(2)), Some(3))),
        Ok(page(&["c"], Some(cursor(3)), None)),
        Ok(page(&["d"], None, Some(0))),
    ]);
    let (code, list) = fetch(&app_of(&main), PODS).await;
    assert_eq!(code, 200);
    insta::assert_snapshot!(list, @r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"720856573542465536"},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}},{"metadata":{"name":"c"}},{"metadata":{"name":"d"}}]}"#);
    let cursors: Vec<Option<Cursor>> = main.asked().into_iter().map(|(_, from)| from).collect();
    assert_eq!(cursors, [None, Some(cursor(2)), Some(cursor(3))]);
}

#[tokio::test]
async fn a_limit_gives_one_page_and_a_continue_token() {
    let main = PreparedReader::with(vec![
        Ok(page(&["a"], Some(cursor(1)), Some(7))),
        Ok(page(&["b"], None, None)),
    ]);
    let app = app_of(&main);
    let path = format!("{SEARCH}/apis/apps/v1/deployments?limit=1&labelSelector=app%3Dweb");
    let (_, first) = fetch(&app, &path).await;
    assert_eq!(first["kind"], "DeploymentList");
    assert_eq!(first["apiVersion"], "apps/v1");
    assert_eq!(first["metadata"]["remainingItemCount"], 7);
    let token = first["metadata"]["continue"].as_str().unwrap();
    let (code, second) = fetch(&app, &format!("{path}&continue={token}")).await;
    let version = &first["metadata"]["resourceVersion"];
    assert_eq!(
        (code, &second["metadata"]),
        (200, &json!({ "resourceVersion": version })),
        "every page shows the moment of the first"
    );
    let (last_query, last_cursor) = main.asked().pop().unwrap();
    assert_eq!(last_cursor, Some(cursor(1)));
    assert_eq!(last_query.limit, 1);
    let other = format!(
        "{SEARCH}/apis/apps/v1/deployments?limit=1&labelSelector=app%3Dapi&continue={token}"
    );
    assert_eq!(
        refusal(&app, &other).await,
        "400 BadRequest: parameter continue: the continue token belongs to another query; send the parameters of the first page with it, or start again without it"
    );
}

#[tokio::test]
async fn a_page_is_never_larger_than_memory_allows() {
    let main = PreparedReader::with(vec![]);
    fetch(&app_of(&main), &format!("{PODS}?limit=100000")).await;
    assert_eq!(main.asked()[0].0.limit, 1_000);
}

#[tokio::test]
async fn path_and_parameters_become_the_query() {
    let main = PreparedReader::with(vec![]);
    let path = "api/v1/namespaces/web/pods/p-1?clusters=member2&fieldSelector=status.phase!%3DRunning&labelSelector=!canary";
    fetch(&app_of(&main), &format!("{SEARCH}/{path}")).await;
    let (query, _) = main.asked().pop().unwrap();
    assert_eq!(query.clusters, [cluster("member2")]);
    assert_eq!(query.namespaces, ["web".parse().unwrap()]);
    assert_eq!(query.names, ["p-1"]);
    assert_eq!(query.labels.to_string(), "!canary");
    assert_eq!(query.fields.to_string(), "status.phase!=Running");
}

#[tokio::test]
async fn stale_clusters_are_listed_with_their_time() {
    let mut stale = catalog(PreparedReader::with(vec![]));
    stale.add_stale(
        cluster("member2"),
        "2026-02-03T10:00:00Z".parse().unwrap(),
        "disconnected",
    );
    let app = app(stale);
    let as_of = async |query: &str| {
        fetch(&app, &format!("{SEARCH}/api/v1/pods{query}")).await.1["metadata"]["asOf"].clone()
    };
    assert_eq!(
        as_of("").await,
        json!({ "member2": "2026-02-03T10:00:00Z" })
    );
    assert_eq!(as_of("?clusters=member1").await, Value::Null);
}

#[tokio::test]
async fn order_and_creation_times_reach_the_store() {
    let main = PreparedReader::with(vec![]);
    let app = app_of(&main);
    let query =
        "orderBy=spec.host+desc,created_at,status.podIPs&since=1970-01-01&before=1769860800";
    assert_eq!(code(&app, &format!("{PODS}?{query}")).await, 200);
    let asked = main.asked().pop().unwrap().0;
    let node = SortKey::Field(FieldPath::new("spec.nodeName"), FieldType::Text);
    let by = |key, descending| Sort { key, descending };
    assert_eq!(
        asked.sort,
        [by(node, true), by(SortKey::CreationTimestamp, false)]
    );
    assert_eq!(
        (asked.since, asked.before),
        (Some(0), Some(1_769_860_800_000))
    );
    let refused = refusal(&app, &format!("{PODS}?orderBy=spec.color")).await;
    assert!(
        refused.starts_with(
            "400 BadRequest: parameter orderBy: field label not supported: spec.color; these are:"
        ),
        "{refused}"
    );
}

#[tokio::test]
async fn search_labels_set_parameters_and_those_of_the_url_win() {
    let main = PreparedReader::with(vec![]);
    let app = app_of(&main);
    let labels = "labelSelector=a%3Db,search.clusterpedia.io/names+in+(x,y),search.clusterpedia.io/limit%3D7";
    fetch(&app, &format!("{PODS}?{labels}&names=z")).await;
    let asked = main.asked().pop().unwrap().0;
    assert_eq!(
        (asked.labels.to_string().as_str(), asked.names, asked.limit),
        ("a=b", vec!["z".to_owned()], 7)
    );
    let refused = refusal(
        &app,
        &format!("{PODS}?labelSelector=search.clusterpedia.io/x%3Dy"),
    )
    .await;
    assert!(
        refused.starts_with(
            "400 BadRequest: parameter labelSelector: label search.clusterpedia.io/x is not a search label"
        ),
        "{refused}"
    );
}

#[tokio::test]
async fn owners_are_resolved_down_to_the_requested_generation() {
    let found = |uids: &[&str]| {
        uids.iter()
            .map(|uid| relative("apps", "replicasets", uid))
            .collect::<Vec<_>>()
    };
    let main = PreparedReader::with(vec![]);
    *main.relatives.lock() = [&["deployment"][..], &["rs1", "rs2"]]
        .map(|uids| found(uids).into_iter().collect())
        .into();
    let app = app_of(&main);
    let query = "ownerName=web&ownerGR=deployments.apps&ownerSeniority=1&namespaces=shop";
    assert_eq!(code(&app, &format!("{PODS}?{query}")).await, 200);
    assert_eq!(
        main.asked().pop().unwrap().0.owners,
        Some(found(&["rs1", "rs2"]).into_iter().collect())
    );
    let relations: Vec<Relation> = main
        .searched
        .lock()
        .iter()
        .map(|asked| asked.relation.clone())
        .collect();
    let named = Relation::Named {
        resource: Some(ResourceName::new("apps", "deployments")),
        names: vec!["web".to_owned()],
    };
    assert_eq!(
        relations,
        [
            named,
            Relation::OwnedBy(found(&["deployment"]).into_iter().collect())
        ]
    );
    assert_eq!(
        main.searched.lock()[0].namespaces,
        ["shop".parse().unwrap()]
    );
}

#[tokio::test]
async fn any_seniority_resolves_all_generations() {
    let found = |uid: &str| BTreeSet::from([relative("apps", "replicasets", uid)]);
    let main = PreparedReader::with(vec![]);
    // One that owns itself in the end.
    *main.relatives.lock() = vec![found("b"), found("a"), found("b"), found("c")].into();
    fetch(
        &app_of(&main),
        &format!("{PODS}?ownerUID=a&ownerSeniority=any"),
    )
    .await;
    let owners = main.asked().pop().unwrap().0.owners.unwrap();
    assert!(
        owners.matches("member1", ["a"])
            && owners.matches("member1", ["b"])
            && !owners.matches("member1", ["c"])
    );
}

#[tokio::test]
async fn an_explanation_has_the_request_the_permission_and_the_cost_and_reads_no_object() {
    let main = counting(Vec::new(), 2_500, 0);
    let app = app_of(&main);
    let (code, explanation) = fetch(
        &app,
        &format!("{PODS}?labelSelector=app+in+(a,b)&explain=true"),
    )
    .await;
    assert_eq!(code, 200);
    let estimate = json!({ "objects": 2_500, "pageSize": 1_000, "pages": 3, "requests": 1, "clauses": 3, "values": 4 });
    assert_eq!(
        (
            &explanation["kind"],
            &explanation["permitted"],
            &explanation["estimate"]
        ),
        (&json!("Explanation"), &json!("everything"), &estimate)
    );
    assert_eq!(
        explanation["requests"][0]["query"]["bool"]["filter"][2],
        json!({ "terms": { "search.labels": ["app=a", "app=b"] } })
    );
    let counts =
        "/apis/search.fleetdex.io/v1alpha1/aggregate/api/v1/pods?by=cluster,label:app&explain=true";
    let (_, explanation) = fetch(&app, counts).await;
    assert_eq!(
        (
            &explanation["estimate"]["requests"],
            explanation["requests"].as_array().unwrap().len()
        ),
        (&json!(2), 2)
    );
    assert!(
        main.counted.lock().iter().all(|(by, _)| by.is_empty()),
        "only objects were counted"
    );
}

#[tokio::test]
async fn only_metadata_is_a_list_of_partial_objects() {
    let main = PreparedReader::with(vec![Ok(page(&["a"], None, None))]);
    let (_, list) = fetch(&app(catalog(main)), &format!("{PODS}?onlyMetadata=true")).await;
    assert_eq!(
        (list["kind"].as_str(), list["items"][0]["kind"].as_str()),
        (
            Some("PartialObjectMetadataList"),
            Some("PartialObjectMetadata")
        )
    );
}

#[tokio::test(start_paused = true)]
async fn large_unread_lists_are_bounded_for_each_user() {
    let fleet = WatchedFleet::new().await;
    let large = "x".repeat(6 << 20);
    for name in ["a", "b", "c", "d"] {
        fleet.write_noted(POD, name, 5, Some("web"), &large).await;
    }
    let app = app(fleet.catalog());
    let mut unread = Vec::new();
    for _ in 0..3 {
        unread.push(send(&app, get(PODS)).await);
    }
    assert!(
        unread
            .iter()
            .all(|response| response.status() == StatusCode::OK)
    );
    let refused = refusal(&app, PODS).await;
    assert!(
        refused.starts_with("429 TooManyRequests: your other requests hold 72 MiB of memory"),
        "{refused}"
    );
    drop(unread);
    assert_eq!(code(&app, PODS).await, 200);
}

#[tokio::test]
async fn an_abandoned_list_keeps_no_snapshot_open() {
    let large = "x".repeat(600 << 10);
    let pages = || {
        vec![
            Ok(page(&["a"], Some(cursor(1)), None)),
            Ok(page(&["b"], Some(cursor(2)), None)),
        ]
    };
    let released = |main: &PreparedReader| main.released.lock().clone();

    let main = PreparedReader::with(pages());
    let response = send(&app_of(&main), get(PODS)).await;
    assert!(released(&main).is_empty());
    drop(response);
    assert_eq!(released(&main), [cursor(1)], "the list is not continued");

    // Read ahead, and again when it is needed.
    let gone = vec![Err(StoreError::Expired), Err(StoreError::Expired)];
    let main = PreparedReader::with([pages(), gone].concat());
    let response = send(&app_of(&main), get(PODS)).await;
    assert!(response.into_body().collect().await.is_err());
    assert_eq!(released(&main), [cursor(2)], "a list that is cut short");

    let main = PreparedReader::with(pages());
    fetch(&app_of(&main), &format!("{PODS}?limit=1")).await;
    assert!(released(&main).is_empty(), "the client has a token");
    let main = PreparedReader::with(vec![Ok(page(&[&large], Some(cursor(1)), None))]);
    drop(send(&app_of(&main), get(&format!("{PODS}?limit=1"))).await);
    assert_eq!(
        released(&main),
        [cursor(1)],
        "the client has only a part of the answer"
    );
    let main = PreparedReader::with(vec![Ok(page(&[&large], Some(cursor(1)), None))]);
    fetch(&app_of(&main), &format!("{PODS}?limit=1")).await;
    assert!(released(&main).is_empty());

    let main = PreparedReader::with(pages());
    drop(send(&app_of(&main), get(&format!("{PODS}?watch=true"))).await);
    assert_eq!(
        released(&main),
        [cursor(1)],
        "a watch that ends before it has sent the initial objects"
    );
}

#[tokio::test]
async fn hostile_input_is_refused_with_its_position() {
    let app = empty_app();
    let many = |count: usize| {
        (0..count)
            .map(|number| format!("l{number}"))
            .collect::<Vec<_>>()
            .join(",")
    };
    let pods = |query: &str| format!("{PODS}?{query}");
    let refused = [
        pods(&format!("labelSelector={}", many(10_000))),
        pods("labelSelector=%7B%22match_all%22%3A%7B%7D%7D%3Da"),
        pods("labelSelector=search.labels%3Aa%3Db"),
        pods("labelSelector=a.*%3Db"),
        pods("fieldSelector=status.phase%3E5"),
        pods("fieldSelector=_source%3Da"),
        pods("limit=18446744073709551616"),
        pods("continue=..%2F..%2Fetc%2Fpasswd"),
        pods(
            "continue=eJyrViosTS2qVLJSqlDSUSpILcrNLClJTQHyK4H85NKi4vwiJatqpeK8xILijPwSoEQVUCIxrSQVKB4dWwvUlJicDdKRlphTnFrLBQBmQRsl.7",
        ),
        pods("limit=%35%"),
        pods("%6cimit=1&limit=2"),
        format!("{SEARCH}/api/v1/namespaces/..%2Fkube-system/pods"),
        format!("{SEARCH}/api/v1/namespaces/%2e%2e/pods"),
        format!("{SEARCH}/api/v1/pods/../secrets"),
        format!("{SEARCH}/api/v1/%ff%fe"),
        format!("{SEARCH}/api/v1//pods"),
    ];
    let mut messages = Vec::new();
    for path in refused {
        let message = refusal(&app, &path).await;
        messages.push(if message.len() > 190 {
            format!("{}…", &message[..190])
        } else {
            message
        });
    }
    insta::assert_snapshot!(messages.join("\n"), @r#"
    400 BadRequest: the query asks for 10002 clauses, and at most 1024 are possible; ask in several queries
    400 BadRequest: parameter labelSelector: "{\"match_all\":{}}=a": at character 1: label key "{\"match_all\":{}}" is invalid: must consist of letters, digits, '-', '_' or '.', and start and en…
    400 BadRequest: parameter labelSelector: "search.labels:a=b": at character 1: label key "search.labels:a" is invalid: must consist of letters, digits, '-', '_' or '.', and start and end with…
    400 BadRequest: parameter labelSelector: "a.*=b": at character 1: label key "a.*" is invalid: must consist of letters, digits, '-', '_' or '.', and start and end with a letter or digit
    400 BadRequest: parameter fieldSelector: field "status.phase" holds no numbers, and '>', '>=', '<' and '<=' compare numbers and quantities
    400 BadRequest: parameter fieldSelector: field label not supported: _source; these are: metadata.name, metadata.namespace, spec.host, spec.hostNetwork, spec.nodeName, spec.restartPolicy, spe…
    400 BadRequest: parameter limit: "18446744073709551616" is not a whole number of 0 or more
    400 BadRequest: parameter continue: the continue token is malformed; start the list again without it
    400 BadRequest: parameter continue: the continue token is malformed; start the list again without it
    400 BadRequest: query: "%35%" has a '%' that two hexadecimal digits do not follow
    400 BadRequest: parameter "limit" is given twice
    400 BadRequest: path: "../kube-system" is not a valid name: it is '.' or '..', or has a '/' or a '%'
    400 BadRequest: path: ".." is not a valid name: it is '.' or '..', or has a '/' or a '%'
    404 NotFound: path "/apis/search.fleetdex.io/v1alpha1/search/api/v1/pods/../secrets": subresource "secrets" is not in the index, only objects are
    400 BadRequest: path: "%ff%fe" does not decode to UTF-8
    400 BadRequest: path "/apis/search.fleetdex.io/v1alpha1/search/api/v1//pods" has an empty segment
    "#);
    // A huge limit that is a number is lowered, as a page of a real API server may be shorter than
    // asked for.
    assert_eq!(code(&app, &pods("limit=18446744073709551615")).await, 200);
}

#[tokio::test]
async fn counts_are_an_aggregate_of_groups() {
    let group = |values: [Option<&str>; 2], count| Group {
        values: values.map(|value| value.map(str::to_owned)).to_vec(),
        count,
    };
    let groups = vec![
        group([Some("member1"), Some("web")], 3),
        group([Some("member2"), None], 1),
    ];
    let main = PreparedReader::counting(Groups {
        groups,
        total: 6,
        others: 2,
    });
    let app = app_of(&main);
    let counts = "/apis/search.fleetdex.io/v1alpha1/aggregate";
    let (code, answer) = fetch(
        &app,
        &format!("{counts}/api/v1/pods?by=cluster,label:app&top=2&labelSelector=a"),
    )
    .await;
    assert_eq!(code, 200);
    insta::assert_snapshot!(answer, @r#"{"kind":"Aggregate","apiVersion":"search.fleetdex.io/v1alpha1","metadata":{},"by":["cluster","label:app"],"total":6,"others":2,"items":[{"values":["member1","web"],"count":3},{"values":["member2",null],"count":1}]}"#);
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let uri = format!("{counts}/api/v1/pods?by=cluster,label:app");
    let request = get_with(&uri, "accept", table);
    let shown = body(send(&app, request).await).await;
    let columns: Vec<&str> = shown["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|c| c["name"].as_str())
        .collect();
    assert_eq!(
        (&shown["kind"], columns),
        (&json!("Table"), vec!["Cluster", "app", "Count"])
    );
    assert_eq!(shown["rows"][1]["cells"], json!(["member2", "<none>", 1]));
    main.counted.lock().pop();
    let asked = vec![GroupKey::Cluster, GroupKey::Label("app".to_owned())];
    assert_eq!(*main.counted.lock(), [(asked, 2)]);
    assert_eq!(main.asked()[0].0.labels.to_string(), "a");
    assert_eq!(
        refusal(&app, &format!("{counts}/api/v1/pods?by=spec.color")).await,
        "400 BadRequest: parameter by: field label not supported: spec.color; these are: metadata.name, metadata.namespace, spec.host, spec.hostNetwork, spec.nodeName, spec.restartPolicy, spec.schedulerName, spec.serviceAccountName, status.nominatedNodeName, status.phase, status.podIP, status.podIPs; spec.backendStore.openSearch.fieldPaths of a ResourceRegistry makes others selectable"
    );
    assert!(
        refusal(&app, &format!("{counts}/api/v1/secrets"))
            .await
            .starts_with("404 NotFound: no ResourceRegistry")
    );
}

#[tokio::test]
async fn a_name_in_no_cluster_is_an_empty_list() {
    let (code, list) = fetch(&empty_app(), &format!("{SEARCH}/api/v1/nodes/absent")).await;
    assert_eq!(
        (code, list["kind"].as_str(), &list["items"]),
        (200, Some("NodeList"), &json!([]))
    );
}

#[tokio::test]
async fn an_unregistered_resource_is_not_found_with_a_remedy() {
    let app = empty_app();
    let clusters = "/apis/search.fleetdex.io/v1alpha1/clusters";
    let refused = [
        format!("{SEARCH}/api/v1/secrets"),
        format!("{SEARCH}/apis/apps/latest/deployments"),
        format!("{SEARCH}/api/v1/namespaces/web/nodes"),
        format!("{clusters}/member9/api/v1/pods"),
        format!("{clusters}/member2/api/v1/nodes"),
    ];
    let mut messages = Vec::new();
    for path in refused {
        messages.push(refusal(&app, &path).await);
    }
    insta::assert_snapshot!(messages.join("\n"), @r#"
    404 NotFound: no ResourceRegistry selects secrets: add it to spec.resourceSelectors of one (workloads)
    404 NotFound: deployments.apps is not registered in version latest, but in v1, v1beta1
    404 NotFound: nodes are not namespaced
    404 NotFound: clusters.search.fleetdex.io "member9" not found: no ResourceRegistry selects a member of this name
    404 NotFound: no ResourceRegistry selects nodes of cluster member2
    "#);
}

#[tokio::test]
async fn any_version_of_the_group_finds_the_objects_with_a_warning_about_their_versions() {
    let app = empty_app();
    let mut lines = Vec::new();
    for path in [
        "v1/deployments",
        "v1beta1/deployments",
        "v2/deployments",
        "v1/deployments?clusters=member2",
    ] {
        let response = send(&app, get(&format!("{SEARCH}/apis/apps/{path}"))).await;
        let warnings = warnings_of(&response);
        let api_version = body(response).await["apiVersion"]
            .as_str()
            .unwrap()
            .to_owned();
        lines.push(format!("{path}: {api_version}: {}", warnings.join("; ")));
    }
    insta::assert_snapshot!(lines.join("\n"), @r#"
    v1/deployments: apps/v1: 299 - "deployments.apps of cluster member1 are in version v1beta1, not v1"
    v1beta1/deployments: apps/v1beta1: 299 - "deployments.apps of cluster member2 are in version v1, not v1beta1"
    v2/deployments: apps/v2: 299 - "deployments.apps of cluster member2 are in version v1, not v2"; 299 - "deployments.apps of cluster member1 are in version v1beta1, not v2"
    v1/deployments?clusters=member2: apps/v1: 
    "#);
}

#[tokio::test]
async fn registries_that_may_not_be_read_are_not_reported_as_absent() {
    let problem = "fleetdex may not list ResourceRegistry objects";
    let app = app(Catalog::without_registries(problem));
    for path in ["search/api/v1/pods", "objects", "aggregate/api/v1/pods"] {
        let path = format!("/apis/search.fleetdex.io/v1alpha1/{path}");
        assert_eq!(
            refusal(&app, &path).await,
            format!("503 ServiceUnavailable: {problem}"),
            "{path}"
        );
    }
}

#[tokio::test]
async fn without_any_registry_the_error_says_to_create_one() {
    assert_eq!(
        refusal(&app(Catalog::default()), PODS).await,
        "404 NotFound: no ResourceRegistry selects pods: there is no ResourceRegistry yet; create one"
    );
}

#[tokio::test]
async fn invalid_selectors_are_refused_with_their_position() {
    let app = empty_app();
    let mut messages = Vec::new();
    for query in [
        "labelSelector=a+in+(b",
        "fieldSelector=spec.color%3Dred",
        "namespaces=web",
    ] {
        let resource = if query.starts_with("namespaces") {
            "nodes"
        } else {
            "pods"
        };
        messages.push(refusal(&app, &format!("{SEARCH}/api/v1/{resource}?{query}")).await);
    }
    insta::assert_snapshot!(messages.join("\n"), @r#"
    400 BadRequest: parameter labelSelector: "a in (b": at character 8: found end of text, expected a value, ',' or ')'
    400 BadRequest: parameter fieldSelector: field label not supported: spec.color; these are: metadata.name, metadata.namespace, spec.host, spec.hostNetwork, spec.nodeName, spec.restartPolicy, spec.schedulerName, spec.serviceAccountName, status.nominatedNodeName, status.phase, status.podIP, status.podIPs; spec.backendStore.openSearch.fieldPaths of a ResourceRegistry makes others selectable
    400 BadRequest: parameter namespaces: nodes are not namespaced
    "#);
}

#[tokio::test]
async fn errors_of_the_store_become_statuses_that_clients_act_on() {
    let unreachable = StoreError::Unreachable {
        address: "http://os:9200".to_owned(),
        reason: "refused".to_owned(),
    };
    let busy = StoreError::Busy {
        status: 429,
        reason: "queue full".to_owned(),
    };
    let main = PreparedReader::with(vec![Err(StoreError::Expired), Err(unreachable), Err(busy)]);
    let app = app(catalog(main));
    assert!(
        refusal(&app, PODS)
            .await
            .starts_with("410 Expired: the continue token has expired")
    );
    assert!(
        refusal(&app, PODS)
            .await
            .starts_with("503 ServiceUnavailable: the store cannot be reached")
    );
    let overloaded = send(&app, get(PODS)).await;
    assert_eq!(overloaded.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(overloaded.headers()["retry-after"], "1");
}

#[tokio::test]
async fn an_error_after_the_first_page_cuts_the_response_instead_of_ending_it() {
    let main = PreparedReader::with(vec![
        Ok(page(&["a"], Some(cursor(1)), None)),
        Err(StoreError::Expired),
    ]);
    let response = send(&app(catalog(main)), get(PODS)).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert!(response.into_body().collect().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_is_a_timeout() {
    let refused = refusal(&app(catalog(PreparedReader::hanging())), PODS).await;
    assert_eq!(
        refused,
        "504 Timeout: the store did not answer within 30 s; ask for less, or try again"
    );
}

#[tokio::test]
async fn stale_and_unknown_clusters_are_named_in_warnings() {
    let mut stale = catalog(PreparedReader::with(vec![]));
    stale.add_stale(
        cluster("member2"),
        jiff::Timestamp::UNIX_EPOCH,
        "disconnected since \"yesterday\"",
    );
    let app = app(stale);
    let warnings = async |path: &str| warnings(&app, &format!("{SEARCH}/{path}")).await;
    assert_eq!(
        warnings("api/v1/pods").await,
        [r#"299 - "cluster member2 is disconnected since \"yesterday\"""#]
    );
    assert_eq!(warnings("api/v1/pods?clusters=member1").await, [""; 0]);
    assert_eq!(
        warnings("api/v1/nodes?clusters=member1,member2").await,
        [r#"299 - "no ResourceRegistry selects nodes of cluster member2""#]
    );
}

#[tokio::test]
async fn gaps_of_a_result_are_named_in_warnings_of_bounded_length() {
    let mut partial = catalog(PreparedReader::with(vec![]));
    let pods = ResourceName::new("", "pods");
    partial.add_gap(
        (cluster("member1"), None),
        pods.clone(),
        "pods of cluster member1 are not shown".to_owned(),
    );
    partial.add_gap(
        (cluster("member2"), Some("db".parse().unwrap())),
        pods,
        format!("pods in db: {}", "x".repeat(2_000)),
    );
    partial.add_undiscovered(cluster("member3"), "not read".to_owned());
    let app = app(partial);
    let warnings = async |path: &str| warnings(&app, &format!("{SEARCH}/{path}")).await;
    let not_shown = r#"299 - "pods of cluster member1 are not shown""#;
    let not_known = r#"299 - "whether cluster member3 has pods is not known: it is not read""#;
    let all = warnings("api/v1/pods").await;
    assert_eq!(
        (all[0].as_str(), all[2].as_str(), all.len()),
        (not_shown, not_known, 3)
    );
    assert!(
        all[1].starts_with(r#"299 - "pods in db: xxx"#) && all[1].len() < 600,
        "{}",
        all[1]
    );
    assert_eq!(
        warnings("api/v1/namespaces/web/pods").await,
        [not_shown, not_known]
    );
    assert_eq!(warnings("api/v1/pods?clusters=member1").await, [not_shown]);
    assert_eq!(
        warnings("api/v1/pods?clusters=member2&namespaces=web").await,
        [""; 0]
    );
    assert_eq!(
        refusal(&app, &format!("{SEARCH}/api/v1/secrets")).await,
        "404 NotFound: secrets are not known yet: cluster member3, which may have them, is not read"
    );
}

#[tokio::test]
async fn a_list_of_clusters_without_the_resource_is_empty() {
    let main = PreparedReader::with(vec![Ok(page(&["wrong"], None, None))]);
    let (code, list) = fetch(
        &app_of(&main),
        &format!("{SEARCH}/api/v1/nodes?clusters=member2"),
    )
    .await;
    assert_eq!((code, &list["items"]), (200, &json!([])));
    assert!(main.asked().is_empty());
}

#[tokio::test]
async fn unknown_paths_are_not_found_as_with_an_apiserver() {
    let app = empty_app();
    let mut lines = Vec::new();
    for path in [
        "search/api/v1/nothings",
        "search/apis/nowhere.example.com/v1/things",
        "search/opensearch/api/v1/nothings",
        "search/things",
        "search/api/v1/namespaces/web/pods/a/log",
        "clusters/member1/api/v1/nothings",
        "clusters/moon/api/v1/pods",
        "search/api/v1/pods?clusters=member1,moon",
        "search/api/v1/pods?clusters=moon&watch=true",
        "aggregate/api/v1/pods?by=cluster&clusters=moon",
        "proxying/karmada/proxy/api/v1/pods?clusters=moon",
        "proxying/karmada/proxy/clusters/moon/version",
    ] {
        lines.push(refusal(&app, &format!("/apis/search.fleetdex.io/v1alpha1/{path}")).await);
    }
    insta::assert_snapshot!(lines.join("\n"), @r#"
    404 NotFound: no ResourceRegistry selects nothings: add it to spec.resourceSelectors of one (workloads)
    404 NotFound: no ResourceRegistry selects things.nowhere.example.com: add it to spec.resourceSelectors of one (workloads)
    404 NotFound: no ResourceRegistry selects nothings: add it to spec.resourceSelectors of one (workloads)
    404 NotFound: path "/apis/search.fleetdex.io/v1alpha1/search/things" names no resource; it must end with a path such as api/v1/pods or apis/apps/v1/namespaces/default/deployments
    404 NotFound: path "/apis/search.fleetdex.io/v1alpha1/search/api/v1/namespaces/web/pods/a/log": subresource "log" is not in the index, only objects are
    404 NotFound: no ResourceRegistry selects nothings: add it to spec.resourceSelectors of one (workloads)
    404 NotFound: clusters.search.fleetdex.io "moon" not found: no ResourceRegistry selects a member of this name
    404 NotFound: clusters.search.fleetdex.io "moon" not found: no ResourceRegistry selects a member of this name
    404 NotFound: clusters.search.fleetdex.io "moon" not found: no ResourceRegistry selects a member of this name
    404 NotFound: clusters.search.fleetdex.io "moon" not found: no ResourceRegistry selects a member of this name
    404 NotFound: clusters.search.fleetdex.io "moon" not found: no ResourceRegistry selects a member of this name
    404 NotFound: clusters.search.fleetdex.io "moon" not found: no ResourceRegistry selects a member of this name
    "#);
}

#[tokio::test]
async fn all_stores_with_a_part_are_queried_unless_the_client_names_one() {
    let (main, other) = (PreparedReader::with(vec![]), PreparedReader::with(vec![]));
    let mut two = catalog(main.clone());
    two.add_store(store("other"), other.clone());
    add(&mut two, "other", "member3", &pods());
    let app = app(two);
    assert_eq!(
        refusal(&app, &format!("{PODS}?store=third")).await,
        "400 BadRequest: parameter store: third does not hold pods; these do: main, other"
    );
    fetch(&app, &format!("{PODS}?clusters=member3")).await;
    assert_eq!((main.asked().len(), other.asked().len()), (0, 1));
    fetch(&app, &format!("{PODS}?store=main")).await;
    assert_eq!((main.asked().len(), other.asked().len()), (1, 1));
    fetch(&app, PODS).await;
    assert_eq!((main.asked().len(), other.asked().len()), (2, 2));
    assert_eq!(
        main.asked()[1].0.clusters,
        [cluster("member1"), cluster("member2")]
    );
    assert_eq!(other.asked()[1].0.clusters, [cluster("member3")]);
}

#[tokio::test]
async fn only_the_token_opens_anything_but_health() {
    let app = empty_app();
    for path in [PODS, "/version", "/apis", "/nowhere"] {
        let anonymous = send(&app, Request::get(path).body(Body::empty()).unwrap()).await;
        assert_eq!(anonymous.status(), StatusCode::UNAUTHORIZED, "{path}");
        assert_eq!(anonymous.headers()["www-authenticate"], "Bearer");
        assert_eq!(body(anonymous).await["reason"], "Unauthorized");
    }
    let health = send(&app, Request::get("/healthz").body(Body::empty()).unwrap()).await;
    assert_eq!(health.status(), StatusCode::OK);
    let ready = send(&app, Request::get("/readyz").body(Body::empty()).unwrap()).await;
    assert_eq!(ready.status(), StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn unserved_methods_and_media_types_are_statuses_too() {
    let app = empty_app();
    let authorized = |method: &str| {
        Request::builder()
            .method(method)
            .uri(PODS)
            .header("authorization", "Bearer secret")
    };
    let post = send(&app, authorized("POST").body(Body::from("{}")).unwrap()).await;
    assert_eq!(
        (post.status(), &post.headers()["allow"].clone()),
        (StatusCode::METHOD_NOT_ALLOWED, &"GET".parse().unwrap())
    );
    assert_eq!(body(post).await["reason"], "MethodNotAllowed");
    let accept = async |media: &str| {
        send(
            &app,
            authorized("GET")
                .header("accept", media)
                .body(Body::empty())
                .unwrap(),
        )
        .await
        .status()
        .as_u16()
    };
    let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    assert_eq!(accept(kubectl).await, 200);
    assert_eq!(accept("*/*").await, 200);
    assert_eq!(accept("application/vnd.kubernetes.protobuf").await, 406);
    assert_eq!(
        accept("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io").await,
        406
    );
}

#[tokio::test]
async fn options_and_head_are_served() {
    let app = app(catalog(PreparedReader::with(vec![Ok(page(
        &["a"],
        None,
        None,
    ))])));
    let ask = async |method: &str, path: &str| {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("authorization", "Bearer secret");
        let response = send(&app, request.body(Body::empty()).unwrap()).await;
        let allow = response
            .headers()
            .get("allow")
            .map(|value| value.to_str().unwrap().to_owned());
        (response.status().as_u16(), allow.unwrap_or_default())
    };
    assert_eq!(
        ask("OPTIONS", PODS).await,
        (204, "GET, HEAD, OPTIONS".to_owned())
    );
    assert_eq!(
        ask("OPTIONS", "/apis/search.fleetdex.io/v1alpha1/verify").await,
        (204, "POST, OPTIONS".to_owned())
    );
    assert_eq!(ask("OPTIONS", "/nowhere").await.0, 404);
    assert_eq!(ask("HEAD", PODS).await.0, 200);
}

#[tokio::test]
async fn unknown_parameters_are_ignored_with_a_warning_each() {
    let app = empty_app();
    let warnings = async |path: &str| warnings(&app, path).await;
    let color = r#"299 - "unknown parameter \"color\" is ignored""#;
    let counts = "/apis/search.fleetdex.io/v1alpha1/aggregate/api/v1/pods";
    for path in [
        format!("{SEARCH}/api/v1/pods"),
        "/version".to_owned(),
        "/apis".to_owned(),
    ] {
        assert_eq!(
            warnings(&format!("{path}?color=red&pretty=true")).await,
            [color],
            "{path}"
        );
    }
    let main = counting(vec![], 0, 0);
    let counting = send(
        &self::app(catalog(main)),
        get(&format!("{counts}?color=red")),
    )
    .await;
    assert_eq!(counting.headers()["warning"], color);
    let many: Vec<String> = (0..20)
        .map(|number| format!("p{number}{}=1", "x".repeat(100)))
        .collect();
    let shown = warnings(&format!("{PODS}?{}", many.join("&"))).await;
    assert_eq!(
        (shown.len(), shown[16].as_str()),
        (17, r#"299 - "4 more unknown parameters are ignored""#)
    );
    assert!(shown[0].len() < 120, "{}", shown[0]);
}

#[tokio::test]
async fn a_table_or_yaml_is_sent_to_clients_that_accept_it() {
    let fetch_as = async |media: &str| {
        let main = PreparedReader::with(vec![
            Ok(page(&["a"], Some(cursor(1)), None)),
            Ok(page(&["b"], None, None)),
        ]);
        let request = get_with(&format!("{SEARCH}/api/v1/nodes"), "accept", media);
        let response = send(&app(catalog(main)), request).await;
        let media_type = response.headers()["content-type"]
            .to_str()
            .unwrap()
            .to_owned();
        let bytes = bytes(response).await;
        format!(
            "{media_type}\n{}",
            String::from_utf8(bytes.to_vec()).unwrap()
        )
    };
    let table = fetch_as("application/json;as=Table;v=v1;g=meta.k8s.io,application/json").await;
    assert!(
        table
            .starts_with("application/json\n{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/v1\""),
        "{table}"
    );
    assert!(
        table.contains(r#"["member1","b","Unknown","<none>","<unknown>""#),
        "{table}"
    );
    insta::assert_snapshot!(fetch_as("application/yaml").await, @r#"
    application/yaml
    kind: NodeList
    apiVersion: v1
    metadata:
      resourceVersion: "720856573542465536"
    items:
    - metadata:
        name: a
    - metadata:
        name: b
    "#);
}

#[tokio::test]
async fn a_response_that_the_client_has_already_is_not_sent_again() {
    let main = PreparedReader::with(
        (0..4)
            .map(|_| Ok(page(&["a"], None, None)))
            .chain([Ok(page(&["b"], None, None))])
            .collect(),
    );
    let app = app(catalog(main));
    let ask = async |path: &str, method: &str, known: &str| {
        let mut request = get_with(path, "if-none-match", known);
        *request.method_mut() = method.parse().unwrap();
        let response = send(&app, request).await;
        let tag = response.headers()["etag"].to_str().unwrap().to_owned();
        (response.status().as_u16(), tag, bytes(response).await.len())
    };
    let (code, tag, length) = ask(PODS, "GET", "").await;
    assert!(
        code == 200 && length > 0 && tag.starts_with("W/\""),
        "{code} {tag} {length}"
    );
    assert_eq!(ask(PODS, "GET", &tag).await, (304, tag.clone(), 0));
    assert_eq!(ask(PODS, "HEAD", &tag).await, (304, tag.clone(), 0));
    assert_eq!(
        ask(PODS, "GET", "W/\"other\"").await,
        (200, tag.clone(), length)
    );
    assert_ne!(
        ask(PODS, "GET", &tag).await.1,
        tag,
        "the objects are others now"
    );
    let (code, tag, _) = ask("/apis", "GET", "").await;
    assert_eq!((code, ask("/apis", "GET", &tag).await.0), (200, 304));
}

#[tokio::test]
async fn large_responses_are_compressed_for_clients_that_accept_it() {
    let names: Vec<String> = (0..5_000)
        .map(|number| format!("a-rather-long-name-of-a-pod-{number}"))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let ask = async |count: usize, accepted: &str| {
        let main = PreparedReader::with(vec![Ok(page(&names[..count], None, None))]);
        let request = get_with(PODS, "accept-encoding", accepted);
        let response = send(&app(catalog(main)), request).await;
        let encoding = response
            .headers()
            .get("content-encoding")
            .map(|value| value.to_str().unwrap().to_owned());
        (encoding, bytes(response).await)
    };
    let (encoding, plain) = ask(5_000, "identity").await;
    assert!(encoding.is_none() && plain.len() > 128 * 1024);
    let (encoding, packed) = ask(5_000, "gzip, deflate, br").await;
    assert!(
        encoding.as_deref() == Some("gzip") && packed.len() < plain.len() / 4,
        "{encoding:?} {}",
        packed.len()
    );
    let mut unpacked = Vec::new();
    std::io::Read::read_to_end(
        &mut flate2::read::GzDecoder::new(&packed[..]),
        &mut unpacked,
    )
    .unwrap();
    assert_eq!(unpacked, plain);
    assert_eq!(ask(10, "gzip").await.0, None);
}

/// The config maps of member1, as the plan has them in the store `main`.
fn followed(world: &AuditFixture) -> PlannedStream {
    PlannedStream {
        unit: world.audit.unit.clone(),
        store: store("main"),
        audit: Ok(Arc::clone(&world.audit)),
    }
}

async fn verify(app: &Router, query: &str) -> (u16, String) {
    let request = Request::post(format!("/apis/search.fleetdex.io/v1alpha1/verify{query}"));
    let response = send(
        app,
        request
            .header("authorization", "Bearer secret")
            .body(Body::empty())
            .unwrap(),
    )
    .await;
    let code = response.status().as_u16();
    let bytes = bytes(response).await;
    (code, String::from_utf8(bytes.to_vec()).unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_verification_has_a_line_for_every_kind_and_one_at_the_end() {
    let (clean, drifted) = (
        AuditFixture::new("member1").await,
        AuditFixture::new("member2").await,
    );
    clean.has(&[("a", 3)]);
    clean.stores(&[("a", 3)]);
    drifted.has(&[("a", 3), ("b", 4)]);
    drifted.stores(&[("b", 2), ("c", 1)]);
    let mut catalog = Catalog::default();
    catalog.add_stream(followed(&clean));
    catalog.add_stream(followed(&drifted));
    let lost = AuditFixture::new("member3").await;
    catalog.add_stream(PlannedStream {
        audit: Err(NoAudit::NotRunning(
            "the cluster is disconnected".to_owned(),
        )),
        ..followed(&lost)
    });
    catalog.add_incomplete(cluster("member4"), store("main"));
    let app = app(catalog);
    let (code, text) = verify(&app, "").await;
    assert_eq!(code, 200);
    let mut lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.pop(), Some(r#"{"end":{"rows":4}}"#));
    lines.sort_unstable();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    {"row":{"cluster":"member1","apiVersion":"v1","kind":"ConfigMap","store":"main","result":"OK","objects":1,"documents":1,"missing":0,"differing":0,"surplus":0}}
    {"row":{"cluster":"member2","apiVersion":"v1","kind":"ConfigMap","store":"main","result":"Drift","objects":2,"documents":2,"missing":1,"differing":1,"surplus":1,"examples":["v1/ConfigMap/b","v1/ConfigMap/c","v1/ConfigMap/a"]}}
    {"row":{"cluster":"member3","apiVersion":"v1","kind":"ConfigMap","store":"main","result":"NotVerified","reason":"the cluster is disconnected"}}
    {"row":{"cluster":"member4","store":"main","result":"NotVerified","reason":"not all of the kinds that should be stored are known; the status of its registries says why"}}
    "#);
    let (_, of_one) = verify(&app, "?clusters=member1").await;
    assert_eq!(of_one.lines().count(), 2, "{of_one}");
    let again = verify(&app, "?clusters=member2").await.1;
    assert!(again.contains("about to be restarted"), "{again}");
}

#[tokio::test(start_paused = true)]
async fn a_long_verification_reports_its_progress() {
    let world = AuditFixture::new("member1").await;
    world.member.lock().delay = std::time::Duration::from_secs(25);
    let mut catalog = Catalog::default();
    catalog.add_stream(followed(&world));
    let (_, text) = verify(&app(catalog), "").await;
    let lines: Vec<ReportLine> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let progress = ReportLine::Progress { done: 0, total: 1 };
    assert_eq!(lines[..2], [progress.clone(), progress], "{text}");
    assert_eq!(lines.len(), 4, "{text}");
}

#[tokio::test]
async fn only_indexed_clusters_can_be_verified_and_only_with_post() {
    let app = empty_app();
    let (code, text) = verify(&app, "?clusters=member9").await;
    assert!(
        code == 404 && text.contains("no ResourceRegistry selects a member of this name"),
        "{code} {text}"
    );
    assert_eq!(
        verify(&app, "").await,
        (200, "{\"end\":{\"rows\":0}}\n".to_owned())
    );
    let read = send(&app, get("/apis/search.fleetdex.io/v1alpha1/verify")).await;
    assert_eq!(
        (
            read.status().as_u16(),
            read.headers()["allow"].to_str().unwrap()
        ),
        (405, "POST")
    );
}

#[tokio::test]
async fn discovery_lists_the_registered_resources_as_an_apiserver_would() {
    let app = empty_app();
    let proxy = "/apis/search.fleetdex.io/v1alpha1/proxying/karmada/proxy";
    let mut documents = Vec::new();
    for path in [
        "api",
        "apis",
        "apis/apps",
        "api/v1",
        "apis/apps/v1",
        "apis/apps/v1beta1",
    ] {
        let (code, document) = fetch(&app, &format!("{proxy}/{path}?timeout=32s")).await;
        documents.push(format!("{code} {document}"));
    }
    insta::assert_snapshot!(documents.join("\n"), @r#"
    200 {"apiVersion":"v1","kind":"APIVersions","serverAddressByClientCIDRs":[],"versions":["v1"]}
    200 {"apiVersion":"v1","kind":"APIGroupList","groups":[{"apiVersion":"v1","kind":"APIGroup","name":"apps","preferredVersion":{"groupVersion":"apps/v1","version":"v1"},"versions":[{"groupVersion":"apps/v1","version":"v1"},{"groupVersion":"apps/v1beta1","version":"v1beta1"}]}]}
    200 {"apiVersion":"v1","kind":"APIGroup","name":"apps","preferredVersion":{"groupVersion":"apps/v1","version":"v1"},"versions":[{"groupVersion":"apps/v1","version":"v1"},{"groupVersion":"apps/v1beta1","version":"v1beta1"}]}
    200 {"apiVersion":"v1","kind":"APIResourceList","groupVersion":"v1","resources":[{"kind":"Node","name":"nodes","namespaced":false,"shortNames":["no"],"singularName":"node","verbs":["create","delete","get","list","patch","update","watch"]},{"kind":"Pod","name":"pods","namespaced":true,"shortNames":["po"],"singularName":"pod","verbs":["create","delete","get","list","patch","update","watch"]}]}
    200 {"apiVersion":"v1","kind":"APIResourceList","groupVersion":"apps/v1","resources":[{"kind":"Deployment","name":"deployments","namespaced":true,"shortNames":["deploy"],"singularName":"deployment","verbs":["create","delete","get","list","patch","update","watch"]}]}
    200 {"apiVersion":"v1","kind":"APIResourceList","groupVersion":"apps/v1beta1","resources":[{"kind":"Deployment","name":"deployments","namespaced":true,"shortNames":["deploy"],"singularName":"deployment","verbs":["create","delete","get","list","patch","update","watch"]}]}
    "#);
    assert_eq!(
        refusal(&app, &format!("{proxy}/apis/batch/v1")).await,
        "404 NotFound: the server could not find /apis/batch/v1"
    );
    assert_eq!(
        refusal(&app, &format!("{proxy}/apis/batch")).await,
        "404 NotFound: the server could not find /apis/batch"
    );
}

#[tokio::test]
async fn the_servers_own_groups_are_discoverable() {
    let app = app(Catalog::default());
    let mut documents = Vec::new();
    for path in [
        "/apis",
        "/apis/search.karmada.io",
        "/apis/search.fleetdex.io/v1alpha1",
    ] {
        documents.push(fetch(&app, path).await.1.to_string());
    }
    insta::assert_snapshot!(documents.join("\n"), @r#"
    {"apiVersion":"v1","kind":"APIGroupList","groups":[{"apiVersion":"v1","kind":"APIGroup","name":"search.fleetdex.io","preferredVersion":{"groupVersion":"search.fleetdex.io/v1alpha1","version":"v1alpha1"},"versions":[{"groupVersion":"search.fleetdex.io/v1alpha1","version":"v1alpha1"}]},{"apiVersion":"v1","kind":"APIGroup","name":"search.karmada.io","preferredVersion":{"groupVersion":"search.karmada.io/v1alpha1","version":"v1alpha1"},"versions":[{"groupVersion":"search.karmada.io/v1alpha1","version":"v1alpha1"}]}]}
    {"apiVersion":"v1","kind":"APIGroup","name":"search.karmada.io","preferredVersion":{"groupVersion":"search.karmada.io/v1alpha1","version":"v1alpha1"},"versions":[{"groupVersion":"search.karmada.io/v1alpha1","version":"v1alpha1"}]}
    {"apiVersion":"v1","kind":"APIResourceList","groupVersion":"search.fleetdex.io/v1alpha1","resources":[{"kind":"Aggregate","name":"aggregate","namespaced":false,"singularName":"aggregate","verbs":[]},{"kind":"Cluster","name":"clusters","namespaced":false,"singularName":"cluster","verbs":[]},{"kind":"SearchCompletions","name":"completions","namespaced":false,"singularName":"searchcompletions","verbs":["list"]},{"kind":"ImageCount","name":"images","namespaced":false,"singularName":"imagecount","verbs":["list"]},{"kind":"Interpretation","name":"interpret","namespaced":false,"singularName":"interpretation","verbs":["create"]},{"kind":"MergedObject","name":"merged","namespaced":false,"singularName":"mergedobject","verbs":[]},{"kind":"ObjectSearch","name":"objects","namespaced":false,"singularName":"objectsearch","verbs":["list"]},{"kind":"Proxying","name":"proxying","namespaced":false,"singularName":"proxying","verbs":[]},{"kind":"RelatedObject","name":"related","namespaced":false,"singularName":"relatedobject","verbs":[]},{"kind":"Search","name":"search","namespaced":false,"singularName":"search","verbs":[]},{"kind":"Verification","name":"verify","namespaced":false,"singularName":"verification","verbs":["create"]}]}
    "#);
    let mut wanting = get("/apis");
    wanting.headers_mut().insert(
        "accept",
        crate::render::group_discovery::AGGREGATED_TYPE
            .parse()
            .unwrap(),
    );
    let together = send(&app, wanting).await;
    assert_eq!(
        together.headers()["content-type"],
        crate::render::group_discovery::AGGREGATED_TYPE
    );
    assert_eq!(body(together).await["kind"], "APIGroupDiscoveryList");
    for path in [
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/apis/search.fleetdex.io/v1alpha1?hash=a",
    ] {
        assert_eq!(code(&app, path).await, 200, "{path}");
    }
    let (_, version) = fetch(&app, "/version").await;
    assert_eq!(
        version["gitVersion"],
        concat!("v", env!("CARGO_PKG_VERSION"))
    );
}

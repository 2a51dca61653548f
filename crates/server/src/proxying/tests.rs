//! Requests below `proxying/karmada/proxy`, with members on local ports.

use std::{sync::Arc, time::Duration};

use axum::{body::Body, response::Response};
use fleetdex_core::{
    model::{Interpretation, interpreted_fields},
    query::{Hit, Page},
};
use fleetdex_limits::{
    computing::ComputingTurns,
    intake::Budget,
    request::{MEMORY, UserRequest},
};
use fleetdex_store::fake::PreparedReader;
use fleetdex_telemetry::Readiness;
use futures::StreamExt as _;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_util::sync::CancellationToken;

use super::fake::{
    FakeFleet, PROXY, ReceivedRequest, TestResponse, alice, hit, refusal, reply, respond_as, send,
    send_body,
};
use crate::{
    api_error::ApiError,
    auth::caller::Caller,
    catalog::{Catalog, CatalogEntry},
    fake::{catalog, cluster, page, pods, store},
    http::{api_state::ApiState, listen::Listener, serve::router},
    limits::MAX_BODY_BYTES,
};

const POD: &str = "/api/v1/namespaces/web/pods/p";

fn pod() -> Value {
    json!({ "kind": "Pod", "apiVersion": "v1", "metadata": { "name": "p", "namespace": "web", "resourceVersion": "7" }, "spec": { "x": 1.50 } })
}

const JSON: (&str, &str) = ("content-type", "application/json");

async fn served(api: &ApiState, line: &str) -> TestResponse {
    send(api, line, &[], "").await.unwrap()
}

async fn served_with(
    api: &ApiState,
    line: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> TestResponse {
    send(api, line, headers, body).await.unwrap()
}

async fn refusal_of(api: &ApiState, line: &str) -> String {
    refusal(api, line, &[], "").await
}

async fn refusal_code(api: &ApiState, line: &str) -> String {
    let refused = refusal_of(api, line).await;
    refused.split(' ').next().unwrap().to_owned()
}

/// The request lines that members have received.
fn received_lines(fleet: &FakeFleet) -> Vec<String> {
    fleet.received().into_iter().map(|seen| seen.line).collect()
}

fn found(clusters: &[&str]) -> Page {
    Page {
        items: clusters.iter().map(|name| hit(name, &pod())).collect(),
        ..Page::default()
    }
}

/// A fleet whose members answer every user with the pod, and what the index says, search by search.
async fn fleet(pages: Vec<Page>) -> (FakeFleet, ApiState) {
    fleet_with(pages, |_| reply(200, &pod())).await
}

async fn fleet_with(
    pages: Vec<Page>,
    handler: impl Fn(&ReceivedRequest) -> Response + Send + Sync + 'static,
) -> (FakeFleet, ApiState) {
    let fleet = FakeFleet::start(handler).await;
    let mut catalog = catalog(PreparedReader::with(pages.into_iter().map(Ok).collect()));
    crate::fake::add(&mut catalog, "main", "member3", &crate::fake::pods());
    let api = fleet.api(catalog);
    (fleet, api)
}

#[tokio::test]
async fn a_get_is_forwarded_as_the_caller_and_identity_headers_of_the_client_are_dropped() {
    let (fleet, api) = fleet(vec![found(&["member2"])]).await;
    let hostile = [
        ("impersonate-user", "root"),
        ("impersonate-group", "system:masters"),
        ("x-remote-user", "root"),
        ("authorization", "Bearer secret"),
        ("cookie", "a=b"),
    ];
    let sent = served_with(
        &api,
        &format!("GET {POD}?timeout=5s&resourceVersion=720000000000000001"),
        &hostile,
        "",
    )
    .await;
    let version = sent.json()["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(version.parse::<u64>().unwrap() > 1 << 50, "{version}");
    assert_eq!(
        sent.body.trim_end().replace(&version, "FLEET"),
        r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"web","resourceVersion":"FLEET","annotations":{"resource.karmada.io/cached-from-cluster":"member2","fleetdex.io/resource-version":"7"}},"spec":{"x":1.5}}"#
    );
    let seen = fleet.received().pop().unwrap();
    assert_eq!(seen.line, format!("GET {POD}?timeout=5s"));
    let mut headers = seen.headers.clone();
    for of_http in ["host", "user-agent", "accept-encoding"] {
        headers.remove(of_http);
    }
    insta::assert_json_snapshot!(headers, @r#"
    {
      "accept": "application/json",
      "authorization": "Bearer member-token",
      "impersonate-extra-scopes": "view",
      "impersonate-group": "dev",
      "impersonate-user": "alice"
    }
    "#);
}

#[tokio::test]
async fn a_name_in_no_cluster_is_not_found_and_one_in_several_is_a_conflict_that_names_them() {
    let (fleet, api) = fleet(vec![
        found(&[]),
        found(&["member2", "member1"]),
        found(&["member1"]),
    ])
    .await;
    assert_eq!(
        refusal_of(&api, &format!("GET {POD}")).await,
        r#"404 pods "p" not found"#
    );
    let error = send(&api, &format!("DELETE {POD}"), &[], "")
        .await
        .err()
        .unwrap();
    insta::assert_json_snapshot!(error.status(), @r#"
    {
      "apiVersion": "v1",
      "kind": "Status",
      "code": 409,
      "details": {
        "causes": [
          {
            "field": "cluster",
            "message": "member1",
            "reason": "FieldValueDuplicate"
          },
          {
            "field": "cluster",
            "message": "member2",
            "reason": "FieldValueDuplicate"
          }
        ],
        "kind": "pods",
        "name": "p"
      },
      "message": "pods \"p\" is in several clusters: member1, member2; name one cluster with the parameter clusters, or use …/proxying/karmada/proxy/clusters/<cluster> as the server",
      "metadata": {},
      "reason": "Conflict",
      "status": "Failure"
    }
    "#);
    assert!(fleet.received().is_empty());
    served(&api, &format!("GET {POD}?clusters=member1")).await;
    served(
        &api,
        &format!("DELETE /clusters/member2{POD}?gracePeriodSeconds=0"),
    )
    .await;
    assert_eq!(
        received_lines(&fleet),
        [
            format!("GET {POD}"),
            format!("DELETE {POD}?gracePeriodSeconds=0")
        ]
    );
}

/// After a 404 in a namespace, kubectl asks for the namespace, and shows a 404 of that instead.
#[tokio::test]
async fn a_namespace_exists_if_the_index_has_objects_in_it() {
    let (fleet, api) = fleet(vec![found(&[]), found(&["member1"])]).await;
    let gone = refusal_of(&api, "GET /api/v1/namespaces/web/pods/gone").await;
    assert_eq!(gone, r#"404 pods "gone" not found"#);
    let namespace = send(&api, "GET /api/v1/namespaces/web", &[], "").await;
    let namespace = namespace.unwrap();
    assert_eq!(
        (namespace.code, namespace.json()),
        (
            200,
            json!({ "kind": "Namespace", "apiVersion": "v1", "metadata": { "name": "web" } })
        )
    );
    let mut refused = Vec::new();
    for line in [
        "GET /api/v1/namespaces/nowhere",
        "GET /clusters/member1/api/v1/namespaces/nowhere",
        "GET /clusters/member9/api/v1/namespaces/web",
        "DELETE /api/v1/namespaces/web",
    ] {
        refused.push(refusal_of(&api, line).await);
    }
    insta::assert_snapshot!(refused.join("\n"), @r#"
    404 namespaces "nowhere" not found: no object of the index that you may list is in it
    404 namespaces "nowhere" not found: no object of the index that you may list is in it
    404 clusters.search.fleetdex.io "member9" not found: no ResourceRegistry selects a member of this name
    404 no ResourceRegistry selects namespaces: add it to spec.resourceSelectors of one (workloads)
    "#);
    assert!(fleet.received().is_empty());
}

#[tokio::test]
async fn a_request_that_cannot_go_to_one_member_is_refused_with_a_remedy() {
    let (fleet, api) = fleet(vec![]).await;
    let pods = "/api/v1/namespaces/web/pods";
    let lines = [
        format!("POST {pods}"),
        format!("POST {pods}?clusters=member1,member2"),
        format!("DELETE {pods}?labelSelector=a%3Db"),
        "GET /api/v1/namespaces/web/secrets/s".to_owned(),
        "PUT /apis/x.io/v1/foos/f".to_owned(),
        format!("GET {POD}?clusters=member9"),
        format!("GET /clusters/member9{POD}"),
        format!("GET {POD}?namespaces=db"),
        "GET /api/v1/namespaces/web/nodes/n".to_owned(),
        format!("TRACE {POD}"),
    ];
    let mut refused = Vec::new();
    for line in &lines {
        refused.push(refusal(&api, line, &[], "{}").await);
    }
    insta::assert_snapshot!(refused.join("\n"), @r#"
    405 an object is created in one cluster: name one cluster with the parameter clusters, or use …/proxying/karmada/proxy/clusters/<cluster> as the server
    405 an object is created in one cluster: name one cluster with the parameter clusters, or use …/proxying/karmada/proxy/clusters/<cluster> as the server
    405 deleting pods of many clusters at once is not served; delete them by name, or ask the cluster itself
    404 no ResourceRegistry selects secrets: add it to spec.resourceSelectors of one (workloads)
    404 no ResourceRegistry selects foos.x.io: add it to spec.resourceSelectors of one (workloads)
    404 clusters.search.fleetdex.io "member9" not found: no ResourceRegistry selects a member of this name
    404 clusters.search.fleetdex.io "member9" not found: no ResourceRegistry selects a member of this name
    400 parameter namespaces: it is for lists, and this request is for one object
    404 nodes are not namespaced
    405 method TRACE is not served here; use GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS
    "#);
    assert!(fleet.received().is_empty());
}

#[tokio::test]
async fn head_and_options_are_served() {
    let (fleet, api) = fleet(vec![found(&["member1"])]).await;
    let methods = served(&api, &format!("OPTIONS {POD}")).await;
    assert_eq!(
        (methods.code, &methods.response.headers["allow"]),
        (
            204,
            &"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
                .parse()
                .unwrap()
        )
    );
    assert!(fleet.received().is_empty());
    assert_eq!(served(&api, &format!("HEAD {POD}")).await.code, 200);
    // Behind a proxy every method is the other side's.
    served(&api, &format!("OPTIONS /clusters/member1{POD}/proxy/x")).await;
    assert_eq!(
        received_lines(&fleet),
        [format!("GET {POD}"), format!("OPTIONS {POD}/proxy/x")]
    );
}

#[tokio::test]
async fn an_aborted_body_is_not_reported_as_too_large() {
    let (fleet, api) = fleet(vec![]).await;
    let broken = futures::stream::iter([Ok("{"), Err(std::io::Error::other("cut off"))]);
    let error = send_body(
        &api,
        &format!("PUT {POD}?clusters=member1"),
        &[],
        Body::from_stream(broken),
    )
    .await
    .err()
    .unwrap();
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        (400, "the body of the request cannot be read: cut off")
    );
    let long = futures::stream::iter((0..4).map(|_| Ok::<_, std::io::Error>(vec![b' '; 1 << 20])));
    let error = send_body(
        &api,
        &format!("PUT {POD}?clusters=member1"),
        &[],
        Body::from_stream(long),
    )
    .await
    .err()
    .unwrap();
    assert_eq!(error.code(), 413);
    assert!(fleet.received().is_empty());
}

#[tokio::test]
async fn an_object_is_created_in_the_named_cluster() {
    let (fleet, api) = fleet_with(vec![], |_| reply(201, &pod())).await;
    let body = r#"{"metadata":{"name":"p","annotations":{"resource.karmada.io/cached-from-cluster":"member2"}}}"#;
    let sent = send(
        &api,
        "POST /api/v1/namespaces/web/pods?clusters=member1&dryRun=All",
        &[JSON],
        body,
    );
    assert_eq!(sent.await.unwrap().code, 201);
    let seen = fleet.received().pop().unwrap();
    assert_eq!(
        (seen.line.as_str(), seen.body.as_str()),
        (
            "POST /api/v1/namespaces/web/pods?dryRun=All",
            r#"{"metadata":{"name":"p"}}"#
        )
    );
}

#[tokio::test]
async fn writes_carry_member_versions_and_responses_keep_their_headers() {
    let conflict = json!({ "kind": "Status", "metadata": {}, "code": 409, "reason": "Conflict" });
    let handler = move |_: &ReceivedRequest| {
        let mut response = reply(409, &conflict);
        response
            .headers_mut()
            .insert("retry-after", "3".parse().unwrap());
        response
            .headers_mut()
            .insert("set-cookie", "a=b".parse().unwrap());
        response
    };
    let (fleet, api) = fleet_with(
        vec![
            found(&["member1"]),
            found(&["member1"]),
            found(&["member1"]),
        ],
        handler,
    )
    .await;
    let body = r#"{"metadata":{"name":"p","resourceVersion":"720000000000000001","annotations":{"fleetdex.io/resource-version":"6"}},"a":1.50}"#;
    let sent = served_with(&api, &format!("PUT {POD}"), &[JSON], body).await;
    assert_eq!(
        (sent.code, sent.json()["reason"].as_str().unwrap()),
        (409, "Conflict")
    );
    assert_eq!(sent.response.headers["retry-after"], "3");
    assert!(!sent.response.headers.contains_key("set-cookie"));
    assert_eq!(
        fleet.received().pop().unwrap().body,
        r#"{"metadata":{"name":"p","resourceVersion":"6"},"a":1.50}"#
    );
    let marked = body.replace("fleetdex.io/resource-version", "fleetdex.io/redacted");
    let refused = refusal(&api, &format!("PUT {POD}"), &[], &marked).await;
    assert!(
        refused.starts_with("409 Operation cannot be fulfilled on pods \"p\": the object carries"),
        "{refused}"
    );
    let large = "x".repeat(MAX_BODY_BYTES + 1);
    assert_eq!(
        refusal(&api, &format!("PUT {POD}"), &[], &large)
            .await
            .split(' ')
            .next(),
        Some("413")
    );
    assert_eq!(fleet.received().len(), 1);
}

#[tokio::test]
async fn an_optimistic_lock_on_an_unknown_fleet_version_is_a_conflict() {
    let (fleet, api) = fleet((0..2).map(|_| found(&["member1"])).collect()).await;
    let media = ("content-type", "application/merge-patch+json");
    let lock = r#"{"metadata":{"resourceVersion":"720000000000000001"}}"#;
    let refused = refusal(&api, &format!("PATCH {POD}"), &[media], lock).await;
    assert!(
        refused.starts_with("409") && refused.contains("latest version"),
        "{refused}"
    );
    assert!(fleet.received().is_empty());
}

#[tokio::test]
async fn the_index_answers_gets_for_an_unreachable_member_but_no_writes() {
    let (_fleet, api) = fleet(vec![found(&["member3"]), found(&["member3"])]).await;
    let sent = served(&api, &format!("GET {POD}")).await;
    let warning = sent.response.headers["warning"].to_str().unwrap();
    assert!(
        warning.contains("cluster member3 cannot be reached") && warning.contains("last seen"),
        "{warning}"
    );
    let annotations = &sent.json()["metadata"]["annotations"];
    assert!(
        annotations["fleetdex.io/answered-from-index"]
            .as_str()
            .unwrap()
            .contains("member3"),
        "{annotations}"
    );
    let refused = refusal(&api, &format!("PUT {POD}"), &[], &sent.body).await;
    assert!(
        refused.starts_with("409") && refused.contains("was answered from the index"),
        "{refused}"
    );
    let lost = refusal_of(&api, &format!("DELETE /clusters/member3{POD}")).await;
    assert!(
        lost.starts_with("503 cluster member3 cannot be reached"),
        "{lost}"
    );
}

#[tokio::test]
async fn a_refusal_of_our_own_account_does_not_read_as_one_of_the_caller() {
    let message = r#"users "alice" is forbidden: User "fleetdex" cannot impersonate resource "users" in API group """#;
    let forbidden = json!({ "kind": "Status", "code": 403, "message": message });
    let (_fleet, api) = fleet_with(vec![], move |_| reply(403, &forbidden)).await;
    let refused = refusal(&api, &format!("PUT /clusters/member1{POD}"), &[], "{}").await;
    assert!(
        refused.starts_with("503") && refused.contains("give that account the right"),
        "{refused}"
    );
    let (fleet, api) = fleet_with(vec![], |_| reply(401, &json!({}))).await;
    let refused = refusal(&api, &format!("PUT /clusters/member1{POD}"), &[], "{}").await;
    assert!(
        refused.starts_with("503") && refused.contains("refuses the credentials"),
        "{refused}"
    );
    assert_eq!(fleet.received().len(), 2, "once more with new credentials");
    let denied = json!({ "kind": "Status", "code": 403, "message": "pods \"p\" is forbidden: User \"alice\" cannot update" });
    let (_fleet, api) = fleet_with(vec![], move |_| reply(403, &denied)).await;
    assert_eq!(
        served_with(&api, &format!("PUT /clusters/member1{POD}"), &[], "{}")
            .await
            .code,
        403
    );
}

/// An answer whose body does not end.
fn endless(code: u16, begins: &'static str) -> Response {
    let begun = futures::stream::iter([Ok::<_, std::io::Error>(begins)]);
    Response::builder()
        .status(code)
        .body(Body::from_stream(begun.chain(futures::stream::pending())))
        .unwrap()
}

#[tokio::test]
async fn a_refusal_of_a_server_behind_a_proxy_is_streamed() {
    let (_fleet, api) = fleet_with(vec![], |_| endless(404, "no such page")).await;
    let request = http::Request::get(format!("{PROXY}/clusters/member1{POD}/proxy/x"))
        .body(Body::empty())
        .unwrap();
    let mut response = respond_as(&api, &alice(), request).await.unwrap();
    assert_eq!(response.status(), 404);
    assert_eq!(
        response
            .body_mut()
            .frame()
            .await
            .unwrap()
            .unwrap()
            .into_data()
            .unwrap(),
        "no such page"
    );
    let long = "x".repeat(200_000);
    let sent = long.clone();
    let (_fleet, api) = fleet_with(vec![], move |_| {
        Response::builder()
            .status(403)
            .body(sent.clone().into())
            .unwrap()
    })
    .await;
    let passed = served(&api, &format!("GET /clusters/member1{POD}/proxy/x")).await;
    assert_eq!((passed.code, passed.body.len()), (403, long.len()));
}

#[tokio::test]
async fn unread_responses_of_a_user_are_bounded() {
    let body = json!({ "kind": "Pod", "x": "x".repeat(15 << 20) });
    let (_fleet, api) = fleet_with(vec![], move |_| reply(200, &body)).await;
    let uri = format!("{PROXY}/clusters/member1{POD}/status");
    let memory = Budget::new(MEMORY);
    let ask = async |user: &str| {
        let request = http::Request::get(&uri).body(Body::empty()).unwrap();
        let caller = Caller {
            name: user.to_owned(),
            ..alice()
        };
        let of_user = UserRequest::new(&memory, &ComputingTurns::default(), user);
        of_user
            .scope(Box::pin(respond_as(&api, &caller, request)))
            .await
    };
    let mut unread = Vec::new();
    let refused = loop {
        match ask("alice").await {
            Ok(response) => unread.push(response),
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused.code(), 429);
    assert!(unread.len() > 2 && memory.held() <= MEMORY.share + MEMORY.request);
    // Unread responses are cut while others wait.
    let cut = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        drop(unread);
    };
    let (bob, ()) = tokio::join!(ask("bob"), cut);
    assert!(bob.is_ok() && ask("alice").await.is_ok());
}

#[tokio::test]
async fn a_live_object_is_encoded_as_the_client_wants_it() {
    let (_fleet, api) = fleet(vec![found(&["member2"]), found(&["member2"])]).await;
    let table = (
        "accept",
        "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    );
    let shown = served_with(&api, &format!("GET {POD}"), &[table], "")
        .await
        .json();
    assert_eq!(
        (
            shown["kind"].as_str(),
            shown["columnDefinitions"][0]["name"].as_str()
        ),
        (Some("Table"), Some("Cluster"))
    );
    assert_eq!(shown["rows"][0]["cells"][0], "member2");
    let yaml = served_with(
        &api,
        &format!("GET {POD}"),
        &[("accept", "application/yaml")],
        "",
    )
    .await;
    assert_eq!(yaml.response.headers["content-type"], "application/yaml");
    assert!(
        yaml.body.contains("cached-from-cluster: member2"),
        "{}",
        yaml.body
    );
    // Documents of the kind have no health.
    let columns = shown["columnDefinitions"].as_array().unwrap();
    assert_eq!(columns.last().unwrap()["name"], "Readiness Gates");
    // What is no object of the resource has no columns.
    let scale = served_with(
        &api,
        &format!("GET /clusters/member1{POD}/scale"),
        &[table],
        "",
    )
    .await
    .json();
    assert_eq!(scale["kind"], "Pod");
}

#[tokio::test]
async fn a_live_object_has_the_health_of_the_index_if_it_is_the_same_version() {
    let in_index = |version: &str, cluster_name: &str| {
        let mut object = pod();
        object["metadata"]["resourceVersion"] = version.into();
        let interpretation = Interpretation {
            health: "Degraded",
            health_reason: "CrashLoopBackOff".to_owned(),
            ..Interpretation::default()
        };
        Ok(Page {
            items: vec![Hit {
                interpretation: Some(Box::new(interpretation)),
                ..hit(cluster_name, &object)
            }],
            ..Page::default()
        })
    };
    // Members answer with version 7, and member3 does not answer.
    let reader = PreparedReader::with(vec![
        in_index("7", "member1"),
        in_index("6", "member1"),
        in_index("6", "member3"),
    ]);
    let mut catalog = Catalog::default();
    catalog.add_store(store("main"), reader);
    for name in ["member1", "member3"] {
        catalog.add(CatalogEntry {
            served: &pods(),
            cluster: &cluster(name),
            store: &store("main"),
            fields: interpreted_fields(),
            any_path: false,
        });
    }
    let fleet = FakeFleet::start(|_| reply(200, &pod())).await;
    let api = fleet.api(catalog);
    let table = ("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
    let mut shown = Vec::new();
    for _ in 0..3 {
        let answer = send(&api, &format!("GET {POD}"), &[table], "").await;
        let answer = answer.unwrap().json();
        let columns = answer["columnDefinitions"].as_array().unwrap();
        let health = columns.len() - 2;
        assert_eq!(columns[health]["name"], "Health");
        let cells = answer["rows"][0]["cells"].as_array().unwrap();
        shown.push(json!([cells[0], cells[health], cells[health + 1]]));
    }
    assert_eq!(
        shown,
        [
            json!(["member1", "Degraded", "CrashLoopBackOff"]),
            json!(["member1", "", ""]),
            json!(["member3", "Degraded", "CrashLoopBackOff"]),
        ]
    );
}

#[tokio::test]
async fn a_log_is_streamed() {
    let log = |_: &ReceivedRequest| {
        Response::builder()
            .header("content-type", "text/plain")
            .body(Body::from("one\ntwo\n"))
            .unwrap()
    };
    let (fleet, api) = fleet_with(vec![found(&["member1"])], log).await;
    let sent = served_with(
        &api,
        &format!("GET {POD}/log?follow=true&container=c"),
        &[("accept", "*/*")],
        "",
    )
    .await;
    assert_eq!((sent.code, sent.body.as_str()), (200, "one\ntwo\n"));
    assert_eq!(sent.response.headers["content-type"], "text/plain");
    assert_eq!(
        fleet.received().pop().unwrap().line,
        format!("GET {POD}/log?follow=true&container=c")
    );
}

/// Agrees on another protocol and gives back every byte.
async fn echo(listener: TcpListener) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        tokio::spawn(async move {
            let head = head(&mut stream).await;
            if !head.contains("upgrade: SPDY/3.1") {
                let _ = stream
                    .write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
                    .await;
                return;
            }
            assert!(
                head.contains("impersonate-user: fleetdex:local") && !head.contains("secret"),
                "{head}"
            );
            assert!(
                head.starts_with(
                    "POST /api/v1/namespaces/web/pods/p/exec?command=a&command=b HTTP/1.1"
                ),
                "{head}"
            );
            stream
                .write_all(b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: SPDY/3.1\r\n\r\n")
                .await
                .unwrap();
            let (mut reads, mut writes) = stream.split();
            tokio::io::copy(&mut reads, &mut writes).await.unwrap();
        });
    }
}

async fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

#[tokio::test]
async fn a_session_is_joined_byte_by_byte() {
    let member = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = member.local_addr().unwrap();
    tokio::spawn(echo(member));
    let cancel = CancellationToken::new();
    let fleet = FakeFleet::at([address; 3], Arc::default(), cancel.clone()).await;
    let api = fleet.api(catalog(PreparedReader::with(vec![Ok(found(&["member1"]))])));
    let members = Arc::clone(&api.members);
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), "--test")
        .await
        .unwrap();
    let ours = listener.address();
    let server = tokio::spawn(listener.serve(router(api, Readiness::new()), cancel.clone()));
    let mut stream = TcpStream::connect(ours).await.unwrap();
    let request = format!(
        "POST /apis/search.fleetdex.io/v1alpha1/proxying/karmada/proxy{POD}/exec?command=a&command=b HTTP/1.1\r\nhost: x\r\n\
         authorization: Bearer secret\r\nconnection: Upgrade\r\nupgrade: SPDY/3.1\r\ncontent-length: 0\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let agreed = head(&mut stream).await;
    assert!(
        agreed.starts_with("HTTP/1.1 101") && agreed.contains("upgrade: SPDY/3.1"),
        "{agreed}"
    );
    stream.write_all(b"ping").await.unwrap();
    let mut back = [0; 4];
    stream.read_exact(&mut back).await.unwrap();
    assert_eq!(&back, b"ping");
    cancel.cancel();
    assert_eq!(
        stream.read(&mut back).await.unwrap(),
        0,
        "a session ends with the server"
    );
    members.stopped().await;
    server.await.unwrap();
}

#[tokio::test]
async fn open_api_comes_from_a_connected_member_and_is_cached() {
    let (fleet, api) = fleet_with(vec![], |seen| {
        reply(200, &json!({ "openapi": "3.0.0", "asked": seen.line }))
    })
    .await;
    tokio::time::timeout(Duration::from_secs(20), fleet.connected("member1"))
        .await
        .unwrap();
    let index = served(&api, "GET /openapi/v3").await;
    insta::assert_snapshot!(index.body.trim_end(), @r#"{"paths":{"api/v1":{"serverRelativeURL":"/openapi/v3/api/v1"},"apis/apps/v1":{"serverRelativeURL":"/openapi/v3/apis/apps/v1"},"apis/apps/v1beta1":{"serverRelativeURL":"/openapi/v3/apis/apps/v1beta1"}}}"#);
    for _ in 0..2 {
        let document = served_with(
            &api,
            "GET /openapi/v3/api/v1?hash=x",
            &[("accept", "application/json")],
            "",
        )
        .await;
        assert_eq!(document.json()["asked"], "GET /openapi/v3/api/v1");
    }
    assert_eq!(fleet.received().len(), 1);
    assert_eq!(
        refusal_code(&api, "GET /openapi/v3/apis/batch/v1").await,
        "404"
    );
    let version = served(&api, "GET /version").await;
    assert_eq!(version.json()["gitVersion"], "v1.35.2");
    assert_eq!(served(&api, "GET /readyz").await.body, "ok");
    assert_eq!(refusal_code(&api, "POST /version").await, "405");
}

#[tokio::test]
async fn a_list_comes_from_the_index_and_reaches_no_member() {
    let (fleet, api) = fleet_with(vec![page(&["a"], None, None)], |_| reply(500, &json!({}))).await;
    let list = served(&api, "GET /api/v1/pods?limit=500").await;
    assert_eq!(
        (
            list.json()["kind"].as_str(),
            &list.json()["items"][0]["metadata"]["name"]
        ),
        (Some("PodList"), &json!("a"))
    );
    assert!(fleet.received().is_empty());
}

#[tokio::test]
async fn aggregated_discovery_is_served_to_clients_that_accept_it() {
    let (_fleet, api) = fleet(vec![]).await;
    let accept =
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let apis = served_with(&api, "GET /apis", &[("accept", accept)], "").await;
    assert_eq!(
        apis.response.headers["content-type"],
        crate::render::group_discovery::AGGREGATED_TYPE
    );
    insta::assert_snapshot!(apis.body.trim_end(), @r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[{"metadata":{"name":"apps","creationTimestamp":null},"versions":[{"version":"v1","resources":[{"resource":"deployments","responseKind":{"group":"apps","version":"v1","kind":"Deployment"},"scope":"Namespaced","singularResource":"deployment","verbs":["create","delete","get","list","patch","update","watch"],"shortNames":["deploy"]}],"freshness":"Current"},{"version":"v1beta1","resources":[{"resource":"deployments","responseKind":{"group":"apps","version":"v1beta1","kind":"Deployment"},"scope":"Namespaced","singularResource":"deployment","verbs":["create","delete","get","list","patch","update","watch"],"shortNames":["deploy"]}],"freshness":"Current"}]}]}"#);
    let api_only = served_with(&api, "GET /api", &[("accept", accept)], "")
        .await
        .json();
    assert_eq!(api_only["items"].as_array().unwrap().len(), 1);
    assert_eq!(
        served_with(&api, "GET /apis", &[("accept", "application/json")], "")
            .await
            .json()["kind"],
        "APIGroupList"
    );
}

#[tokio::test]
async fn access_reviews_say_what_the_holder_of_the_token_may_do() {
    let (fleet, api) = fleet(Vec::new()).await;
    let headers = [JSON];
    let line = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    for (resource, verb, allowed) in [
        ("pods", "list", true),
        ("pods", "delete", true),
        ("widgets", "list", false),
    ] {
        let review =
            json!({ "spec": { "resourceAttributes": { "verb": verb, "resource": resource } } });
        let sent = served_with(&api, line, &headers, &review.to_string()).await;
        let answer = sent.json();
        assert_eq!(answer["kind"], "SelfSubjectAccessReview");
        assert_eq!(answer["status"]["allowed"], allowed, "{resource}: {answer}");
    }
    for wrong in ["{}", "no review"] {
        let refused = send(&api, line, &headers, wrong).await.unwrap_err();
        assert!(matches!(refused, ApiError::BadRequest(_)), "{refused}");
    }
    let line = "POST /apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let review = json!({ "spec": { "namespace": "web" } });
    let sent = served_with(&api, line, &headers, &review.to_string()).await;
    assert_eq!(sent.json()["status"]["incomplete"], true);
    // As kubectl sends it: may the caller list pods in the namespace web?
    let attributes = b"\x0a\x03web\x12\x04list\x2a\x04pods";
    let field =
        |tag: u8, value: &[u8]| [&[tag, u8::try_from(value.len()).unwrap()], value].concat();
    let review = field(0x12, &field(0x0a, attributes));
    let body = [b"k8s\0".as_slice(), &field(0x12, &review)].concat();
    let headers = [("content-type", super::protobuf::MEDIA_TYPE)];
    let line = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let sent = send_body(&api, line, &headers, Body::from(body))
        .await
        .unwrap();
    let answer = sent.json();
    assert_eq!(answer["spec"]["resourceAttributes"]["resource"], "pods");
    assert_eq!(answer["status"]["allowed"], true, "{answer}");
    assert!(fleet.received().is_empty(), "no member was asked");
}

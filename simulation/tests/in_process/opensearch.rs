//! The fake OpenSearch: its faults, and the real store on it.

#![expect(clippy::unwrap_used, reason = "parts of tests")]

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use fakes::opensearch::{Fault, FaultKind, OpenSearch, Span};
use fleetdex_core::{
    model::{Document, Gvk, JsonLine},
    query::{Query, Requester, ResourceName, Selectable},
};
use fleetdex_limits::{
    computing::ComputingTurns,
    intake::{Budget, MemoryLimits},
    request::UserRequest,
};
use fleetdex_store::{
    CompleteResources, DocumentVersions as _, DocumentWriter as _, Extent, IndexReader as _,
    IndexRevision, KindExtent, RevisionStore as _, StoreError, StoredVersion,
    bulk::{Verdict, Write},
    changes::EventKind,
    opensearch::{
        Engine, EngineOptions, IndexSettings, OpenSearchService, PlacementRules, ResponseBudget,
        Timeout,
    },
};
use http::{Method, Request};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::ServiceExt;

const TIMEOUT: Duration = Duration::from_secs(30);

async fn try_send(
    service: &OpenSearchService,
    method: Method,
    path: &str,
    body: &str,
) -> Result<(u16, Bytes), String> {
    let body = Bytes::copy_from_slice(body.as_bytes());
    let request = Request::builder()
        .method(method)
        .uri(path)
        .extension(Timeout(TIMEOUT))
        .body(body)
        .unwrap();
    let response = service
        .clone()
        .oneshot(request)
        .await
        .map_err(|error| error.to_string())?;
    Ok((response.status().as_u16(), response.into_body()))
}

async fn send(server: &OpenSearch, method: Method, path: &str, body: &str) -> (u16, Value) {
    let (status, body) = try_send(&server.service(), method, path, body)
        .await
        .unwrap();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

fn index_line(id: &str, version: u64) -> String {
    let action = json!({ "index": { "_index": "i", "_id": id, "version": version, "version_type": "external_gte" } });
    format!("{action}\n{{\"kind\":\"Pod\"}}\n")
}

fn index_lines(count: usize) -> String {
    let line = |number: usize| index_line(&number.to_string(), 1);
    (0..count).map(line).collect()
}

async fn bulk(server: &OpenSearch, body: &str) -> Result<Vec<u64>, String> {
    let (status, body) = try_send(&server.service(), Method::POST, "/_bulk", body).await?;
    let response: Value =
        serde_json::from_slice(&body).map_err(|error| format!("{status} {error}"))?;
    let items = response["items"].as_array().ok_or(format!("{status}"))?;
    Ok(items
        .iter()
        .filter_map(|item| item["index"]["status"].as_u64())
        .collect())
}

/// Sends one document during a fault. Returns the outcome and the number of new documents.
async fn bulk_during(fault: Fault) -> (Result<Vec<u64>, String>, usize, OpenSearch) {
    let server = OpenSearch::new(1);
    bulk(&server, &index_line("before", 1)).await.unwrap();
    server.inject(fault, Span::Times(1));
    let outcome = bulk(&server, &index_line("a", 1)).await;
    assert_eq!(server.counters().struck(fault.kind()), 1, "{fault:?}");
    let documents = server.documents("i").len() - 1;
    // The fault takes effect only once.
    assert_eq!(
        bulk(&server, &index_line("after", 1)).await,
        Ok(vec![201]),
        "{fault:?}"
    );
    (outcome, documents, server)
}

#[tokio::test(start_paused = true)]
async fn after_a_transport_fault_the_client_has_no_response_and_the_write_may_be_applied() {
    for (fault, reason, documents) in [
        (Fault::ConnectionRefused, "Connection refused", 0),
        (Fault::Hang, "timed out", 0),
        (Fault::RequestLost, "reset by peer", 0),
        (Fault::ResponseLost, "reset by peer", 1),
    ] {
        let began = Instant::now();
        let (outcome, found, _) = bulk_during(fault).await;
        assert!(
            outcome.clone().unwrap_err().contains(reason),
            "{fault:?}: {outcome:?}"
        );
        assert_eq!(found, documents, "{fault:?}");
        assert_eq!(
            began.elapsed() >= TIMEOUT,
            fault == Fault::Hang,
            "{fault:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_write_lands_after_the_client_gave_up() {
    let mut reasons = Vec::new();
    for seed in 0..10 {
        let server = OpenSearch::new(seed);
        server.inject(Fault::AppliedLate(Duration::from_secs(5)), Span::Times(1));
        reasons.push(bulk(&server, &index_line("a", 1)).await.unwrap_err());
        // Healing does not stop it.
        server.heal();
        tokio::time::sleep(Duration::from_millis(4_900)).await;
        assert!(server.documents("i").is_empty());
        assert_eq!(bulk(&server, &index_line("a", 7)).await, Ok(vec![201]));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(server.documents("i")[0].version, 7);
        assert_eq!(server.counters().superseded, 1);
    }
    assert!(
        reasons.iter().any(|reason| reason.contains("timed out")),
        "{reasons:?}"
    );
    assert!(
        reasons.iter().any(|reason| reason.contains("reset")),
        "{reasons:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_rejected_request_has_a_status_and_applies_nothing() {
    for (fault, status) in [
        (Fault::Unauthorized, "401"),
        (Fault::Forbidden, "403"),
        (Fault::TooLarge(50), "413"),
        (Fault::TooManyRequests, "429"),
        (Fault::Unavailable, "503"),
    ] {
        let (outcome, documents, _) = bulk_during(fault).await;
        assert!(
            outcome.clone().unwrap_err().starts_with(status),
            "{fault:?}: {outcome:?}"
        );
        assert_eq!(documents, 0, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn blocks_refuse_every_item() {
    for (fault, status) in [
        (Fault::WriteBlock, 403),
        (Fault::FloodStage, 429),
        (Fault::RejectedItems(100), 429),
    ] {
        let (outcome, documents, _) = bulk_during(fault).await;
        assert_eq!((outcome, documents), (Ok(vec![status]), 0), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn some_items_are_rejected_and_the_others_are_applied() {
    let server = OpenSearch::new(3);
    server.inject(Fault::RejectedItems(50), Span::UntilHealed);
    let body = index_lines(100);
    let statuses = bulk(&server, &body).await.unwrap();
    let applied = statuses.iter().filter(|status| **status == 201).count();
    assert!((20..80).contains(&applied), "{applied}");
    assert_eq!(server.documents("i").len(), applied);
    assert_eq!(server.counters().refused, 100 - applied as u64);
}

#[tokio::test(start_paused = true)]
async fn a_request_with_a_truncated_or_miscounted_response_is_applied() {
    let (cut, documents, _) = bulk_during(Fault::TruncatedResponse).await;
    assert!(cut.is_err());
    assert_eq!(documents, 1);
    let (counted, documents, _) = bulk_during(Fault::WrongItemCount).await;
    assert_ne!(counted.unwrap().len(), 1);
    assert_eq!(documents, 1);
}

#[tokio::test(start_paused = true)]
async fn only_documents_with_the_refused_text_are_rejected() {
    let server = OpenSearch::new(1);
    server.refuse_documents_with("Pod");
    server.heal();
    let other = "{\"index\":{\"_index\":\"i\",\"_id\":\"b\"}}\n{\"kind\":\"Node\"}\n";
    assert_eq!(
        bulk(&server, &format!("{}{other}", index_line("a", 1))).await,
        Ok(vec![400, 201])
    );
    assert_eq!(server.counters().struck(FaultKind::RefusedDocument), 1);
}

#[tokio::test(start_paused = true)]
async fn no_index_can_be_created_while_there_are_too_many_shards() {
    let server = OpenSearch::new(1);
    server.inject(Fault::ShardsFull, Span::For(Duration::from_mins(1)));
    let (status, body) = send(&server, Method::PUT, "/i", "").await;
    assert_eq!(
        (status, body["error"]["type"].as_str()),
        (400, Some("validation_exception"))
    );
    assert_eq!(bulk(&server, &index_line("a", 1)).await, Ok(vec![400]));
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(bulk(&server, &index_line("a", 1)).await, Ok(vec![201]));
}

#[tokio::test(start_paused = true)]
async fn a_restart_resets_open_requests_and_loses_tombstones() {
    let server = OpenSearch::new(1);
    bulk(&server, &index_line("a", 5)).await.unwrap();
    let delete = "{\"delete\":{\"_index\":\"i\",\"_id\":\"a\",\"version\":9,\"version_type\":\"external_gte\"}}\n";
    bulk(&server, delete).await.unwrap();
    assert_eq!(bulk(&server, &index_line("a", 5)).await, Ok(vec![409]));
    let (_, opened) = send(
        &server,
        Method::POST,
        "/i/_search/point_in_time?keep_alive=5m",
        "",
    )
    .await;
    server.set_latency(100..=100);
    let other = index_line("b", 1);
    let under_way = bulk(&server, &other);
    let restart = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        server.restart();
    };
    let (outcome, ()) = tokio::join!(under_way, restart);
    assert!(outcome.unwrap_err().contains("reset"));
    assert!(server.documents("i").is_empty());
    assert_eq!(bulk(&server, &index_line("a", 5)).await, Ok(vec![201]));
    assert_eq!(server.counters().resurrected, 1);
    let search = json!({ "pit": { "id": opened["pit_id"] } }).to_string();
    assert_eq!(
        send(&server, Method::POST, "/_search", &search).await.0,
        404
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_is_applied_even_if_the_client_does_not_wait() {
    let server = OpenSearch::new(1);
    let impatient = tokio::time::timeout(Duration::ZERO, bulk(&server, &index_line("a", 1))).await;
    assert!(impatient.is_err());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(server.documents("i").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn bodies_of_bulk_requests_can_be_inspected() {
    let server = OpenSearch::new(1);
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&bodies);
    server.inspect_bulks(move |body| sink.lock().push(body.clone()));
    server.inject(Fault::RequestLost, Span::Times(1));
    bulk(&server, &index_line("a", 1)).await.unwrap_err();
    assert_eq!(*bodies.lock(), [index_line("a", 1)]);
}

#[tokio::test(start_paused = true)]
async fn searches_fail_or_report_that_they_are_partial() {
    let server = OpenSearch::new(1);
    let body = index_lines(50);
    bulk(&server, &body).await.unwrap();
    send(&server, Method::POST, "/i/_refresh", "").await;
    let search = async || send(&server, Method::POST, "/i/_search", r#"{"size":50}"#).await;
    assert_eq!(
        search().await.1["hits"]["hits"].as_array().unwrap().len(),
        50
    );
    for (fault, status, successful, failed, timed_out) in [
        (
            Fault::SearchUnavailable,
            503,
            Value::Null,
            Value::Null,
            Value::Null,
        ),
        (Fault::ShardFails, 200, json!(0), json!(1), json!(false)),
        (
            Fault::ShardUnavailable,
            200,
            json!(0),
            json!(0),
            json!(false),
        ),
        (Fault::SearchTimesOut, 200, json!(1), json!(0), json!(true)),
    ] {
        server.inject(fault, Span::Times(1));
        let (found, body) = search().await;
        let shards = &body["_shards"];
        assert_eq!(
            (
                found,
                &shards["successful"],
                &shards["failed"],
                &body["timed_out"]
            ),
            (status, &successful, &failed, &timed_out),
            "{fault:?}"
        );
        if status == 200 {
            assert!(body["hits"]["hits"].as_array().unwrap().len() < 50);
        }
    }
    server.inject(Fault::PointInTimeFails, Span::Times(2));
    let whole = "/i/_search/point_in_time?keep_alive=1m&allow_partial_pit_creation=false";
    assert_eq!(send(&server, Method::POST, whole, "").await.0, 503);
    let (status, opened) = send(
        &server,
        Method::POST,
        "/i/_search/point_in_time?keep_alive=1m",
        "",
    )
    .await;
    assert_eq!((status, &opened["_shards"]["failed"]), (200, &json!(1)));
    let part = json!({ "pit": { "id": opened["pit_id"] }, "size": 50 }).to_string();
    assert!(
        send(&server, Method::POST, "/_search", &part).await.1["hits"]["hits"]
            .as_array()
            .unwrap()
            .len()
            < 50
    );
    assert_eq!(server.open_points_in_time(), 1);
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(server.open_points_in_time(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_reproduces_the_run() {
    let run = async |seed: u64| {
        let server = OpenSearch::new(seed);
        server.inject(Fault::RejectedItems(50), Span::UntilHealed);
        let body = index_lines(50);
        (
            bulk(&server, &body).await.unwrap(),
            server.indices()["i"].uuid.clone(),
        )
    };
    assert_eq!(run(7).await, run(7).await);
    assert_ne!(run(7).await, run(8).await);
}

fn write(revision: &IndexRevision, name: &str, version: u64, is_delete: bool) -> Write {
    let body = json!({
        "apiVersion": "v1", "kind": "Pod", "cluster": "member1",
        "metadata": { "name": name, "uid": name, "labels": { "app.kubernetes.io/name": "web" } },
        "search": { "resource": "pods", "group": "", "labels": ["app.kubernetes.io/name=web"] },
    });
    Write {
        index: revision.target.clone(),
        document: Document {
            id: format!("v1/Pod/{name}").into(),
            version: version.to_string().parse().unwrap(),
            body: (!is_delete).then(|| JsonLine::new(body.to_string())),
            is_partial: false,
        },
    }
}

/// Opens a revision of member1.
async fn open(engine: &Engine) -> IndexRevision {
    let member1 = "member1".parse().unwrap();
    engine.open(&member1, Some("uid"), 0).await.unwrap()
}

async fn activate(engine: &Engine, revision: &IndexRevision) {
    let activated = engine.activate(revision, &CompleteResources::All);
    activated.await.unwrap();
}

async fn written(engine: &Engine, writes: &[Write]) -> Vec<Verdict> {
    engine.write(writes).await.unwrap()
}

/// Returns the IDs and versions of the pods of a revision.
async fn visited_pods(engine: &Engine, revision: &IndexRevision) -> Vec<String> {
    let extent = Extent::Kind(KindExtent {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        namespace: None,
    });
    let mut visited = Vec::new();
    let mut note = |stored: StoredVersion<'_>| {
        visited.push(format!("{} {}", stored.id, stored.version));
    };
    let visit = engine.visit_versions(revision, &extent, &mut note);
    visit.await.unwrap();
    visited
}

#[tokio::test(start_paused = true)]
async fn the_real_store_works_on_the_fake_opensearch() {
    let server = OpenSearch::new(1);
    let engine = server.engine("fleetdex".parse().unwrap());

    engine.prepare().await.unwrap();
    let revision = open(&engine).await;
    assert_eq!(open(&engine).await, revision);
    let writes: Vec<Write> = (0..5)
        .map(|number| write(&revision, &format!("pod-{number}"), 10 + number, false))
        .collect();
    assert_eq!(written(&engine, &writes).await, vec![Verdict::Indexed; 5]);
    let more = [
        write(&revision, "pod-1", 9, false),
        write(&revision, "pod-2", 20, true),
        write(&revision, "pod-9", 20, true),
    ];
    assert_eq!(
        written(&engine, &more).await,
        [Verdict::Superseded, Verdict::Deleted, Verdict::Absent]
    );
    let visited = visited_pods(&engine, &revision).await;
    assert_eq!(
        visited,
        [
            "v1/Pod/pod-0 10",
            "v1/Pod/pod-1 11",
            "v1/Pod/pod-3 13",
            "v1/Pod/pod-4 14"
        ]
    );
    assert_eq!(server.open_points_in_time(), 0);
    assert_eq!(server.counters().written_to[revision.index.as_str()], 6);

    assert!(!server.aliases().contains_key("fleetdex"));
    activate(&engine, &revision).await;
    assert_eq!(server.documents("fleetdex").len(), 4);

    server.inject(Fault::Unauthorized, Span::Times(1));
    assert!(matches!(
        engine.write(&writes).await,
        Err(StoreError::Unauthorized { status: 401, .. })
    ));
    server.delete_index(revision.index.as_str());
    for missing in [&writes[..1], &more[1..2]] {
        let gone = written(&engine, missing).await;
        assert!(matches!(gone[..], [Verdict::IndexMissing(_)]), "{gone:?}");
    }
    let left: Vec<String> = server.indices().into_keys().collect();
    assert_eq!(
        left,
        ["fleetdex.state"],
        "the state index, which names the owner of the prefix, stays, and a write creates no index"
    );
}

/// Returns the engine of an installation.
fn installation(server: &OpenSearch, owner: &str, prefix: &str) -> Engine {
    let options = EngineOptions {
        prefix: prefix.parse().unwrap(),
        settings: IndexSettings::default(),
        fields: Vec::new(),
        projection: String::new(),
        placement: PlacementRules::default(),
        owner: owner.to_owned(),
        address: "simulation".to_owned(),
    };
    Engine::new(server.service(), options)
}

/// Opens and activates a revision of a cluster.
async fn fill(engine: &Engine, cluster: &str) -> Result<IndexRevision, StoreError> {
    let revision = engine.open(&cluster.parse().unwrap(), None, 0).await?;
    engine.activate(&revision, &CompleteResources::All).await?;
    Ok(revision)
}

fn foreign_error<T: std::fmt::Debug>(outcome: Result<T, StoreError>) -> String {
    match outcome {
        Err(error @ StoreError::Foreign { .. }) => error.to_string(),
        other => format!("not rejected: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_prefix_belongs_to_one_installation_independent_of_cluster_names() {
    let server = OpenSearch::new(1);
    let [mine, theirs] = ["mine", "theirs"].map(|owner| installation(&server, owner, "fleetdex"));
    mine.prepare().await.unwrap();
    let (_, template) = send(&server, Method::GET, "/fleetdex.state", "").await;
    let error = foreign_error(theirs.prepare().await);
    assert!(
        error.contains("index fleetdex.state belongs to another installation (mine)"),
        "{error}"
    );
    assert_eq!(
        send(&server, Method::GET, "/fleetdex.state", "").await.1,
        template
    );
    fill(&mine, "a").await.unwrap();
    mine.prepare().await.unwrap();
    installation(&server, "theirs", "fleetdex_eu")
        .prepare()
        .await
        .unwrap();
    // The same if the index is deleted and the next checkpoint creates it again.
    send(&server, Method::DELETE, "/fleetdex.state", "").await;
    let line = "{\"index\":{\"_index\":\"fleetdex.state\",\"_id\":\"x\"}}\n{}\n";
    bulk(&server, line).await.unwrap();
    assert!(foreign_error(theirs.prepare().await).contains("fleetdex.state"));
}

#[tokio::test(start_paused = true)]
async fn indices_of_a_release_that_claimed_no_prefix_count_by_their_owner() {
    let server = OpenSearch::new(1);
    let [mine, theirs] = ["mine", "theirs"].map(|owner| installation(&server, owner, "fleetdex"));
    fill(&theirs, "b").await.unwrap();
    let error = foreign_error(mine.prepare().await);
    assert!(
        error.contains("index fleetdex-b.g1 belongs to another installation (theirs)"),
        "{error}"
    );
    assert_eq!(
        send(&server, Method::GET, "/fleetdex.state", "").await.0,
        404,
        "a rejected claim leaves no index behind"
    );
    send(&server, Method::PUT, "/fleetdex.state", "{}").await;
    theirs.prepare().await.unwrap();
    assert!(foreign_error(mine.prepare().await).contains("fleetdex.state"));
}

/// Releases before 0.2 accepted `fleetdex-eu` as a prefix.
#[tokio::test(start_paused = true)]
async fn an_index_is_never_added_to_an_alias_of_another_installation() {
    let server = OpenSearch::new(1);
    let meta = json!({ "fleetdex": { "cluster": "eu", "owner": "mine", "generation": 1, "mappingVersion": 2, "projection": "" } });
    let body =
        json!({ "aliases": { "fleetdex-eu": {} }, "mappings": { "_meta": meta } }).to_string();
    assert_eq!(
        send(&server, Method::PUT, "/fleetdex-eu-eu.g1", &body)
            .await
            .0,
        200
    );
    let mine = installation(&server, "mine", "fleetdex");
    mine.prepare().await.unwrap();
    fill(&mine, "us").await.unwrap();
    let error = foreign_error(fill(&mine, "eu").await);
    assert!(
        error.contains("index fleetdex-eu-eu.g1 belongs to"),
        "{error}"
    );
    let (_, aliases) = send(&server, Method::GET, "/_alias/fleetdex-eu", "").await;
    assert_eq!(
        aliases.as_object().map(serde_json::Map::len),
        Some(1),
        "{aliases}"
    );
    let body = json!({ "aliases": { "fleetdex": {} } }).to_string();
    send(&server, Method::PUT, "/fleetdex.g1", &body).await;
    assert!(
        foreign_error(mine.prepare().await)
            .contains("index fleetdex.g1 belongs to something else than Fleetdex")
    );
}

/// Returns the write of a document with this many bytes of data.
fn large(revision: &IndexRevision, name: &str, version: u64, bytes: usize) -> Write {
    let mut plain = write(revision, name, version, false);
    let mut document: Value =
        serde_json::from_slice(plain.document.body.as_deref().unwrap()).unwrap();
    document["data"] = json!({ "blob": "x".repeat(bytes) });
    plain.document.body = Some(JsonLine::new(document.to_string()));
    plain
}

const KIB: usize = 1 << 10;
/// The response limit of these tests, in bytes.
const RESPONSE_LIMIT: usize = 300 * KIB;

/// Returns a store with the low response limit and its live revision.
async fn limited_store() -> (OpenSearch, Engine, ResponseBudget, IndexRevision) {
    let server = OpenSearch::new(1);
    let answers = ResponseBudget::of_at_most(RESPONSE_LIMIT);
    let engine = server.engine_reading_into("fleetdex".parse().unwrap(), answers.clone());
    engine.prepare().await.unwrap();
    let revision = open(&engine).await;
    activate(&engine, &revision).await;
    (server, engine, answers, revision)
}

fn pods_query(limit: usize) -> Query {
    let selectable = Selectable::of(&Gvk::new("", "v1", "Pod"), &[]);
    Query::all_of(ResourceName::new("", "pods"), selectable, limit)
}

async fn fill_with(engine: &Engine, server: &OpenSearch, writes: Vec<Write>) {
    for write in writes {
        assert_eq!(written(engine, &[write]).await, [Verdict::Indexed]);
    }
    send(server, Method::POST, "/fleetdex/_refresh", "").await;
}

/// Reads all pages of a list of pods. Returns the page sizes and the names of the objects.
async fn pages(engine: &Engine, limit: usize) -> Result<(Vec<usize>, Vec<String>), StoreError> {
    pages_of(engine, Requester::Operator, limit).await
}

async fn pages_of(
    engine: &Engine,
    requester: Requester,
    limit: usize,
) -> Result<(Vec<usize>, Vec<String>), StoreError> {
    let query = Query {
        requester,
        ..pods_query(limit)
    };
    let (mut sizes, mut names) = (Vec::new(), Vec::new());
    let mut cursor = None;
    loop {
        let page = engine.search(&query, cursor.as_ref()).await?;
        sizes.push(page.items.len());
        for hit in &page.items {
            let object: Value = serde_json::from_str(hit.object.get()).unwrap();
            names.push(object["metadata"]["name"].as_str().unwrap().to_owned());
        }
        cursor = page.next;
        if cursor.is_none() {
            return Ok((sizes, names));
        }
    }
}

fn pod_names(count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("pod-{number:03}"))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_too_long_page_is_split_without_omitting_an_object() {
    for (bytes, expected) in [
        (1_000, vec![20, 20]),
        (45 * KIB, vec![5; 8]),
        (70 * KIB, [vec![1; 36], vec![4]].concat()),
    ] {
        let (server, engine, answers, revision) = limited_store().await;
        let names = pod_names(40);
        let pods = names.iter().map(|name| large(&revision, name, 1, bytes));
        fill_with(&engine, &server, pods.collect()).await;
        let (sizes, found) = pages(&engine, 20).await.unwrap();
        assert_eq!((sizes, found), (expected, names), "{bytes}");
        assert_eq!((answers.held(), server.open_points_in_time()), (0, 0));
        assert!(answers.peak() <= 3 * RESPONSE_LIMIT, "{answers:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn objects_as_large_as_a_response_are_read_one_at_a_time() {
    let (server, engine, _, revision) = limited_store().await;
    let names = pod_names(3);
    let pods = names
        .iter()
        .map(|name| large(&revision, name, 1, 250 * KIB));
    fill_with(&engine, &server, pods.collect()).await;
    let (sizes, found) = pages(&engine, 20).await.unwrap();
    assert_eq!((sizes, found), (vec![1, 1, 1], names));
    assert_eq!(server.open_points_in_time(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_error_names_an_object_that_is_larger_than_a_response() {
    let (server, engine, answers, revision) = limited_store().await;
    fill_with(
        &engine,
        &server,
        vec![
            write(&revision, "pod-a", 1, false),
            large(&revision, "pod-b", 1, 400 * KIB),
        ],
    )
    .await;
    let error = pages(&engine, 20).await.unwrap_err();
    let expected = format!(
        "OpenSearch's answer to a search that finds document v1/Pod/pod-b alone is longer than {RESPONSE_LIMIT} bytes, the limit for one response"
    );
    assert_eq!(
        (error.to_string(), error.reason()),
        (expected, "AnswerTooLarge")
    );
    assert_eq!(answers.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn ids_and_versions_of_any_length_are_read() {
    let (_server, engine, _, revision) = limited_store().await;
    let uid = "u".repeat(2_000);
    let writes: Vec<Write> = (0..400)
        .map(|number| {
            let mut write = write(&revision, &format!("{uid}-{number:03}"), 10 + number, false);
            write.document.id = format!("v1/Pod/{number:03}").into();
            write
        })
        .collect();
    written(&engine, &writes).await;
    let visited = visited_pods(&engine, &revision).await;
    let expected: Vec<String> = (0..400)
        .map(|number| format!("v1/Pod/{number:03} {}", 10 + number))
        .collect();
    assert_eq!(visited, expected);
}

#[tokio::test(start_paused = true)]
async fn replaced_documents_of_a_batch_are_read_in_parts_and_block_no_write() {
    let (server, engine, answers, revision) = limited_store().await;
    let names = pod_names(30);
    let pods = names.iter().map(|name| large(&revision, name, 1, 50 * KIB));
    fill_with(&engine, &server, pods.collect()).await;
    let query = pods_query(20);
    let log = engine.change_log().await.unwrap();
    let (_, after) = engine.first_page(&query).await.unwrap();
    let mut watch = log
        .watch_settled(std::slice::from_ref(&query), after)
        .await
        .unwrap();
    let replace = |version| {
        names
            .iter()
            .map(|name| write(&revision, name, version, false))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        written(&engine, &replace(2)).await,
        vec![Verdict::Indexed; 30]
    );
    let mut modified = 0;
    while modified < 30 {
        let events = watch.next().await.unwrap();
        assert!(
            events.iter().all(|event| event.kind == EventKind::Modified),
            "the replaced documents are known"
        );
        modified += events.len();
    }

    // A document that exceeds every response: the write succeeds, and watchers have to list again.
    assert_eq!(
        written(&engine, &[large(&revision, "pod-000", 3, 400 * KIB)]).await,
        [Verdict::Indexed]
    );
    assert_eq!(watch.next().await.unwrap().len(), 1);
    assert_eq!(
        written(&engine, &replace(4)).await,
        vec![Verdict::Indexed; 30]
    );
    let outcome = tokio::time::timeout(Duration::from_mins(1), async {
        while watch.next().await.is_ok() {}
    })
    .await;
    assert!(
        outcome.is_ok(),
        "the watch continues although replaced documents are unknown"
    );
    assert_eq!(answers.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_document_that_exceeds_every_response_is_not_written() {
    let server = OpenSearch::new(1);
    let engine = server.engine("fleetdex".parse().unwrap());
    engine.prepare().await.unwrap();
    let revision = open(&engine).await;
    let (small, huge) = (
        write(&revision, "pod-a", 1, false),
        large(&revision, "pod-b", 1, 24 << 20),
    );
    let verdicts = written(
        &engine,
        &[small, huge.clone(), write(&revision, "pod-c", 1, false)],
    )
    .await;
    assert!(
        matches!(
            &verdicts[..],
            [Verdict::Indexed, Verdict::Rejected(_), Verdict::Indexed]
        ),
        "{verdicts:?}"
    );
    assert!(matches!(
        &written(&engine, &[huge]).await[..],
        [Verdict::Rejected(_)]
    ));
}

#[tokio::test(start_paused = true)]
async fn concurrent_queries_stay_within_the_memory_limit_and_do_not_block_the_operator() {
    let (server, engine, answers, revision) = limited_store().await;
    let names = pod_names(40);
    let pods = names.iter().map(|name| large(&revision, name, 1, 50 * KIB));
    fill_with(&engine, &server, pods.collect()).await;
    let limits = MemoryLimits {
        page: 0,
        line: 0,
        answer: 2 * RESPONSE_LIMIT,
        refusal: RESPONSE_LIMIT,
        small: 0,
        request: 0,
        share: 2 * RESPONSE_LIMIT,
        shared: 2 * RESPONSE_LIMIT,
    };
    let (budget, turns) = (Budget::new(limits), ComputingTurns::default());
    let readers = (0..50).map(|number| {
        let user = format!("user{number}");
        let requester = Requester::User(user.as_str().into());
        UserRequest::new(&budget, &turns, &user).scope(pages_of(&engine, requester, 20))
    });
    let readers = futures::future::join_all(readers);
    let writing = async {
        for version in 2..50 {
            assert_eq!(
                written(&engine, &[write(&revision, "other", version, false)]).await,
                [Verdict::Indexed]
            );
        }
    };
    let (read, ()) = tokio::join!(readers, writing);
    for outcome in read {
        let (_, found) = outcome.unwrap();
        assert!(names.iter().all(|name| found.contains(name)));
    }
    assert_eq!((answers.held(), budget.held()), (0, 0));
    assert!(answers.peak() <= 3 * RESPONSE_LIMIT, "{answers:?}");
    assert!(budget.peak() <= limits.bound(), "{budget:?}");
}

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::*;

const MAPS: &str = "/api/v1/configmaps";

fn server() -> Server {
    Server::new(Options::new(7))
}

fn map(server: &Server, name: &str, value: &str) -> Stored {
    let labels = json!({ "value": value });
    let object = json!({ "metadata": { "namespace": "default", "name": name, "labels": labels }, "data": { "value": value } });
    server.apply("configmaps", object).unwrap()
}

fn remove(server: &Server, name: &str) {
    assert!(server.delete("configmaps", Some("default"), name).unwrap());
}

async fn send(server: &Server, method: Method, path: &str, body: Value) -> (u16, Value) {
    let body = if body.is_null() {
        Bytes::new()
    } else {
        body.to_string().into()
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .body(body)
        .unwrap();
    let response = server.respond(request).await.unwrap();
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (
        code,
        serde_json::from_slice(&body)
            .unwrap_or_else(|_| String::from_utf8_lossy(&body).into_owned().into()),
    )
}

async fn get(server: &Server, path: &str) -> (u16, Value) {
    send(server, Method::GET, path, Value::Null).await
}

async fn ok(server: &Server, path: &str) -> Value {
    let (code, body) = get(server, path).await;
    assert_eq!(code, 200, "{body}");
    body
}

fn names(list: &Value) -> Vec<&str> {
    list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap())
        .collect()
}

/// Reads the events of a watch one by one.
struct WatchReader {
    body: Body,
    text: String,
}

impl WatchReader {
    async fn open(server: &Server, from: u64, more: &str) -> Self {
        let request = Request::get(format!("{MAPS}?watch=1&resourceVersion={from}{more}"))
            .body(Bytes::new())
            .unwrap();
        let response = server.respond(request).await.unwrap();
        assert_eq!(response.status(), 200);
        Self {
            body: response.into_body(),
            text: String::new(),
        }
    }

    /// Returns type, name and version of the next event; `None` at the end, an error if the stream
    /// breaks.
    async fn next(&mut self) -> Result<Option<(String, String, u64)>, String> {
        loop {
            if let Some((line, rest)) = self.text.clone().split_once('\n') {
                self.text = rest.to_owned();
                let event: Value = serde_json::from_str(line).unwrap();
                let metadata = &event["object"]["metadata"];
                let version = metadata["resourceVersion"]
                    .as_str()
                    .map_or(0, |version| version.parse().unwrap());
                let name = metadata["name"]
                    .as_str()
                    .or(event["object"]["reason"].as_str())
                    .unwrap_or_default();
                return Ok(Some((
                    event["type"].as_str().unwrap().to_owned(),
                    name.to_owned(),
                    version,
                )));
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(error.to_string()),
                Some(Ok(frame)) => self
                    .text
                    .push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap()),
            }
        }
    }

    async fn event(&mut self) -> (String, String, u64) {
        self.next().await.unwrap().unwrap()
    }

    async fn is_silent(&mut self) -> bool {
        tokio::time::timeout(Duration::from_secs(5), self.next())
            .await
            .is_err()
    }
}

fn event(kind: &str, name: &str, version: u64) -> (String, String, u64) {
    (kind.to_owned(), name.to_owned(), version)
}

#[tokio::test(start_paused = true)]
async fn pages_show_the_revision_of_the_first_one() {
    let server = server();
    for name in ["a", "b", "c", "d", "e"] {
        map(&server, name, "1");
    }
    let revision = server.revision();
    let first = ok(&server, &format!("{MAPS}?limit=2")).await;
    assert_eq!(
        (names(&first), &first["metadata"]["remainingItemCount"]),
        (vec!["a", "b"], &json!(3))
    );
    assert_eq!(first["kind"], "ConfigMapList");
    map(&server, "c", "2");
    remove(&server, "d");
    map(&server, "f", "1");
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = ok(&server, &format!("{MAPS}?limit=2&continue={token}")).await;
    assert_eq!(
        (names(&second), &second["items"][0]["data"]["value"]),
        (vec!["c", "d"], &json!("1"))
    );
    assert_eq!(second["metadata"]["remainingItemCount"], 1);
    assert_eq!(second["metadata"]["resourceVersion"], revision.to_string());
    let token = second["metadata"]["continue"].as_str().unwrap();
    let last = ok(&server, &format!("{MAPS}?limit=2&continue={token}")).await;
    assert_eq!(
        (names(&last), &last["metadata"]["continue"]),
        (vec!["e"], &Value::Null)
    );
}

#[tokio::test(start_paused = true)]
async fn a_list_of_a_compacted_revision_expires_and_can_continue_inconsistently() {
    let server = server();
    for name in ["a", "b", "c"] {
        map(&server, name, "1");
    }
    let first = ok(&server, "/api/v1/namespaces/default/configmaps?limit=1").await;
    remove(&server, "b");
    server.compact(server.revision());
    let token = first["metadata"]["continue"].as_str().unwrap();
    let (code, status) = get(
        &server,
        &format!("/api/v1/namespaces/default/configmaps?limit=1&continue={token}"),
    )
    .await;
    assert_eq!((code, &status["reason"]), (410, &json!("Expired")));
    let token = status["metadata"]["continue"].as_str().unwrap();
    let rest = ok(
        &server,
        &format!("/api/v1/namespaces/default/configmaps?limit=1&continue={token}"),
    )
    .await;
    assert_eq!(names(&rest), ["c"]);
    assert_eq!(
        rest["metadata"]["resourceVersion"],
        server.revision().to_string()
    );
}

#[tokio::test(start_paused = true)]
async fn lists_with_selectors_have_no_remaining_item_count() {
    let server = server();
    for (namespace, name) in [("default", "a"), ("default", "b"), ("kube-public", "c")] {
        let object = json!({ "metadata": { "namespace": namespace, "name": name, "labels": { "app": name } } });
        server.apply("configmaps", object).unwrap();
    }
    assert_eq!(
        names(&ok(&server, "/api/v1/namespaces/default/configmaps").await),
        ["a", "b"]
    );
    let list = ok(&server, &format!("{MAPS}?labelSelector=app!%3Da&limit=1")).await;
    assert_eq!(
        (names(&list), &list["metadata"]["remainingItemCount"]),
        (vec!["b"], &Value::Null)
    );
    assert!(list["metadata"]["continue"].is_string());
    assert_eq!(
        names(&ok(&server, &format!("{MAPS}?fieldSelector=metadata.name%3Dc")).await),
        ["c"]
    );
    assert_eq!(
        get(&server, &format!("{MAPS}?fieldSelector=data.x%3Dc"))
            .await
            .0,
        400
    );
}

#[tokio::test(start_paused = true)]
async fn a_maximum_page_size_splits_few_objects_into_pages() {
    let server = Server::new(Options {
        largest_page: Some(1),
        ..Options::new(1)
    });
    map(&server, "a", "1");
    map(&server, "b", "1");
    assert_eq!(
        names(&ok(&server, &format!("{MAPS}?limit=500")).await),
        ["a"]
    );
    assert_eq!(
        names(&ok(&server, MAPS).await),
        ["a", "b"],
        "a list in one piece stays one"
    );
}

#[tokio::test(start_paused = true)]
async fn metadata_only_lists_contain_only_metadata() {
    let server = server();
    map(&server, "a", "1");
    let accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let request = Request::get(MAPS)
        .header(header::ACCEPT, accept)
        .body(Bytes::new())
        .unwrap();
    let body = server
        .respond(request)
        .await
        .unwrap()
        .into_body()
        .collect()
        .await
        .unwrap()
        .to_bytes();
    let list: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!(
        (
            &list["items"][0]["metadata"]["name"],
            &list["items"][0]["data"]
        ),
        (&json!("a"), &Value::Null)
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_sends_changes_and_transitions_of_its_selectors() {
    let server = server();
    let start = map(&server, "old", "1").version;
    let mut watch = WatchReader::open(&server, start, "&labelSelector=value%3D1").await;
    let added = map(&server, "a", "1").version;
    assert_eq!(watch.event().await, event("ADDED", "a", added));
    map(&server, "b", "2");
    let left = map(&server, "a", "2").version;
    assert_eq!(watch.event().await, event("DELETED", "a", left));
    let joined = map(&server, "b", "1").version;
    assert_eq!(watch.event().await, event("ADDED", "b", joined));
    let changed = server
        .apply("configmaps", json!({ "metadata": { "namespace": "default", "name": "b", "labels": { "value": "1", "x": "y" } } }))
        .unwrap();
    assert_eq!(watch.event().await, event("MODIFIED", "b", changed.version));
    remove(&server, "b");
    assert_eq!(
        watch.event().await,
        event("DELETED", "b", server.revision())
    );
    assert!(watch.is_silent().await);
}

#[tokio::test(start_paused = true)]
async fn an_unchanged_write_has_no_event_and_a_recreated_object_has_a_new_uid() {
    let server = server();
    let first = map(&server, "a", "1");
    assert_eq!(map(&server, "a", "1"), first);
    remove(&server, "a");
    let second = map(&server, "a", "1");
    assert_ne!(first.uid, second.uid);
    assert_eq!(second.version, first.version + 2);
    assert_eq!(
        self::server().identity(),
        server.identity(),
        "the same seed creates the same UIDs"
    );
}

#[tokio::test(start_paused = true)]
async fn bookmarks_are_sent_every_minute_and_before_the_end() {
    let server = server();
    let start = server.revision();
    let mut watch = WatchReader::open(
        &server,
        start,
        "&allowWatchBookmarks=true&timeoutSeconds=100",
    )
    .await;
    server
        .apply(
            "secrets",
            json!({ "metadata": { "namespace": "default", "name": "other" } }),
        )
        .unwrap();
    let began = Instant::now();
    assert_eq!(watch.event().await, event("BOOKMARK", "", start + 1));
    assert_eq!(began.elapsed().as_secs(), 60);
    assert_eq!(watch.event().await.0, "BOOKMARK");
    assert_eq!(began.elapsed().as_secs(), 98);
    assert_eq!(watch.next().await, Ok(None));
    assert_eq!(began.elapsed().as_secs(), 100);
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_before_the_cache_ends_with_an_error_event() {
    let server = server();
    let start = map(&server, "a", "1").version;
    map(&server, "a", "2");
    let mut watch = WatchReader::open(&server, start, "").await;
    server.compact(server.revision());
    assert_eq!(
        watch.next().await,
        Ok(None),
        "a watch that has not read everything ends"
    );
    let mut watch = WatchReader::open(&server, start, "").await;
    assert_eq!(watch.event().await, event("ERROR", "Expired", 0));
    assert_eq!(watch.next().await, Ok(None));
}

#[tokio::test(start_paused = true)]
async fn compaction_does_not_end_a_watch_that_is_up_to_date() {
    let server = server();
    let mut watch = WatchReader::open(&server, server.revision(), "").await;
    map(&server, "a", "1");
    assert_eq!(watch.event().await.0, "ADDED");
    server
        .apply(
            "secrets",
            json!({ "metadata": { "namespace": "default", "name": "other" } }),
        )
        .unwrap();
    server.compact(server.revision());
    let version = map(&server, "b", "1").version;
    assert_eq!(watch.event().await, event("ADDED", "b", version));
}

#[tokio::test(start_paused = true)]
async fn a_restart_ends_watches_and_none_can_resume_from_before() {
    let server = server();
    let start = server.revision();
    let mut watch = WatchReader::open(&server, start, "").await;
    let observed = map(&server, "a", "1").version;
    assert_eq!(watch.event().await.0, "ADDED");
    server
        .apply(
            "secrets",
            json!({ "metadata": { "namespace": "default", "name": "other" } }),
        )
        .unwrap();
    server.restart();
    assert!(watch.next().await.is_err());
    assert_eq!(
        WatchReader::open(&server, observed, "")
            .await
            .event()
            .await
            .0,
        "ERROR"
    );
    let mut resumed = WatchReader::open(&server, server.revision(), "").await;
    map(&server, "b", "1");
    assert_eq!(resumed.event().await.1, "b");
}

#[tokio::test(start_paused = true)]
async fn after_a_restore_a_watch_misses_events_up_to_its_cursor() {
    let server = server();
    let point = map(&server, "a", "1").version;
    let old = map(&server, "b", "1");
    let ahead = map(&server, "c", "1").version;
    server.restore(point).unwrap();
    assert_eq!(server.revision(), point);
    let mut watch = WatchReader::open(&server, ahead, "&allowWatchBookmarks=true").await;
    let again = map(&server, "b", "1");
    assert_eq!((again.version, again.uid == old.uid), (old.version, false));
    map(&server, "d", "1");
    assert!(
        watch.is_silent().await,
        "the watch is accepted, and misses changes with revisions up to its cursor"
    );
    let version = map(&server, "e", "1").version;
    assert_eq!(watch.event().await, event("ADDED", "e", version));
}

#[tokio::test(start_paused = true)]
async fn a_recreated_cluster_has_a_new_identity() {
    let server = server();
    let before = (server.identity(), server.revision());
    map(&server, "a", "1");
    let mut watch = WatchReader::open(&server, server.revision(), "").await;
    server.recreate();
    assert!(watch.next().await.is_err());
    assert_ne!(server.identity(), before.0);
    assert_eq!(server.revision(), before.1);
    assert_eq!(server.objects("configmaps", None).unwrap(), []);
    let namespace = ok(&server, "/api/v1/namespaces/kube-system").await;
    assert_eq!(namespace["metadata"]["uid"], server.identity());
}

#[tokio::test(start_paused = true)]
async fn requests_write_objects_as_kubectl_does() {
    let server = server();
    let maps = "/api/v1/namespaces/default/configmaps";
    let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": { "k": "1" } });
    let (code, created) = send(&server, Method::POST, maps, object.clone()).await;
    assert_eq!(
        (code, &created["metadata"]["namespace"]),
        (201, &json!("default"))
    );
    let (code, status) = send(&server, Method::POST, maps, object.clone()).await;
    assert_eq!(
        (code, &status["reason"], &status["message"]),
        (
            409,
            &json!("AlreadyExists"),
            &json!("configmaps \"a\" already exists")
        )
    );
    let (code, status) = send(
        &server,
        Method::POST,
        "/api/v1/namespaces/none/configmaps",
        object.clone(),
    )
    .await;
    assert_eq!(
        (code, &status["message"]),
        (404, &json!("namespaces \"none\" not found"))
    );
    let mut changed = created.clone();
    changed["data"]["k"] = json!("2");
    let (code, updated) = send(&server, Method::PUT, &format!("{maps}/a"), changed.clone()).await;
    assert_eq!((code, &updated["data"]["k"]), (200, &json!("2")));
    let (code, status) = send(&server, Method::PUT, &format!("{maps}/a"), changed).await;
    assert_eq!((code, &status["reason"]), (409, &json!("Conflict")));
    assert_eq!(
        get(&server, &format!("{maps}/a")).await,
        (200, updated.clone())
    );
    let (code, status) = send(&server, Method::DELETE, &format!("{maps}/a"), Value::Null).await;
    assert_eq!(
        (code, &status["details"]["uid"]),
        (200, &updated["metadata"]["uid"])
    );
    let (code, status) = get(&server, &format!("{maps}/a")).await;
    assert_eq!(
        (code, &status["details"]),
        (404, &json!({ "name": "a", "kind": "configmaps" }))
    );
    assert_eq!(get(&server, "/api/v1/nothings").await.0, 404);
    assert_eq!(
        send(&server, Method::PATCH, &format!("{maps}/a"), object)
            .await
            .0,
        415
    );
}

#[tokio::test(start_paused = true)]
async fn discovery_of_fleetdex_works_on_it() {
    use fleetdex_clusters::discovery::{DiscoveryReader, DiscoveryResponse, parse_response};

    let server = server();
    assert_eq!(get(&server, "/readyz").await, (200, json!("ok")));
    assert_eq!(ok(&server, "/version").await["gitVersion"], "v1.36.3");
    let accept =
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let mut found = 0;
    for path in ["/api", "/apis"] {
        let ask = |tag: &str| {
            Request::get(path)
                .header(header::ACCEPT, accept)
                .header(header::IF_NONE_MATCH, tag)
                .body(Bytes::new())
                .unwrap()
        };
        let response = server.respond(ask("")).await.unwrap();
        let tag = response.headers()[header::ETAG]
            .to_str()
            .unwrap()
            .to_owned();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let DiscoveryResponse::Aggregated(discovery) = parse_response(&body).unwrap() else {
            panic!("not aggregated")
        };
        assert!(
            discovery
                .served
                .iter()
                .all(|served| served.list_and_watch && served.preferred)
        );
        found += discovery.served.len();
        assert_eq!(server.respond(ask(&tag)).await.unwrap().status(), 304);
    }
    assert_eq!(found, 8);
    let DiscoveryResponse::Classic(versions) =
        parse_response(ok(&server, "/apis").await.to_string().as_bytes()).unwrap()
    else {
        panic!()
    };
    for version in versions {
        assert!(
            !DiscoveryReader::default()
                .resources(
                    &version,
                    ok(&server, &version.path()).await.to_string().as_bytes()
                )
                .unwrap()
                .served
                .is_empty()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_kube_client_works_on_it() {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::{Api, ListParams, ObjectMeta, PostParams};

    let server = server();
    let maps: Api<ConfigMap> = Api::namespaced(server.client(), "default");
    let metadata = ObjectMeta {
        name: Some("a".into()),
        ..ObjectMeta::default()
    };
    maps.create(
        &PostParams::default(),
        &ConfigMap {
            metadata,
            ..Default::default()
        },
    )
    .await
    .unwrap();
    assert_eq!(
        maps.list(&ListParams::default()).await.unwrap().items.len(),
        1
    );
    server.inject(Fault::Refuse, Extent::Times(1));
    assert!(maps.list(&ListParams::default()).await.is_err());
}

mod faults {
    use super::*;

    fn struck(server: &Server, kind: FaultKind) -> u64 {
        server.strikes().get(&kind).copied().unwrap_or_default()
    }

    #[tokio::test(start_paused = true)]
    async fn faults_determine_the_responses_of_requests() {
        let server = server();
        let cases = [
            (Fault::Throttle(Some(7)), 429),
            (Fault::Throttle(None), 429),
            (Fault::InternalError, 500),
            (Fault::Unavailable, 503),
            (Fault::Timeout, 504),
            (Fault::Unauthorized, 401),
            (Fault::Forbidden("configmaps".into()), 403),
        ];
        for (fault, expected) in cases {
            let kind = fault.kind();
            server.inject(fault, Extent::Times(1));
            assert_eq!(
                get(&server, "/api/v1/secrets?limit=1").await.0 == 200,
                kind == FaultKind::Forbidden
            );
            if kind == FaultKind::Forbidden {
                assert_eq!(get(&server, MAPS).await.0, expected);
            }
            assert_eq!(get(&server, MAPS).await.0, 200);
        }
        server.inject(Fault::Throttle(Some(7)), Extent::Times(1));
        assert_eq!(
            get(&server, MAPS).await.1["details"]["retryAfterSeconds"],
            7
        );
        assert_eq!(struck(&server, FaultKind::Throttle), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_connection_recovers_and_a_hanging_request_does_not() {
        let server = server();
        let ask = || Request::get(MAPS).body(Bytes::new()).unwrap();
        server.inject(Fault::Refuse, Extent::For(Duration::from_secs(3)));
        assert_eq!(server.respond(ask()).await.unwrap_err(), Broken::Refused);
        tokio::time::advance(Duration::from_secs(3)).await;
        assert!(server.respond(ask()).await.is_ok());
        server.inject(Fault::Hang, Extent::Times(1));
        assert!(
            tokio::time::timeout(Duration::from_hours(1), server.respond(ask()))
                .await
                .is_err()
        );
        assert!(server.respond(ask()).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn truncated_list_pages_are_never_complete() {
        let server = server();
        map(&server, "a", "1");
        server.inject(Fault::CutList, Extent::Times(20));
        let mut errors = 0;
        for _ in 0..20 {
            let response = server
                .respond(Request::get(MAPS).body(Bytes::new()).unwrap())
                .await
                .unwrap();
            match response.into_body().collect().await {
                Ok(body) => assert!(serde_json::from_slice::<Value>(&body.to_bytes()).is_err()),
                Err(_) => errors += 1,
            }
        }
        assert!((1..20).contains(&errors), "{errors}");
        assert_eq!(struck(&server, FaultKind::CutList), 20);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_page_shows_the_revision_of_its_request_and_a_restart_breaks_it() {
        let server = server();
        server.inject(Fault::SlowList(Duration::from_secs(10)), Extent::Times(2));
        let (list, ()) = tokio::join!(ok(&server, MAPS), async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            map(&server, "a", "1");
        });
        assert_eq!(names(&list), [""; 0]);
        let request = Request::get(MAPS).body(Bytes::new()).unwrap();
        let (response, ()) = tokio::join!(server.respond(request), async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            server.restart();
        });
        assert_eq!(response.unwrap_err(), Broken::Reset);
    }

    #[tokio::test(start_paused = true)]
    async fn continued_lists_and_watches_expire_with_http_410() {
        let server = server();
        map(&server, "a", "1");
        map(&server, "b", "1");
        server.inject(Fault::ExpireContinue, Extent::Times(1));
        server.inject(Fault::ExpireWatch, Extent::Times(1));
        let first = ok(&server, &format!("{MAPS}?limit=1")).await;
        let next = format!(
            "{MAPS}?limit=1&continue={}",
            first["metadata"]["continue"].as_str().unwrap()
        );
        let (code, status) = get(&server, &next).await;
        assert_eq!(
            (code, status["metadata"]["continue"].is_string()),
            (410, true)
        );
        assert_eq!(names(&ok(&server, &next).await), ["b"]);
        assert_eq!(
            get(&server, &format!("{MAPS}?watch=true&resourceVersion=1"))
                .await
                .0,
            410
        );
    }

    #[tokio::test(start_paused = true)]
    async fn faults_close_cut_freeze_and_fail_running_watches() {
        let server = server();
        let open = || WatchReader::open(&server, server.revision(), "&timeoutSeconds=60");
        server.inject(Fault::CloseWatch, Extent::Times(1));
        assert_eq!(open().await.next().await, Ok(None));

        let mut watch = open().await;
        assert!(watch.is_silent().await);
        server.inject(Fault::CutWatch, Extent::Times(1));
        assert!(matches!(watch.next().await, Err(_) | Ok(None)));

        let mut watch = open().await;
        server.inject(Fault::CutLine, Extent::Times(1));
        assert!(watch.is_silent().await, "there is no line to cut");
        map(&server, "a", "1");
        assert!(matches!(watch.next().await, Err(_) | Ok(None)));

        let mut watch = open().await;
        server.inject(Fault::FailWatch, Extent::Times(1));
        assert_eq!(watch.event().await, event("ERROR", "InternalError", 0));
        assert_eq!(watch.next().await, Ok(None));

        let mut watch = open().await;
        server.inject(Fault::FreezeWatch, Extent::Times(1));
        map(&server, "a", "2");
        assert!(
            tokio::time::timeout(Duration::from_hours(1), watch.next())
                .await
                .is_err()
        );
        let kinds = [
            FaultKind::CloseWatch,
            FaultKind::CutWatch,
            FaultKind::CutLine,
            FaultKind::FailWatch,
            FaultKind::FreezeWatch,
        ];
        assert!(
            kinds.iter().all(|kind| struck(&server, *kind) == 1),
            "{:?}",
            server.strikes()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn late_changes_keep_their_order_and_bookmarks_do_not_pass_them() {
        let server = server();
        let start = server.revision();
        let mut watch = WatchReader::open(&server, start, "&allowWatchBookmarks=true").await;
        server.inject(Fault::Lag(Duration::from_secs(90)), Extent::Times(1));
        let late = map(&server, "a", "1").version;
        let next = map(&server, "b", "1").version;
        assert_eq!(
            names(&ok(&server, MAPS).await),
            ["a", "b"],
            "lists are not late"
        );
        let began = Instant::now();
        assert_eq!(watch.event().await, event("ADDED", "a", late));
        assert_eq!(began.elapsed().as_secs(), 90);
        assert_eq!(watch.event().await, event("ADDED", "b", next));
        server.inject(
            Fault::Lag(Duration::from_hours(1)),
            Extent::For(Duration::from_secs(1)),
        );
        map(&server, "c", "1");
        server.heal();
        assert_eq!(watch.event().await.1, "c");
        assert_eq!(began.elapsed().as_secs(), 90);
    }

    #[tokio::test(start_paused = true)]
    async fn no_watch_sends_a_swallowed_change() {
        let server = server();
        let start = server.revision();
        let mut watch = WatchReader::open(&server, start, "").await;
        server.inject(Fault::Swallow, Extent::Times(1));
        assert!(watch.is_silent().await);
        map(&server, "lost", "1");
        assert!(watch.is_silent().await);
        map(&server, "seen", "1");
        assert_eq!(watch.event().await.1, "seen");
        assert_eq!(
            WatchReader::open(&server, start, "").await.event().await.1,
            "seen"
        );
        assert_eq!(names(&ok(&server, MAPS).await), ["lost", "seen"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_replays_an_old_change() {
        let server = server();
        let mut watch = WatchReader::open(&server, server.revision(), "").await;
        let first = map(&server, "a", "1").version;
        assert_eq!(watch.event().await.2, first);
        server.inject(Fault::Replay, Extent::Times(1));
        let second = map(&server, "a", "2").version;
        assert_eq!(watch.event().await, event("MODIFIED", "a", second));
        assert_eq!(watch.event().await, event("ADDED", "a", first));
        assert!(watch.is_silent().await);
    }

    #[tokio::test(start_paused = true)]
    async fn latency_is_random_and_determined_by_the_seed() {
        let took = async |seed| {
            let server = Server::new(Options {
                latency: Duration::from_millis(50),
                ..Options::new(seed)
            });
            let began = Instant::now();
            for _ in 0..5 {
                ok(&server, MAPS).await;
            }
            began.elapsed()
        };
        assert_eq!(took(1).await, took(1).await);
        assert_ne!(took(1).await, took(2).await);
    }
}

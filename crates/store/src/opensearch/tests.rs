//! The engine over a service of requests and responses.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use fleetdex_core::{
    model::{Gvk, IndexPrefix},
    query::{Grant, GroupKey, Permitted, Query, Requester, ResourceName, Selectable},
};
use http::{Method, Request, Response};
use parking_lot::Mutex;
use serde_json::json;
use tower::{service_fn, util::BoxCloneSyncService};

use super::{
    Engine, EngineOptions, IndexSettings, ListContexts, PlacementRules, dsl::composite::PAGE,
};
use crate::{DocumentVersions as _, Extent, IndexReader as _, IndexRevision, StoreError};

/// An engine that finds three pods everywhere, and what it asks. Searches of points in time do not
/// answer if `hangs`.
fn recorded(hangs: bool) -> (Engine, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&asked);
    let opened = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let service = BoxCloneSyncService::new(service_fn(move |request: Request<Bytes>| {
        let mut line = format!("{} {}", request.method(), request.uri());
        if request.method() == Method::DELETE {
            line = format!("{line} {}", String::from_utf8_lossy(request.body()));
        }
        record.lock().push(line);
        let opens =
            request.method() == Method::POST && request.uri().path().ends_with("point_in_time");
        let number = opened.fetch_add(u64::from(opens), std::sync::atomic::Ordering::Relaxed) + 1;
        let waits = hangs && request.uri().path() == "/_search";
        let source = |name: &str| json!({ "cluster": "a", "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "uid": name } });
        let hit = |name: &str| json!({ "_id": name, "_source": source(name), "sort": [name] });
        let hits = ["a", "b", "c"].map(hit);
        let body = json!({
            "pit_id": opens.then(|| format!("pit{number}")), "timed_out": false, "_shards": { "total": 2, "successful": 2, "failed": 0 },
            "hits": { "total": { "value": 3 }, "hits": hits },
        });
        async move {
            if waits {
                std::future::pending::<()>().await;
            }
            Ok(Response::new(Bytes::from(body.to_string())))
        }
    }));
    let options = EngineOptions {
        prefix: IndexPrefix::default(),
        settings: IndexSettings::default(),
        fields: Vec::new(),
        projection: String::new(),
        placement: PlacementRules::default(),
        owner: String::new(),
        address: String::new(),
    };
    (Engine::new(service, options), asked)
}

fn query(permitted: Permitted) -> Query {
    let selectable = Selectable::of(&Gvk::new("", "v1", "Pod"), &[]);
    Query {
        permitted,
        ..Query::all_of(ResourceName::new("", "pods"), selectable, 2)
    }
}

fn in_clusters(names: &[String]) -> Permitted {
    let clusters = names.iter().map(|name| name.parse().unwrap()).collect();
    Permitted::Only(vec![Grant {
        clusters: Some(clusters),
        namespaces: None,
    }])
}

#[tokio::test]
async fn searches_and_points_in_time_read_local_copies_and_searches_in_them_have_no_preference() {
    let (engine, asked) = recorded(false);
    engine
        .search(&query(Permitted::Everything), None)
        .await
        .unwrap();
    let asked = asked.lock();
    let local = |line: &String| line.contains("preference=_local");
    let [page, opened, first] = asked.as_slice() else {
        panic!("{asked:?}");
    };
    assert!(page.contains("/fleetdex/_search?") && local(page), "{page}");
    assert!(
        opened.contains("/point_in_time?") && local(opened),
        "{opened}"
    );
    assert_eq!(first, "POST /_search");
}

#[tokio::test]
async fn only_clusters_that_may_be_seen_are_searched() {
    let paths = |asked: &Mutex<Vec<String>>| {
        let targets = asked.lock().drain(..).collect::<Vec<_>>();
        let target = |path: &String| path.split(['/', '?']).nth(1).unwrap_or_default().to_owned();
        targets.iter().map(target).collect::<Vec<_>>()
    };
    let (engine, asked) = recorded(false);
    let some = in_clusters(&["b".to_owned(), "a".to_owned()]);
    engine.search(&query(some.clone()), None).await.unwrap();
    assert_eq!(
        paths(&asked),
        ["fleetdex-a,fleetdex-b", "fleetdex-a,fleetdex-b", "_search"]
    );
    engine
        .search(
            &Query {
                clusters: vec!["b".parse().unwrap(), "c".parse().unwrap()],
                ..query(some)
            },
            None,
        )
        .await
        .unwrap();
    assert_eq!(paths(&asked), ["fleetdex-b", "fleetdex-b", "_search"]);
    let page = engine.search(&query(in_clusters(&[])), None).await.unwrap();
    assert!(page.items.is_empty() && page.next.is_none());
    assert!(
        engine
            .aggregate(&query(Permitted::Only(Vec::new())), &[], 1)
            .await
            .unwrap()
            .groups
            .is_empty()
    );
    assert_eq!(paths(&asked), [""; 0]);
    // More than OpenSearch reads of a path: the conditions of the query keep the others out.
    let many: Vec<String> = (0..300).map(|number| format!("cluster-{number}")).collect();
    engine
        .search(&query(in_clusters(&many)), None)
        .await
        .unwrap();
    assert_eq!(paths(&asked), ["fleetdex", "fleetdex", "_search"]);
}

/// The points in time that were closed.
async fn closed(asked: &Mutex<Vec<String>>) -> Vec<String> {
    tokio::time::sleep(Duration::from_secs(1)).await;
    let asked = asked.lock();
    asked
        .iter()
        .filter_map(|line| {
            line.strip_prefix("DELETE /_search/point_in_time ")
                .map(str::to_owned)
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn what_is_cut_off_keeps_no_point_in_time() {
    let (engine, asked) = recorded(true);
    let list = query(Permitted::Everything);
    assert!(
        tokio::time::timeout(Duration::from_secs(1), engine.search(&list, None))
            .await
            .is_err()
    );
    assert_eq!(closed(&asked).await, [r#"{"pit_id":["pit1"]}"#]);
    let (cluster, api_version, kind) = ("a".parse().unwrap(), "v1".to_owned(), "Pod".to_owned());
    let revision = IndexRevision::first(&IndexPrefix::default(), &cluster);
    let extent = Extent::Kind(crate::KindExtent {
        api_version,
        kind,
        namespace: None,
    });
    let mut visit = |_: crate::StoredVersion<'_>| {};
    let visiting = engine.visit_versions(&revision, &extent, &mut visit);
    assert!(
        tokio::time::timeout(Duration::from_secs(1), visiting)
            .await
            .is_err()
    );
    assert_eq!(
        closed(&asked).await.last().unwrap(),
        r#"{"pit_id":["pit2"]}"#
    );
}

#[tokio::test(start_paused = true)]
async fn users_hold_no_more_than_their_shares_and_leave_the_rest_to_the_operator() {
    let (engine, asked) = recorded(false);
    // Each takes two contexts.
    let engine = engine.sharing(ListContexts::new(12));
    let of = |name: &str| Query {
        requester: Requester::User(name.into()),
        ..query(Permitted::Everything)
    };
    let mut cursors = Vec::new();
    for _ in 0..5 {
        tokio::time::advance(Duration::from_secs(1)).await;
        cursors.extend(engine.search(&of("mallory"), None).await.unwrap().next);
    }
    assert_eq!(
        closed(&asked).await,
        [r#"{"pit_id":["pit1"]}"#, r#"{"pit_id":["pit2"]}"#]
    );
    assert!(matches!(
        engine.search(&of("mallory"), cursors.first()).await,
        Err(StoreError::Superseded)
    ));
    for _ in 0..3 {
        engine.search(&of("alice"), None).await.unwrap();
    }
    let refused = engine.search(&of("bob"), None).await;
    assert!(
        matches!(&refused, Err(StoreError::Crowded(message)) if message.contains("12 contexts")),
        "{refused:?}"
    );
    assert!(
        engine
            .search(&query(Permitted::Everything), None)
            .await
            .is_ok(),
        "the operator itself has no share"
    );
    engine.release(&cursors[4]);
    assert_eq!(
        closed(&asked).await.last().unwrap(),
        r#"{"pit_id":["pit5"]}"#
    );
    assert!(engine.search(&of("bob"), None).await.is_ok());
    engine.pin(&cursors[3]);
    assert!(
        engine
            .search(&of("mallory"), Some(&cursors[2]))
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn groups_of_many_pages_are_found_without_a_point_in_time() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&asked);
    let service = BoxCloneSyncService::new(service_fn(move |request: Request<Bytes>| {
        record.lock().push(request.uri().path().to_owned());
        let asked: serde_json::Value = serde_json::from_slice(request.body()).unwrap_or_default();
        let composite = &asked["aggs"]["groups"]["composite"];
        let source = composite["sources"][0]
            .as_object()
            .and_then(|source| source.keys().next().cloned())
            .unwrap_or_default();
        let after = composite["after"][&source]
            .as_str()
            .and_then(|after| after.strip_prefix("cluster-")?.parse::<usize>().ok());
        let from = after.map_or(0, |after| after + 1);
        // Two full pages, and one cluster more.
        let names = (from..=2 * PAGE)
            .take(PAGE)
            .map(|number| format!("cluster-{number:06}"));
        let buckets: Vec<_> = names
            .map(|name| json!({ "key": { (source.clone()): name }, "doc_count": 3 }))
            .collect();
        let after = buckets.last().map(|bucket| bucket["key"].clone());
        let body = json!({
            "pit_id": "pit", "timed_out": false, "_shards": { "total": 2, "successful": 2, "failed": 0 }, "hits": { "hits": [] },
            "aggregations": { "groups": { "buckets": buckets, "after_key": after } },
        });
        async move { Ok(Response::new(Bytes::from(body.to_string()))) }
    }));
    let engine = Engine::new(service, recorded(false).0.options.clone());
    let found = engine
        .groups(&query(Permitted::Everything), &[GroupKey::Cluster])
        .await
        .unwrap();
    assert_eq!(
        (found.groups.len(), found.total),
        (2 * PAGE + 1, 3 * (2 * PAGE as u64 + 1))
    );
    assert_eq!(*asked.lock(), ["/fleetdex/_search"; 3]);
}

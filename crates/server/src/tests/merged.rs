//! Queries of a resource that several stores hold parts of.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{Router, body::Body, http::Response};
use fleetdex_core::{
    model::{Gvk, Namespace, Object, Projection, Projector, Resource},
    query::{Query, ResourceName, Selectable},
};
use fleetdex_store::{
    CompleteResources, DocumentWriter as _, IndexReader, IndexRevision, RevisionStore as _,
    StoreError,
    bulk::Write,
    changes::Sequence,
    fake::PreparedReader,
    memory::Memory,
    merged::{Merged, StorePart as MergedPart},
};
use fleetdex_telemetry::Readiness;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::{sync::watch, time::timeout};

use super::{get, send, state_over};
use crate::{
    catalog::{Catalog, coverage::StoreCoverage},
    fake::{add, cluster, cursor, page, pods, served, store, watched_fleet::WatchedLines},
    http::serve::router,
    read::interpreters::Interpreters,
};

const SEARCH: &str = "/apis/search.fleetdex.io/v1alpha1/search";

/// One store and its writes.
struct Part {
    memory: Memory,
    revisions: BTreeMap<String, IndexRevision>,
}

impl Part {
    async fn new(sequence: &Sequence, clusters: &[&str]) -> Self {
        let memory = Memory::numbered(sequence.clone());
        let mut revisions = BTreeMap::new();
        for name in clusters {
            let revision = memory.open(&cluster(name), None, 0).await.unwrap();
            memory
                .activate(&revision, &CompleteResources::All)
                .await
                .unwrap();
            revisions.insert((*name).to_owned(), revision);
        }
        Self { memory, revisions }
    }

    async fn write(&self, cluster: &str, object: &Value, exists: bool) {
        let kind = object["kind"].as_str().unwrap();
        let (group, version, plural) = if kind == "Pod" {
            ("", "v1", "pods")
        } else {
            ("apps", "v1", "replicasets")
        };
        let resource = Resource {
            gvk: Gvk::new(group, version, kind),
            plural: plural.into(),
            namespaced: true,
        };
        let revision = &self.revisions[cluster];
        let json = object.to_string();
        let projector = Projector::new(&revision.cluster, &resource, &Projection::default(), &[]);
        let mut document = projector
            .document(&Object::parse(&json).unwrap(), "2026-01-01T00:00:00Z")
            .unwrap();
        document.body = document.body.filter(|_| exists);
        let write = Write {
            index: revision.target.clone(),
            document,
        };
        self.memory.write(&[write]).await.unwrap();
    }
}

fn pod(cluster: &str, namespace: &str, name: &str, version: u64, app: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": namespace, "uid": format!("{cluster}-{namespace}-{name}"), "resourceVersion": version.to_string(),
            "creationTimestamp": format!("2026-01-01T00:00:{:02}Z", version % 5), "labels": { "app": app },
        },
        "spec": { "nodeName": format!("node-{}", version % 3) },
    })
}

/// An application over a catalog that can be replaced.
struct App {
    router: Router,
    catalog: watch::Sender<Arc<Catalog>>,
}

impl App {
    fn new(catalog: Catalog) -> Self {
        let (sender, receiver) = watch::channel(Arc::new(catalog));
        let api = state_over(receiver, Interpreters::default());
        Self {
            router: router(api, Readiness::new()),
            catalog: sender,
        }
    }

    async fn response(&self, path: &str) -> Response<Body> {
        send(&self.router, get(path)).await
    }

    async fn body(&self, path: &str) -> (u16, Body) {
        let response = self.response(path).await;
        (response.status().as_u16(), response.into_body())
    }

    async fn get(&self, query: &str) -> Value {
        let (code, body) = self.body(&format!("{SEARCH}/{query}")).await;
        let bytes = body.collect().await.unwrap().to_bytes();
        let value: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(code, 200, "{query}: {value}");
        value
    }

    /// `cluster/namespace/name` of each object, page by page.
    async fn names(&self, query: &str) -> Vec<String> {
        let mut names = Vec::new();
        let mut token = String::new();
        loop {
            let list = self.get(&format!("{query}{token}")).await;
            let items = list["items"].as_array().unwrap();
            names.extend(
                items
                    .iter()
                    .map(|item| item["metadata"]["uid"].as_str().unwrap().to_owned()),
            );
            let Some(next) = list["metadata"]["continue"].as_str() else {
                return names;
            };
            assert_eq!(
                list["metadata"]["remainingItemCount"],
                self.get(query.split('?').next().unwrap()).await["items"]
                    .as_array()
                    .unwrap()
                    .len()
                    - names.len(),
                "{query}"
            );
            token = format!("&continue={next}");
        }
    }
}

/// Namespaces `red` and `blue` of member1 in two stores, member2 in the second; and the same in one
/// store.
struct Fleet {
    parts: [Part; 2],
    whole: Part,
    sequence: Sequence,
}

impl Fleet {
    async fn new() -> Self {
        let sequence = Sequence::default();
        let parts = [
            Part::new(&sequence, &["member1"]).await,
            Part::new(&sequence, &["member1", "member2"]).await,
        ];
        Self {
            parts,
            whole: Part::new(&sequence, &["member1", "member2"]).await,
            sequence,
        }
    }

    async fn write(
        &self,
        cluster: &str,
        namespace: &str,
        name: &str,
        version: u64,
        app: Option<&str>,
    ) {
        let object = pod(cluster, namespace, name, version, app.unwrap_or_default());
        let part = usize::from(cluster == "member2" || namespace == "blue");
        self.parts[part]
            .write(cluster, &object, app.is_some())
            .await;
        self.whole.write(cluster, &object, app.is_some()).await;
    }

    fn split(&self) -> Catalog {
        let mut catalog = Catalog::default();
        for (name, part) in ["red", "blue"].into_iter().zip(&self.parts) {
            catalog.add_store(store(name), Arc::new(part.memory.clone()));
            for cluster_name in part.revisions.keys() {
                add(&mut catalog, name, cluster_name, &pods());
            }
            let only: Namespace = name.parse().unwrap();
            let reach = StoreCoverage::of_namespaces(Some(&[only].into()), &[].into());
            catalog.add_coverage(
                &ResourceName::new("", "pods"),
                &store(name),
                &cluster("member1"),
                &reach,
            );
        }
        catalog
    }

    fn together(&self) -> Catalog {
        let mut catalog = Catalog::default();
        catalog.add_store(store("whole"), Arc::new(self.whole.memory.clone()));
        add(&mut catalog, "whole", "member1", &pods());
        add(&mut catalog, "whole", "member2", &pods());
        catalog
    }
}

#[tokio::test]
async fn several_stores_give_the_same_results_as_one() {
    let fleet = Fleet::new().await;
    let mut random = fastrand::Rng::with_seed(7);
    for number in 1..60 {
        let (cluster, namespace) = (
            ["member1", "member2"][random.usize(..2)],
            ["red", "blue"][random.usize(..2)],
        );
        let name = format!("p{}", random.usize(..20));
        let app = Some(["web", "api"][random.usize(..2)]);
        fleet.write(cluster, namespace, &name, number, app).await;
    }
    // Objects outside the assigned namespaces of a store are not shown.
    fleet.parts[1]
        .write("member1", &pod("member1", "red", "p1", 900, "web"), true)
        .await;
    let (split, whole) = (App::new(fleet.split()), App::new(fleet.together()));
    let orders = [
        "",
        "&orderBy=cluster",
        "&orderBy=metadata.creationTimestamp+desc",
        "&orderBy=spec.nodeName,name+desc",
        "&orderBy=namespace+desc",
    ];
    for (order, limit) in orders
        .iter()
        .flat_map(|order| [1, 3, 7, 1000].map(|limit| (order, limit)))
    {
        let query = format!("api/v1/pods?limit={limit}{order}");
        assert_eq!(
            split.names(&query).await,
            whole.names(&query).await,
            "{query}"
        );
    }
    for question in [
        "api/v1/pods?labelSelector=app%3Dweb",
        "api/v1/namespaces/blue/pods",
        "api/v1/namespaces/red/pods?clusters=member1",
        "api/v1/pods?clusters=member2&fieldSelector=spec.nodeName%3Dnode-1",
        "api/v1/pods?names=p1,p2",
    ] {
        let (left, right) = (split.get(question).await, whole.get(question).await);
        assert_eq!(left["items"], right["items"], "{question}");
    }
    assert!(
        !whole.get("api/v1/pods").await["items"]
            .as_array()
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn counts_and_explanations_cover_all_stores() {
    let fleet = Fleet::new().await;
    for (number, (cluster, namespace)) in [
        ("member1", "red"),
        ("member1", "blue"),
        ("member2", "red"),
        ("member2", "blue"),
    ]
    .into_iter()
    .enumerate()
    {
        for copy in 0..=number {
            let (name, version) = (format!("p{copy}"), 1 + copy as u64);
            fleet
                .write(cluster, namespace, &name, version, Some("web"))
                .await;
        }
    }
    let (split, whole) = (App::new(fleet.split()), App::new(fleet.together()));
    let count = "aggregate/api/v1/pods?by=cluster,metadata.namespace&top=3";
    let path = |what: &str| format!("/apis/search.fleetdex.io/v1alpha1/{what}");
    let ask = async |app: &App, what: &str| {
        let (code, body) = app.body(&path(what)).await;
        let value: Value =
            serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
        assert_eq!(code, 200, "{value}");
        value
    };
    let counted = ask(&split, count).await;
    assert_eq!(counted, ask(&whole, count).await);
    assert_eq!(counted["total"], 10);
    let explained = split.get("api/v1/pods?explain=true").await;
    assert_eq!(
        (&explained["store"], &explained["estimate"]["objects"]),
        (&json!("blue, red"), &json!(10))
    );
    let stores: Vec<&str> = explained["stores"]
        .as_array()
        .unwrap()
        .iter()
        .map(|asked| asked["store"].as_str().unwrap())
        .collect();
    assert_eq!(stores, ["blue", "red"]);
    assert_eq!(explained["requests"].as_array().unwrap().len(), 2);
    let named = split.get("api/v1/pods?store=red").await;
    assert_eq!(named["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn owners_are_found_in_any_store() {
    let fleet = Fleet::new().await;
    let mut owned = pod("member1", "red", "p", 1, "web");
    owned["metadata"]["ownerReferences"] =
        json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "rs-uid" }]);
    fleet.parts[0].write("member1", &owned, true).await;
    fleet.write("member1", "red", "free", 2, Some("web")).await;
    let owner = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": { "name": "rs", "namespace": "red", "uid": "rs-uid", "resourceVersion": "3" },
    });
    fleet.parts[1].write("member1", &owner, true).await;
    let mut catalog = fleet.split();
    add(
        &mut catalog,
        "blue",
        "member1",
        &served(
            Gvk::new("apps", "v1", "ReplicaSet"),
            "replicasets",
            true,
            &[],
        ),
    );
    let app = App::new(catalog);
    assert_eq!(
        app.names("api/v1/pods?ownerName=rs").await,
        ["member1-red-p"]
    );
}

async fn watch_lines(app: &App, query: &str) -> WatchedLines {
    let path = format!("{SEARCH}/api/v1/pods?watch=true{query}");
    WatchedLines::of(app.response(&path).await)
}

#[tokio::test(start_paused = true)]
async fn a_watch_sends_the_changes_of_all_stores_in_order_and_resumes_from_any_of_them() {
    let fleet = Fleet::new().await;
    fleet.write("member1", "red", "first", 1, Some("web")).await;
    // The other store has newer changes by then.
    for number in 0..10 {
        let name = format!("p{number}");
        fleet
            .write("member2", "red", &name, 2 + number, Some("web"))
            .await;
    }
    let app = App::new(fleet.split());
    let list = app.get("api/v1/pods").await;
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    for item in list["items"].as_array().unwrap() {
        known.insert(
            item["metadata"]["uid"].as_str().unwrap().to_owned(),
            item["metadata"]["resourceVersion"]
                .as_str()
                .unwrap()
                .to_owned(),
        );
    }
    let mut version: u64 = list["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    let mut random = fastrand::Rng::with_seed(3);
    let mut there: BTreeMap<String, String> = known.clone();
    for round in 0..20_u64 {
        let mut expected = 0;
        for step in 0..random.u64(1..6) {
            let (cluster, namespace) = (
                ["member1", "member2"][random.usize(..2)],
                ["red", "blue"][random.usize(..2)],
            );
            let (name, number) = (format!("p{}", random.usize(..5)), 100 + round * 10 + step);
            let uid = format!("{cluster}-{namespace}-{name}");
            let lives = random.bool();
            if lives || there.contains_key(&uid) {
                expected += 1;
            }
            if lives {
                there.insert(uid, number.to_string())
            } else {
                there.remove(&uid)
            };
            fleet
                .write(cluster, namespace, &name, number, lives.then_some("web"))
                .await;
        }
        // As a client that resumes from the last event each time.
        let mut lines = watch_lines(&app, &format!("&resourceVersion={version}")).await;
        let mut events = 0;
        while known != there || events < expected.min(1) {
            let event =
                tokio::time::timeout(std::time::Duration::from_secs(20), lines.next()).await;
            let event = event
                .unwrap_or_else(|_| panic!("{known:?}, not {there:?}"))
                .unwrap();
            events += 1;
            let metadata = &event["object"]["metadata"];
            let uid = metadata["uid"].as_str().unwrap().to_owned();
            let seen: u64 = metadata["resourceVersion"]
                .as_str()
                .unwrap()
                .parse()
                .unwrap();
            assert!(seen > version, "{seen} after {version}");
            version = seen;
            let own = metadata["annotations"]["fleetdex.io/resource-version"]
                .as_str()
                .unwrap()
                .to_owned();
            match event["type"].as_str().unwrap() {
                "ADDED" | "MODIFIED" => drop(known.insert(uid, own)),
                "DELETED" => drop(known.remove(&uid)),
                other => panic!("{other}: {event}"),
            }
        }
        assert!(fleet.sequence.newest() > 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_when_its_objects_move_to_another_store() {
    let fleet = Fleet::new().await;
    fleet.write("member1", "red", "a", 1, Some("web")).await;
    let app = App::new(fleet.together());
    let mut lines = watch_lines(&app, "").await;
    assert_eq!(lines.next().await.unwrap()["type"], "ADDED");
    // Something else changes.
    let mut same = fleet.together();
    same.add_registry("another");
    app.catalog.send_replace(Arc::new(same));
    fleet.write("member1", "red", "a", 2, Some("web")).await;
    assert_eq!(lines.next().await.unwrap()["type"], "MODIFIED");
    app.catalog.send_replace(Arc::new(fleet.split()));
    let end = lines.next().await.unwrap();
    assert_eq!(
        (&end["type"], &end["object"]["code"]),
        (&json!("ERROR"), &json!(410))
    );
    assert!(lines.next().await.is_none());
    // One part of several moves.
    let mut lines = watch_lines(&app, "").await;
    while lines.next().await.unwrap()["object"]["metadata"]["name"] != "a" {}
    let mut moved = Catalog::default();
    for (name, part) in [
        ("red", &fleet.parts[0]),
        ("blue", &fleet.parts[1]),
        ("whole", &fleet.whole),
    ] {
        moved.add_store(store(name), Arc::new(part.memory.clone()));
        add(
            &mut moved,
            name,
            if name == "whole" {
                "member2"
            } else {
                "member1"
            },
            &pods(),
        );
    }
    for name in ["red", "blue"] {
        let only: Namespace = name.parse().unwrap();
        let reach = StoreCoverage::of_namespaces(Some(&[only].into()), &[].into());
        moved.add_coverage(
            &ResourceName::new("", "pods"),
            &store(name),
            &cluster("member1"),
            &reach,
        );
    }
    app.catalog.send_replace(Arc::new(moved));
    let end = lines.next().await.unwrap();
    assert_eq!(
        (&end["type"], &end["object"]["code"]),
        (&json!("ERROR"), &json!(410))
    );
}

/// A catalog of pods of some clusters in one store.
fn only_in(name: &str, part: &Part) -> Catalog {
    let mut catalog = Catalog::default();
    catalog.add_store(store(name), Arc::new(part.memory.clone()));
    for cluster_name in part.revisions.keys() {
        add(&mut catalog, name, cluster_name, &pods());
    }
    catalog
}

/// The type of the first event of a watch from the version of a list.
async fn first_event_after(app: &App, list: &Value) -> String {
    let version = list["metadata"]["resourceVersion"].as_str().unwrap();
    let mut lines = watch_lines(app, &format!("&resourceVersion={version}")).await;
    let event = timeout(Duration::from_secs(20), lines.next()).await;
    event.unwrap().unwrap()["type"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_before_a_move_to_another_store_has_to_begin_with_another_list() {
    let sequence = Sequence::default();
    let [former, new] = [
        Part::new(&sequence, &["member1"]).await,
        Part::new(&sequence, &["member1"]).await,
    ];
    let object = |name: &str, version| pod("member1", "web", name, version, "web");
    for name in ["a", "deleted"] {
        former.write("member1", &object(name, 1), true).await;
    }
    let app = App::new(only_in("former", &former));
    let before = app.get("api/v1/pods").await;
    assert_eq!(before["items"].as_array().unwrap().len(), 2);
    // The new store was filled after one of the objects was deleted.
    new.write("member1", &object("a", 1), true).await;
    app.catalog.send_replace(Arc::new(only_in("new", &new)));
    assert_eq!(first_event_after(&app, &before).await, "ERROR");
    // A list of the new store can be watched, although nothing has changed since the move.
    let after = app.get("api/v1/pods").await;
    assert_eq!(after["items"].as_array().unwrap().len(), 1);
    new.write("member1", &object("a", 2), true).await;
    assert_eq!(first_event_after(&app, &after).await, "MODIFIED");
}

#[tokio::test(start_paused = true)]
async fn a_watch_resumes_although_clusters_have_joined_its_store() {
    let sequence = Sequence::default();
    let part = Part::new(&sequence, &["member1", "member2"]).await;
    let mut alone = Catalog::default();
    alone.add_store(store("main"), Arc::new(part.memory.clone()));
    add(&mut alone, "main", "member1", &pods());
    let app = App::new(alone);
    let before = app.get("api/v1/pods").await;
    app.catalog.send_replace(Arc::new(only_in("main", &part)));
    part.write("member2", &pod("member2", "web", "a", 1, "web"), true)
        .await;
    assert_eq!(first_event_after(&app, &before).await, "ADDED");
}

#[tokio::test]
async fn overlapping_stores_are_an_error_that_asks_to_choose_one() {
    let fleet = Fleet::new().await;
    let mut catalog = fleet.split();
    for name in ["red", "blue"] {
        add(&mut catalog, name, "member3", &pods());
        catalog.add_coverage(
            &ResourceName::new("", "pods"),
            &store(name),
            &cluster("member3"),
            &StoreCoverage::some_of(None),
        );
    }
    let app = App::new(catalog);
    let (code, body) = app.body(&format!("{SEARCH}/api/v1/pods")).await;
    let status: Value = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
    assert_eq!(
        (code, status["message"].as_str().unwrap()),
        (
            400,
            "blue and red hold pods of cluster member3 by labels or fields, so that some may be in both; choose with the parameter store: blue, red"
        )
    );
    app.get("api/v1/pods?clusters=member1,member2").await;
    app.get("api/v1/pods?store=red").await;
}

/// Stores with prepared results, merged.
fn prepared(stores: &[Arc<PreparedReader>]) -> Merged {
    let part = |(number, prepared): (usize, &Arc<PreparedReader>)| {
        let selectable = Selectable::of(&Gvk::new("", "v1", "Pod"), &[]);
        MergedPart {
            name: store(&format!("store{number}")),
            store: Arc::clone(prepared) as Arc<dyn IndexReader>,
            selectable,
            area: None,
        }
    };
    Merged::new(stores.iter().enumerate().map(part).collect(), Vec::new())
}

#[tokio::test(start_paused = true)]
async fn views_of_a_failed_response_are_closed() {
    let selectable = Selectable::of(&Gvk::new("", "v1", "Pod"), &[]);
    let query = Query::all_of(ResourceName::new("", "pods"), selectable, 1);
    let more = || PreparedReader::with(vec![Ok(page(&["a"], Some(cursor(1)), None))]);
    let fails = || PreparedReader::with(vec![Err(StoreError::Embedded("out of order".to_owned()))]);
    let closed = |store: &Arc<PreparedReader>| {
        store
            .released
            .lock()
            .iter()
            .map(|cursor| cursor.snapshot.clone())
            .collect::<Vec<_>>()
    };
    let first = more();
    assert!(
        prepared(&[Arc::clone(&first), fails()])
            .first_page(&query)
            .await
            .is_err()
    );
    assert_eq!(closed(&first), ["view"]);
    let first = more();
    let late = prepared(&[Arc::clone(&first), PreparedReader::hanging()]);
    assert!(
        timeout(Duration::from_secs(30), late.first_page(&query))
            .await
            .is_err()
    );
    assert_eq!(closed(&first), ["view"]);
    let (first, second) = (more(), more());
    let both = prepared(&[Arc::clone(&first), Arc::clone(&second)]);
    let (answered, _) = both.first_page(&query).await.unwrap();
    assert!(
        closed(&first).is_empty() && closed(&second).is_empty(),
        "the cursor knows them"
    );
    assert!(both.search(&query, &answered.next.unwrap()).await.is_ok());
    // The next page fails in one store: the views of the client's token stay open.
    let (first, second) = (more(), more());
    let both = prepared(&[Arc::clone(&first), Arc::clone(&second)]);
    let next = both.first_page(&query).await.unwrap().0.next.unwrap();
    first.add(Ok(page(&["b"], Some(cursor(2)), None)));
    second.add(Err(StoreError::Embedded("out of order".to_owned())));
    assert!(both.search(&query, &next).await.is_err());
    assert!(closed(&first).is_empty() && closed(&second).is_empty());
}

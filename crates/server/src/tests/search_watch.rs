//! Watches of searches over all kinds, as a client sees them, on the embedded store.

use std::sync::Arc;

use axum::Router;
use fleetdex_core::model::Gvk;
use fleetdex_telemetry::Readiness;
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{Duration, Instant},
};

use super::{body, get, refusal, send, state};
use crate::{
    catalog::Catalog,
    fake::{
        add, served,
        watched_fleet::{DEPLOYMENT, NODE, POD, WatchedFleet, WatchedLines},
    },
    http::serve::router,
    read::interpreters::Interpreters,
    tests::across_kinds::GROUP,
};

/// A search, a change of the catalog, and whether it ends a watch of the search.
type CatalogChange<'c> = (&'c str, &'c dyn Fn(&mut Catalog), bool);

/// A fleet, and a server whose catalog can be replaced.
struct World {
    fleet: WatchedFleet,
    catalog: watch::Sender<Arc<Catalog>>,
    app: Router,
}

impl World {
    async fn new() -> Self {
        let fleet = WatchedFleet::new().await;
        let (catalog, receiver) = watch::channel(Arc::new(fleet.catalog()));
        let mut state = state(Catalog::default(), Interpreters::default());
        state.answers.catalog = receiver;
        Self {
            fleet,
            catalog,
            app: router(state, Readiness::new()),
        }
    }

    async fn watch(&self, query: &str) -> WatchedLines {
        let path = format!("{GROUP}/objects?{query}&watch=true");
        WatchedLines::of(send(&self.app, get(&path)).await)
    }

    async fn list(&self, query: &str) -> Value {
        let path = format!("{GROUP}/objects?{query}");
        body(send(&self.app, get(&path)).await).await
    }

    fn replace_catalog(&self, change: impl FnOnce(&mut Catalog)) {
        let mut catalog = self.fleet.catalog();
        change(&mut catalog);
        self.catalog.send_replace(Arc::new(catalog));
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_sends_what_begins_changes_and_ceases_to_match_of_every_kind() {
    let world = World::new().await;
    let fleet = &world.fleet;
    fleet.write(POD, "old-web", 4, Some("web")).await;
    let mut watch = world.watch("q=web%20-old").await;
    let first = watch.next().await.unwrap();
    assert_eq!(
        (
            &first["type"],
            &first["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"]
        ),
        (&json!("BOOKMARK"), &json!("true")),
        "the existing object is not sent"
    );
    fleet.write(POD, "a", 5, Some("web")).await;
    fleet.write(POD, "b", 6, Some("api")).await;
    fleet.write(DEPLOYMENT, "web", 7, Some("x")).await;
    fleet.write(NODE, "a", 8, Some("web")).await;
    fleet.write(POD, "old-web", 9, Some("web")).await;
    fleet.write(POD, "a", 10, Some("webbed")).await;
    fleet.write(POD, "a", 11, Some("api")).await;
    fleet.write(DEPLOYMENT, "web", 12, None).await;
    let mut events = Vec::new();
    for _ in 0..6 {
        events.push(watch.next_event().await);
    }
    // Pods of the namespace `web` match by it.
    assert_eq!(
        events,
        [
            "ADDED Pod a",
            "ADDED Pod b",
            "ADDED Deployment web",
            "ADDED Node a",
            "MODIFIED Pod a",
            "MODIFIED Pod a",
        ]
    );
    assert_eq!(watch.next_event().await, "DELETED Deployment web");
    fleet.write(NODE, "a", 13, Some("api")).await;
    let ceased = watch.next().await.unwrap();
    assert_eq!(ceased["type"], "DELETED", "{ceased}");
}

#[tokio::test(start_paused = true)]
async fn an_event_has_the_item_of_the_list_and_a_version() {
    let world = World::new().await;
    let mut watch = world.watch("q=kind:deployment").await;
    assert_eq!(watch.next_event().await, "BOOKMARK");
    world.fleet.write(DEPLOYMENT, "web", 7, Some("web")).await;
    let mut item = watch.next().await.unwrap()["object"].clone();
    let metadata = item["metadata"].as_object_mut().unwrap();
    let version = metadata.remove("resourceVersion").unwrap();
    let number = world.fleet.version().to_string();
    assert!(version.as_str().unwrap().starts_with(&number), "{version}");
    assert_eq!(
        world.list("q=kind:deployment").await["items"],
        json!([item])
    );
}

#[tokio::test(start_paused = true)]
async fn tables_have_their_columns_in_the_first_event_only() {
    let world = World::new().await;
    let mut request = get(&format!("{GROUP}/objects?q=web&watch=true"));
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let headers = request.headers_mut();
    headers.insert("accept", accept.parse().unwrap());
    let mut watch = WatchedLines::of(send(&world.app, request).await);
    let first = watch.next().await.unwrap();
    assert_eq!(
        (&first["object"]["kind"], &first["object"]["rows"]),
        (&json!("Table"), &json!([]))
    );
    world.fleet.write(POD, "a", 5, Some("web")).await;
    world.fleet.write(POD, "a", 6, Some("web")).await;
    let added = watch.next().await.unwrap();
    let columns = &added["object"]["columnDefinitions"];
    assert_eq!(columns[0]["name"], "Cluster");
    let cells = added["object"]["rows"][0]["cells"].as_array().unwrap();
    assert_eq!(cells[..4], ["member1", "web", "Pod", "a"].map(Value::from));
    let modified = watch.next().await.unwrap();
    assert_eq!(modified["object"]["columnDefinitions"], Value::Null);
    assert!(modified["object"]["metadata"]["resourceVersion"].is_string());
}

#[tokio::test(start_paused = true)]
async fn a_watch_continues_from_each_version_of_the_same_search() {
    let world = World::new().await;
    let fleet = &world.fleet;
    let began = Instant::now();
    let mut watch = world.watch("q=kind:pod,node").await;
    let first = watch.next_version().await;
    fleet.write(POD, "a", 5, Some("web")).await;
    let event = watch.next_version().await;
    fleet.write(DEPLOYMENT, "b", 6, Some("web")).await;
    let last = watch.next_version().await;
    assert!((45..49).contains(&began.elapsed().as_secs()));
    assert_eq!(watch.next().await, None);
    fleet.write(NODE, "c", 7, Some("web")).await;
    for (version, expected) in [
        (first, vec!["BOOKMARK", "ADDED Pod a", "ADDED Node c"]),
        (event, vec!["BOOKMARK", "ADDED Node c"]),
        (last.clone(), vec!["BOOKMARK", "ADDED Node c"]),
    ] {
        let query = format!("q=kind:pod,node&resourceVersion={version}");
        let mut watch = world.watch(&query).await;
        for event in expected {
            assert_eq!(watch.next_event().await, event, "{version}");
        }
    }
    for other in [
        format!("q=kind:pod&resourceVersion={last}"),
        format!("q=kind:pod,node&clusters=member1&resourceVersion={last}"),
        format!("q=kind:pod,node%20x&resourceVersion={last}"),
        // The time of an age is that of each watch.
        format!("q=kind:pod,node%20age:%3C1h&resourceVersion={last}"),
        "q=kind:pod,node&resourceVersion=256-0000000000000000".to_owned(),
    ] {
        let mut watch = world.watch(&other).await;
        assert_eq!(watch.next_event().await, "ERROR 410", "{other}");
        assert_eq!(watch.next().await, None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_ages_begins_and_does_not_continue() {
    let world = World::new().await;
    let mut watch = world.watch("q=age:%3E1h").await;
    let version = watch.next_version().await;
    // Times are milliseconds of the clock.
    std::thread::sleep(Duration::from_millis(2));
    let mut watch = world
        .watch(&format!("q=age:%3E1h&resourceVersion={version}"))
        .await;
    assert_eq!(watch.next_event().await, "ERROR 410");
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_when_the_catalog_has_something_else_of_the_search() {
    let jobs = served(Gvk::new("batch", "v1", "Job"), "jobs", true, &[]);
    let pods = served(Gvk::new("", "v1", "Pod"), "pods", true, &["po"]);
    let changes: [CatalogChange<'_>; 6] = [
        ("q=web", &|_| {}, false),
        (
            "q=web",
            &|catalog| add(catalog, "main", "member1", &jobs),
            true,
        ),
        (
            "q=kind:pod",
            &|catalog| add(catalog, "main", "member1", &jobs),
            false,
        ),
        // Of all clusters, those that join are followed, too.
        (
            "q=kind:pod",
            &|catalog| add(catalog, "main", "member3", &pods),
            false,
        ),
        (
            "q=-cluster:member2%20kind:pod",
            &|catalog| add(catalog, "main", "member3", &pods),
            true,
        ),
        ("q=kind:pod", &|catalog| *catalog = Catalog::default(), true),
    ];
    for (query, change, ends) in changes {
        let world = World::new().await;
        let mut watch = world.watch(query).await;
        let version = watch.next_version().await;
        world.replace_catalog(change);
        world.fleet.write(POD, "a", 5, Some("web")).await;
        let seen = if ends { "ERROR 410" } else { "ADDED Pod a" };
        assert_eq!(watch.next_event().await, seen, "{query}");
        if query == "q=kind:pod" && ends {
            continue;
        }
        // The next watch ends like the open one.
        let mut next = world
            .watch(&format!("{query}&resourceVersion={version}"))
            .await;
        let seen = if ends { "ERROR 410" } else { "BOOKMARK" };
        assert_eq!(next.next_event().await, seen, "{query}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_finds_no_kind_waits_for_one() {
    let world = World::new().await;
    let mut watch = world.watch("q=kind:pod%20kind:node&timeoutSeconds=7").await;
    let began = Instant::now();
    assert_eq!(watch.next_event().await, "BOOKMARK");
    world.fleet.write(POD, "a", 5, Some("web")).await;
    assert_eq!(watch.next_event().await, "BOOKMARK");
    assert_eq!(began.elapsed().as_secs(), 7);
    assert_eq!(watch.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_list_shows_the_version_that_it_names() {
    let world = World::new().await;
    let mut watch = world.watch("q=web").await;
    watch.next_version().await;
    world.fleet.write(POD, "a", 5, Some("web")).await;
    let version = watch.next_version().await;
    let list = world
        .list(&format!("q=web&resourceVersion={version}"))
        .await;
    assert_eq!(list["items"][0]["metadata"]["name"], "a", "{list}");
    let expired = refusal(
        &world.app,
        &format!("{GROUP}/objects?q=web&resourceVersion=256-0000000000000000"),
    )
    .await;
    assert!(expired.starts_with("410 Expired"), "{expired}");
}

#[tokio::test]
async fn what_a_watch_does_not_have_is_refused() {
    let world = World::new().await;
    let base = format!("{GROUP}/objects?q=web");
    let mut messages = Vec::new();
    for query in [
        "watch=true&facets=kind",
        "watch=true&explain=true",
        "watch=true&limit=5",
        "watch=true&continue=x",
        "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
        "watch=true&sendInitialEvents=true",
        "watch=true&resourceVersion=7",
        "resourceVersion=x",
        "resourceVersion=256-0000000000000000&resourceVersionMatch=Exact",
        "resourceVersionMatch=NotOlderThan",
        "sendInitialEvents=true",
        "watch=true&timeoutSeconds=x",
        "watch=true&orderBy=name",
        "resourceVersion=256-0000000000000000&continue=x",
    ] {
        messages.push(refusal(&world.app, &format!("{base}&{query}")).await);
    }
    insta::assert_snapshot!(messages.join("\n"), @r#"
    400 BadRequest: parameter facets: a watch counts nothing; list again with facets after a change
    400 BadRequest: parameter explain: a watch asks the stores nothing
    400 BadRequest: parameter limit: a watch sends the changes of all objects that match
    400 BadRequest: parameter continue: a watch has no pages
    400 BadRequest: parameter sendInitialEvents: a watch of a search sends no existing objects; list them after its first bookmark
    400 BadRequest: parameter sendInitialEvents: resourceVersionMatch=NotOlderThan goes with it
    400 BadRequest: parameter resourceVersion: "7" is no resourceVersion of a search; take one of a bookmark or an event of its watch
    400 BadRequest: parameter resourceVersion: "x" is no resourceVersion of a search; take one of a bookmark or an event of its watch
    400 BadRequest: parameter resourceVersionMatch: a search shows the current objects; only NotOlderThan is possible
    400 BadRequest: parameter resourceVersionMatch means nothing without resourceVersion
    400 BadRequest: parameter sendInitialEvents means nothing without watch=true
    400 BadRequest: parameter timeoutSeconds: "x" is not a number of seconds, an integer from 0 up
    400 BadRequest: parameter orderBy: the order is fixed; lists of one kind can be ordered, below search/
    400 BadRequest: parameter resourceVersion: further pages show what the first one showed; leave it out with continue
    "#);
    let allowed = "q=&sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
    let mut watch = world
        .watch(&format!("{allowed}&allowWatchBookmarks=false"))
        .await;
    assert_eq!(watch.next_event().await, "BOOKMARK");
    let unsupported = refusal(&world.app, &format!("{GROUP}/objects?watch=true")).await;
    assert!(
        unsupported.starts_with("400 BadRequest: parameter watch"),
        "{unsupported}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_more_kinds_than_it_can_follow_is_refused() {
    let world = World::new().await;
    world.replace_catalog(|catalog| {
        for number in 0..500 {
            let kind = format!("Thing{number:03}");
            let plural = format!("things{number:03}");
            let thing = served(Gvk::new("example.com", "v1", &kind), &plural, true, &[]);
            add(catalog, "main", "member1", &thing);
        }
    });
    let refused = refusal(&world.app, &format!("{GROUP}/objects?q=web&watch=true")).await;
    assert_eq!(
        refused,
        "400 BadRequest: parameter watch: the search selects 503 kinds, and a watch follows 500 at most; name some with kind: in the search"
    );
    let mut watch = world.watch("q=-kind:pod,node,deployment").await;
    assert_eq!(watch.next_event().await, "BOOKMARK");
}

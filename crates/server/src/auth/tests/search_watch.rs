//! Watches of searches over all kinds show each caller what watches of each kind would show, of
//! what lists would show.

use std::sync::Arc;

use axum::body::Body;
use http::{Request, Response};
use serde_json::json;
use tokio::time::{Duration, Instant};
use tower::ServiceExt as _;

use super::World;
use crate::fake::watched_fleet::{DEPLOYMENT, NODE, POD, WatchedFleet, WatchedLines};

const OBJECTS: &str = "/apis/search.fleetdex.io/v1alpha1/objects?q=web&watch=true";
const OUTER: [&str; 2] = [
    "* list search.fleetdex.io/objects  ",
    "* get search.fleetdex.io/clusters  *",
];
const ALL: [&str; 6] = [
    OUTER[0],
    OUTER[1],
    "alice list /pods  ",
    "alice watch /pods  ",
    "alice list apps/deployments  ",
    "alice watch apps/deployments  ",
];

async fn world(rules: &[&'static str]) -> (World, WatchedFleet) {
    let fleet = WatchedFleet::new().await;
    let world = World::new(rules);
    world.catalog.send_replace(Arc::new(fleet.catalog()));
    (world, fleet)
}

async fn ask(world: &World, more: &str) -> Response<Body> {
    let request = Request::get(format!("{OBJECTS}{more}"));
    let request = request.header("authorization", "Bearer alices");
    let request = request.body(Body::empty()).unwrap();
    world.app.clone().oneshot(request).await.unwrap()
}

fn warnings(response: &Response<Body>) -> Vec<String> {
    let warnings = response.headers().get_all("warning").iter();
    warnings
        .map(|warning| warning.to_str().unwrap().to_owned())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn kinds_that_the_caller_may_not_list_and_watch_never_appear() {
    let (world, fleet) = world(&[
        OUTER[0],
        OUTER[1],
        "alice list /pods  ",
        "alice watch /pods  ",
        "alice list apps/deployments  ",
        "alice watch /nodes  ",
    ])
    .await;
    let response = ask(&world, "").await;
    assert_eq!(
        warnings(&response),
        [r#"299 - "the watch leaves out deployments that you may list but not watch""#]
    );
    let mut watch = WatchedLines::of(response);
    assert_eq!(watch.next_event().await, "BOOKMARK");
    fleet.write(DEPLOYMENT, "web", 5, Some("web")).await;
    fleet.write(NODE, "web", 6, Some("web")).await;
    fleet.write(POD, "a", 7, Some("web")).await;
    assert_eq!(watch.next_event().await, "ADDED Pod a");
    fleet.write(NODE, "web", 8, None).await;
    assert_eq!(watch.next_event().await, "BOOKMARK");
    assert_eq!(watch.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn only_permitted_namespaces_are_shown() {
    let (world, fleet) = world(&[
        OUTER[0],
        OUTER[1],
        "alice list /pods  ",
        "alice watch /pods shop ",
    ])
    .await;
    let response = ask(&world, "&namespaces=web,shop").await;
    assert_eq!(warnings(&response).len(), 1);
    let mut watch = WatchedLines::of(response);
    assert_eq!(watch.next_event().await, "BOOKMARK");
    fleet.write(POD, "a", 5, Some("web")).await;
    assert_eq!(watch.next_event().await, "BOOKMARK");
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_may_watch_nothing_sees_nothing() {
    let (world, fleet) = world(&OUTER).await;
    let response = ask(&world, "").await;
    assert_eq!(warnings(&response), [""; 0]);
    let mut watch = WatchedLines::of(response);
    assert_eq!(watch.next_event().await, "BOOKMARK");
    fleet.write(POD, "a", 5, Some("web")).await;
    assert_eq!(watch.next_event().await, "BOOKMARK");
    assert_eq!(watch.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_when_its_caller_loses_a_right_on_one_kind() {
    for lost in [OUTER[0], OUTER[1], ALL[3], ALL[5]] {
        let (world, _fleet) = world(&ALL).await;
        let mut watch = WatchedLines::of(ask(&world, "").await);
        let version = watch.next_version().await;
        let begun = Instant::now();
        let rules = &world.control_plane.rules;
        rules.lock().retain(|rule| *rule != lost);
        let error = watch.next().await.unwrap();
        assert_eq!(
            (&error["type"], &error["object"]["code"]),
            (&json!("ERROR"), &json!(410)),
            "{lost}"
        );
        assert!(begun.elapsed() < Duration::from_secs(40), "{lost}");
        assert_eq!(watch.next().await, None);
        let next = ask(&world, &format!("&resourceVersion={version}")).await;
        if OUTER.contains(&lost) {
            assert_eq!(next.status(), 403);
        } else {
            assert_eq!(WatchedLines::of(next).next_event().await, "ERROR 410");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn rights_that_change_between_two_watches_expire_the_version() {
    let lost = ALL[4];
    let (world, _fleet) = world(&ALL).await;
    let version = WatchedLines::of(ask(&world, "").await).next_version().await;
    let next = async || {
        // Longer than decisions are cached.
        tokio::time::advance(Duration::from_secs(11)).await;
        let response = ask(&world, &format!("&resourceVersion={version}")).await;
        WatchedLines::of(response).next_event().await
    };
    assert_eq!(next().await, "BOOKMARK");
    world
        .control_plane
        .rules
        .lock()
        .retain(|rule| *rule != lost);
    assert_eq!(next().await, "ERROR 410");
    world.control_plane.rules.lock().push(lost);
    assert_eq!(next().await, "BOOKMARK");
    world.control_plane.rules.lock().push("alice list /nodes  ");
    assert_eq!(next().await, "BOOKMARK", "nodes may not be watched");
    world
        .control_plane
        .rules
        .lock()
        .push("alice watch /nodes  ");
    assert_eq!(next().await, "ERROR 410");
}

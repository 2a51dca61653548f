//! Completions show each caller only what lists of each kind would show.

use std::sync::Arc;

use axum::body::Body;
use fleetdex_store::fake::PreparedReader;
use http::Request;
use http_body_util::BodyExt as _;
use serde_json::Value;
use tower::ServiceExt as _;

use super::World;
use crate::tests::search::fleet;

const GROUP: &str = "/apis/search.fleetdex.io/v1alpha1";
const COMPLETIONS: &str = "* list search.fleetdex.io/completions  ";
const ALL_CLUSTERS: &str = "* get search.fleetdex.io/clusters  *";

/// A world over the fleet of the tests of searches.
async fn world(rules: &[&'static str]) -> World {
    let world = World::over(Arc::new(PreparedReader::default()), rules, false);
    world.catalog.send_replace(Arc::new(fleet().await));
    world
}

/// What Alice is offered at the end of a text. There are no warnings.
async fn offered(world: &World, text: &str) -> Vec<String> {
    let path = format!("{GROUP}/completions?q={}", text.replace(' ', "%20"));
    let request = Request::get(path).header("authorization", "Bearer alices");
    let request = request.body(Body::empty()).unwrap();
    let response = world.app.clone().oneshot(request).await.unwrap();
    assert_eq!(response.headers().get("warning"), None, "{text}");
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let document: Value = serde_json::from_slice(&bytes).unwrap();
    let items = document["items"]
        .as_array()
        .unwrap_or_else(|| panic!("{document}"));
    let offered = |item: &Value| item["text"].as_str().unwrap().to_owned();
    items.iter().map(offered).collect()
}

#[tokio::test]
async fn nothing_is_offered_of_objects_that_the_caller_may_not_list() {
    let texts = ["kind:", "ns:", "label:", "label:app=", "reason:", "image:"];
    for (more, expected) in [
        (&[][..], [&[][..]; 6]),
        (
            &["alice list /pods shop "],
            [
                &["Pod"],
                &["shop"],
                &["app="],
                &["payments-db", "web"],
                &["CrashLoopBackOff"],
                &["nginx", "nginx:1.27", "postgres", "postgres:17"],
            ],
        ),
        (
            &["alice list apps/deployments other "],
            [&["Deployment"], &["other"], &[], &[], &[], &[]],
        ),
        (
            &["alice list apps/deployments  "],
            [
                &["Deployment"],
                &["other", "shop"],
                &[],
                &[],
                &[],
                &["nginx", "nginx:1.27"],
            ],
        ),
        (
            &["alice list /nodes  "],
            [&["Node"], &[], &[], &[], &[], &[]],
        ),
        (&["alice get /pods  *"], [&[]; 6]),
    ] {
        let world = world(&[&[COMPLETIONS, ALL_CLUSTERS], more].concat()).await;
        for (text, expected) in texts.into_iter().zip(expected) {
            assert_eq!(offered(&world, text).await, expected, "{more:?} {text}");
        }
    }
}

#[tokio::test]
async fn clusters_that_the_caller_may_not_see_are_like_clusters_that_do_not_exist() {
    let rules = [
        COMPLETIONS,
        "alice get search.fleetdex.io/clusters  member1",
        "alice list /pods  ",
    ];
    let world = world(&rules).await;
    assert_eq!(offered(&world, "cluster:").await, ["member1"]);
    assert_eq!(
        offered(&world, "cluster:member1 label:app=").await,
        ["payments-db", "web"]
    );
    for hidden in ["member2", "nowhere"] {
        let text = format!("cluster:{hidden} label:app=");
        assert_eq!(offered(&world, &text).await, [""; 0], "{hidden}");
    }
}

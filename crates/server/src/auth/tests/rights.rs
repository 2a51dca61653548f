//! Permissions that are lost while a watch is open, and permissions to objects on the way of an
//! owner search.

use std::sync::Arc;

use axum::body::Body;
use fleetdex_core::query::{Owners, Permitted, ResourceName};
use fleetdex_query_api::rbac_attributes::Attributes;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use prometheus_client::metrics::counter::Counter;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant};
use tower::ServiceExt as _;

use super::{
    super::{
        authorize::{AuthorizationMode, Authorizer},
        reauthorization::{Reauthorization, WatchedObjects},
        reviews::Reviews,
    },
    ControlPlane, OUTER, PODS, World, counting, stopped_stream,
};
use crate::{
    auth::caller::Caller,
    fake::{cluster, relative, store},
};

const WATCHING: [&str; 3] = [OUTER[0], OUTER[1], "alice watch /pods web "];

async fn watch(world: &World) -> Response<Body> {
    let path = format!("{PODS}?watch=true");
    let response = world.response_to("alices", &path).await;
    assert_eq!(response.status(), 200);
    response
}

/// The events of a watch, until it ends.
async fn events(watch: Response<Body>) -> Vec<Value> {
    let bytes = watch.into_body().collect().await.unwrap().to_bytes();
    str::from_utf8(&bytes)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_revoked_user_loses_open_watches() {
    for lost in WATCHING {
        let world = World::new(&WATCHING);
        let watch = watch(&world).await;
        world
            .control_plane
            .rules
            .lock()
            .retain(|rule| *rule != lost);
        let begun = Instant::now();
        let events = events(watch).await;
        let [only] = events.as_slice() else {
            panic!("{lost}: {events:?}")
        };
        assert_eq!(
            (&only["type"], &only["object"]["code"]),
            (&json!("ERROR"), &json!(410))
        );
        let message = "too old resource version: what you may see has changed; list again, and watch from there";
        assert_eq!(only["object"]["message"], message);
        assert!(
            begun.elapsed() < Duration::from_secs(40),
            "{lost}: {:?}",
            begun.elapsed()
        );
        assert_eq!(
            world.code_as("alices", &format!("{PODS}?watch=true")).await,
            403
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_stays_open_while_it_is_allowed_or_reviews_fail() {
    let world = World::new(&WATCHING);
    assert_eq!(events(watch(&world).await).await, [Value::Null; 0]);
    let watch = watch(&world).await;
    *world.control_plane.refuses.lock() = true;
    assert_eq!(events(watch).await, [Value::Null; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_watches_of_one_caller_share_their_reviews() {
    let world = World::new(&WATCHING);
    let mut watches = Vec::new();
    for _ in 0..1_000 {
        watches.push(tokio::spawn(events(watch(&world).await)));
    }
    let asked = world.control_plane.count();
    for watch in watches {
        assert_eq!(watch.await.unwrap(), [Value::Null; 0]);
    }
    // Once, or a few times if several watches ask at the same time.
    let again = world.control_plane.count() - asked;
    assert!((1..=10 * WATCHING.len()).contains(&again), "{again}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_after_two_minutes_of_failing_reviews() {
    let control_plane = Arc::new(ControlPlane::default());
    *control_plane.refuses.lock() = true;
    let reviews = Reviews::new(
        control_plane.client(),
        Arc::new(|_| None),
        Vec::new(),
        Counter::default(),
    );
    let reauthorization = Reauthorization {
        authorizer: Authorizer::new(reviews, AuthorizationMode::ControlPlane),
        caller: Caller {
            groups: Vec::new(),
            ..Caller::local()
        },
        outer: Attributes::of_cluster(None),
        objects: vec![WatchedObjects {
            resource: ResourceName::new("", "pods"),
            version: "v1".to_owned(),
            name: None,
            permitted: Permitted::Everything,
        }],
    };
    let begun = Instant::now();
    assert_eq!(reauthorization.until_denied().await.code(), 500);
    assert!(
        (120..160).contains(&begun.elapsed().as_secs()),
        "{:?}",
        begun.elapsed()
    );
}

/// The clusters in the report of a verification.
async fn verified(world: &World, token: &str, query: &str) -> (u16, Vec<String>) {
    let path = format!("/apis/search.fleetdex.io/v1alpha1/verify{query}");
    let request = Request::post(path)
        .header("authorization", format!("Bearer {token}"))
        .body(Body::empty())
        .unwrap();
    let response = world.app.clone().oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    let clusters = events(response)
        .await
        .iter()
        .filter_map(|line| line["row"]["cluster"].as_str().map(str::to_owned))
        .collect();
    (code, clusters)
}

#[tokio::test]
async fn a_verification_omits_clusters_that_the_caller_cannot_see() {
    let world = World::new(&[
        "* create search.fleetdex.io/verify  ",
        "alice get search.fleetdex.io/clusters  member1",
        "bob get search.fleetdex.io/clusters  ",
    ]);
    world.catalog.send_modify(|catalog| {
        let catalog = Arc::make_mut(catalog);
        for name in ["member1", "member2"] {
            catalog.add_stream(stopped_stream(name));
        }
        catalog.add_incomplete(cluster("member2"), store("main"));
    });
    assert_eq!(
        verified(&world, "alices", "").await,
        (200, vec!["member1".to_owned()])
    );
    assert_eq!(
        verified(&world, "alices", "?clusters=member1").await,
        (200, vec!["member1".to_owned()])
    );
    assert_eq!(verified(&world, "bobs", "").await.1.len(), 3);
    // The refusal does not reveal whether the cluster exists.
    for hidden in ["member2", "nowhere"] {
        assert_eq!(
            verified(&world, "alices", &format!("?clusters=member1,{hidden}"))
                .await
                .0,
            403
        );
    }
    world.control_plane.rules.lock().truncate(1);
    assert_eq!(verified(&world, "carols", "").await.0, 401);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(11)).await;
    assert_eq!(verified(&world, "alices", "").await.0, 403);
}

/// The owners that alice's search for pods resolves, from an object `web` down one level.
async fn owners(rules: &[&'static str]) -> Option<Owners> {
    let main = counting(&[("member1", "shop", 1), ("member1", "web", 1)]);
    let found = |uid: &str| [relative("apps", "deployments", uid)].into();
    *main.relatives.lock() = [found("top"), found("between")].into();
    let world = World::over(main, &[&OUTER[..], rules].concat(), false);
    let answer = world
        .ask_as("alices", &format!("{PODS}?ownerName=web&ownerSeniority=1"))
        .await;
    assert_eq!(answer.0, 200, "{}", answer.1);
    world.store.asked().last().unwrap().0.owners.clone()
}

#[tokio::test]
async fn an_owner_search_passes_only_through_objects_that_the_caller_can_list() {
    let found = || {
        [relative("apps", "deployments", "between")]
            .into_iter()
            .collect::<Owners>()
    };
    assert_eq!(
        owners(&["alice list /pods  ", "alice list apps/deployments  "]).await,
        Some(found())
    );
    assert_eq!(
        owners(&["alice list /pods  ", "alice list apps/deployments shop "]).await,
        Some(found())
    );
    for not_there in [
        "alice list apps/deployments web ",
        "alice get apps/deployments  ",
        "bob list apps/deployments  ",
    ] {
        assert_eq!(
            owners(&["alice list /pods  ", not_there]).await,
            Some(Owners::default()),
            "{not_there}"
        );
    }
}

#[tokio::test]
async fn a_refused_owner_search_does_not_reveal_whether_the_owner_exists() {
    let world = World::new(&[OUTER[0], OUTER[1], "alice list /pods  "]);
    *world.store.relatives.lock() = [[relative("apps", "deployments", "top")].into()].into();
    let path = format!("{PODS}?ownerName=web&explain=true");
    let (there, not_there) = (
        world.ask_as("alices", &path).await,
        world.ask_as("alices", &path).await,
    );
    assert_eq!(there, not_there);
    assert_eq!(
        world.refusal_as("bobs", &path).await.split(':').next(),
        Some("403 Forbidden")
    );
}

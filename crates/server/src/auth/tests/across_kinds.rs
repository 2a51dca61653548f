//! Searches across kinds show each caller what lists of each kind would show.

use axum::body::Body;
use fleetdex_core::query::{Grant, HeldMemory, Hit, Page, Permitted, Query};
use http::Request;
use http_body_util::BodyExt as _;
use serde_json::{Value, json, value::to_raw_value};
use tower::ServiceExt as _;

use super::{World, counting};
use crate::fake::cluster;

const GROUP: &str = "/apis/search.fleetdex.io/v1alpha1";
const ALL_CLUSTERS: &str = "* get search.fleetdex.io/clusters  *";
const OBJECTS: &str = "* list search.fleetdex.io/objects  ";
const RELATED: &str = "* get search.fleetdex.io/related/v1  *";
const MERGED: &str = "* get search.fleetdex.io/merged/v1  *";

fn world(rules: &[&'static str]) -> World {
    let store = counting(&[("member1", "shop", 1), ("member1", "web", 1)]);
    World::over(store, rules, false)
}

fn page(object: &Value) -> Page {
    Page {
        items: vec![Hit {
            interpretation: None,
            cluster: cluster("member1"),
            object: to_raw_value(object).unwrap().into(),
            memory: HeldMemory::default(),
        }],
        ..Page::default()
    }
}

/// A Pod of member1 whose owner is the Deployment `web`.
fn pod() -> Page {
    let object = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "web-1", "namespace": "web", "uid": "u1",
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u2" }],
        },
    });
    page(&object)
}

fn deployment() -> Page {
    let object = json!({ "apiVersion": "apps/v1beta1", "kind": "Deployment", "metadata": { "name": "web", "namespace": "web", "uid": "u2" } });
    page(&object)
}

/// The objects of a response as `apiVersion kind/name`, and its warnings.
async fn found(world: &World, path: &str) -> (Vec<String>, usize) {
    let response = world.response_to("alices", path).await;
    let warnings = response.headers().get_all("warning").iter().count();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let list: Value = serde_json::from_slice(&bytes).unwrap();
    let items = list["items"].as_array().unwrap_or_else(|| panic!("{list}"));
    let label = |item: &Value| {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let name = text(&item["metadata"]["name"]);
        format!(
            "{} {}/{name}",
            text(&item["apiVersion"]),
            text(&item["kind"])
        )
    };
    (items.iter().map(label).collect(), warnings)
}

/// The queries for objects of a resource.
fn queries(world: &World, plural: &str) -> Vec<Query> {
    let asked = world.store.asked().into_iter().map(|(query, _)| query);
    asked
        .filter(|query| *query.resource.plural == *plural && !query.names.is_empty())
        .collect()
}

fn only(clusters: Option<&[&str]>, namespaces: Option<&[&str]>) -> Permitted {
    let grant = Grant {
        clusters: clusters.map(|names| names.iter().map(|name| cluster(name)).collect()),
        namespaces: namespaces
            .map(|names| names.iter().map(|name| name.parse().unwrap()).collect()),
    };
    Permitted::Only(vec![grant])
}

#[tokio::test]
async fn kinds_that_the_caller_may_not_list_are_absent_without_a_warning() {
    let world = world(&[OBJECTS, ALL_CLUSTERS, "alice list /pods  "]);
    world.store.add(Ok(pod()));
    let (objects, warnings) = found(&world, &format!("{GROUP}/objects?names=web-1")).await;
    assert_eq!((objects, warnings), (vec!["v1 Pod/web-1".to_owned()], 0));
    assert_eq!(queries(&world, "pods").len(), 1);
    assert!(queries(&world, "nodes").is_empty() && queries(&world, "deployments").is_empty());
    let (nothing, warnings) = found(&world, &format!("{GROUP}/objects?kinds=nodes&names=n1")).await;
    assert_eq!((nothing.len(), warnings), (0, 0));
    assert_eq!(
        world
            .refusal_as("nobodys", &format!("{GROUP}/objects"))
            .await,
        "401 Unauthorized: Unauthorized"
    );
}

#[tokio::test]
async fn objects_are_restricted_to_the_namespaces_and_clusters_of_the_caller() {
    let rules = [
        OBJECTS,
        "alice get search.fleetdex.io/clusters  member1",
        "alice list /pods web ",
    ];
    let world = world(&rules);
    let path = format!("{GROUP}/objects?kinds=pods&names=web-1");
    let (_, warnings) = found(&world, &path).await;
    assert_eq!(warnings, 0);
    assert_eq!(
        queries(&world, "pods")[0].permitted,
        only(Some(&["member1"]), Some(&["web"]))
    );
    let (_, warnings) = found(&world, &format!("{path}&namespaces=web,shop")).await;
    assert_eq!(warnings, 0, "the namespaces were not chosen for this kind");
    for hidden in ["member2", "nowhere"] {
        let refused = world
            .refusal_as("alices", &format!("{path}&clusters={hidden}"))
            .await;
        assert!(
            refused.starts_with("403 Forbidden: clusters.search.fleetdex.io"),
            "{refused}"
        );
    }
}

#[tokio::test]
async fn a_right_to_search_all_kinds_is_needed() {
    let world = world(&[ALL_CLUSTERS, "alice * /pods  *"]);
    for path in [
        "objects",
        "completions?q=kind:",
        "images",
        "related/api/v1/namespaces/web/pods/a",
        "merged/api/v1/namespaces/web/pods/a",
    ] {
        let refused = world.refusal_as("alices", &format!("{GROUP}/{path}")).await;
        assert!(refused.starts_with("403 Forbidden: "), "{path}: {refused}");
    }
    assert!(world.store.asked().is_empty());
}

#[tokio::test]
async fn relations_lead_only_to_objects_that_the_caller_may_list() {
    let rules = [RELATED, ALL_CLUSTERS, "alice get /pods web web-1"];
    let path = format!("{GROUP}/related/api/v1/namespaces/web/pods/web-1");
    for (more, expected) in [
        (
            "alice list apps/deployments  ",
            &["apps/v1beta1 Deployment/web"][..],
        ),
        (
            "alice list apps/deployments web ",
            &["apps/v1beta1 Deployment/web"],
        ),
        ("alice list apps/deployments shop ", &[]),
        ("alice get apps/deployments  ", &[]),
    ] {
        let world = world(&[&rules[..], &[more]].concat());
        world.store.add(Ok(pod()));
        world.store.add(Ok(deployment()));
        let (objects, warnings) = found(&world, &path).await;
        assert_eq!(
            (objects.as_slice(), warnings),
            (
                &expected
                    .iter()
                    .map(|&text| text.to_owned())
                    .collect::<Vec<_>>()[..],
                0
            ),
            "{more}"
        );
    }
    let world = world(&[RELATED, ALL_CLUSTERS]);
    assert_eq!(
        world.refusal_as("alices", &path).await,
        r#"403 Forbidden: pods "web-1" is forbidden: User "alice" cannot get resource "pods" in API group "" in the namespace "web""#
    );
}

#[tokio::test]
async fn a_merged_object_has_only_clusters_that_the_caller_may_see() {
    let rules = [
        MERGED,
        "alice get search.fleetdex.io/clusters  member1",
        "alice get /pods web web-1",
    ];
    let world = world(&rules);
    world.store.add(Ok(pod()));
    let path = format!("{GROUP}/merged/api/v1/namespaces/web/pods/web-1");
    let (code, merged) = world.ask_as("alices", &path).await;
    assert_eq!(
        (code, &merged["aggregatedStatus"][0]["clusterName"]),
        (200, &json!("member1"))
    );
    assert_eq!(
        queries(&world, "pods")[0].permitted,
        only(Some(&["member1"]), Some(&["web"]))
    );
    let other = format!("{GROUP}/merged/api/v1/namespaces/web/pods/other");
    assert!(
        world
            .refusal_as("alices", &other)
            .await
            .starts_with("403 Forbidden: pods \"other\"")
    );
}

#[tokio::test]
async fn interpretation_needs_the_right_to_create_it() {
    for (rule, code) in [
        ("alice create search.fleetdex.io/interpret  ", 200),
        ("alice get search.fleetdex.io/interpret  ", 403),
    ] {
        let world = world(&[rule]);
        let text = json!({ "operation": "InterpretHealth", "object": { "apiVersion": "v1", "kind": "ConfigMap" } });
        let request = Request::post(format!("{GROUP}/interpret"))
            .header("authorization", "Bearer alices")
            .body(Body::from(text.to_string()))
            .unwrap();
        let response = world.app.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), code, "{rule}");
    }
}

#[tokio::test]
async fn a_search_asks_for_what_lists_of_each_kind_would_show_the_caller() {
    let rules = [
        OBJECTS,
        "alice get search.fleetdex.io/clusters  member1",
        "alice list /pods web ",
    ];
    let world = world(&rules);
    let path = format!("{GROUP}/objects?q=web&facets=kind,namespace");
    let (objects, warnings) = found(&world, &path).await;
    assert_eq!((objects.len(), warnings), (0, 0));
    let asked = world.store.ranked_queries.lock().clone();
    let [ranked] = asked.as_slice() else {
        panic!("{asked:?}")
    };
    // Counts are of the same queries as the objects.
    let asked = ranked.queries.iter();
    let asked: Vec<(&str, &Permitted)> = asked
        .map(|query| (&*query.resource.plural, &query.permitted))
        .collect();
    let mine = only(Some(&["member1"]), Some(&["web"]));
    assert_eq!(asked, [("pods", &mine)]);
    for hidden in ["member2", "nowhere"] {
        let path = format!("{GROUP}/objects?q=web%20cluster:{hidden}");
        let refused = world.refusal_as("alices", &path).await;
        assert!(
            refused.starts_with("403 Forbidden: clusters.search.fleetdex.io"),
            "{refused}"
        );
    }
    assert_eq!(
        world
            .refusal_as("alices", &format!("{GROUP}/objects?q=kind:widget"))
            .await,
        "400 BadRequest: parameter q: column 1: no ResourceRegistry selects a kind that is called \"widget\""
    );
}

//! Clusters that a caller cannot see: no response depends on them.

use std::sync::Arc;

use axum::body::Body;
use fleetdex_core::{
    model::{Gvk, PrinterColumn},
    query::ResourceName,
};
use fleetdex_store::fake::PreparedReader;
use http::Request;
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

use super::{World, counting, stopped_stream};
use crate::{
    catalog::Catalog,
    fake::{add, cluster, pods, served, store},
    render::group_discovery::AGGREGATED_TYPE,
};

/// Alice can request anything about member1, and about no other cluster.
const RULES: [&str; 13] = [
    "alice * search.fleetdex.io/search/v1  *",
    "alice * search.fleetdex.io/search/apps  *",
    "alice * search.fleetdex.io/search/example.com  *",
    "alice * search.fleetdex.io/aggregate/v1  *",
    "alice * search.fleetdex.io/proxying/proxy  *",
    "alice * search.fleetdex.io/clusters/api  *",
    "alice * search.fleetdex.io/verify  ",
    "alice get search.fleetdex.io/clusters  member1",
    "alice list /pods  ",
    "alice * apps/deployments  ",
    "alice * example.com/widgets  ",
    "alice watch /pods  ",
    "alice list search.fleetdex.io/objects  ",
];

const ROOT: &str = "/apis/search.fleetdex.io/v1alpha1";

fn world(has_hidden: bool) -> World {
    let world = World::over(counting(&[("member1", "web", 1)]), &RULES, false);
    let mut catalog = Catalog::default();
    catalog.add_store(store("main"), world.store.clone());
    catalog.add_store(store("other"), PreparedReader::with(vec![]));
    catalog.add_registry("workloads");
    add(&mut catalog, "main", "member1", &pods());
    add(
        &mut catalog,
        "main",
        "member1",
        &served(
            Gvk::new("apps", "v1beta1", "Deployment"),
            "deployments",
            true,
            &["deploy"],
        ),
    );
    if has_hidden {
        hide(&mut catalog);
    }
    catalog.add_stream(stopped_stream("member1"));
    world.catalog.send_replace(Arc::new(catalog));
    world
}

/// Adds the hidden cluster member2, with objects in another store, too, and all kinds of notes
/// about it.
fn hide(catalog: &mut Catalog) {
    add(catalog, "main", "member2", &pods());
    add(catalog, "other", "member2", &pods());
    add(
        catalog,
        "main",
        "member2",
        &served(
            Gvk::new("apps", "v1", "Deployment"),
            "deployments",
            true,
            &["hidden"],
        ),
    );
    add(
        catalog,
        "main",
        "member2",
        &served(
            Gvk::new("example.com", "v1", "Widget"),
            "widgets",
            true,
            &["wd"],
        ),
    );
    let column = PrinterColumn {
        name: "Hidden".into(),
        ..PrinterColumn::default()
    };
    catalog.add_columns(
        &cluster("member2"),
        &ResourceName::new("apps", "deployments"),
        &"v1".into(),
        &Arc::from([column]),
    );
    catalog.add_stale(
        cluster("member2"),
        jiff::Timestamp::UNIX_EPOCH,
        "disconnected",
    );
    catalog.add_incomplete(cluster("member2"), store("main"));
    catalog.add_peer_cluster(cluster("member2"), "replica-7".to_owned());
    catalog.add_stream(stopped_stream("member2"));
}

/// Status, headers without those of HTTP, and body of a response.
async fn answer(world: &World, line: &str, accept: &str) -> String {
    let (method, path) = line.split_once(' ').unwrap();
    let request = Request::builder()
        .method(method)
        .uri(format!("{ROOT}{path}"));
    let request = request
        .header("authorization", "Bearer alices")
        .header("accept", accept);
    let response = world
        .app
        .clone()
        .oneshot(request.body(Body::empty()).unwrap())
        .await
        .unwrap();
    let code = response.status().as_u16();
    let warnings: Vec<_> = response
        .headers()
        .get_all("warning")
        .iter()
        .cloned()
        .collect();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    format!("{code} {warnings:?} {}", String::from_utf8_lossy(&body))
}

/// Requests that name the cluster CLUSTER.
const NAMED: [&str; 21] = [
    "GET /search/api/v1/pods?clusters=CLUSTER",
    "GET /search/api/v1/pods?clusters=member1,CLUSTER",
    "GET /search/api/v1/pods?clusters=CLUSTER&explain=true",
    "GET /search/api/v1/pods?clusters=CLUSTER&watch=true&timeoutSeconds=0",
    "GET /search/api/v1/pods?clusters=CLUSTER&ownerName=web",
    "GET /objects?q=cluster:CLUSTER&watch=true&timeoutSeconds=0",
    "GET /search/api/v1/pods/a?clusters=CLUSTER",
    "GET /search/apis/example.com/v1/widgets?clusters=CLUSTER",
    "GET /aggregate/api/v1/pods?by=cluster&clusters=CLUSTER",
    "GET /clusters/CLUSTER/api/v1/pods",
    "POST /verify?clusters=CLUSTER",
    "GET /proxying/karmada/proxy/api/v1/pods?clusters=CLUSTER",
    "GET /proxying/karmada/proxy/api/v1/namespaces/web/pods/a?clusters=CLUSTER",
    "DELETE /proxying/karmada/proxy/api/v1/namespaces/web/pods/a?clusters=CLUSTER",
    "POST /proxying/karmada/proxy/api/v1/namespaces/web/pods?clusters=CLUSTER",
    "GET /proxying/karmada/proxy/clusters/CLUSTER/api/v1/pods",
    "GET /proxying/karmada/proxy/clusters/CLUSTER/api",
    "GET /proxying/karmada/proxy/clusters/CLUSTER/apis/apps/v1",
    "GET /proxying/karmada/proxy/clusters/CLUSTER/openapi/v2",
    "GET /proxying/karmada/proxy/clusters/CLUSTER/version",
    "GET /proxying/karmada/proxy/clusters/CLUSTER/healthz",
];

/// Requests that name no cluster.
const UNNAMED: [&str; 22] = [
    "GET /search/api/v1/pods",
    "GET /search/api/v1/pods?store=other",
    "GET /search/api/v1/pods?store=third",
    "GET /search/opensearch/api/v1/pods",
    "GET /search/api/v1/pods?explain=true",
    "GET /search/api/v1/pods?watch=true&timeoutSeconds=0",
    "GET /objects?q=a&watch=true&timeoutSeconds=0",
    "GET /search/apis/apps/v1/deployments",
    "GET /search/apis/apps/latest/deployments",
    "GET /search/apis/example.com/v1/widgets",
    "GET /search/apis/example.com/v1/widgets?explain=true",
    "GET /aggregate/api/v1/pods?by=cluster",
    "POST /verify",
    "GET /proxying/karmada/proxy/api",
    "GET /proxying/karmada/proxy/apis",
    "GET /proxying/karmada/proxy/apis/apps",
    "GET /proxying/karmada/proxy/apis/apps/v1",
    "GET /proxying/karmada/proxy/apis/example.com/v1",
    "GET /proxying/karmada/proxy/openapi/v2",
    "GET /proxying/karmada/proxy/openapi/v3",
    "GET /proxying/karmada/proxy/openapi/v3/apis/example.com/v1",
    "GET /proxying/karmada/proxy/version",
];

#[tokio::test(start_paused = true)]
async fn a_hidden_cluster_gives_the_same_responses_as_a_missing_one() {
    let world = world(true);
    let in_one_document = format!("{AGGREGATED_TYPE},application/json");
    for line in NAMED {
        for accept in ["application/json", in_one_document.as_str()] {
            let hidden = answer(&world, &line.replace("CLUSTER", "member2"), accept).await;
            let unknown = answer(&world, &line.replace("CLUSTER", "nowhere"), accept).await;
            assert_eq!(
                hidden.replace("member2", "CLUSTER"),
                unknown.replace("nowhere", "CLUSTER"),
                "{line}"
            );
            assert!(
                hidden.starts_with("403") && !hidden.contains("replica-7"),
                "{line}: {hidden}"
            );
            let seen = answer(
                &world,
                &line
                    .replace("member1,CLUSTER", "member1")
                    .replace("CLUSTER", "member1"),
                accept,
            )
            .await;
            // This catalog has no connected members: requests that are forwarded to one get 404.
            assert!(
                !(seen.starts_with("403") && seen.contains("clusters.search.fleetdex.io")),
                "{line}: {seen}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn responses_do_not_depend_on_hidden_clusters() {
    let (with, without) = (world(true), world(false));
    for line in UNNAMED.into_iter().chain(NAMED) {
        let line = line.replace("CLUSTER", "member2");
        for accept in [
            "application/json",
            &format!("{AGGREGATED_TYPE},application/json"),
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
        ] {
            let (with, without) = (
                answer(&with, &line, accept).await,
                answer(&without, &line, accept).await,
            );
            assert_eq!(with, without, "{line}");
        }
    }
}

#[tokio::test]
async fn a_caller_without_visible_clusters_always_gets_403() {
    let world = world(true);
    world
        .control_plane
        .rules
        .lock()
        .retain(|rule| !rule.ends_with("member1"));
    for line in [
        "GET /search/api/v1/pods",
        "GET /search/apis/example.com/v1/widgets",
        "GET /search/apis/example.com/v1/nothing",
    ] {
        let response = answer(&world, line, "application/json").await;
        assert!(
            response.starts_with("403")
                && response.contains("clusters.search.fleetdex.io is forbidden"),
            "{line}: {response}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_optimistic_lock_does_not_reveal_whether_an_unreadable_object_exists() {
    let rules = [
        "alice * search.fleetdex.io/proxying/proxy  *",
        "alice get search.fleetdex.io/clusters  member1",
    ];
    let mut answers = Vec::new();
    for objects in [1, 0] {
        let world = World::over(counting(&[("member1", "web", objects)]), &rules, false);
        let mut catalog = Catalog::default();
        catalog.add_store(store("main"), world.store.clone());
        add(&mut catalog, "main", "member1", &pods());
        world.catalog.send_replace(Arc::new(catalog));
        let path = format!(
            "{ROOT}/proxying/karmada/proxy/clusters/member1/api/v1/namespaces/web/pods/web-0"
        );
        let lock = r#"{"metadata":{"resourceVersion":"720000000000000001"}}"#;
        let request = Request::patch(path).header("authorization", "Bearer alices");
        let request = request
            .header("content-type", "application/merge-patch+json")
            .body(Body::from(lock))
            .unwrap();
        let response = world.app.clone().oneshot(request).await.unwrap();
        answers.push(response.status().as_u16());
        assert!(
            world.store.asked().is_empty(),
            "the index is queried with the permissions of the caller only"
        );
    }
    assert_eq!(answers, [403, 403]);
}

//! Searches across kinds, as a client sees them: objects, relations, merged objects, images and
//! interpretations.

use std::sync::Arc;

use axum::{body::Body, http::Request};
use fleetdex_core::{
    model::{Gvk, Interpretation, Namespace, StoreName, interpreted_fields},
    query::{Group, GroupKey, Groups, HeldMemory, Hit, Page, Relation, Relative, ResourceName},
};
use fleetdex_store::{StoreError, fake::PreparedReader};
use fleetdex_telemetry::Readiness;
use serde_json::{Value, json, value::to_raw_value};

use super::{app, body, fetch, get, get_with, refusal, send, state, warnings_of};
use crate::{
    catalog::{Catalog, CatalogEntry, coverage::StoreCoverage},
    fake::{cluster, served, store},
    http::serve::router,
    read::interpreters::Interpreters,
};

pub(super) const GROUP: &str = "/apis/search.fleetdex.io/v1alpha1";

/// An object of member1 in the namespace `web`.
pub(super) fn object(kind: &str, name: &str, more: Value) -> Hit {
    let mut object = json!({
        "apiVersion": if kind == "Deployment" { "apps/v1" } else { "v1" },
        "kind": kind,
        "metadata": { "name": name, "namespace": "web", "uid": format!("uid-{name}") },
    });
    let Value::Object(more) = more else {
        panic!("{more} is no object")
    };
    for (key, value) in more {
        match (key.as_str(), value) {
            ("metadata", Value::Object(members)) => {
                let metadata = object["metadata"].as_object_mut().unwrap();
                metadata.extend(members);
            }
            (_, value) => object[key] = value,
        }
    }
    Hit {
        interpretation: None,
        cluster: cluster("member1"),
        object: to_raw_value(&object).unwrap().into(),
        memory: HeldMemory::default(),
    }
}

fn degraded(mut hit: Hit) -> Hit {
    hit.interpretation = Some(Box::new(Interpretation {
        health: "Degraded",
        health_reason: "CrashLoopBackOff".to_owned(),
        health_message: "back-off 5m0s".to_owned(),
        ready_replicas: Some(1),
        desired_replicas: Some(3),
        interpreted_by: vec!["built-in".to_owned()],
        ..Interpretation::default()
    }));
    hit
}

pub(super) fn of_cluster(name: &str, hit: Hit) -> Hit {
    Hit {
        cluster: cluster(name),
        ..hit
    }
}

#[expect(clippy::unnecessary_wraps, reason = "as stores answer")]
pub(super) fn page(items: Vec<Hit>) -> Result<Page, StoreError> {
    Ok(Page {
        items,
        ..Page::default()
    })
}

/// Pods, Secrets, Services and Deployments of member1 and member2 with interpreted fields, and
/// Nodes of member1 without them. The store has all of them.
pub(super) fn interpreted(main: &Arc<PreparedReader>) -> Catalog {
    let mut catalog = Catalog::default();
    catalog.add_store(store("main"), Arc::clone(main) as _);
    catalog.add_registry("workloads");
    let kinds = [
        served(Gvk::new("", "v1", "Pod"), "pods", true, &[]),
        served(Gvk::new("", "v1", "Secret"), "secrets", true, &[]),
        served(Gvk::new("", "v1", "Service"), "services", true, &[]),
        served(
            Gvk::new("apps", "v1", "Deployment"),
            "deployments",
            true,
            &[],
        ),
    ];
    let (main, everything) = (store("main"), StoreCoverage::everything());
    for name in ["member1", "member2"].map(cluster) {
        for served in &kinds {
            catalog.add(CatalogEntry {
                served,
                cluster: &name,
                store: &main,
                fields: interpreted_fields(),
                any_path: false,
            });
            let resource = ResourceName::from(&served.resource);
            catalog.add_coverage(&resource, &main, &name, &everything);
        }
    }
    let nodes = served(Gvk::new("", "v1", "Node"), "nodes", false, &[]);
    catalog.add(CatalogEntry {
        served: &nodes,
        cluster: &cluster("member1"),
        store: &main,
        fields: &[],
        any_path: false,
    });
    catalog
}

fn interpreted_app(pages: Vec<Result<Page, StoreError>>) -> (Arc<PreparedReader>, axum::Router) {
    let main = PreparedReader::with(pages);
    let app = app(interpreted(&main));
    (main, app)
}

fn asked(main: &PreparedReader) -> Vec<String> {
    let queries = main.asked().into_iter();
    queries
        .map(|(query, _)| {
            let namespaces: Vec<&str> = query.namespaces.iter().map(Namespace::as_str).collect();
            format!(
                "{} {} {} {} {}",
                query.resource.plural,
                namespaces.join("+"),
                query.names.join("+"),
                query.labels,
                query.fields
            )
        })
        .collect()
}

async fn table(app: &axum::Router, path: &str) -> (Vec<String>, Vec<String>) {
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let response = send(app, get_with(path, "accept", accept)).await;
    let warnings = warnings_of(&response);
    let table = body(response).await;
    assert_eq!(table["kind"], "Table", "{table}");
    let line = |cells: &Value| {
        let cells = cells.as_array().unwrap().iter();
        cells
            .map(|cell| cell.as_str().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
            .join(" | ")
    };
    let rows = table["rows"].as_array().unwrap().iter();
    (rows.map(|row| line(&row["cells"])).collect(), warnings)
}

#[tokio::test(start_paused = true)]
async fn searches_that_get_no_room_for_a_page_are_refused_and_counted() {
    let main = PreparedReader::with(vec![]);
    let api = state(interpreted(&main), Interpreters::default());
    let (metrics, pages) = (
        Arc::clone(&api.answers.metrics),
        api.answers.limits.search_pages.clone(),
    );
    let app = router(api, Readiness::new());
    let mut held = Vec::new();
    // Each user has half of what the others leave at most.
    for user in ["alice", "bob", "carol", "dave"] {
        while let Some(page) = pages.try_acquire(user.into()) {
            held.push(page);
        }
    }
    assert_eq!(held.len(), 8);
    let before = metrics.rejected_requests("search_pages").get();
    let (code, refused) = fetch(&app, &format!("{GROUP}/objects")).await;
    assert_eq!((code, &refused["reason"]), (429, &json!("TooManyRequests")));
    assert!(metrics.rejected_requests("search_pages").get() > before);
    assert_eq!(asked(&main), [""; 0]);
}

#[tokio::test]
async fn a_table_of_one_kind_has_its_health_in_wide_columns_unless_it_is_not_interpreted() {
    let pages = || {
        vec![
            page(vec![
                degraded(object("Pod", "web-1", json!({}))),
                object("Pod", "web-2", json!({})),
            ]),
            page(vec![object("Node", "n1", json!({}))]),
        ]
    };
    let app = app(interpreted(&PreparedReader::with(
        [pages(), pages(), pages()].concat(),
    )));
    for below in ["search", "clusters/member1", "proxying/karmada/proxy"] {
        let path = format!("{GROUP}/{below}/api/v1/namespaces/web/pods");
        let (rows, warnings) = table(&app, &path).await;
        let ends: Vec<&str> = rows
            .iter()
            .map(|row| row.split_once("| <none> | <none> | ").unwrap().1)
            .collect();
        assert_eq!(
            (ends, warnings),
            (
                vec![
                    "<none> | <none> | Degraded | CrashLoopBackOff",
                    "<none> | <none> |  | "
                ],
                vec![]
            ),
            "{rows:?}"
        );
        let path = format!("{GROUP}/{below}/api/v1/nodes");
        let (rows, _) = table(&app, &path).await;
        assert!(rows[0].ends_with("<unknown>"), "{rows:?}");
    }
}

fn relative_of(resource: (&str, &str)) -> Relative {
    Relative {
        cluster: cluster("member1"),
        namespace: "web".to_owned(),
        resource: ResourceName::new(resource.0, resource.1),
        uid: String::new(),
    }
}

#[tokio::test]
async fn objects_of_all_kinds_are_found_by_their_health() {
    let pod = || degraded(object("Pod", "web-1", json!({})));
    // In the order of resources: nodes are not asked, then pods, secrets, services, deployments.
    let pages = || vec![page(vec![pod()]), page(vec![]), page(vec![]), page(vec![])];
    let (main, app) = interpreted_app([pages(), pages()].concat());
    let path = format!("{GROUP}/objects?fieldSelector=health%3DDegraded");
    let (rows, warnings) = table(&app, &path).await;
    assert_eq!(
        rows,
        ["member1 | web | Pod | web-1 | Degraded | CrashLoopBackOff | <unknown> | back-off 5m0s"]
    );
    assert_eq!(
        warnings,
        [
            "299 - \"nodes are left out: their health is not in the index, because spec.interpret of their ResourceRegistry is Off or their documents are being written again\""
        ]
    );
    let mut queries = asked(&main);
    queries.sort_unstable();
    assert_eq!(
        queries,
        [
            "deployments    health=Degraded",
            "pods    health=Degraded",
            "secrets    health=Degraded",
            "services    health=Degraded",
        ]
    );
    let (_, list) = fetch(&app, &path).await;
    insta::assert_snapshot!(list, @r#"{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{},"items":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-1","uid":"uid-web-1","annotations":{"resource.karmada.io/cached-from-cluster":"member1","fleetdex.io/native-path":"/api/v1/namespaces/web/pods/web-1","fleetdex.io/health":"Degraded","fleetdex.io/health-reason":"CrashLoopBackOff","fleetdex.io/health-message":"back-off 5m0s"},"namespace":"web"}}]}"#);
}

#[tokio::test]
async fn a_search_of_some_kinds_asks_only_for_these() {
    let (main, app) = interpreted_app(vec![]);
    let path = format!(
        "{GROUP}/objects?kinds=pods,deployments.apps&namespaces=web&clusters=member2&labelSelector=app%3Dweb"
    );
    assert_eq!(fetch(&app, &path).await.0, 200);
    assert_eq!(
        asked(&main),
        ["pods web  app=web ", "deployments web  app=web "]
    );
    assert_eq!(
        refusal(&app, &format!("{GROUP}/objects?kinds=widgets.example.com")).await,
        "400 BadRequest: parameter kinds: no ResourceRegistry selects widgets.example.com"
    );
    let (_, warnings) = table(
        &app,
        &format!("{GROUP}/objects?kinds=nodes&clusters=member2"),
    )
    .await;
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(asked(&main).len(), 2, "member2 has no nodes");
}

#[tokio::test]
async fn a_result_that_is_cut_says_so() {
    let pods = |count: usize| {
        let names = (0..count).map(|number| object("Pod", &format!("p{number}"), json!({})));
        page(names.collect())
    };
    let main = PreparedReader::counting(Groups {
        total: 3,
        ..Groups::default()
    });
    main.add(pods(3));
    main.add(pods(3));
    let app = app(interpreted(&main));
    let path = format!("{GROUP}/objects?kinds=pods&limit=2");
    let (rows, warnings) = table(&app, &path).await;
    assert_eq!(rows.len(), 2);
    assert!(
        warnings[0].contains("1 more than these 2 objects match; narrow the search"),
        "{warnings:?}"
    );
    let (_, list) = fetch(&app, &path).await;
    assert_eq!(
        list["metadata"],
        json!({ "incomplete": true, "remainingItemCount": 1 })
    );
    let main = PreparedReader::with(vec![pods(2)]);
    let (_, list) = fetch(&super::app(interpreted(&main)), &path).await;
    assert_eq!(list["metadata"], json!({}));
}

#[tokio::test]
async fn a_result_that_is_cut_needs_no_count() {
    let main = PreparedReader::failing_to_count();
    let pods = ["a", "b", "c"].map(|name| object("Pod", name, json!({})));
    main.add(page(pods.to_vec()));
    main.add(page(pods.to_vec()));
    let app = app(interpreted(&main));
    let path = format!("{GROUP}/objects?kinds=pods&limit=2");
    let (rows, warnings) = table(&app, &path).await;
    assert_eq!((rows.len(), main.counted.lock().len()), (2, 1));
    assert!(
        warnings[0].contains("more than 2 objects match; narrow the search"),
        "{warnings:?}"
    );
    let (code, list) = fetch(&app, &path).await;
    assert_eq!(
        (code, &list["metadata"]),
        (200, &json!({ "incomplete": true }))
    );
}

#[tokio::test]
async fn an_object_with_several_images_is_not_counted_under_one_of_them() {
    let (_, app) = interpreted_app(vec![]);
    let mut refusals = Vec::new();
    for query in ["pods?by=image", "pods?by=cluster,dependsOn&explain=true"] {
        refusals.push(refusal(&app, &format!("{GROUP}/aggregate/api/v1/{query}")).await);
    }
    insta::assert_snapshot!(refusals.join("\n"), @"
    400 BadRequest: parameter by: an object may have several values of image, and is counted once; /images counts Pods by image and cluster
    400 BadRequest: parameter by: an object may have several values of dependsOn, and is counted once; fieldSelector=dependsOn=... selects the objects that refer to one
    ");
}

#[tokio::test]
async fn parameters_without_a_meaning_across_kinds_are_refused() {
    let (_, app) = interpreted_app(vec![]);
    let mut refusals = Vec::new();
    for query in [
        "watch=true",
        "resourceVersion=5",
        "continue=abc",
        "orderBy=name",
        "ownerName=web",
        "explain=true",
        "store=main",
        "clusters=nowhere",
        "fieldSelector=spec.color%3Dred",
        "fieldSelector=dependsOn%3Ddb",
    ] {
        refusals.push(refusal(&app, &format!("{GROUP}/objects?{query}")).await);
    }
    let secret = format!("{GROUP}/related/api/v1/namespaces/web/secrets/db");
    for path in [
        format!("{GROUP}/related/api/v1/namespaces/web/secrets"),
        format!("{secret}?depth=6"),
        format!("{secret}?labelSelector=a%3Db"),
        format!("{secret}?watch=true"),
        secret,
        format!("{GROUP}/merged/apis/apps/v1/deployments/web"),
        format!("{GROUP}/merged/apis/apps/v1/namespaces/web/deployments/web"),
    ] {
        refusals.push(refusal(&app, &path).await);
    }
    insta::assert_snapshot!(refusals.join("\n"), @r#"
    400 BadRequest: parameter watch: objects of one kind can be watched, below search/
    400 BadRequest: parameter resourceVersion: the result is always current
    400 BadRequest: parameter continue: the result has one page; narrow it with selectors, clusters or namespaces
    400 BadRequest: parameter orderBy: the order is fixed; lists of one kind can be ordered, below search/
    400 BadRequest: parameters ownerUID, ownerName: only lists of one kind are searched by owner, below search/
    400 BadRequest: parameter explain: only lists and counts of one kind are explained, below search/ and aggregate/
    400 BadRequest: parameter store: the result is read from all stores
    404 NotFound: clusters.search.fleetdex.io "nowhere" not found: no ResourceRegistry selects a member of this name
    400 BadRequest: parameter fieldSelector: no kind supports the fields of spec.color=red; all kinds support metadata.name, and health where spec.interpret of the ResourceRegistry is not Off
    400 BadRequest: parameter fieldSelector: dependsOn "db" names no object: expected apiVersion/kind/namespace/name, such as v1/Secret/web/db, or without a namespace v1/PersistentVolume//data
    400 BadRequest: path "/apis/search.fleetdex.io/v1alpha1/related/api/v1/namespaces/web/secrets" names no object; it must end with a path such as api/v1/namespaces/web/secrets/db
    400 BadRequest: parameter depth: "6" is not a whole number from 1 to 5
    400 BadRequest: the result is about one object, which the path names: leave out labelSelector, fieldSelector and names
    400 BadRequest: parameter watch: objects of one kind can be watched, below search/
    404 NotFound: secrets "db" not found
    400 BadRequest: deployments are namespaced: the path of one object has its namespace, such as api/v1/namespaces/web/secrets/db
    404 NotFound: deployments.apps "web" not found
    "#);
}

#[tokio::test]
async fn images_are_searched_in_their_normal_form_in_lists_and_counts() {
    let main = PreparedReader::counting(Groups {
        groups: vec![Group {
            values: vec![Some("Degraded".to_owned()), Some("member1".to_owned())],
            count: 2,
        }],
        total: 2,
        others: 0,
    });
    let app = app(interpreted(&main));
    let selector = "fieldSelector=image%3Dnginx:1.27";
    for path in [
        format!("{GROUP}/search/api/v1/pods?{selector}"),
        format!("{GROUP}/objects?kinds=pods&{selector}"),
        format!("{GROUP}/aggregate/api/v1/pods?by=health,cluster&{selector}"),
    ] {
        assert_eq!(fetch(&app, &path).await.0, 200, "{path}");
        let last = asked(&main).pop().unwrap();
        assert_eq!(last, "pods    image=docker.io/library/nginx:1.27", "{path}");
    }
    let by = main.counted.lock().pop().unwrap().0;
    assert!(
        matches!(&by[..], [GroupKey::Field(path), GroupKey::Cluster] if path.as_str() == "health")
    );
}

#[tokio::test]
async fn an_interpreted_field_that_is_not_indexed_is_refused_with_the_reason() {
    let (_, app) = interpreted_app(vec![]);
    let refused = refusal(
        &app,
        &format!("{GROUP}/search/api/v1/nodes?fieldSelector=health%3DDegraded"),
    )
    .await;
    assert!(
        refused.ends_with("; spec.interpret of the ResourceRegistry is Off, or the documents of the kind are being written again"),
        "{refused}"
    );
}

#[tokio::test]
async fn an_embedded_store_does_not_take_a_path_of_objects_for_an_interpreted_field() {
    let main = PreparedReader::with(vec![]);
    let mut catalog = Catalog::default();
    catalog.add_store(StoreName::embedded(), main.clone());
    catalog.add(CatalogEntry {
        served: &crate::fake::pods(),
        cluster: &cluster("member1"),
        store: &StoreName::embedded(),
        fields: &[],
        any_path: true,
    });
    let app = app(catalog);
    let refused = refusal(
        &app,
        &format!("{GROUP}/objects?fieldSelector=health%3DDegraded"),
    )
    .await;
    assert!(
        refused.starts_with("400 BadRequest: parameter fieldSelector: no kind supports"),
        "{refused}"
    );
}

/// A Pod that an (absent) `ReplicaSet` owns and that mounts the Secret `db`.
fn pod_with_secret() -> Hit {
    let mut pod = object(
        "Pod",
        "web-1",
        json!({
            "metadata": { "labels": { "app": "web" } },
            "spec": { "containers": [{ "name": "a", "image": "nginx", "envFrom": [{ "secretRef": { "name": "db" } }] }] },
        }),
    );
    pod.interpretation = Some(Box::new(Interpretation {
        health: "Healthy",
        dependencies: vec!["v1/Secret/web/db".to_owned()],
        interpreted_by: vec!["built-in".to_owned()],
        ..Interpretation::default()
    }));
    pod
}

#[tokio::test]
async fn what_uses_a_secret_is_found_step_by_step() {
    let main = PreparedReader::with(vec![
        // The Secret, the Pod that names it, and at the second step the Service that selects the
        // Pod.
        page(vec![object("Secret", "db", json!({}))]),
        page(vec![pod_with_secret()]),
        page(vec![
            object(
                "Service",
                "web",
                json!({ "spec": { "selector": { "app": "web" } } }),
            ),
            object(
                "Service",
                "other",
                json!({ "spec": { "selector": { "app": "api" } } }),
            ),
        ]),
    ]);
    // Dependants of the Secret, objects that name it; then the same of the Pod.
    *main.relatives.lock() = [vec![], vec![relative_of(("", "pods"))], vec![], vec![]]
        .map(|found| found.into_iter().collect())
        .into();
    let app = app(interpreted(&main));
    let path = format!("{GROUP}/related/api/v1/namespaces/web/secrets/db?depth=2");
    let (rows, warnings) = table(&app, &path).await;
    assert_eq!(
        rows,
        [
            "member1 | used by | uses | web | Pod | web-1 | Healthy | Secret/db | ",
            "member1 | used by | routesTo | web | Service | web |  | Pod/web-1 | ",
        ]
    );
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(
        asked(&main),
        [
            "secrets web db  ",
            "pods    dependsOn=v1/Secret/web/db",
            "services web   "
        ]
    );
    let relations: Vec<Relation> = main
        .searched
        .lock()
        .iter()
        .map(|query| query.relation.clone())
        .collect();
    assert_eq!(
        relations[1],
        Relation::DependsOn(["v1/Secret/web/db".to_owned()].into())
    );
}

#[tokio::test]
async fn what_a_pod_uses_is_shown_once_and_a_missing_object_only_if_the_index_has_everything() {
    let answers = || vec![page(vec![pod_with_secret()]), page(vec![])];
    let path = format!("{GROUP}/related/api/v1/namespaces/web/pods/web-1?clusters=member1");
    let main = PreparedReader::with(answers());
    let (rows, _) = table(&app(interpreted(&main)), &path).await;
    assert_eq!(
        rows,
        [
            "member1 | uses | uses | web | Secret | db | Missing | Pod/web-1 | Pod/web-1 refers to it, and it does not exist"
        ]
    );
    let main = PreparedReader::with(answers());
    let mut stale = interpreted(&main);
    stale.add_stale(
        cluster("member1"),
        jiff::Timestamp::UNIX_EPOCH,
        "disconnected",
    );
    let (rows, warnings) = table(&app(stale), &path).await;
    assert_eq!(rows, [""; 0], "the Secret may exist by now");
    assert_eq!(warnings[0], "299 - \"cluster member1 is disconnected\"");
    let main = PreparedReader::with(answers());
    let mut with_gap = interpreted(&main);
    let place = (cluster("member1"), None);
    with_gap.add_gap(
        place,
        ResourceName::new("", "secrets"),
        "secrets of member1 are incomplete".to_owned(),
    );
    let (rows, _) = table(&app(with_gap), &path).await;
    assert_eq!(rows, [""; 0], "the Secret may not have been listed yet");
}

/// A Deployment in one cluster.
fn deployment(cluster_name: &str, ready: u64) -> Hit {
    let deployment = object(
        "Deployment",
        "web",
        json!({
            "metadata": { "resourceVersion": "7", "generation": 1 },
            "spec": { "replicas": 3 },
            "status": { "observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "readyReplicas": ready, "availableReplicas": ready },
        }),
    );
    of_cluster(cluster_name, degraded(deployment))
}

#[tokio::test]
async fn a_merged_object_has_the_status_of_all_clusters_and_of_each_one() {
    let both = || page(vec![deployment("member2", 3), deployment("member1", 1)]);
    let (_, app) = interpreted_app(vec![both(), both()]);
    let path = format!("{GROUP}/merged/apis/apps/v1/namespaces/web/deployments/web");
    let (code, merged) = fetch(&app, &path).await;
    assert_eq!(code, 200, "{merged}");
    assert_eq!(merged["object"]["status"]["readyReplicas"], 4);
    assert_eq!(merged["object"]["metadata"].get("uid"), None);
    insta::assert_snapshot!(format!("{:#}", merged["aggregatedStatus"]), @r#"
    [
      {
        "clusterName": "member1",
        "status": {
          "generation": 1,
          "observedGeneration": 1,
          "replicas": 3,
          "updatedReplicas": 3,
          "readyReplicas": 1,
          "availableReplicas": 1
        },
        "applied": true,
        "health": "Unhealthy",
        "assessment": {
          "health": "Degraded",
          "reason": "CrashLoopBackOff",
          "message": "back-off 5m0s"
        }
      },
      {
        "clusterName": "member2",
        "status": {
          "generation": 1,
          "observedGeneration": 1,
          "replicas": 3,
          "updatedReplicas": 3,
          "readyReplicas": 3,
          "availableReplicas": 3
        },
        "applied": true,
        "health": "Healthy",
        "assessment": {
          "health": "Degraded",
          "reason": "CrashLoopBackOff",
          "message": "back-off 5m0s"
        }
      }
    ]
    "#);
    let (rows, _) = table(&app, &path).await;
    assert_eq!(
        rows,
        [
            "member1 | 1/3 | Degraded | CrashLoopBackOff | <unknown> | back-off 5m0s",
            "member2 | 1/3 | Degraded | CrashLoopBackOff | <unknown> | back-off 5m0s",
        ]
    );
}

#[tokio::test]
async fn a_status_that_no_rule_aggregates_is_left_out_with_a_warning() {
    let secrets = || {
        let secret = |name| {
            of_cluster(
                name,
                object("Secret", "db", json!({ "status": { "a": 1 } })),
            )
        };
        page(vec![secret("member1"), secret("member2")])
    };
    let (_, app) = interpreted_app(vec![secrets()]);
    let path = format!("{GROUP}/merged/api/v1/namespaces/web/secrets/db");
    let response = send(&app, get(&path)).await;
    let warning = response.headers()["warning"].to_str().unwrap().to_owned();
    assert_eq!(
        warning,
        "299 - \"the status of all clusters is left out: there is no rule for AggregateStatus of v1 Secret\""
    );
    let merged = body(response).await;
    assert_eq!(merged["object"].get("status"), None);
    assert_eq!(merged["aggregatedStatus"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn the_images_of_pods_are_counted_by_cluster() {
    let pod = |name: &str, images: &[&str]| {
        let containers: Vec<Value> = images
            .iter()
            .map(|image| json!({ "name": "a", "image": image }))
            .collect();
        let volumes = json!([{ "name": "v", "image": { "reference": "models:2" } }]);
        object(
            "Pod",
            name,
            json!({ "spec": { "containers": containers, "volumes": volumes } }),
        )
    };
    let pods = || {
        page(vec![
            pod("a", &["nginx:1.27", "envoy:1"]),
            pod("b", &["nginx:1.27"]),
            of_cluster("member2", pod("c", &["nginx:1.27", "nginx:1.27"])),
        ])
    };
    let (_, app) = interpreted_app(vec![pods(), pods()]);
    let (rows, _) = table(&app, &format!("{GROUP}/images")).await;
    assert_eq!(
        rows,
        [
            "models:2 | member1 | 2",
            "nginx:1.27 | member1 | 2",
            "envoy:1 | member1 | 1",
            "models:2 | member2 | 1",
            "nginx:1.27 | member2 | 1"
        ]
    );
    let (_, list) = fetch(
        &app,
        &format!("{GROUP}/images?fieldSelector=image%3Dnginx&clusters=member1"),
    )
    .await;
    let images: Vec<&Value> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["image"])
        .collect();
    assert_eq!(
        images,
        ["nginx:1.27", "nginx:1.27"],
        "only the image that was asked for"
    );
    assert_eq!(list["kind"], "ImageCountList");
}

async fn interpret(app: &axum::Router, media_type: &str, text: impl Into<String>) -> (u16, Value) {
    let request = Request::post(format!("{GROUP}/interpret"))
        .header("authorization", "Bearer secret")
        .header("content-type", media_type)
        .body(Body::from(text.into()))
        .unwrap();
    let response = send(app, request).await;
    (response.status().as_u16(), body(response).await)
}

#[tokio::test]
async fn an_object_is_interpreted_as_by_the_command_line() {
    let app = app(Catalog::default());
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web", "generation": 1 },
        "spec": { "replicas": 2, "template": { "spec": { "containers": [{ "name": "a" }] } } },
        "status": { "observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2, "readyReplicas": 2 },
    });
    let ask = async |operation: &str, more: Value| {
        let mut request = json!({ "operation": operation, "object": deployment });
        request
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        interpret(&app, "application/json; charset=utf-8", request.to_string()).await
    };
    let (code, health) = ask("interpretHEALTH", json!({})).await;
    assert_eq!(code, 200, "{health}");
    assert_eq!(
        health,
        json!({ "healthy": true, "health": "Healthy", "reason": "", "message": "", "interpretedBy": "built-in" })
    );
    assert_eq!(ask("ExploreReplica", json!({})).await.1["replica"], 2);
    let (_, revised) = ask("ReviseReplica", json!({ "desiredReplicas": 5 })).await;
    assert_eq!(revised["revised"]["spec"]["replicas"], 5);
    let items =
        json!({ "aggregatedStatus": [{ "clusterName": "a", "status": { "readyReplicas": 1 } }] });
    let (_, aggregated) = ask("AggregateStatus", items).await;
    assert_eq!(aggregated["aggregatedStatus"]["status"]["readyReplicas"], 1);
}

#[tokio::test]
async fn a_request_that_cannot_be_interpreted_is_refused_with_the_reason() {
    let app = app(Catalog::default());
    let mut refusals = Vec::new();
    let object =
        json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" } });
    for text in [
        "{".to_owned(),
        json!({ "object": object }).to_string(),
        json!({ "operation": "Guess", "object": object }).to_string(),
        json!({ "operation": "InterpretHealth", "object": { "kind": "Pod" } }).to_string(),
        json!({ "operation": "Retain", "object": object }).to_string(),
        json!({ "operation": "InterpretComponent", "object": object }).to_string(),
    ] {
        let (code, status) = interpret(&app, "application/json", text).await;
        refusals.push(format!("{code} {}", status["message"].as_str().unwrap()));
    }
    let (code, status) = interpret(&app, "application/yaml", "a: b").await;
    refusals.push(format!("{code} {}", status["message"].as_str().unwrap()));
    refusals.push(refusal(&app, &format!("{GROUP}/interpret")).await);
    insta::assert_snapshot!(refusals.join("\n"), @r#"
    400 the body is not valid: EOF while parsing an object at line 1 column 1; expected {"operation": "InterpretHealth", "object": {…}}
    400 the body is not valid: missing field `operation` at line 1 column 81; expected {"operation": "InterpretHealth", "object": {…}}
    400 operation "Guess" is not supported; use one of InterpretReplica, InterpretComponent, ReviseReplica, Retain, AggregateStatus, InterpretStatus, InterpretHealth, InterpretDependency, Prune
    422 object is no Kubernetes object: it needs apiVersion and kind
    422 Retain needs observedObject in the body
    422 there is no rule for InterpretComponent of apps/v1 Deployment
    415 bodies of media type "application/yaml" are not supported here; send JSON with Content-Type: application/json
    405 MethodNotAllowed: method GET is not served here; use POST
    "#);
}

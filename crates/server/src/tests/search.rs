//! Searches over all kinds, as a client sees them, on the embedded store.

use std::sync::Arc;

use fleetdex_core::{
    model::{
        Gvk, Interpret, Interpretation, JsonTree, MemberMask, Object, Projection, Projector,
        interpreted_fields,
    },
    query::ResourceName,
};
use fleetdex_interpreter::image;
use fleetdex_store::{
    CompleteResources, DocumentWriter as _, RevisionStore as _, bulk::Write, memory::Memory,
};
use serde_json::{Value, json};

use super::{app, body, get_with, refusal, send};
use crate::{
    catalog::{Catalog, CatalogEntry, coverage::StoreCoverage},
    fake::{cluster, served, store},
    tests::across_kinds::GROUP,
};

/// Says what the field `test` of an object says.
#[derive(Debug)]
struct TestRules;

impl Interpret for TestRules {
    fn reads(&self) -> &MemberMask {
        MemberMask::everything()
    }

    fn interpret(&self, object: &JsonTree<'_>) -> Interpretation {
        let text = |name: &str| {
            let value = object.get("test").and_then(|test| test.get(name));
            value
                .and_then(JsonTree::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let list = |name: &str| Some(text(name)).filter(|text| !text.is_empty());
        let spellings = |image: String| {
            let terms = image::terms(&image);
            std::iter::once(image).chain(terms).collect()
        };
        Interpretation {
            health: if text("reason").is_empty() {
                "Healthy"
            } else {
                "Degraded"
            },
            health_reason: text("reason"),
            images: list("image").map(spellings).unwrap_or_default(),
            dependencies: list("uses").into_iter().collect(),
            interpreted_by: vec!["built-in".to_owned()],
            ..Interpretation::default()
        }
    }
}

const KINDS: [(&str, &str, &str, bool); 3] = [
    ("", "Pod", "pods", true),
    ("apps", "Deployment", "deployments", true),
    ("", "Node", "nodes", false),
];

/// Two clusters with an application and its database.
pub(crate) async fn fleet() -> Catalog {
    let memory = Memory::new();
    let mut catalog = Catalog::default();
    catalog.add_store(store("main"), Arc::new(memory.clone()) as _);
    catalog.add_registry("workloads");
    for (name, day) in [("member1", 1), ("member2", 2)] {
        let revision = memory.open(&cluster(name), None, 0).await.unwrap();
        memory
            .activate(&revision, &CompleteResources::All)
            .await
            .unwrap();
        for (kind, object) in objects(day) {
            let (group, kind, plural, namespaced) = KINDS[kind];
            let served = served(Gvk::new(group, "v1", kind), plural, namespaced, &[]);
            let (main, everything) = (store("main"), StoreCoverage::everything());
            catalog.add(CatalogEntry {
                served: &served,
                cluster: &cluster(name),
                store: &main,
                fields: interpreted_fields(),
                any_path: false,
            });
            catalog.add_coverage(
                &ResourceName::new(group, plural),
                &main,
                &cluster(name),
                &everything,
            );
            let projector = Projector::new(
                &cluster(name),
                &served.resource,
                &Projection::default(),
                &[],
            )
            .interpreted_by(Arc::new(TestRules));
            let json = object.to_string();
            let document = projector
                .document(&Object::parse(&json).unwrap(), "2026-01-01T00:00:00Z")
                .unwrap();
            let index = revision.target.clone();
            memory.write(&[Write { index, document }]).await.unwrap();
        }
    }
    catalog
}

/// Kinds, and objects of them.
fn objects(day: u32) -> Vec<(usize, Value)> {
    let object = |name: &str, namespace: Option<&str>, hour: u32, more: Value| {
        let mut object = json!({
            "metadata": {
                "name": name, "uid": format!("uid-{day}-{name}-{}", namespace.unwrap_or_default()), "resourceVersion": "1",
                "creationTimestamp": format!("2026-01-0{day}T0{hour}:00:00Z"),
            },
        });
        if let Some(namespace) = namespace {
            object["metadata"]["namespace"] = namespace.into();
        }
        for key in ["labels", "annotations", "ownerReferences"] {
            if !more[key].is_null() {
                object["metadata"][key] = more[key].clone();
            }
        }
        object["test"] = more["test"].clone();
        object
    };
    let shop = Some("shop");
    vec![
        (
            0,
            object(
                "payments-db-0",
                shop,
                3,
                json!({
                    "labels": { "app": "payments-db" },
                    "ownerReferences": [{ "kind": "StatefulSet", "name": "payments-db", "uid": "u" }],
                    "test": { "image": "postgres:17", "reason": "CrashLoopBackOff", "uses": "v1/Secret/shop/db" },
                }),
            ),
        ),
        (
            0,
            object(
                "web-0",
                shop,
                2,
                json!({
                    "labels": { "app": "web" }, "annotations": { "prometheus.io/scrape": "true" },
                    "test": { "image": "nginx:1.27" },
                }),
            ),
        ),
        (
            1,
            object("web", shop, 1, json!({ "test": { "image": "nginx:1.27" } })),
        ),
        (1, object("web", Some("other"), 1, json!({ "test": {} }))),
        (2, object("node-web", None, 0, json!({ "test": {} }))),
    ]
}

/// The rows of a search, without age, reason and message, and its metadata.
async fn found(app: &axum::Router, parameters: &str) -> (Vec<String>, Value) {
    let path = format!("{GROUP}/objects?{parameters}");
    let request = get_with(
        &path,
        "accept",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
    );
    let table = body(send(app, request).await).await;
    assert_eq!(table["kind"], "Table", "{table}");
    let row = |row: &Value| {
        let cells = row["cells"].as_array().unwrap();
        let shown = cells[..5].iter().map(|cell| cell.as_str().unwrap());
        shown.collect::<Vec<_>>().join(" ").replace("  ", " - ")
    };
    let rows = table["rows"].as_array().unwrap().iter().map(row);
    (rows.collect(), table["metadata"].clone())
}

async fn rows(app: &axum::Router, search: &str) -> Vec<String> {
    let text: Vec<String> = search.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let text = text.concat();
    found(app, &format!("q={text}")).await.0
}

#[tokio::test]
async fn words_find_the_best_matches_of_all_kinds_first_and_then_the_newest() {
    let app = app(fleet().await);
    assert_eq!(
        rows(&app, "web").await,
        [
            // By its label, by name, and by parts.
            "member2 shop Pod web-0 Healthy",
            "member2 other Deployment.apps web Healthy",
            "member2 shop Deployment.apps web Healthy",
            "member1 shop Pod web-0 Healthy",
            "member1 other Deployment.apps web Healthy",
            "member1 shop Deployment.apps web Healthy",
            "member2 - Node node-web Healthy",
            "member1 - Node node-web Healthy",
        ]
    );
    for case in [
        "crashloop member1 => member1 shop Pod payments-db-0 Degraded",
        "PAYMENTS -member2 => member1 shop Pod payments-db-0 Degraded",
        "prometheus.io/scrape cluster:member2 => member2 shop Pod web-0 Healthy",
        "nginx:1.27 deployment member1 => member1 shop Deployment.apps web Healthy",
    ] {
        let (search, expected) = case.split_once(" => ").unwrap();
        assert_eq!(rows(&app, search).await, [expected], "{search}");
    }
    assert_eq!(rows(&app, "nothing-like-this").await, [""; 0]);
}

#[tokio::test]
async fn qualifiers_select_by_what_they_name_and_negation_by_the_opposite() {
    let app = app(fleet().await);
    let in_member1 = ["member1 shop Pod payments-db-0 Degraded"];
    for search in [
        "cluster:member1 health:degraded",
        "-cluster:member2 kind:pod -health:Healthy",
        "reason:CrashLoopBackOff cluster:member1",
        "image:postgres -cluster:member2",
        "image:postgres:17 cluster:member1",
        "uses:secret/shop/db cluster:member1",
        "label:app=payments-db cluster:member1",
        "kind:pods -label:app=web cluster:member1",
        "name:payments-db-0 ns:shop cluster:member1,member2 -cluster:member2",
        "kind:Pod,Node -ns:other -name:web-0,node-web cluster:member1",
    ] {
        assert_eq!(rows(&app, search).await, in_member1, "{search}");
    }
    for (search, count) in [
        ("", 10),
        ("ns:shop", 6),
        ("-ns:shop", 4),
        ("ns:shop ns:other", 0),
        ("cluster:member1 cluster:member2", 0),
        ("kind:deployments.apps", 4),
        ("kind:Node -kind:Node", 0),
        ("age:<1s", 0),
        ("age:>1s", 10),
        ("-age:>1s", 0),
        ("label:app", 4),
        ("-label:app", 6),
    ] {
        assert_eq!(rows(&app, search).await.len(), count, "{search}");
    }
}

#[tokio::test]
async fn pages_go_on_after_the_last_object_and_facets_count_all_of_them() {
    let app = app(fleet().await);
    let (first, metadata) = found(&app, "q=web&limit=3&facets=kind,namespace,health").await;
    assert_eq!(metadata["remainingItemCount"], 5);
    assert_eq!(
        metadata["facets"],
        json!([
            { "name": "kind", "values": [{ "value": "Deployment", "count": 4 }, { "value": "Node", "count": 2 }, { "value": "Pod", "count": 2 }], "others": 0 },
            { "name": "namespace", "values": [{ "value": "shop", "count": 4 }, { "value": "other", "count": 2 }], "others": 0 },
            { "name": "health", "values": [{ "value": "Healthy", "count": 8 }], "others": 0 },
        ])
    );
    let mut all = first;
    let mut token = metadata["continue"].as_str().unwrap().to_owned();
    let other = refusal(
        &app,
        &format!("{GROUP}/objects?q=db&limit=3&continue={token}"),
    )
    .await;
    assert!(other.contains("parameter continue"), "{other}");
    loop {
        let (rows, metadata) = found(&app, &format!("q=web&limit=3&continue={token}")).await;
        all.extend(rows);
        match metadata["continue"].as_str() {
            Some(next) => next.clone_into(&mut token),
            None => break,
        }
    }
    assert_eq!(all, rows(&app, "web").await);
}

#[tokio::test]
async fn what_is_wrong_with_a_search_is_named_with_its_position() {
    let app = app(fleet().await);
    let refused = async |search: &str| refusal(&app, &format!("{GROUP}/objects?q={search}")).await;
    for case in [
        r#"web%20kind:widget => 400 BadRequest: parameter q: column 5: no ResourceRegistry selects a kind that is called "widget""#,
        "uses:secret/db => 400 BadRequest: parameter q: column 1: objects of kind secret have a namespace; write uses:secret/<namespace>/db",
        "uses:node/web/a => 400 BadRequest: parameter q: column 1: objects of kind node have no namespace; write uses:node/a",
        r#"uses:widget/a => 400 BadRequest: parameter q: column 1: no ResourceRegistry selects a kind that is called "widget", and Kubernetes has none"#,
        r#"cluster:member3 => 404 NotFound: clusters.search.fleetdex.io "member3" not found: no ResourceRegistry selects a member of this name"#,
        r#"a&facets=color => 400 BadRequest: parameter facets: "color" is none of kind, cluster, namespace, health"#,
        "a&kinds=pods => 400 BadRequest: parameter kinds: with the parameter q, write kind: in the search",
    ] {
        let (search, expected) = case.split_once(" => ").unwrap();
        assert_eq!(refused(search).await, expected, "{search}");
    }
    for case in [
        "kind: => 400 BadRequest: parameter q: column",
        "a&fieldSelector=status.phse%3DRunning => 400 BadRequest: parameter fieldSelector: with the parameter q",
    ] {
        let (search, start) = case.split_once(" => ").unwrap();
        let found = refused(search).await;
        assert!(found.starts_with(start), "{search}: {found}");
    }
}

//! Completions of a search, as a client sees them, on the embedded store.

use axum::Router;
use serde_json::{Value, json};

use super::{across_kinds::GROUP, app, fetch, get, refusal, search::fleet, send};

/// The completions at the `|` of a text.
async fn completed(app: &Router, marked: &str) -> Value {
    let cursor = marked.find('|').unwrap();
    let text: Vec<String> = marked
        .bytes()
        .filter(|byte| *byte != b'|')
        .map(|byte| format!("%{byte:02X}"))
        .collect();
    let path = format!("{GROUP}/completions?q={}&cursor={cursor}", text.concat());
    let (code, document) = fetch(app, &path).await;
    assert_eq!(code, 200, "{document}");
    document
}

async fn offered(app: &Router, marked: &str) -> Vec<String> {
    let document = completed(app, marked).await;
    let items = document["items"].as_array().unwrap();
    let text = |item: &Value| item["text"].as_str().unwrap().to_owned();
    items.iter().map(text).collect()
}

#[tokio::test]
async fn values_of_the_fleet_are_offered_the_most_frequent_first() {
    let app = app(fleet().await);
    for (marked, expected) in [
        ("kind:|", &["Deployment", "Node", "Pod"][..]),
        ("kind:D|", &["Deployment"]),
        ("cluster:|", &["member1", "member2"]),
        ("ns:|", &["shop", "other"]),
        ("label:|", &["app="]),
        ("label:app=|", &["payments-db", "web"]),
        ("label:app=W|", &["web"]),
        ("reason:|", &["CrashLoopBackOff"]),
        ("image:ngi|", &["nginx", "nginx:1.27"]),
        (
            "image:docker.io/library/p|",
            &[
                "docker.io/library/postgres",
                "docker.io/library/postgres:17",
            ],
        ),
        ("uses:no|", &["Node/"]),
        ("uses:secret/s|", &["secret/shop/"]),
        ("sho|", &["ns:shop"]),
        ("crash|", &["reason:CrashLoopBackOff"]),
        ("member|", &["cluster:member1", "cluster:member2"]),
        ("health:deg|", &["Degraded"]),
        ("label:other=|", &[]),
    ] {
        assert_eq!(offered(&app, marked).await, expected, "{marked}");
    }
}

#[tokio::test]
async fn the_other_terms_narrow_the_values_unless_they_are_no_search() {
    let app = app(fleet().await);
    for (marked, expected) in [
        ("kind:Deployment ns:|", &["other", "shop"][..]),
        ("kind:Deployment label:app=|", &[]),
        ("label:app=| payments", &["payments-db"]),
        ("-label:app=| name:web-0", &["web"]),
        ("NOT label:app=| name:web-0", &["web"]),
        ("health:Degraded image:|", &["postgres", "postgres:17"]),
        ("cluster:member3 label:app=|", &[]),
        ("ns:shop ns:other label:app=|", &[]),
        ("kind: label:app=|", &["payments-db", "web"]),
        ("kind:widget label:app=|", &["payments-db", "web"]),
    ] {
        assert_eq!(offered(&app, marked).await, expected, "{marked}");
    }
}

#[tokio::test]
async fn a_completion_is_a_document_with_what_it_replaces_and_what_is_wrong() {
    let app = app(fleet().await);
    assert_eq!(
        completed(&app, "web ns:s|x").await,
        json!({
            "kind": "SearchCompletions", "apiVersion": "search.fleetdex.io/v1alpha1",
            "replace": { "start": 7, "end": 9 },
            "items": [{ "text": "shop", "detail": "namespace", "finished": true }],
        })
    );
    let unfinished = completed(&app, "kind: \u{e4} lab|").await;
    assert_eq!(
        unfinished["items"],
        json!([{ "text": "label:", "detail": "objects with this label, or with one of these values of it", "finished": false }])
    );
    assert_eq!(
        unfinished["error"],
        json!({ "column": 1, "message": "kind: has no value: write it behind the colon, as in kind:Pod,deploy" })
    );
    let (_, empty) = fetch(&app, &format!("{GROUP}/completions")).await;
    assert_eq!(empty["items"].as_array().unwrap().len(), 10, "{empty}");
}

#[tokio::test]
async fn parameters_that_are_not_understood_are_refused_or_named() {
    let app = app(fleet().await);
    assert_eq!(
        refusal(&app, &format!("{GROUP}/completions?q=kind:&cursor=6")).await,
        "400 BadRequest: parameter cursor: \"6\" is no position in the text of parameter q, which has 5 bytes"
    );
    let response = send(&app, get(&format!("{GROUP}/completions?q=kind:&color=red"))).await;
    let warning = response.headers()["warning"].to_str().unwrap();
    assert!(warning.contains("color"), "{warning}");
}

//! Whole views over prepared answers of the query API.

use std::sync::Mutex;

use async_trait::async_trait;
use axum::{body::Body, response::Response};
use fleetdex_crds::distribution::Distribution;
use fleetdex_query_api::answer::Answer;
use http::StatusCode;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use crate::{
    Accept, BindingsPage, BindingsQuestion, QueryApi, QueryRefusal, QueryReply, respond,
    tests::distribution::{BINDINGS, SETS, prepared_bindings},
};

mod distribution;

const HOSTILE: &str = "<script>alert(1)</script>\"'&";
const PAGE: &str = "/ui/clusters/member1/apis/apps/v1/namespaces/shop/deployments/checkout";

/// Answers each path by its start; 404 for others.
struct PreparedApi(Vec<(&'static str, Value)>);

#[async_trait]
impl QueryApi for PreparedApi {
    async fn ask(&self, path: &str, _accept: Accept) -> QueryReply {
        let below = path
            .strip_prefix("/apis/search.fleetdex.io/v1alpha1")
            .unwrap();
        let answers =
            |start: &str| below == start || start != "/clusters" && below.starts_with(start);
        let found = self.0.iter().find(|(start, _)| answers(start));
        let Some((_, body)) = found else {
            let body = json!({ "message": format!("no answer for {below}") });
            let mut response = Response::new(Body::from(body.to_string()));
            *response.status_mut() = StatusCode::NOT_FOUND;
            return QueryReply::Response(response);
        };
        match answer(below, body) {
            Some(answer) => QueryReply::Answer(Box::new(answer), Vec::new()),
            None => QueryReply::Response(Response::new(Body::from(body.to_string()))),
        }
    }

    async fn forward(&self, path: &str, accept: Accept) -> Response {
        match self.ask(path, accept).await {
            QueryReply::Response(response) => response,
            QueryReply::Answer(answer, _) => Response::new(Body::from(json!(answer).to_string())),
        }
    }

    fn distributes(&self) -> bool {
        self.0.iter().any(|(start, _)| *start == BINDINGS)
    }

    async fn bindings(&self, question: BindingsQuestion) -> Result<BindingsPage, QueryRefusal> {
        let bindings = self.0.iter().find(|(start, _)| *start == BINDINGS);
        let bindings = bindings.and_then(|(_, bindings)| bindings.as_array());
        prepared_bindings(bindings.map_or(&[], Vec::as_slice), &question)
    }

    async fn distribution(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Distribution, QueryRefusal> {
        let mut sets = self.0.iter().filter(|(start, _)| *start == SETS);
        let is_it = |set: &Value| {
            set["metadata"]["namespace"] == namespace && set["metadata"]["name"] == name
        };
        let set = sets.find(|(_, set)| is_it(set));
        let set = set.map(|(_, set)| serde_json::from_value(set.clone()).unwrap());
        set.ok_or_else(|| QueryRefusal {
            status: StatusCode::NOT_FOUND,
            message: "no set".to_owned(),
        })
    }
}

/// What the server does not encode for the page; `None` for objects as they are stored.
fn answer(below: &str, body: &Value) -> Option<Answer> {
    let body = body.clone();
    if body.get("requests").is_some() {
        return Some(Answer::Explanation(serde_json::from_value(body).unwrap()));
    }
    let path = below.split('?').next().unwrap_or_default();
    let root = path.split('/').nth(1).unwrap_or_default();
    Some(match root {
        "objects" => Answer::Table(serde_json::from_value(body).unwrap()),
        "related" => Answer::Related(serde_json::from_value(body).unwrap()),
        "clusters" if path == "/clusters" => Answer::Fleet(serde_json::from_value(body).unwrap()),
        _ => return None,
    })
}

async fn view(api: &PreparedApi, address: &str) -> (StatusCode, String) {
    let (path, query) = address.split_once('?').unwrap_or((address, ""));
    let response = respond(api, path, query, HOSTILE).await;
    let status = response.status();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(bytes.to_vec()).unwrap())
}

fn row(cluster: &str, name: &str, path: &str) -> Value {
    json!({
        "cells": [cluster, "shop", name, "Degraded", HOSTILE],
        "object": { "metadata": { "name": name, "namespace": "shop", "uid": name, "annotations": {
            "resource.karmada.io/cached-from-cluster": cluster,
            "fleetdex.io/native-path": path,
            "fleetdex.io/health": "Degraded",
            "fleetdex.io/health-message": HOSTILE,
        }}},
    })
}

fn found() -> Value {
    let columns = ["Cluster", "Namespace", "Name", "Health", "Reason"]
        .map(|name| json!({ "name": name, "priority": 0 }));
    json!({
        "metadata": {
            "remainingItemCount": 1_200,
            "continue": "token",
            "facets": [
                { "name": "kind", "values": [{ "value": "Deployment", "count": 2 }, { "value": HOSTILE, "count": 1 }], "others": 3 },
                { "name": "cluster", "values": [{ "value": "member1", "count": 1 }] },
            ],
        },
        "columnDefinitions": columns,
        "rows": [
            row("member1", "checkout", "/apis/apps/v1/namespaces/shop/deployments/checkout"),
            row("member2", HOSTILE, "no path"),
        ],
    })
}

fn fleet() -> PreparedApi {
    let object = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "checkout", "uid": "u1", "labels": { "a": HOSTILE } },
        "status": { "conditions": [{ "type": HOSTILE, "status": "True", "lastTransitionTime": "2026-02-03T10:00:00Z" }] } });
    let related = json!({
        "kind": "RelatedObjectList",
        "apiVersion": "search.fleetdex.io/v1alpha1",
        "metadata": {},
        "items": [{
            "apiVersion": "v1", "kind": HOSTILE,
            "metadata": { "name": HOSTILE, "annotations": { "fleetdex.io/health": HOSTILE } },
            "relation": {
                "direction": "uses", "name": HOSTILE, "via": "", "depth": 1, "exists": false,
            },
        }],
    });
    PreparedApi(vec![
        ("/objects?q=", found()),
        ("/clusters/member1/apis", json!({ "items": [object] })),
        ("/clusters/member2/apis", json!({ "items": [] })),
        ("/related/apis", related),
        (
            "/clusters",
            json!({
                "kind": "FleetReport",
                "apiVersion": "search.fleetdex.io/v1alpha1",
                "metadata": {},
                "clusters": [{
                    "name": "member1", "state": "Stale", "message": HOSTILE, "kinds": 1,
                    "gaps": [HOSTILE],
                }],
                "registries": [{ "name": HOSTILE, "status": { "conditions": [{
                    "type": "Ready", "status": "False", "reason": "Failed", "message": HOSTILE,
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }] } }],
            }),
        ),
    ])
}

#[tokio::test]
async fn no_view_becomes_markup_of_what_members_and_users_wrote() {
    let api = fleet();
    for address in [
        "/ui/?q=web",
        "/ui/?q=%3Cscript%3E",
        PAGE,
        "/ui/fleet",
        "/ui/%3Cscript%3Ealert(1)",
    ] {
        let (_, html) = view(&api, address).await;
        assert!(!html.contains("<script>"), "{address}: {html}");
        assert!(!html.contains("style="), "{address}");
        assert!(
            !html.contains("http://") && !html.contains("https://"),
            "{address}"
        );
    }
}

#[tokio::test]
async fn a_search_has_counts_links_and_the_question_in_other_words() {
    let (status, html) = view(&fleet(), "/ui/?q=web").await;
    assert_eq!(status, StatusCode::OK);
    for expected in [
        "6 objects",
        "/ui/?q=web%20kind%3ADeployment",
        &format!("href=\"{PAGE}\""),
        "/ui/?q=web&amp;continue=token",
        "3 objects with other values",
        "fleetdex search -- web",
        "kubectl get --raw &#39;/apis/search.fleetdex.io/v1alpha1/objects?q=web&#39;",
        "data-events=\"/ui/events?q=web\"",
    ] {
        assert!(
            html.contains(expected) || html.contains(&expected.replace("&#39;", "'")),
            "{expected}: {html}"
        );
    }
}

/// The paths that a view asks.
struct RecordedApi(PreparedApi, Mutex<Vec<String>>);

#[async_trait]
impl QueryApi for RecordedApi {
    async fn ask(&self, path: &str, accept: Accept) -> QueryReply {
        self.1.lock().unwrap().push(path.to_owned());
        self.0.ask(path, accept).await
    }

    async fn forward(&self, path: &str, accept: Accept) -> Response {
        self.0.forward(path, accept).await
    }

    fn distributes(&self) -> bool {
        self.0.distributes()
    }

    async fn bindings(&self, question: BindingsQuestion) -> Result<BindingsPage, QueryRefusal> {
        self.0.bindings(question).await
    }

    async fn distribution(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Distribution, QueryRefusal> {
        self.0.distribution(namespace, name).await
    }
}

#[tokio::test]
async fn only_an_address_with_explain_has_the_question_to_opensearch() {
    let differences =
        "/ui/compare/apis/apps/v1/namespaces/shop/deployments/checkout?left=member1&right=member1";
    for address in ["/ui/?q=web", PAGE, differences, "/ui/fleet"] {
        let (path, query) = address.split_once('?').unwrap_or((address, ""));
        let link = match query {
            "" => "?explain=true#question".to_owned(),
            query => format!("?{}&amp;explain=true#question", query.replace('&', "&amp;")),
        };
        for (query, is_explained) in [
            (query.to_owned(), false),
            (format!("{query}&explain=true"), true),
        ] {
            let api = RecordedApi(fleet(), Mutex::default());
            let response = respond(&api, path, &query, "").await;
            let bytes = response.into_body().collect().await.unwrap().to_bytes();
            let html = String::from_utf8(bytes.to_vec()).unwrap();
            let asked = api.1.into_inner().unwrap();
            let is_asked = asked.iter().any(|path| path.contains("explain=true"));
            assert_eq!(is_asked, is_explained, "{address}: {asked:?}");
            for (part, is_expected) in [
                (&*format!("href=\"{link}\""), !is_explained),
                ("id=\"question\" open", is_explained),
                ("id=\"question-OpenSearch\"", is_explained),
            ] {
                assert_eq!(
                    html.contains(part),
                    is_expected,
                    "{address}: {part}: {html}"
                );
            }
        }
    }
}

#[tokio::test]
async fn an_object_shows_what_could_not_be_had_and_the_rest() {
    let (status, html) = view(&fleet(), PAGE).await;
    assert_eq!(status, StatusCode::OK);
    for expected in [
        "Deployment",
        "▲",
        "no answer for /clusters/member1/api/v1/namespaces/shop/events",
        "2026-02-03T10:00:00Z",
        "fleetdex get deployments.apps checkout -n shop --cluster member1 -o yaml",
    ] {
        assert!(html.contains(expected), "{expected}: {html}");
    }
}

#[tokio::test]
async fn an_object_that_is_gone_is_not_found() {
    let gone = PAGE.replace("member1", "member2");
    let (status, html) = view(&fleet(), &gone).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(
        html.contains(
            "Cluster member2 has no deployments.apps checkout that you may see in namespace shop."
        ),
        "{html}"
    );
}

#[tokio::test]
async fn the_fleet_shows_states_gaps_and_conditions() {
    let (status, html) = view(&fleet(), "/ui/fleet").await;
    assert_eq!(status, StatusCode::OK);
    assert!(
        html.contains("Stale")
            && html.contains("Ready is False")
            && html.contains("data-every=\"10\""),
        "{html}"
    );
}

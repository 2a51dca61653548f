//! Interpreter webhooks that answer for users: interpretations and merged objects.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use axum::{Router, body::Body};
use fleetdex_core::query::Hit;
use fleetdex_interpreter::{
    Request, Response,
    customization::{Customization, CustomizationSet},
    rules::RuleSet,
    script::ArgoHealth,
    webhook::{
        AnswerError,
        configuration::{Webhook, WebhookConfiguration},
    },
};
use fleetdex_store::fake::PreparedReader;
use fleetdex_telemetry::Metrics;
use fleetdex_webhooks::client::{CallError, CallFailure, CallWebhook};
use futures::{FutureExt as _, future::join_all};
use serde_json::{Value, json};
use tokio::{sync::watch, time::Instant};

use super::{
    across_kinds::{GROUP, interpreted, object, of_cluster, page},
    app_with, body, get, send,
};
use crate::{auth::caller::Caller, catalog::Catalog, read::interpreters::Interpreters};

/// A webhook that answers, hangs or fails, and how often it was called.
#[derive(Default)]
struct Prepared {
    hangs: bool,
    fails: Option<CallFailure>,
    called: AtomicUsize,
    under_way: AtomicUsize,
    most_under_way: AtomicUsize,
}

#[async_trait]
impl CallWebhook for Prepared {
    async fn call(&self, webhook: &Webhook, request: &Request<'_>) -> Result<Response, CallError> {
        self.called.fetch_add(1, Ordering::Relaxed);
        let under_way = self.under_way.fetch_add(1, Ordering::Relaxed) + 1;
        self.most_under_way.fetch_max(under_way, Ordering::Relaxed);
        if self.hangs {
            tokio::time::sleep(webhook.timeout).await;
        }
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        let failure = self.fails.clone();
        let hung = self.hangs.then_some(CallFailure::Timeout(webhook.timeout));
        match failure.or(hung) {
            Some(failure) => Err(CallError::new(&webhook.id, failure)),
            None => Ok(answer(request)),
        }
    }
}

fn answer(request: &Request<'_>) -> Response {
    match request {
        Request::Status { object } => {
            Response::Status(json!({ "ready": object["status"]["readyReplicas"] }))
        }
        Request::AggregateStatus { items, .. } => {
            let ready = |item: &Value| item["ready"].as_i64().unwrap_or_default();
            let statuses = items.iter().filter_map(|item| item.status.as_ref());
            let sum: i64 = statuses.map(ready).sum();
            Response::AggregatedStatus(json!({ "status": { "ready": sum } }))
        }
        Request::Replica { .. } => Response::Replica {
            replicas: 7,
            requirements: None,
        },
        other => panic!("{} is not asked", other.operation()),
    }
}

/// Deployments have one webhook for most operations, and another one, which may be ignored, for
/// replicas. A script says which are healthy.
fn rules() -> RuleSet {
    let configuration = |kind: &str, webhook: Value| {
        let object = json!({
            "apiVersion": "config.karmada.io/v1alpha1",
            "kind": kind,
            "metadata": { "name": "hooks" },
            "webhooks": [webhook],
        });
        WebhookConfiguration::parse(&object).unwrap().webhooks
    };
    let mut webhooks = configuration(
        "ResourceInterpreterWebhookConfiguration",
        json!({
            "name": "status.example.io",
            "clientConfig": { "url": "https://status.example.io" },
            "rules": [{
                "operations": ["InterpretStatus", "AggregateStatus"],
                "apiGroups": ["apps"], "apiVersions": ["*"], "kinds": ["Deployment"],
            }],
            "interpreterContextVersions": ["v1alpha1"],
        }),
    );
    webhooks.extend(configuration(
        "ResourceExploringWebhookConfiguration",
        json!({
            "name": "replicas.example.io",
            "clientConfig": { "url": "https://replicas.example.io" },
            "rules": [{
                "operations": ["ExploreReplica"],
                "apiGroups": ["apps"], "apiVersions": ["*"], "resources": ["deployments"],
            }],
            "failurePolicy": "Ignore",
            "exploreReviewVersions": ["v1alpha1"],
        }),
    ));
    let script = "function InterpretHealth(obj) return obj.spec.good end";
    let customization = Customization::parse(&json!({
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterCustomization",
        "metadata": { "name": "good" },
        "spec": {
            "target": { "apiVersion": "apps/v1", "kind": "Deployment" },
            "customizations": { "healthInterpretation": { "luaScript": script } },
        },
    }));
    RuleSet::new(
        CustomizationSet::new(&[customization.unwrap()]),
        ArgoHealth::default(),
        webhooks,
    )
}

fn asking(webhook: &Arc<Prepared>, catalog: Catalog) -> Router {
    app_with(catalog, calling(webhook))
}

fn calling(webhook: &Arc<Prepared>) -> Interpreters {
    let (_, rules) = watch::channel(Arc::new(rules()));
    Interpreters::new(rules, Some(Arc::clone(webhook) as _), &Metrics::new())
}

async fn ask(app: &Router, name: &str) -> (u16, Value) {
    let response = send(app, operation(name)).await;
    (response.status().as_u16(), body(response).await)
}

/// An operation on a Deployment.
fn operation(name: &str) -> axum::http::Request<Body> {
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": { "replicas": 2, "good": true }, "status": { "readyReplicas": 1 },
    });
    post(&json!({ "operation": name, "object": deployment }))
}

fn post(operation: &Value) -> axum::http::Request<Body> {
    axum::http::Request::post(format!("{GROUP}/interpret"))
        .header("authorization", "Bearer secret")
        .header("content-type", "application/json")
        .body(Body::from(operation.to_string()))
        .unwrap()
}

fn deployment(cluster: &str, ready: u32) -> Hit {
    let more = json!({ "spec": { "good": ready > 1 }, "status": { "readyReplicas": ready } });
    of_cluster(cluster, object("Deployment", "web", more))
}

fn fleet() -> Catalog {
    let both = page(vec![deployment("member2", 3), deployment("member1", 1)]);
    interpreted(&PreparedReader::with(vec![both]))
}

async fn merged(app: &Router) -> (Vec<String>, Value) {
    let path = format!("{GROUP}/merged/apis/apps/v1/namespaces/web/deployments/web");
    let response = send(app, get(&path)).await;
    assert_eq!(response.status(), 200);
    let warnings = response.headers().get_all("warning").iter();
    let warnings = warnings.map(|value| value.to_str().unwrap().to_owned());
    (warnings.collect(), body(response).await)
}

#[tokio::test]
async fn a_webhook_answers_an_interpretation_after_customizations() {
    let app = asking(&Arc::default(), Catalog::default());
    let (code, status) = ask(&app, "InterpretStatus").await;
    assert_eq!(code, 200, "{status}");
    assert_eq!(
        status,
        json!({ "status": { "ready": 1 }, "interpretedBy": "webhook/hooks/status.example.io" })
    );
    let (_, replicas) = ask(&app, "InterpretReplica").await;
    assert_eq!(replicas["replica"], 7);
    let (_, health) = ask(&app, "InterpretHealth").await;
    assert_eq!(health["interpretedBy"], "customization/good");
}

#[tokio::test]
async fn a_webhook_that_fails_is_named_with_its_configuration_and_the_cause() {
    let mut refusals = Vec::new();
    for failure in [
        CallFailure::Connection("connection refused".to_owned()),
        CallFailure::Answer(AnswerError::Unexplained),
    ] {
        let webhook = Prepared {
            fails: Some(failure),
            ..Prepared::default()
        };
        let app = asking(&Arc::new(webhook), Catalog::default());
        let (code, status) = ask(&app, "InterpretStatus").await;
        assert_eq!(status["kind"], "Status");
        refusals.push(format!(
            "{code} {} {} {}",
            status["reason"], status["message"], status["details"]
        ));
    }
    insta::assert_snapshot!(refusals.join("\n"), @r#"
    503 "ServiceUnavailable" "InterpretStatus of the Deployment failed: interpreter webhook hooks/status.example.io: connection refused" {"causes":[{"field":"webhooks[status.example.io]","message":"connection refused","reason":"WebhookFailed"}],"group":"config.karmada.io","kind":"ResourceInterpreterWebhookConfiguration","name":"hooks"}
    422 "Invalid" "InterpretStatus of the Deployment failed: interpreter webhook hooks/status.example.io: response.successful is not true, and response.status, which has to say why, is absent" {"causes":[{"field":"webhooks[status.example.io]","message":"response.successful is not true, and response.status, which has to say why, is absent","reason":"WebhookFailed"}],"group":"config.karmada.io","kind":"ResourceInterpreterWebhookConfiguration","name":"hooks"}
    "#);
}

#[tokio::test]
async fn a_script_that_fails_is_named_with_the_cause() {
    let app = asking(&Arc::default(), Catalog::default());
    let deployment =
        json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" } });
    let operation = json!({ "operation": "InterpretHealth", "object": deployment });
    let response = send(&app, post(&operation)).await;
    assert_eq!(response.status(), 422);
    let status = body(response).await;
    let message = status["message"].as_str().unwrap();
    assert!(
        message.starts_with(
            "InterpretHealth of the Deployment failed by the rule of customization/good: "
        ),
        "{message}"
    );
}

#[tokio::test]
async fn a_webhook_that_may_be_ignored_leaves_the_answer_to_the_next_level_with_a_warning() {
    let webhook = Arc::new(Prepared {
        fails: Some(CallFailure::Connection("connection refused".to_owned())),
        ..Prepared::default()
    });
    let app = asking(&webhook, Catalog::default());
    let response = send(&app, operation("InterpretReplica")).await;
    assert_eq!(
        response.headers()["warning"],
        "299 - \"interpreter webhook hooks/replicas.example.io: connection refused; the next level answers\""
    );
    let replicas = body(response).await;
    assert_eq!(replicas["replica"], 2);
    assert_eq!(replicas["interpretedBy"], "built-in");
}

#[tokio::test]
async fn a_server_that_calls_no_webhooks_says_so() {
    let (_, rules) = watch::channel(Arc::new(rules()));
    let app = app_with(
        Catalog::default(),
        Interpreters::new(rules, None, &Metrics::new()),
    );
    let (code, status) = ask(&app, "InterpretStatus").await;
    assert_eq!(code, 503);
    assert_eq!(
        status["message"],
        "InterpretStatus of the Deployment failed: interpreter webhook hooks/status.example.io: not called: this server calls no webhooks; run fleetdex interpret --webhooks"
    );
}

#[tokio::test(start_paused = true)]
async fn users_have_few_calls_of_a_webhook_that_hangs_and_all_requests_end() {
    let webhook = Arc::new(Prepared {
        hangs: true,
        ..Prepared::default()
    });
    let app = asking(&webhook, Catalog::default());
    let answers = join_all((0..60).map(|_| ask(&app, "InterpretStatus"))).await;
    let (mut unavailable, mut busy) = (0, 0);
    for (code, status) in answers {
        let message = status["message"].as_str().unwrap();
        assert!(matches!(code, 429 | 503), "{status}");
        match () {
            () if code == 429 => busy += 1,
            () if message.ends_with("no whole answer within 10 s") => unavailable += 1,
            () if message.contains("not called: other calls took all") => busy += 1,
            () => assert!(message.contains("no whole answer within"), "{message}"),
        }
    }
    assert!(unavailable > 0 && busy > 0, "{unavailable} {busy}");
    assert_eq!(
        webhook.most_under_way.load(Ordering::Relaxed),
        8,
        "half of all, for one user"
    );
}

#[tokio::test]
async fn a_merged_object_has_what_webhooks_say_about_each_cluster_and_about_all() {
    let (warnings, merged) = merged(&asking(&Arc::default(), fleet())).await;
    assert_eq!(warnings, [""; 0]);
    assert_eq!(merged["object"]["status"], json!({ "ready": 4 }));
    let items = merged["aggregatedStatus"].as_array().unwrap();
    let reported = |item: &Value| (item["status"].clone(), item["health"].clone());
    assert_eq!(
        items.iter().map(reported).collect::<Vec<_>>(),
        [
            (json!({ "ready": 1 }), json!("Unhealthy")),
            (json!({ "ready": 3 }), json!("Healthy"))
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_merged_object_says_what_a_webhook_that_hangs_leaves_unknown() {
    let webhook = Arc::new(Prepared {
        hangs: true,
        ..Prepared::default()
    });
    let (warnings, merged) = merged(&asking(&webhook, fleet())).await;
    insta::assert_snapshot!(warnings.join("\n"), @r#"
    299 - "the status of member1, member2 is unknown: InterpretStatus of the Deployment failed: interpreter webhook hooks/status.example.io: no whole answer within 10 s"
    299 - "the status of all clusters is left out: AggregateStatus of the Deployment failed: interpreter webhook hooks/status.example.io: no whole answer within 10 s"
    "#);
    assert_eq!(merged["object"].get("status"), None);
    let items = merged["aggregatedStatus"].as_array().unwrap();
    assert!(items.iter().all(|item| item.get("status").is_none()));
    assert_eq!(items[1]["health"], "Healthy", "the script was asked");
    assert_eq!(
        webhook.called.load(Ordering::Relaxed),
        2,
        "for each cluster at once, and not again"
    );
}

#[tokio::test(start_paused = true)]
async fn a_merged_object_says_that_there_was_no_turn_to_call_a_webhook() {
    let webhook = Arc::default();
    let interpreters = calling(&webhook);
    let user: Arc<str> = Caller::local().name.into();
    let deadline = Instant::now() + Duration::from_hours(1);
    let (mut turns, mut waiting) = (Vec::new(), Vec::new());
    loop {
        let mut turn = Box::pin(interpreters.call_turn(&user, deadline));
        match turn.as_mut().now_or_never() {
            Some(Ok(granted)) => turns.push(granted),
            Some(Err(_)) => break,
            None => waiting.push(turn),
        }
    }
    let (full, _) = merged(&app_with(fleet(), interpreters.clone())).await;
    insta::assert_snapshot!(full.join("\n"), @r#"
    299 - "the status of member1, member2 is unknown: InterpretStatus of the Deployment failed: interpreter webhook hooks/status.example.io: not called: too many other calls wait; try again"
    299 - "the status of all clusters is left out: AggregateStatus of the Deployment failed: interpreter webhook hooks/status.example.io: not called: too many other calls wait; try again"
    "#);
    drop(waiting);
    let (late, _) = merged(&app_with(fleet(), interpreters.clone())).await;
    insta::assert_snapshot!(late.join("\n"), @r#"
    299 - "the health of member1, member2 is unknown: the request took longer than 45 s; ask for less, or try again"
    299 - "the status of member1, member2 is unknown: InterpretStatus of the Deployment failed: interpreter webhook hooks/status.example.io: not called: other calls took all 45 s that it has"
    299 - "the status of all clusters is left out: the request took longer than 45 s; ask for less, or try again"
    299 - "the object is shown as member1 has it: the request took longer than 45 s; ask for less, or try again"
    "#);
    assert_eq!(webhook.called.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_failed_script_is_no_answer_of_a_merged_object() {
    let more = json!({ "spec": {}, "status": { "readyReplicas": 1 } });
    let without_word = object("Deployment", "web", more);
    let catalog = interpreted(&PreparedReader::with(vec![page(vec![without_word])]));
    let (warnings, merged) = merged(&asking(&Arc::default(), catalog)).await;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].contains("the health of member1 is unknown: InterpretHealth of the Deployment failed by the rule of customization/good: "),
        "{warnings:?}"
    );
    assert_eq!(merged["aggregatedStatus"][0]["health"], "Unknown");
}
